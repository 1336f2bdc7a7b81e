//! Logs: one line per event of a run's life, with its id. Secrets and payloads are not logged at any level by this
//! crate.

use tracing_subscriber::fmt;

use crate::config::Log;

/// Sends logs to standard error. A second call changes nothing.
pub(crate) fn start(log: &Log) {
    let level = log.level.parse().unwrap_or(tracing::Level::INFO);
    let lines = fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // A program that embeds the gateway may have its own.
    if log.json {
        lines.json().flatten_event(true).with_span_list(false).try_init().ok();
    } else {
        lines.with_ansi(is_terminal).try_init().ok();
    }
}
