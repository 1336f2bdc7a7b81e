//! Initial inputs: fixtures of the tests, small inputs and earlier crashes (`fuzz/corpus/<target>`), and the tokens of a target.
//!
//! The fixtures are recorded streams of real agents. They are not copied into the corpus: a target names their folders. Both
//! runners begin with the same seeds; [`export`] writes them for libFuzzer.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Target;

/// The largest seed: longer ones are truncated, so that a mutation costs little.
pub const LARGEST: usize = 4 * 1024;

/// Returns the seeds of a target, in a fixed order: its corpus, its fixtures, its tokens.
pub fn of(root: &Path, target: &Target) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for place in places(root, target) {
        collect(&place, &mut seeds);
    }
    seeds.extend(target.words.iter().map(|word| word.as_bytes().to_vec()));
    seeds
}

/// Returns the folders and files with the seeds of a target. Its corpus may be missing if it names other places.
pub(crate) fn places(root: &Path, target: &Target) -> impl Iterator<Item = PathBuf> {
    let corpus = root.join("fuzz/corpus").join(target.name);
    let corpus = Some(corpus).filter(|corpus| target.seeds.is_empty() || corpus.is_dir());
    corpus.into_iter().chain(target.seeds.iter().map(|place| root.join(place)))
}

/// Writes the seeds of a target as files of `folder/<target>`, and its tokens as a dictionary of libFuzzer, `folder/<target>.dict`.
///
/// # Errors
///
/// Returns an error if a file cannot be written.
pub fn export(root: &Path, target: &Target, folder: &Path) -> io::Result<()> {
    let seeds = folder.join(target.name);
    fs::create_dir_all(&seeds)?;
    for (index, seed) in of(root, target).iter().enumerate() {
        fs::write(seeds.join(format!("{index:04}")), seed)?;
    }
    fs::write(folder.join(format!("{}.dict", target.name)), dictionary(target.words))
}

/// Returns tokens in the format of libFuzzer's dictionaries: one quoted line each, every byte escaped.
fn dictionary(words: &[&str]) -> String {
    let mut lines = String::new();
    for word in words {
        lines.push('"');
        for byte in word.bytes() {
            write!(lines, "\\x{byte:02x}").unwrap_or_default();
        }
        lines.push_str("\"\n");
    }
    lines
}

fn collect(place: &Path, seeds: &mut Vec<Vec<u8>>) {
    if let Ok(folder) = fs::read_dir(place) {
        let mut paths: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            collect(&path, seeds);
        }
        return;
    }
    let Ok(mut bytes) = fs::read(place) else { return };
    if place.extension().is_some_and(|extension| extension == "sse") {
        // Both the bytes on the wire, and the payloads alone.
        seeds.push(cut(payloads(&bytes)));
    }
    bytes.truncate(LARGEST);
    seeds.push(bytes);
}

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(LARGEST);
    bytes
}

fn payloads(sse: &[u8]) -> Vec<u8> {
    let lines = sse.split(|byte| *byte == b'\n');
    let payloads = lines.filter_map(|line| line.strip_prefix(b"data:")).map(<[u8]>::trim_ascii);
    payloads.collect::<Vec<_>>().join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{runner, targets};

    #[test]
    fn every_place_that_a_target_names_has_seeds() {
        let root = runner::root();
        for target in targets::ALL {
            for place in places(&root, target) {
                let mut seeds = Vec::new();
                collect(&place, &mut seeds);
                assert!(!seeds.is_empty(), "{}: no seed in {}", target.name, place.display());
            }
        }
    }

    #[test]
    fn exported_seeds_and_tokens_are_those_of_the_target() {
        let target = crate::target("jwt").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let seeds = of(&runner::root(), target);
        export(&runner::root(), target, folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path().join("jwt")).unwrap().count(), seeds.len());
        assert_eq!(fs::read(folder.path().join("jwt/0000")).unwrap(), seeds[0]);
        let dictionary = fs::read_to_string(folder.path().join("jwt.dict")).unwrap();
        assert_eq!(dictionary.lines().count(), target.words.len());
        assert!(dictionary.contains("\"\\x2e\"\n"), "{dictionary}");
    }
}
