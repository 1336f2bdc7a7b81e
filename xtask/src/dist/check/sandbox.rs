//! [`Sandbox`]: the folder of one installation, and calls that see nothing else of the user's.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::files;
use crate::interop::peers::text;
use crate::invocation::Invocation;

/// The variables that programs keep: where programs are, and what Windows needs to start any.
const KEPT: [&str; 4] = ["PATH", "SystemRoot", "TEMP", "TMP"];

/// A folder that one installation owns.
#[derive(Debug)]
pub(super) struct Sandbox {
    folder: PathBuf,
}

impl Sandbox {
    /// Creates the folder `name` in `base`, without what an earlier check left in it.
    pub(super) fn create(base: &Path, name: &str) -> Result<Self> {
        let folder = base.join(name);
        files::remove(&folder)?;
        files::create(&folder.join("home"))?;
        Ok(Self { folder })
    }

    /// Returns the folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a path below the folder as text.
    pub(super) fn path(&self, name: &str) -> Result<String> {
        text(&self.folder.join(name))
    }

    /// Returns a call in the folder with an empty home and no variable that the caller of this tool has set.
    pub(super) fn call(&self, program: impl Into<String>) -> Invocation {
        let call = Invocation::new(program, &self.folder).without_inherited_env();
        let call = call.env("HOME", self.folder.join("home").to_string_lossy()).env("LANG", "C.UTF-8");
        KEPT.iter().fold(call, |call, name| match std::env::var(name) {
            Ok(value) => call.env(name, value),
            Err(_) => call,
        })
    }

    /// Writes a file below the folder, with the folders above it. Returns its path as text.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<String> {
        let path = self.folder.join(name);
        files::write(&path, content)?;
        text(&path)
    }
}
