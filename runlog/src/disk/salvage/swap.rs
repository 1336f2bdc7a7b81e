//! Replaces a damaged database by a new one, and sets the damaged one aside. A swap that is stopped
//! in the middle is continued by the next repair; until then the folder cannot be opened.
//!
//! ```text
//! repair-new ── complete, synced ──► repair-ready ── old files to damaged-N ── new files to the folder ──► repair-new ──► removed
//! ```
//!
//! The state is in the names of folders and files alone, because a rename is atomic: `repair-ready`
//! exists exactly while a swap is unfinished, and `emptied` in it once the old files are set aside.
//! Every step may be executed twice.

use std::path::{Path, PathBuf};

use crate::error::LogError;

/// The folder of the new database while it is written, and the name of its empty rest before it is
/// removed.
const NEW: &str = "repair-new";
/// The folder of the new database once it is complete.
const READY: &str = "repair-ready";
/// The file that holds the name of the folder for the old files: a continued swap must use the same
/// one.
const ASIDE: &str = "aside";
/// The file that exists once the old files are set aside.
const EMPTIED: &str = "emptied";

/// Returns the conversion of an error on a path.
pub(super) fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> LogError + '_ {
    move |error| LogError::Unavailable(format!("{}: {error}", path.display()))
}

/// Creates an empty folder for the new database. Removes the folder of an earlier attempt that was
/// not completed.
pub(super) fn new_folder(folder: &Path) -> Result<PathBuf, LogError> {
    let new = folder.join(NEW);
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(failed(&new))?;
    }
    std::fs::create_dir(&new).map_err(failed(&new))?;
    Ok(new)
}

/// Marks the new database as complete, and chooses the folder for the old files. From here on a
/// repair is continued, not started again.
pub(super) fn seal(folder: &Path) -> Result<(), LogError> {
    let (new, ready) = (folder.join(NEW), folder.join(READY));
    let free =
        (1..=u32::MAX).map(|number| format!("damaged-{number}")).find(|name| !folder.join(name).exists());
    std::fs::write(new.join(ASIDE), free.unwrap_or_default()).map_err(failed(&new))?;
    sync(&new)?;
    std::fs::rename(&new, &ready).map_err(failed(&new))?;
    sync(folder)
}

/// Returns `true` if a swap was stopped in the middle.
pub(super) fn is_unfinished(folder: &Path) -> bool {
    folder.join(READY).exists()
}

/// Moves the old files aside and the new ones into the folder. Returns the folder with the old
/// files.
pub(super) fn finish(folder: &Path) -> Result<PathBuf, LogError> {
    let ready = folder.join(READY);
    let aside = std::fs::read_to_string(ready.join(ASIDE)).map_err(failed(&ready))?;
    let aside = folder.join(aside);
    if !ready.join(EMPTIED).exists() {
        std::fs::create_dir_all(&aside).map_err(failed(&aside))?;
        move_database(folder, &aside)?;
        std::fs::write(ready.join(EMPTIED), []).map_err(failed(&ready))?;
        sync(&ready)?;
    }
    move_database(&ready, folder)?;
    let rest = folder.join(NEW);
    std::fs::rename(&ready, &rest).map_err(failed(&ready))?;
    std::fs::remove_dir_all(&rest).map_err(failed(&rest))?;
    sync(folder)?;
    Ok(aside)
}

/// Moves the files of a database, but not its lock.
fn move_database(from: &Path, to: &Path) -> Result<(), LogError> {
    let entries = std::fs::read_dir(from).map_err(failed(from))?;
    for entry in entries {
        let entry = entry.map_err(failed(from))?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(".jnl") || text == "keyspaces" || text == "version" {
            std::fs::rename(entry.path(), to.join(&name)).map_err(failed(from))?;
        }
    }
    sync(to)
}

fn sync(folder: &Path) -> Result<(), LogError> {
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed(folder))
}
