//! `cargo xtask fuzz`: runs the targets of `fuzz/` under libFuzzer if there is a C++ compiler, otherwise with our own runner.
//!
//! ```text
//! libfuzzer   guided by code coverage; the stable compiler, with the flags of cargo-fuzz; a table of figures at the end
//! own         mutated fixtures without feedback; needs no tools, so CI runs it
//! ```

mod libfuzzer;

use std::path::PathBuf;

use anyhow::Result;

use crate::interop::programs;
use crate::invocation::Invocation;
use crate::project::Project;

/// Seconds of one target in CI: there are twenty of them.
const CI: u64 = 3;

/// Seconds of one target in the nightly tier.
const NIGHT: u64 = 60;

/// The options of `fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Fuzzing {
    /// One target only [default: all]
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = NIGHT)]
    seconds: u64,
    /// Targets that libFuzzer runs side by side
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// The seed of the random changes: the same seed makes the same changes [default: libFuzzer chooses one, the runner of our own has 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Uses the runner of our own, although there is a C++ compiler
    #[arg(long)]
    own: bool,
    /// Runs one file, and nothing else
    #[arg(long, requires = "target")]
    input: Option<PathBuf>,
}

impl Fuzzing {
    /// Returns the options of CI.
    fn of_ci() -> Self {
        Self { target: None, seconds: CI, jobs: 1, seed: None, own: true, input: None }
    }

    /// Returns the options of the nightly run.
    pub(crate) fn of_the_night() -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { target: None, seconds: NIGHT, jobs, seed: None, own: false, input: None }
    }
}

/// Runs the targets as CI does, and checks that libFuzzer's workspace, which CI does not build, can be built from its lock file.
pub(crate) fn run_in_ci(project: &Project) -> Result<()> {
    libfuzzer::check_lock(project)?;
    run(project, &Fuzzing::of_ci())
}

/// Runs the selected targets.
pub(crate) fn run(project: &Project, fuzzing: &Fuzzing) -> Result<()> {
    let program = programs::build_one(project, "fuzz")?;
    let own = project.program(&program).args(fuzzing.target.clone());
    if let Some(input) = &fuzzing.input {
        return own.args(["--input".to_owned(), input.to_string_lossy().into_owned()]).run();
    }
    let has_compiler = Invocation::new("c++", project.root()).args(["--version"]).output().is_ok();
    if fuzzing.own || !has_compiler {
        if !fuzzing.own {
            println!(
                "    no C++ compiler (`c++`), so libFuzzer cannot be built: changes are made without feedback"
            );
        }
        let seed = fuzzing.seed.unwrap_or_default();
        return own.args([format!("--seconds={}", fuzzing.seconds), format!("--seed={seed}")]).run();
    }
    libfuzzer::run(project, own, fuzzing)
}
