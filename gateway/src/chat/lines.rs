//! Lines from a terminal, with editing and history, or from a pipe.
//!
//! ```text
//!              ┌─ terminal on both sides ──► rustyline: editing, arrows, history file
//! Lines::next ─┼─ terminal without editing (TERM=dumb, piped output) ──► prompt on stderr, plain line
//!              └─ pipe ──► plain line, no prompt
//! ```
//!
//! Reading blocks, so it happens on a blocking thread. Such a thread cannot be cancelled: a read that is
//! abandoned after Ctrl-C ends with the process, and `chat::block_on` does not wait for it.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::Interrupts;

/// Prompts that the history file holds; older ones are dropped.
const KEPT: usize = 1000;

/// One result of reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without white space at its ends; may be empty.
    Text(String),
    /// The end of the input.
    End,
    /// Ctrl-C.
    Stopped,
}

/// A reader of lines. One exists per session.
pub(super) struct Lines {
    /// The editor, or `None` without a terminal. It is moved into the thread that reads.
    editor: Option<Box<Editor<(), FileHistory>>>,
    /// The history file, or `None` if neither `XDG_STATE_HOME` nor `HOME` is set.
    history: Option<PathBuf>,
    /// Set if standard input is a terminal: only then are replies prompted for again.
    is_terminal: bool,
}

aqueduct_core::debug_fields!(Lines { is_terminal });

impl Lines {
    /// Detects the terminal and loads the history. A history that cannot be read is an empty one.
    pub(super) fn new() -> Self {
        let is_terminal = std::io::stdin().is_terminal();
        let can_edit = is_terminal && std::io::stdout().is_terminal() && !crate::progress::is_dumb();
        let history = history_file();
        let editor = can_edit.then(|| {
            let config = Config::builder().max_history_size(KEPT).ok()?.auto_add_history(false).build();
            let mut editor = Editor::with_config(config).ok()?;
            if let Some(file) = &history {
                editor.load_history(file).ok();
            }
            Some(Box::new(editor))
        });
        Self { editor: editor.flatten(), history, is_terminal }
    }

    /// Returns `true` if the input is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Reads the next line, after `prompt`. A line with `is_kept` is added to the history: prompts are, replies
    /// to interrupts are not.
    ///
    /// # Errors
    ///
    /// Standard input cannot be read. Its end and Ctrl-C are lines and not errors.
    pub(super) async fn next(
        &mut self,
        prompt: &str,
        is_kept: bool,
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<Line> {
        let Some(mut editor) = self.editor.take() else { return self.plain(prompt, interrupts).await };
        // The editor owns the terminal while it reads, so it is moved into the thread and returned with the
        // line. Ctrl-C is a key press in that mode and arrives as `Interrupted`, not as a signal.
        let (prompt, history) = (prompt.to_owned(), self.history.clone());
        let read = tokio::task::spawn_blocking(move || {
            let line = editor.readline(&prompt);
            if let Ok(line) = &line
                && is_kept
                && !line.trim().is_empty()
            {
                editor.add_history_entry(line.trim()).ok();
                if let Some(file) = history {
                    // Saved after each prompt: a session may end by a signal. A history that cannot be saved is
                    // not worth an error.
                    file.parent().map(std::fs::create_dir_all);
                    editor.save_history(&file).ok();
                }
            }
            (editor, line)
        });
        let (editor, line) = read.await?;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(Line::Text(line.trim().to_owned())),
            Err(ReadlineError::Interrupted) => Ok(Line::Stopped),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a line without editing. The prompt goes to standard error, so that piped output contains answers
    /// only.
    async fn plain(&self, prompt: &str, interrupts: &mut Interrupts) -> anyhow::Result<Line> {
        if self.is_terminal {
            let mut stderr = std::io::stderr();
            write!(stderr, "{prompt}").and_then(|()| stderr.flush()).ok();
        }
        let line = tokio::select! {
            biased;
            () = interrupts.next() => return Ok(Line::Stopped),
            line = tokio::task::spawn_blocking(read_line) => line??,
        };
        Ok(line.map_or(Line::End, Line::Text))
    }
}

/// Reads a line of standard input, or `None` at its end.
fn read_line() -> std::io::Result<Option<String>> {
    let mut line = String::new();
    let length = std::io::stdin().read_line(&mut line)?;
    Ok((length > 0).then(|| line.trim().to_owned()))
}

/// Returns the file of the history: `$XDG_STATE_HOME/aqueduct/history`, or below `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("aqueduct/history"))
}
