//! Capabilities of standard output: colours, styles, width.

use std::io::IsTerminal as _;

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
}

/// Returns `true` for a terminal without escape sequences.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Returns the width: the variable `COLUMNS`, else what the terminal reports, else 80. Zero means unknown.
fn columns() -> usize {
    let configured = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    configured.or_else(asked).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}
