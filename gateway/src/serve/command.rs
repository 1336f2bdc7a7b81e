//! The command `serve`, and functions that all serving commands share.
//!
//! ```text
//! read file ──► arguments as environment ──► check ── wrong ──► every error on stderr, exit code
//!                                              └ good ──► bind ──► follow changes ──► handle signals
//!                                                                  ──► log and print addresses ──► serve
//! ```

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct_transport_http::Workers;

use super::Listening;
use super::reload::{Origin, stamp};
use crate::chat::interrupts::Interrupts;
use crate::cli::ServeArgs;
use crate::config::{self, Config, ConfigError, RunLogEngine};
use crate::service::Gateway;
use crate::{exit, telemetry};

/// Runs `aqueduct serve` until the gateway has stopped. Returns the exit code of the program.
///
/// `environment` is a parameter instead of the process environment, so that tests do not share it. `out` receives one
/// line per address and agent, `notes` receives errors.
pub fn serve(
    args: &ServeArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    // Taken before the file is read: a write in between counts as a change, and is reloaded.
    let before = stamp(&args.config);
    let text = match std::fs::read_to_string(&args.config) {
        Ok(text) => text,
        Err(error) => {
            let why = format!("{} cannot be read: {error}", args.config.display());
            return exit::USAGE.report(notes, "serve", &why);
        }
    };
    let mut environment: Vec<(String, String)> = environment.into_iter().collect();
    // Arguments override the environment and are checked in the same way.
    if !args.listen.is_empty() {
        let list: Vec<String> = args.listen.iter().map(ToString::to_string).collect();
        environment.push(("AQUEDUCT_SERVER__LISTEN".to_owned(), list.join(",")));
    }
    if args.allow_unauthenticated {
        environment.push(("AQUEDUCT_SERVER__ALLOW_UNAUTHENTICATED".to_owned(), "true".to_owned()));
    }
    match config::load_with_warnings(&args.config, &text, environment.clone()) {
        Ok((config, warnings)) => {
            let origin = Origin::new(args.config.clone(), before, environment, &config);
            exit::finish("serve", run(config, Some((origin, warnings)), out), notes)
        }
        Err(errors) => config::write_errors(&errors, notes),
    }
}

/// Serves a configuration that a command has built. Without a file there is nothing to reload.
pub(crate) fn run_config(
    command: &str,
    config: Config,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    exit::finish(command, run(config, None, out), notes)
}

/// Starts the gateway and serves until a signal stops it.
///
/// Connections are served by one thread per core (`Workers`); the multi-threaded runtime carries the rest. The workers
/// are created before the runtime and dropped after it has ended.
///
/// # Errors
///
/// Returns an error if the gateway cannot be built, an address cannot be bound, or signals cannot be handled.
fn run(
    config: Config,
    origin: Option<(Origin, Vec<ConfigError>)>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    telemetry::start(&config.log);
    for warning in origin.iter().flat_map(|(_, warnings)| warnings) {
        tracing::warn!(key = warning.key, place = %warning.place, "{}", warning.what);
    }
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    let names: Vec<String> = config.agents.keys().cloned().collect();
    let workers = Workers::per_core()?;
    crate::runtime()?.block_on(async {
        let gateway = Gateway::new(config)?;
        let listening = Listening::bind(Arc::clone(&gateway)).await?.on_workers(&workers);
        // Before signals and addresses: SIGHUP would end the process if it arrived without a handler.
        if let Some((origin, _)) = origin {
            origin.follow(&gateway)?;
        }
        stop_on_signal(&listening)?;
        log_start(&listening)?;
        // Standard output is for programs: exactly the addresses of the agents. Everything else is logged.
        for address in listening.addresses()? {
            for name in &names {
                writeln!(out, "{scheme}://{address}/agents/{name}").ok();
            }
        }
        out.flush().ok();
        listening.serve().await;
        Ok(())
    })
}

/// Logs one line that identifies the gateway: version, addresses, engine of the log, agents.
fn log_start(listening: &Listening) -> anyhow::Result<()> {
    let config = listening.gateway.config();
    let engine = match config.runs.log {
        RunLogEngine::Memory => "memory",
        RunLogEngine::Disk(_) => "disk",
        RunLogEngine::Redis { .. } => "redis",
    };
    let agents: Vec<&str> = config.agents.keys().map(String::as_str).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        listen = words(&listening.addresses()?),
        grpc = words(&listening.grpc_addresses()?),
        admin = words(&listening.admin_addresses()?),
        tls = config.server.tls.is_some(),
        engine,
        agents = agents.join(","),
        "started"
    );
    Ok(())
}

/// Returns addresses as one field of a log line; empty for none.
fn words(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Handles signals from now on: SIGTERM starts leaving with `pre_stop`; Ctrl-C or a second SIGTERM starts draining at
/// once.
///
/// Called before the program prints or logs its addresses: a supervisor may send a signal as soon as it reads them. On
/// systems without SIGTERM only Ctrl-C is handled.
///
/// # Errors
///
/// Returns an error if the system refuses a signal handler.
pub(crate) fn stop_on_signal(listening: &Listening) -> anyhow::Result<()> {
    let (leaving, shutdown) = (listening.leaving(), listening.shutdown());
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("SIGTERM cannot be waited for")?;
    let mut interrupts = Interrupts::new().context("Ctrl-C cannot be waited for")?;
    tokio::spawn(async move {
        #[cfg(unix)]
        loop {
            tokio::select! {
                biased;
                _ = terminate.recv() => {
                    if leaving.is_cancelled() {
                        break;
                    }
                    leaving.cancel();
                }
                () = interrupts.next() => break,
            }
        }
        #[cfg(not(unix))]
        drop(leaving);
        #[cfg(not(unix))]
        interrupts.next().await;
        shutdown.cancel();
    });
    Ok(())
}

/// Reads a configuration for a command that uses one of its agents.
///
/// Used by commands with a single error message, and by each reload. All errors of the file are in the message, one per
/// line.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if its content or the environment is not a valid configuration.
pub(crate) fn load_config(
    path: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    config::load(path, &text, environment).map_err(|errors| config::joined(&errors))
}
