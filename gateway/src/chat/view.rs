//! [`View`]: the output of `aqueduct run`: canonical events, one value, or text on a terminal.
//!
//! `--events` and `--json` are for programs: with them the session never prompts for replies. All three read
//! the same canonical events, so none of them sees more than a watcher of the gateway does.

use std::io::Write;

use aqueduct_core::canonical;
use aqueduct_core::{BlockEvent, RunMerger};
use tokio::time::Instant;

use super::screen::Screen;
use super::style::Style;
use crate::cli::OutputForm;

/// The output format of a session. Fixed for the session, and used for every run of it.
pub(super) enum View {
    /// `--events`: each event as one JSON line.
    Events,
    /// `--json`: the run as one JSON value after its terminal event. Boxed, because the merger is large.
    Value(Box<RunMerger>),
    /// Text for people.
    Screen(Box<Screen>),
}

impl View {
    /// Returns the view for the options of the command, which exclude each other.
    pub(super) fn new(form: OutputForm) -> Self {
        match form {
            OutputForm { json: true, .. } => Self::Value(Box::default()),
            OutputForm { events: true, .. } => Self::Events,
            _ => Self::Screen(Box::new(Screen::new(Style::of_output()))),
        }
    }

    /// Shows one event and flushes the output, so that words appear as they arrive.
    ///
    /// # Errors
    ///
    /// The output cannot be written, usually because its reader has closed it; the caller cancels the run then.
    pub(super) fn show(&mut self, event: &BlockEvent, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Events => writeln!(out, "{}", canonical::to_json(event)),
            Self::Value(merger) => {
                merger.handle_event(event).map_err(std::io::Error::other)?;
                if !merger.is_ended() {
                    return Ok(());
                }
                writeln!(out, "{}", std::mem::take(&mut **merger).finish().to_json())
            }
            Self::Screen(screen) => screen.show(event, Instant::now(), out),
        }?;
        out.flush()
    }

    /// Returns `true` if a progress line would not share its line with other output. Progress goes to standard
    /// error, which usually is the same terminal.
    pub(super) fn is_quiet(&self) -> bool {
        if let Self::Screen(screen) = self { screen.is_quiet() } else { true }
    }

    /// Shows blocks that wait for the current block to pause, once it has paused. Never returns if nothing
    /// waits. Cancel-safe: nothing is written before the pause has elapsed.
    pub(super) async fn pause(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        let Self::Screen(screen) = self else { return std::future::pending().await };
        let Some(due) = screen.due() else { return std::future::pending().await };
        tokio::time::sleep_until(due).await;
        screen.handle_pause(Instant::now(), out)?;
        out.flush()
    }
}
