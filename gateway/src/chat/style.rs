//! Capabilities of standard output: colours, styles, width; and the escape sequences of colours and styles.

use std::io::{IsTerminal as _, Result, Write};

use crate::progress::is_dumb;

/// Thinking, intermediate text, names of agents, and what lanes do.
pub(super) const DIM: &str = "\u{1b}[2m";
/// Failures and cancelled runs.
pub(super) const RED: &str = "\u{1b}[31m";
/// Tool calls, results, artifacts, files, interrupts and code.
pub(super) const CYAN: &str = "\u{1b}[36m";
/// Titles and strong text.
pub(super) const BOLD: &str = "\u{1b}[1m";
/// Emphasised text.
pub(super) const ITALIC: &str = "\u{1b}[3m";
/// Resets all styles.
pub(super) const PLAIN: &str = "\u{1b}[0m";

/// The width of a terminal that does not report one, in columns.
const COLUMNS: usize = 80;

/// The style of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    /// Set if escape sequences for colours and styles are written.
    pub(super) colours: bool,
    /// Columns to wrap at; 0 for a pipe, which is not wrapped.
    pub(super) width: usize,
}

impl Style {
    /// Returns the style of standard output.
    pub(super) fn of_output() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::default();
        }
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: !is_plain && !is_dumb(), width: columns() }
    }

    /// Writes text in a colour, or plain if the terminal has none.
    pub(super) fn paint(self, colour: &str, text: &str, out: &mut dyn Write) -> Result<()> {
        if !self.colours || text.is_empty() {
            return write!(out, "{text}");
        }
        // The colour ends before the line break, or it would extend into the prompt of a shell.
        let (body, end) = text.strip_suffix('\n').map_or((text, ""), |body| (body, "\n"));
        write!(out, "{colour}{body}{PLAIN}{end}")
    }
}

/// Returns the width: the variable `COLUMNS`, else what the terminal reports, else 80. Zero means unknown.
fn columns() -> usize {
    let configured = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    configured.or_else(asked).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}
