//! Fuzz targets: functions of any bytes that must not panic, and that check what they read.
//!
//! | module | what |
//! |---|---|
//! | [`targets`] | the targets, one function each |
//! | [`ops`] | bytes as operations on the stream machine, for targets that are about what follows from events |
//! | [`seeds`] | inputs to begin with: the fixtures of the tests |
//! | [`mutate`], [`runner`] | a runner for the stable compiler, without feedback from the code |
//!
//! Under libFuzzer (`fuzz/libfuzzer`) the same functions are led by the code that an input reaches. `cargo xtask fuzz`
//! uses it where there is a C++ compiler.
#![allow(clippy::expect_used, clippy::panic, reason = "a panic is how a target says that something is wrong")]

pub mod mutate;
pub mod ops;
pub mod runner;
pub mod seeds;
pub mod targets;

/// A target.
#[derive(Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Takes any bytes; panics if what comes of them is wrong.
    pub run: fn(&[u8]),
    /// Folders and files below the root of the repository whose files it begins with.
    pub seeds: &'static [&'static str],
    /// Words that mean something to it.
    pub words: &'static [&'static str],
}

/// Returns the target of that name.
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
            let seeds = seeds::of(&root, target);
            assert!(!seeds.is_empty(), "{} begins with nothing", target.name);
            for seed in seeds {
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
