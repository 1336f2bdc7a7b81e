//! Files and folders of the tasks. Every error names the path.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Returns the text of a file.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns the bytes of a file.
#[cfg(feature = "dist")]
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file, and creates the folders above it.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    create_above(path)?;
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies a file, and creates the folders above the copy.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    create_above(to)?;
    std::fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {}", from.display()))
}

fn create_above(path: &Path) -> Result<()> {
    create(path.parent().with_context(|| format!("{} is in no folder", path.display()))?)
}

/// Creates a folder, and the folders above it.
pub(crate) fn create(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Removes a folder with its content, if it exists.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Creates a folder without content: that of an earlier task is removed.
pub(crate) fn recreate(folder: &Path) -> Result<()> {
    remove(folder)?;
    create(folder)
}

/// Returns the paths of the entries of a folder, sorted.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// Returns the name of a file or folder.
pub(crate) fn name(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.with_context(|| format!("the name of {} is not UTF-8", path.display()))
}
