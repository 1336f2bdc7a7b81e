//! Folders for the files of tests.
//!
//! Tests run side by side, in one process or in several. A file that two of them write can be read while it is empty, so no two calls
//! return the same folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates a folder that no other test uses.
pub(crate) fn folder() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scratch").join(name);
    // The folder of an earlier process with the same id.
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
