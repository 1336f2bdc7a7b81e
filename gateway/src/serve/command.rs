//! The command `serve`, and what commands that serve have in common.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct_core::CancelToken;

use super::Listening;
use crate::cli::ServeArgs;
use crate::config::{self, Config};
use crate::service::{Changes, Gateway};
use crate::{exit, telemetry};

/// Runs `aqueduct serve`.
pub fn serve(
    args: &ServeArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let text = match std::fs::read_to_string(&args.config) {
        Ok(text) => text,
        Err(error) => {
            writeln!(notes, "aqueduct serve: {} cannot be read: {error}", args.config.display()).ok();
            return exit::USAGE;
        }
    };
    let mut environment: Vec<(String, String)> = environment.into_iter().collect();
    // Arguments win over the environment, and are checked like it.
    if !args.listen.is_empty() {
        let list: Vec<String> = args.listen.iter().map(ToString::to_string).collect();
        environment.push(("AQUEDUCT_SERVER__LISTEN".to_owned(), list.join(",")));
    }
    if args.allow_unauthenticated {
        environment.push(("AQUEDUCT_SERVER__ALLOW_UNAUTHENTICATED".to_owned(), "true".to_owned()));
    }
    match config::load(&args.config, &text, environment.clone()) {
        Ok(config) => {
            let again = Again { file: args.config.clone(), environment };
            finish("serve", run(config, Some(again), out), notes)
        }
        Err(errors) => {
            for error in &errors {
                writeln!(notes, "{error}").ok();
            }
            exit::FAILED
        }
    }
}

/// Serves a configuration that a command made.
pub(crate) fn run_config(
    command: &str,
    config: Config,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    finish(command, run(config, None, out), notes)
}

pub(super) fn finish(command: &str, result: anyhow::Result<()>, notes: &mut dyn Write) -> exit::Code {
    match result {
        Ok(()) => exit::OK,
        Err(error) => {
            writeln!(notes, "aqueduct {command}: {error:#}").ok();
            exit::FAILED
        }
    }
}

/// Where a configuration came from, to be read again.
struct Again {
    file: PathBuf,
    environment: Vec<(String, String)>,
}

impl Again {
    /// Reads it, and goes on with it if it is good. What is wrong is logged, and nothing changes.
    fn reload(&self, gateway: &Gateway) {
        let read = load_config(&self.file, self.environment.iter().cloned());
        match read.and_then(|config| gateway.reload(config)) {
            Ok(Changes { added, changed, removed }) => {
                tracing::info!(?added, ?changed, ?removed, "configuration reloaded");
            }
            Err(error) => tracing::error!(error = format!("{error:#}"), "configuration not reloaded"),
        }
    }
}

/// SIGHUP reads the configuration again.
#[cfg(unix)]
fn reload_on_signal(gateway: Arc<Gateway>, again: Again) -> anyhow::Result<()> {
    let mut hangups = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
        .context("SIGHUP cannot be waited for")?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            again.reload(&gateway);
        }
    });
    Ok(())
}

fn run(config: Config, again: Option<Again>, out: &mut dyn Write) -> anyhow::Result<()> {
    telemetry::start(&config.log);
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    let names: Vec<String> = config.agents.keys().cloned().collect();
    crate::runtime()?.block_on(async {
        let gateway = Gateway::new(config)?;
        #[cfg(unix)]
        if let Some(again) = again {
            reload_on_signal(Arc::clone(&gateway), again)?;
        }
        #[cfg(not(unix))]
        drop(again);
        let listening = Listening::bind(gateway).await?;
        for address in listening.addresses()? {
            for name in &names {
                writeln!(out, "{scheme}://{address}/agents/{name}").ok();
            }
        }
        out.flush().ok();
        stop_on_signal(listening.shutdown())?;
        listening.serve().await;
        Ok(())
    })
}

/// SIGTERM and Ctrl-C turn the switch.
pub(crate) fn stop_on_signal(shutdown: CancelToken) -> anyhow::Result<()> {
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("SIGTERM cannot be waited for")?;
    tokio::spawn(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await.ok();
        shutdown.cancel();
    });
    Ok(())
}

/// Reads a configuration for a command that uses one agent of it.
pub(crate) fn load_config(
    path: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    config::load(path, &text, environment).map_err(|errors| {
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(words.join("\n"))
    })
}
