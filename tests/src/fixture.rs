//! Recorded streams of real frameworks: `tests/fixtures/<protocol>/`, each folder with a README about its origin.

use std::fs;
use std::path::{Path, PathBuf};

/// A recorded file.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// Its name without folder and ending.
    pub name: String,
    /// Its bytes, as recorded.
    pub bytes: Vec<u8>,
    folder: PathBuf,
}

impl Fixture {
    /// A file beside it, by ending; none if there is none.
    pub fn sibling(&self, ending: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(format!("{}.{ending}", self.name))).ok()
    }
}

/// All files of a folder with that ending, by name.
pub fn fixtures(protocol: &str, ending: &str) -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(protocol);
    let suffix = format!(".{ending}");
    let mut found: Vec<Fixture> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let name = name.strip_suffix(&suffix)?.to_owned();
            let bytes = fs::read(folder.join(format!("{name}{suffix}"))).unwrap();
            Some(Fixture { name, bytes, folder: folder.clone() })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!found.is_empty(), "no *{suffix} in {}", folder.display());
    found
}
