//! Salvage of a damaged folder: [`check`] reports what can be kept, [`repair`] keeps it,
//! `before_open` refuses to open a damaged folder.
//!
//! ```text
//! files (journals, tables) ── every change that can be read ──► plan: per run, the events before the first gap
//!                                                                 └──► a new database ──► swap: the old files are set aside
//! ```
//!
//! Invariants: [`check`] changes nothing; no byte of a damaged database is removed: its files are
//! moved to `damaged-N`; a folder that another process uses is refused.
//!
//! The end of the journal is special: a process that is stopped in the middle of a write leaves an
//! incomplete batch. Its callers were never answered. That tail is cut when the folder is opened,
//! and reported ([`TornTail`]).
//!
//! Memory: about 150 bytes per stored event. The module does not guess: a run whose record is lost
//! is not kept, because its principal is not known.

mod files;
mod journal;
mod plan;
mod swap;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fjall::{Database, PersistMode};

pub use files::{DamagedFile, TornTail};
pub use plan::RunReport;

use crate::error::LogError;
use files::Files;
use plan::Plan;
use swap::failed;

/// Values that are written to the new database at once.
const WRITTEN_AT_ONCE: usize = 1_000;

/// Attempts to lock the folder, and the pause between them: a process that is ending releases the
/// lock within a second.
const LOCK_TRIES: usize = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The content of a folder, and the part of it that is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReport {
    /// Damaged and missing files.
    pub files: Vec<DamagedFile>,
    /// The end of the journal, if it is to be cut.
    pub torn: Option<TornTail>,
    /// The runs, in the order in which they were opened.
    pub runs: Vec<RunReport>,
    /// Events of runs whose records are lost.
    pub orphans: u64,
    /// Set if a repair was stopped before its end. [`repair`] continues it.
    pub unfinished: bool,
}

impl LogReport {
    /// Returns `true` if a gateway can open the folder and finds all runs complete. A torn tail does
    /// not count as damage.
    pub fn is_sound(&self) -> bool {
        self.files.is_empty()
            && self.orphans == 0
            && !self.unfinished
            && self.runs.iter().all(RunReport::is_whole)
    }
}

/// Reports the content of a folder. Changes nothing.
///
/// # Errors
///
/// Returns [`LogError::Unavailable`] if the folder does not exist, contains no run log, or is in
/// use.
pub fn check(folder: &Path) -> Result<LogReport, LogError> {
    let _lock = lock(folder)?;
    let files = Files::find(folder);
    Ok(examine(folder, &files).0)
}

/// Writes everything that can be read into a new database, and sets the old one aside. Returns the
/// report of the state before, and the folder with the old files; `None` instead of a folder if
/// nothing was damaged.
///
/// After a repair that was stopped, the next call continues it, or starts it again if the new database
/// was not complete yet.
///
/// # Errors
///
/// Returns [`LogError::Unavailable`] if the folder does not exist, contains no run log, is in use,
/// or cannot be written.
pub fn repair(folder: &Path) -> Result<(LogReport, Option<PathBuf>), LogError> {
    let _lock = lock(folder)?;
    if swap::is_unfinished(folder) {
        let aside = swap::finish(folder)?;
        let (mut report, _) = examine(folder, &Files::find(folder));
        report.unfinished = true;
        return Ok((report, Some(aside)));
    }
    let files = Files::find(folder);
    let (report, plan) = examine(folder, &files);
    if report.is_sound() {
        return Ok((report, None));
    }
    let new = swap::new_folder(folder)?;
    write(&new, &files, &plan)?;
    swap::seal(folder)?;
    let aside = swap::finish(folder)?;
    Ok((report, Some(aside)))
}

/// Refuses a folder with damaged journals or missing files, and cuts the torn tail of its journal.
/// Returns the cut tail.
///
/// Tables are not read here, because that would take long for a large folder: the database reports
/// a damaged table when it is read.
pub(super) fn before_open(folder: &Path) -> Result<Option<TornTail>, LogError> {
    let refuse = |damage: DamagedFile| LogError::Damaged {
        folder: folder.display().to_string(),
        file: damage.file.display().to_string(),
        what: damage.what,
    };
    if swap::is_unfinished(folder) {
        let what = "a repair was stopped before its end".to_owned();
        return Err(refuse(DamagedFile { file: folder.to_owned(), what }));
    }
    if is_fresh(folder) {
        return Ok(None);
    }
    let _lock = lock(folder)?;
    let files = Files::find(folder);
    if let Some(damage) = files.damaged.first() {
        return Err(refuse(damage.clone()));
    }
    let (mut torn, mut is_named) = (None, true);
    let scans = files.scan_journals(|found| is_named &= !files.unnamed.contains(&found.keyspace));
    if !is_named {
        return Err(refuse(files.nameless()));
    }
    for (file, scanned) in scans {
        let scan = scanned.map_err(|what| refuse(DamagedFile { file: file.clone(), what }))?;
        let mut damage = Vec::from_iter(files::journal_damage(&file, &scan));
        torn = files.torn_tail(&file, &scan, &mut damage).or(torn);
        if let Some(damage) = damage.pop() {
            return Err(refuse(damage));
        }
    }
    if let Some(torn) = &torn {
        cut(torn).map_err(failed(&torn.file))?;
    }
    Ok(torn)
}

/// Truncates the journal at the end of its last complete batch, and syncs it.
fn cut(torn: &TornTail) -> std::io::Result<()> {
    let file = File::options().write(true).open(&torn.file)?;
    file.set_len(u64::try_from(torn.at).unwrap_or(u64::MAX))?;
    file.sync_all()
}

/// Returns `true` if the folder contains no database, or one whose creation was stopped.
fn is_fresh(folder: &Path) -> bool {
    let is_there = |name: &str| folder.join(name).exists();
    !is_there("version") && !is_there("keyspaces/0/current")
}

/// Locks a folder against other processes, by the same file as the database. The lock is released
/// when the file is dropped.
fn lock(folder: &Path) -> Result<File, LogError> {
    let refuse = |what: &str| Err(LogError::Unavailable(format!("{}: {what}", folder.display())));
    if !folder.is_dir() {
        return refuse("there is no such folder");
    }
    let is_there = |name: &str| folder.join(name).exists();
    if !["version", "keyspaces", "0.jnl"].into_iter().any(is_there) && !swap::is_unfinished(folder) {
        return refuse("the folder holds no run log");
    }
    let path = folder.join("lock");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(failed(&path))?;
    for _ in 0..LOCK_TRIES {
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    refuse("another process uses the folder: stop that gateway first")
}

/// Reads all files twice, and returns the report and the plan of a repair.
fn examine(folder: &Path, files: &Files) -> (LogReport, Plan) {
    let (mut plan, mut is_named) = (Plan::default(), true);
    files.read(|found| {
        is_named &= !files.unnamed.contains(&found.keyspace);
        plan.rank(&found);
    });
    let (damaged, torn) = files.read(|found| plan.weigh(files, &found));
    plan.decide();
    let mut report = LogReport {
        files: files.damaged.clone(),
        torn,
        runs: plan.reports(),
        orphans: plan.orphans,
        unfinished: swap::is_unfinished(folder),
    };
    report.files.extend(damaged);
    if !is_named && !report.files.contains(&files.nameless()) {
        report.files.push(files.nameless());
    }
    (report, plan)
}

/// Writes the kept values into a new database, in batches, and syncs it.
fn write(new: &Path, files: &Files, plan: &Plan) -> Result<(), LogError> {
    let unwritten = |error: fjall::Error| LogError::Unavailable(format!("{}: {error}", new.display()));
    let database = Database::builder(new).open().map_err(unwritten)?;
    let mut keyspaces = HashMap::new();
    for (id, name) in &files.names {
        let keyspace = database.keyspace(name, super::store::options).map_err(unwritten)?;
        keyspaces.insert(*id, keyspace);
    }
    // The callback cannot return an error: the first one is kept, and later values are skipped.
    let (mut batch, mut outcome) = (database.batch(), Ok(()));
    files.read(|found| {
        if outcome.is_err() {
            return;
        }
        let keyspace = keyspaces.get(&found.keyspace);
        let Some((keyspace, (key, value))) = keyspace.zip(plan.keep(files, found)) else { return };
        batch.insert(keyspace, &key[..], &value[..]);
        if batch.len() >= WRITTEN_AT_ONCE {
            outcome = std::mem::replace(&mut batch, database.batch()).commit();
        }
    });
    outcome.map_err(unwritten)?;
    batch.commit().map_err(unwritten)?;
    database.persist(PersistMode::SyncAll).map_err(unwritten)
}

#[cfg(test)]
mod tests;
