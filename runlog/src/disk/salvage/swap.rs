//! Puts a new database in the place of a damaged one, which is set aside. A stop in the middle is continued by the next
//! repair; until then the folder cannot be opened.
//!
//! ```text
//! repair-new ── written whole ──► repair-ready ── old files to damaged-N ── new files to the folder ──► repair-new ──► removed
//! ```

use std::path::{Path, PathBuf};

use crate::error::LogError;

/// The new database while it is written, and what is left of its folder at the end.
const NEW: &str = "repair-new";
/// The new database, whole.
const READY: &str = "repair-ready";
/// The name of the folder for the old files.
const ASIDE: &str = "aside";
/// There once the old files are set aside.
const EMPTIED: &str = "emptied";

pub(super) fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> LogError + '_ {
    move |error| LogError::Unavailable(format!("{}: {error}", path.display()))
}

/// An empty folder for the new database.
pub(super) fn new_folder(folder: &Path) -> Result<PathBuf, LogError> {
    let new = folder.join(NEW);
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(failed(&new))?;
    }
    std::fs::create_dir(&new).map_err(failed(&new))?;
    Ok(new)
}

/// Marks the new database as whole.
pub(super) fn seal(folder: &Path) -> Result<(), LogError> {
    let (new, ready) = (folder.join(NEW), folder.join(READY));
    let free =
        (1..=u32::MAX).map(|number| format!("damaged-{number}")).find(|name| !folder.join(name).exists());
    std::fs::write(new.join(ASIDE), free.unwrap_or_default()).map_err(failed(&new))?;
    sync(&new)?;
    std::fs::rename(&new, &ready).map_err(failed(&new))?;
    sync(folder)
}

pub(super) fn is_unfinished(folder: &Path) -> bool {
    folder.join(READY).exists()
}

/// Returns the folder with the files that were set aside.
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
