//! `aqueduct log`: checks and repairs a run log on disk while its gateway is stopped.
//!
//! The work is done by `aqueduct_runlog::disk`; this module writes its report as text or as one JSON object and
//! derives the exit code. `check` changes nothing. `repair` writes what can be read into a new database and
//! moves the old files to a folder beside it; it never deletes them.
//!
//! | command | `OK` | `FAILED` | `USAGE` |
//! |---|---|---|---|
//! | `check` | nothing is damaged (a torn tail is not damage) | something is damaged | no folder, no log, or in use |
//! | `repair` | repaired, or nothing to repair | the repair failed | as for `check` |

use std::io::Write;
use std::path::Path;

use aqueduct_core::RunId;
use aqueduct_runlog::disk::{self, LogReport, RunReport};
use serde_json::{Value, json};

use crate::cli::{LogArgs, LogCommand};
use crate::exit;

/// Runs `aqueduct log`.
pub(crate) fn command(command: &LogCommand, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    match command {
        LogCommand::Check(args) => check(args, out, notes),
        LogCommand::Repair(args) => repair(args, out, notes),
    }
}

/// Reports damage. A log that is open in a gateway is refused, because its files change while they are read.
fn check(args: &LogArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    match disk::check(&args.folder) {
        Ok(report) => {
            write_report(args, &report, None, out);
            if report.is_sound() { exit::OK } else { exit::FAILED }
        }
        Err(error) => exit::USAGE.report(notes, "log check", &error),
    }
}

/// Repairs the log and reports what was found before the repair.
fn repair(args: &LogArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    // The folder is checked first, so that a missing or used folder is reported as a usage error. Errors of the
    // repair itself are failures.
    if let Err(error) = disk::check(&args.folder) {
        return exit::USAGE.report(notes, "log repair", &error);
    }
    match disk::repair(&args.folder) {
        Ok((report, aside)) => {
            write_report(args, &report, aside.as_deref(), out);
            exit::OK
        }
        Err(error) => {
            let why = format!("{error}: the damaged files are where they were");
            exit::FAILED.report(notes, "log repair", &why)
        }
    }
}

/// Writes the report in the format of the arguments. `aside` is the folder with the damaged files, after a
/// repair that replaced them.
fn write_report(args: &LogArgs, report: &LogReport, aside: Option<&Path>, out: &mut dyn Write) {
    let written = if args.json {
        writeln!(out, "{}", to_json(report, aside))
    } else {
        write_text(args, report, aside, out)
    };
    // A reader that has closed the output is not a failure.
    written.ok();
}

/// Writes the report for people: files, torn tail, runs, totals, and what to do next.
///
/// Whole runs are listed only with `--all`: a log may hold many thousands of them, and damage would be lost
/// among them.
fn write_text(
    args: &LogArgs,
    report: &LogReport,
    aside: Option<&Path>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    for damage in &report.files {
        writeln!(out, "{}: {}", damage.file.display(), damage.what)?;
    }
    if let Some(torn) = &report.torn {
        let (file, at, bytes) = (torn.file.display(), torn.at, torn.bytes);
        writeln!(out, "{file}: {bytes} bytes from {at} on are no whole write: cut at the next start")?;
    }
    if report.unfinished {
        writeln!(out, "a repair was stopped before its end")?;
    }
    for run in report.runs.iter().filter(|run| args.all || !run.is_whole()) {
        writeln!(out, "{}", describe(run))?;
    }
    if report.orphans > 0 {
        writeln!(out, "{} events belong to runs whose records are lost", report.orphans)?;
    }
    let whole = report.runs.iter().filter(|run| run.is_whole()).count();
    let events: u64 = report.runs.iter().map(|run| run.events).sum();
    let runs = report.runs.len();
    writeln!(out, "{runs} runs, {whole} of them whole; {events} events can be read")?;
    match aside {
        Some(aside) => writeln!(out, "repaired; the damaged files are in {}", aside.display()),
        None if report.is_sound() => writeln!(out, "nothing is damaged"),
        None => writeln!(out, "`aqueduct log repair {}` keeps what can be read", args.folder.display()),
    }
}

/// Returns one line about a run, for example:
///
/// ```text
/// run run-7: 12 events, then a gap at 13 with 4 events behind it, its end is lost
/// ```
///
/// A repair keeps the events before the first gap only. Numbers of events are consecutive, so readable events
/// behind a gap are counted and not kept.
fn describe(run: &RunReport) -> String {
    let name = run.run_id.as_ref().map_or("(record lost)", |id| id.as_str());
    let gap = run.gap.map(|gap| format!(", then a gap at {gap} with {} events behind it", run.behind));
    let undecodable = (run.undecodable > 0).then(|| format!(", {} undecodable values", run.undecodable));
    let end = if run.ended && run.gap.is_some() { ", its end is lost" } else { "" };
    let (gap, undecodable) = (gap.unwrap_or_default(), undecodable.unwrap_or_default());
    format!("run {name}: {} events{gap}{undecodable}{end}", run.events)
}

/// Returns the report as one object for programs. It lists all runs, with or without `--all`.
fn to_json(report: &LogReport, aside: Option<&Path>) -> Value {
    let file = |path: &Path| path.display().to_string();
    let run = |run: &RunReport| {
        json!({
            "run": run.run_id.as_ref().map(RunId::as_str),
            "events": run.events,
            "gap": run.gap,
            "behind": run.behind,
            "undecodable": run.undecodable,
            "ended": run.ended,
            "whole": run.is_whole(),
        })
    };
    json!({
        "sound": report.is_sound(),
        "files": report.files.iter().map(|damage| json!({ "file": file(&damage.file), "what": damage.what })).collect::<Vec<_>>(),
        "torn": report.torn.as_ref().map(|torn| json!({ "file": file(&torn.file), "at": torn.at, "bytes": torn.bytes })),
        "runs": report.runs.iter().map(run).collect::<Vec<_>>(),
        "orphans": report.orphans,
        "unfinished": report.unfinished,
        "aside": aside.map(file),
    })
}
