//! What the reader of standard output can show: colours, styles, a width.

use std::io::IsTerminal as _;

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;

/// How text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    /// Escape sequences for colours and styles.
    pub(super) colours: bool,
    /// Columns to wrap at; 0 for a pipe, which is not wrapped.
    pub(super) width: usize,
}

impl Style {
    /// The style of standard output.
    pub(super) fn of_output() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::default();
        }
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: !is_plain && !is_dumb(), width: columns() }
    }
}

/// True for a terminal that knows no escape sequences.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

fn columns() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    told.or_else(asked).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}
