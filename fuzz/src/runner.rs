//! Runs a target on mutated seeds, for a time or a number of executions. Returns the input that panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Target;
use crate::mutate::Mutator;
use crate::seeds::LARGEST;

/// The longest execution: inputs are small, so an input that takes longer twice is treated as endless. Once is not enough: the
/// runner may have waited for the processor.
const SLOW: Duration = Duration::from_secs(2);

/// The bounds of a run.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The most executions.
    pub executions: u64,
    /// The longest time.
    pub time: Duration,
    /// The seed of all mutations.
    pub seed: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { executions: u64::MAX, time: Duration::from_secs(60), seed: 0 }
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Found {
    /// The number of executions.
    pub executions: u64,
    /// The duration.
    pub took: Duration,
    /// The input that panicked, or took too long.
    pub crash: Option<Vec<u8>>,
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a target: its seeds first, then mutated ones.
pub fn run(target: &Target, seeds: &[Vec<u8>], bounds: &Bounds) -> Found {
    let begun = Instant::now();
    let mut mutator = Mutator::new(bounds.seed, target.words, 2 * LARGEST);
    let mut found = Found::default();
    let mut input = Vec::new();
    let mut unchanged = seeds.iter();
    while found.executions < bounds.executions && begun.elapsed() < bounds.time {
        match unchanged.next() {
            Some(seed) => input.clone_from(seed),
            None => mutator.mutate(seeds, &mut input),
        }
        found.executions += 1;
        if fails(target, &input) {
            found.crash = Some(input);
            break;
        }
    }
    found.took = begun.elapsed();
    found
}

/// Returns `true` if the target panics, or takes too long twice.
fn fails(target: &Target, input: &[u8]) -> bool {
    // `None` is a panic.
    let is_slow = || {
        let started = Instant::now();
        catch_unwind(AssertUnwindSafe(|| (target.run)(input))).ok().map(|()| started.elapsed() > SLOW)
    };
    is_slow().is_none_or(|slow| slow && is_slow().is_none_or(|slow| slow))
}
