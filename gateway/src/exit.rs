//! The exit codes of all commands.
//!
//! | code | name | meaning |
//! |---|---|---|
//! | 0 | [`OK`] | the command did its work; a converted stream counts whatever its outcome |
//! | 1 | [`FAILED`] | the work found something wrong: unreadable input, a violation, a broken configuration |
//! | 2 | [`USAGE`] | the command could not begin: wrong arguments, a file that cannot be opened |

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// An exit code. Only the constants of this module exist, so every command uses the same three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(u8);

/// The command did its work.
pub const OK: Code = Code(0);
/// The work found something wrong.
pub const FAILED: Code = Code(1);
/// The command could not begin.
pub const USAGE: Code = Code(2);

impl Code {
    /// Writes why a command ends with this code, and returns the code. An error is written with its causes.
    pub(crate) fn report(self, notes: &mut dyn Write, command: &str, why: &dyn Display) -> Self {
        writeln!(notes, "aqueduct {command}: {why:#}").ok();
        self
    }
}

/// Reports the error of a command, and returns the exit code.
pub(crate) fn finish(command: &str, result: anyhow::Result<()>, notes: &mut dyn Write) -> Code {
    match result {
        Ok(()) => OK,
        Err(error) => FAILED.report(notes, command, &error),
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}
