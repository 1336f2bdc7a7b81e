//! Logs: one line per event of a run's life, with its id. Secrets and payloads are not logged at any level by this
//! crate.

use tracing_subscriber::fmt;

use crate::config::{Log, LogFormat, LogLevel};

/// Sends logs to standard error. A second call changes nothing.
pub(crate) fn start(log: &Log) {
    let level = match log.level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
        LogLevel::Trace => tracing::Level::TRACE,
    };
    let lines = fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // A program that embeds the gateway may have its own.
    if log.format == LogFormat::Json {
        lines.json().flatten_event(true).with_span_list(false).try_init().ok();
    } else {
        lines.with_ansi(is_terminal).try_init().ok();
    }
}
