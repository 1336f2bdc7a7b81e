//! Fuzz targets: functions of arbitrary bytes that must not panic, and that check the decoded result.
//!
//! | module | what |
//! |---|---|
//! | [`targets`] | the targets, one function each |
//! | [`ops`] | bytes as operations on the stream machine, for targets that test the handling of events |
//! | [`seeds`] | initial inputs: the fixtures of the tests |
//! | [`mutate`], [`runner`] | a runner for the stable compiler, without coverage feedback |
//!
//! Under libFuzzer (`fuzz/libfuzzer`) the same functions run with coverage feedback. `cargo xtask fuzz` uses it if there is a
//! C++ compiler.
#![allow(clippy::expect_used, clippy::panic, reason = "a panic is how a target says that something is wrong")]

pub mod mutate;
pub mod ops;
pub mod runner;
pub mod seeds;
pub mod targets;

/// A fuzz target.
#[derive(Debug)]
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// Runs the target on arbitrary bytes; panics if the result is wrong.
    pub run: fn(&[u8]),
    /// Folders and files with seeds beside `fuzz/corpus/<name>`, relative to the root of the repository.
    pub seeds: &'static [&'static str],
    /// Tokens that the mutator inserts.
    pub words: &'static [&'static str],
}

/// Returns the target `name`. Returns `None` if there is none.
pub fn target(name: &str) -> Option<&'static Target> {
    targets::ALL.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_takes_its_seeds_and_what_was_found_before() {
        let root = runner::root();
        for target in targets::ALL {
            for seed in seeds::of(&root, target) {
                (target.run)(&seed);
            }
        }
    }

    #[test]
    fn a_target_that_panics_is_reported_with_its_input() {
        let broken = Target {
            name: "broken",
            run: |data| assert!(!data.contains(&b'!'), "no"),
            seeds: &[],
            words: &["!"],
        };
        let bounds = runner::Bounds { executions: 10_000, ..runner::Bounds::default() };
        let found = runner::run(&broken, &[b"ab".to_vec()], &bounds);
        assert!(found.crash.is_some_and(|input| input.contains(&b'!')));
    }
}
