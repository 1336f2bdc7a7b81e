//! Who can read the files: the user of this process alone. Folders have mode 0700, files 0600.
//!
//! The database makes files while it works, with the modes of the process. The folder around them keeps other users out from
//! the first moment; the files follow when the log is opened, opened again, and with every [`expire`](crate::RunLog::expire).
//! Symbolic links are not followed. Systems other than Unix have rules of their own.

use std::io;
use std::path::{Path, PathBuf};

/// The mode of folders.
#[cfg(unix)]
const FOLDER: u32 = 0o700;
/// The mode of files.
#[cfg(unix)]
const FILE: u32 = 0o600;

/// The result of a pass over the modes of all files.
#[derive(Debug, Default)]
pub(super) struct Modes {
    /// The number of files and folders that other users could access before.
    pub(super) tightened: usize,
    /// The first file or folder whose mode could not be changed.
    pub(super) refused: Option<(PathBuf, io::Error)>,
}

impl Modes {
    /// Returns a message for the operator. Returns `None` if no mode had to be changed.
    pub(super) fn note(&self, folder: &Path) -> Option<String> {
        let folder = folder.display();
        if let Some((path, error)) = &self.refused {
            return Some(format!(
                "other users may read the log in {folder}: the mode of {} cannot be changed ({error}); make the folder \
                 and what is in it the gateway's own, with modes 0700 and 0600",
                path.display()
            ));
        }
        (self.tightened > 0).then(|| {
            let count = self.tightened;
            format!("other users could read {count} files and folders of the log in {folder}; they cannot any more")
        })
    }
}

/// Makes the folder, if it is not there.
pub(super) fn create(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, FOLDER);
    builder.recursive(true).create(folder)
}

/// Removes the access of other users to the folder and everything in it. Continues after a file
/// whose mode cannot be changed: the log works without it, and the operator gets the note.
#[cfg(unix)]
pub(super) fn tighten(folder: &Path) -> Modes {
    use std::fs::{Permissions, read_dir, set_permissions, symlink_metadata};
    use std::os::unix::fs::PermissionsExt as _;

    let (mut modes, mut open) = (Modes::default(), vec![folder.to_owned()]);
    while let Some(path) = open.pop() {
        // A file that was removed meanwhile (a merged table) needs no change.
        let Ok(found) = symlink_metadata(&path) else { continue };
        let wanted = match found.file_type() {
            kind if kind.is_dir() => FOLDER,
            kind if kind.is_file() => FILE,
            _ => continue,
        };
        if found.permissions().mode() & 0o777 & !wanted != 0 {
            match set_permissions(&path, Permissions::from_mode(wanted)) {
                Ok(()) => modes.tightened += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => modes.refused = modes.refused.or_else(|| Some((path.clone(), error))),
            }
        }
        if wanted == FOLDER {
            open.extend(read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    modes
}

/// Does nothing.
#[cfg(not(unix))]
pub(super) fn tighten(_: &Path) -> Modes {
    Modes::default()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Files that are wider than they should be.
    fn wide(folder: &Path) -> Vec<PathBuf> {
        let (mut open, mut wide) = (vec![folder.to_owned()], Vec::new());
        while let Some(path) = open.pop() {
            let is_folder = path.is_dir();
            if mode(&path) != if is_folder { FOLDER } else { FILE } {
                wide.push(path.clone());
            }
            if is_folder {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        wide
    }

    #[tokio::test]
    async fn a_log_is_its_users_own_when_opened_compacted_and_opened_again() {
        use aqueduct_core::Timestamp;

        use crate::log::{RunLog as _, RunMeta};
        use crate::{DiskLog, LogLimits};

        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("log");
        let open = || DiskLog::open(&folder, LogLimits::default()).unwrap();
        let log = open();
        assert_eq!((wide(&folder), log.access_note()), (Vec::new(), None));
        for number in 0..3 {
            let (thread_id, agent, owner) = ("t".into(), String::new(), String::new());
            let run_id = format!("r{number}").into();
            let meta = RunMeta { run_id, thread_id, agent, owner, opened_at: Timestamp(1) };
            log.open(meta, Timestamp(9)).await.unwrap();
            log.store.get().unwrap().compact();
        }
        assert_eq!(mode(&folder), FOLDER, "nobody else gets at what the database has just made");
        log.expire(Timestamp(0)).await.unwrap();
        assert_eq!(wide(&folder), Vec::<PathBuf>::new());
        drop(log);
        // A folder of an earlier version.
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let file =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file());
        fs::set_permissions(file.unwrap(), Permissions::from_mode(0o644)).unwrap();
        let log = open();
        assert_eq!(wide(&folder), Vec::<PathBuf>::new());
        assert!(log.access_note().unwrap().contains("could read 2 files"), "{:?}", log.access_note());
    }

    #[test]
    fn everything_inside_is_tightened_and_nothing_outside() {
        let root = tempfile::tempdir().unwrap();
        let (outside, log) = (root.path().join("outside"), root.path().join("a/log"));
        create(&log).unwrap();
        assert_eq!((mode(&log), mode(&root.path().join("a"))), (0o700, 0o700));
        fs::write(&outside, "x").unwrap();
        fs::create_dir(log.join("tables")).unwrap();
        for path in [outside.clone(), log.join("tables/1"), log.join("journal")] {
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(&log, Permissions::from_mode(0o755)).unwrap();
        symlink(&outside, log.join("link")).unwrap();
        let found = tighten(&log);
        assert!(found.refused.is_none() && found.tightened >= 3, "{found:?}");
        assert!(found.note(&log).unwrap().contains("cannot any more"));
        assert_eq!((mode(&log), mode(&log.join("tables"))), (0o700, 0o700));
        assert_eq!((mode(&log.join("tables/1")), mode(&log.join("journal"))), (0o600, 0o600));
        assert_eq!(mode(&outside), 0o644, "links are not followed");
        assert_eq!(tighten(&log).note(&log), None, "once is enough");
    }
}
