//! A progress line on a terminal for work that takes longer than a second, cleared afterwards.
//!
//! Nothing is written if standard error is not a terminal, or is one that cannot move its cursor (`TERM=dumb`).

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Work that ends sooner shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two updates of the line.
const PAUSE: Duration = Duration::from_millis(200);

/// A line of progress. Dropping it clears the line.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
    begun: Instant,
    /// When the line was last written; `None` if the terminal shows no line of this progress.
    written: Option<Instant>,
}

impl Progress {
    /// Starts the clock. Nothing is written before [`PATIENCE`].
    pub(crate) fn new() -> Self {
        let is_shown = std::io::stderr().is_terminal() && !is_dumb();
        Self { is_shown, begun: Instant::now(), written: None }
    }

    /// Shows `words` and the elapsed time, if an update is due. Callers may call it as often as they like: the
    /// line is written at most every [`PAUSE`].
    pub(crate) fn tell(&mut self, words: &str) {
        let is_early = self.begun.elapsed() < PATIENCE;
        if !self.is_shown || is_early || self.written.is_some_and(|written| written.elapsed() < PAUSE) {
            return;
        }
        self.written = Some(Instant::now());
        let mut out = std::io::stderr();
        write!(out, "\r\u{1b}[2K{words} ({:.0} s)", self.begun.elapsed().as_secs_f64()).ok();
        out.flush().ok();
    }

    /// Clears the line.
    pub(crate) fn clear(&mut self) {
        if self.written.take().is_some() {
            write!(std::io::stderr(), "\r\u{1b}[2K").ok();
            std::io::stderr().flush().ok();
        }
    }

    /// Waits for `work` and shows progress. Dropping the future drops `work`.
    pub(crate) async fn during<T>(&mut self, words: &str, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.clear();
                    return done;
                }
                () = tokio::time::sleep(PAUSE) => self.tell(words),
            }
        }
    }
}

/// Returns `true` for a terminal without escape sequences.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns at most `most` characters of a text, with an ellipsis if it is longer.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Returns a number with its noun in English: "1 frame", "2 frames".
pub(crate) fn count(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}
