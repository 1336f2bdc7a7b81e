//! Initial inputs: fixtures of the tests, and earlier crashes (`fuzz/corpus/<target>`).
//!
//! The fixtures are recorded streams of real agents. They are not copied: a target names their folders.

use std::fs;
use std::path::Path;

use crate::Target;

/// The largest seed: longer ones are truncated, so that a mutation costs little.
pub const LARGEST: usize = 4 * 1024;

/// The most seeds of one target.
const MOST: usize = 400;

/// Returns the seeds of a target, in a fixed order.
pub fn of(root: &Path, target: &Target) -> Vec<Vec<u8>> {
    let found = root.join("fuzz/corpus").join(target.name);
    let mut seeds = Vec::new();
    for place in std::iter::once(found).chain(target.seeds.iter().map(|place| root.join(place))) {
        collect(&place, &mut seeds);
    }
    seeds.extend(target.words.iter().map(|word| word.as_bytes().to_vec()));
    seeds.truncate(MOST);
    seeds
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
