//! `cargo xtask`: everything a contributor runs, in one place and in one language.
//!
//! One file per subcommand. Nothing here depends on a crate of the workspace, so that a broken crate never
//! keeps the tools from building. What belongs to a crate's own tests is not here: `xtask` only calls it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its terminal")]

mod bench;
mod ci;
mod codegen;
mod interop;
mod invocation;
mod project;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::project::Project;

/// The tasks of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    /// Root of the workspace to work on [default: the one xtask belongs to]
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run all that CI runs, in its order; stop at the first failure
    Ci,
    /// The same as `ci`: the one command which tells whether a change is good
    Test,
    /// Check the rules that no compiler knows: dependency direction, names, sizes, docs, paths
    Tidy,
    /// Write the generated code anew
    Codegen {
        /// Write nothing; fail if the code in the tree is not what would be generated
        #[arg(long)]
        check: bool,
    },
    /// Install the pinned real peers and let them judge our streams
    Interop {
        /// One suite only, by name [default: all but the nightly ones]
        suite: Option<String>,
        /// Also run the suites that `test` leaves out: their peers take gigabytes and minutes
        #[arg(long)]
        nightly: bool,
    },
    /// Run the benches, all or one, with the rest of the arguments passed on
    Bench {
        /// Name of one bench [default: all]
        name: Option<String>,
        /// Arguments for the bench itself, after `--`
        #[arg(last = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let project = Project::locate(cli.root)?;
    match cli.task {
        Task::Ci | Task::Test => ci::run(&project),
        Task::Tidy => tidy::run(&project),
        Task::Codegen { check } => codegen::run(&project, check),
        Task::Interop { suite, nightly } => interop::run(&project, suite.as_deref(), nightly),
        Task::Bench { name, args } => bench::run(&project, name.as_deref(), &args),
    }
}
