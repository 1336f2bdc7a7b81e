//! Logs: one line per state change of a run, with the run id. This crate logs no secrets and no payloads at any level.

use tracing_subscriber::fmt;

use crate::config::{Log, LogFormat, LogLevel};

/// Starts logging to standard error. A second call has no effect. Standard output is left to the results of
/// commands. JSON lines contain the fields of an event at the top level, and the current span without the list
/// of its parents.
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
    // A program that embeds the gateway may have installed its own subscriber.
    if log.format == LogFormat::Json {
        lines.json().flatten_event(true).with_span_list(false).try_init().ok();
    } else {
        lines.with_ansi(is_terminal).try_init().ok();
    }
}
