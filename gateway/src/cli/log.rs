//! Options of `log check` and `log repair`.
//!
//! Doc comments of fields and variants are help texts; see [`cli`](super).

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The subcommands of `log`.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum LogCommand {
    /// Report the runs of a log on disk, and what of them is damaged
    #[command(after_help = CHECK_HELP)]
    Check(LogArgs),
    /// Keep what can be read of a damaged log, and set its files aside
    #[command(after_help = REPAIR_HELP)]
    Repair(LogArgs),
}

/// Options of `log check` and `log repair`.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// The folder of the log (`runs.folder`)
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Name the runs that are whole too
    #[arg(long)]
    pub all: bool,
    /// Write the report as one JSON value
    #[arg(long)]
    pub json: bool,
}

const CHECK_HELP: &str = "\
Changes nothing. The gateway that uses the folder has to be stopped. Per run: events that can be kept, the first number
that is missing or unreadable, and stored values that cannot be decoded.

Examples:
  aqueduct log check /var/lib/aqueduct/runs
  aqueduct log check /var/lib/aqueduct/runs --json | jq .runs

Exit codes:
  0  nothing is damaged
  1  something is damaged: `aqueduct log repair` keeps the rest
  2  wrong arguments, or no log of a stopped gateway";

const REPAIR_HELP: &str = "\
Writes a new log with every run up to its first gap, and moves the old files to DIR/damaged-N: nothing is deleted. A run that
lost its end is open again: the next start continues it from its agent, or ends it as `gateway_lost`. Needs as much
room as the log, and about 150 bytes of memory per event.

Examples:
  aqueduct log repair /var/lib/aqueduct/runs

Exit codes:
  0  repaired, or nothing was damaged
  1  the folder cannot be written
  2  wrong arguments, or no log of a stopped gateway";
