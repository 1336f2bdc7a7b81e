//! [`View`]: the output of `aqueduct run`: canonical events, one value, or text on a terminal.

use std::io::Write;

use aqueduct_core::canonical;
use aqueduct_core::{BlockEvent, RunMerger};
use tokio::time::Instant;

use super::screen::Screen;
use super::style::Style;
use crate::cli::OutputForm;

pub(super) enum View {
    Events,
    Value(Box<RunMerger>),
    Screen(Box<Screen>),
}

impl View {
    pub(super) fn new(form: OutputForm) -> Self {
        match form {
            OutputForm { json: true, .. } => Self::Value(Box::default()),
            OutputForm { events: true, .. } => Self::Events,
            _ => Self::Screen(Box::new(Screen::new(Style::of_output()))),
        }
    }

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

    /// Returns `true` if a progress line would not share its line with other output.
    pub(super) fn is_quiet(&self) -> bool {
        if let Self::Screen(screen) = self { screen.is_quiet() } else { true }
    }

    /// Shows blocks that wait for the current block to pause, once it has paused.
    pub(super) async fn pause(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        let Self::Screen(screen) = self else { return std::future::pending().await };
        let Some(due) = screen.due() else { return std::future::pending().await };
        tokio::time::sleep_until(due).await;
        screen.handle_pause(Instant::now(), out)?;
        out.flush()
    }
}
