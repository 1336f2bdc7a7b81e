//! The gateway and its command line: configures adapters and transports and connects them.
//!
//! ```text
//! main ──► run(args) ──► cli ──► serve | demo | mock ──► routes ──┐
//!                            ├──► run ────────────────────┴──► service ──► source (an agent)
//!                            └──► convert | verify | diff | doctor | record | replay | bench | completions | man | init | config
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`cli`] | the commands and their options |
//! | [`serve`] | the gateway on its sockets, and the demo |
//! | [`service`] | runs: start, log, watch, cancel |
//! | [`source`] | sources of runs: A2A, AG-UI, scripts, several at once |
//! | `tee` | shows the streams of sub-agents inside the run of the supervisor that calls them through the gateway |
//! | [`chat`] | `aqueduct run`: a chat with an agent at the terminal |
//! | [`convert`] | a filter from any input dialect to any output dialect |
//! | [`verify`] | the strict check of an AG-UI stream, as a report for people |
//! | [`diff`] | two streams compared by content |
//! | [`doctor`] | the protocol of an agent, and what would not work |
//! | [`record`], [`replay`] | a stream with its timing, to a file and back ([`recording`]) |
//! | [`mock`] | a scripted agent on a socket, as A2A and AG-UI |
//! | [`mod@bench`] | the whole path over sockets, measured |
//! | `log` | a run log on disk, checked and repaired |
//! | [`config`] | the configuration file: keys, kinds, errors |
//! | [`exit`] | the exit codes |
//!
//! Invariants: commands write to the streams they are given, never to the terminal directly; wire formats are read and
//! written only by adapters.

pub mod bench;
pub mod chat;
pub mod cli;
pub mod config;
pub mod convert;
pub mod diff;
pub mod doctor;
pub mod exit;
mod health;
mod identity;
pub mod init;
mod input;
mod log;
mod man;
pub mod mock;
mod progress;
mod quota;
pub mod record;
pub mod recording;
mod remote;
pub mod replay;
pub mod serve;
pub mod service;
pub mod source;
mod tee;
mod telemetry;
mod tls;
pub mod verify;

#[cfg(feature = "testing")]
pub use identity::check_proof;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

/// Runs the program with these arguments, the first being its name.
///
/// Reads and writes the standard streams of the process, and returns once the command is done. Wrong arguments
/// print a usage error and return code 2; `--help` and `--version` return 0.
///
/// # Examples
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     aqueduct_gateway::run(std::env::args_os())
/// }
/// ```
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match cli::Cli::try_parse_from(args) {
        Ok(cli) => dispatch(cli.command).into(),
        Err(help) => {
            // Help is written to stdout, usage errors to stderr; a closed stream changes neither.
            let code = if help.use_stderr() { exit::USAGE } else { exit::OK };
            help.print().ok();
            code.into()
        }
    }
}

/// Runs one command with the streams of the process. Commands that read a stream get standard input locked;
/// those that read the configuration get the environment.
fn dispatch(command: cli::Command) -> exit::Code {
    let (mut out, mut notes) = (std::io::stdout(), std::io::stderr());
    let code = match command {
        cli::Command::Serve(args) => serve::serve(&args, std::env::vars(), &mut out, &mut notes),
        cli::Command::Demo(args) => serve::demo(&args, &mut out, &mut notes),
        cli::Command::Run(args) => chat::command(&args, std::env::vars(), &mut out, &mut notes),
        cli::Command::Record(args) => record::command(&args, std::env::vars(), &mut out, &mut notes),
        cli::Command::Replay(args) => replay::command(&args, &mut out, &mut notes),
        cli::Command::Mock(args) => mock::command(&args, &mut out, &mut notes),
        cli::Command::Bench(args) => bench::command(&args, &mut out, &mut notes),
        cli::Command::Completions(args) => {
            let mut command = <cli::Cli as clap::CommandFactory>::command();
            clap_complete::generate(args.shell, &mut command, "aqueduct", &mut out);
            exit::OK
        }
        cli::Command::Log(args) => log::command(&args, &mut out, &mut notes),
        cli::Command::Man(args) => man::command(&args, &mut out, &mut notes),
        cli::Command::Doctor(args) => doctor::command(&args, &mut out, &mut notes),
        cli::Command::Health(args) => health::command(&args, &mut out, &mut notes),
        cli::Command::Diff(args) => diff::command(&args, &mut std::io::stdin().lock(), &mut out, &mut notes),
        cli::Command::Convert(args) => {
            convert::command(&args, &mut std::io::stdin().lock(), &mut out, &mut notes)
        }
        cli::Command::Verify(args) => {
            verify::command(&args, &mut std::io::stdin().lock(), &mut out, &mut notes)
        }
        cli::Command::Init(args) => {
            let is_asked = std::io::IsTerminal::is_terminal(&std::io::stdin());
            let mut input = std::io::stdin().lock();
            let input = is_asked.then_some(&mut input as &mut dyn std::io::BufRead);
            init::command(&args, input, &mut out, &mut notes)
        }
        cli::Command::Config(cli::ConfigCommand::Check(args)) => {
            config::command(&args, std::env::vars(), &mut out, &mut notes)
        }
        cli::Command::Config(cli::ConfigCommand::Print(args)) => {
            config::print(&args, std::env::vars(), &mut out, &mut notes)
        }
        cli::Command::Config(cli::ConfigCommand::Schema) => {
            writeln!(out, "{:#}", config::schema()).ok();
            exit::OK
        }
    };
    // A reader that has closed the output (`| head`) is not a failure of the command.
    out.flush().ok();
    code
}

/// Returns the runtime of commands that use the network: one worker thread per core.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
