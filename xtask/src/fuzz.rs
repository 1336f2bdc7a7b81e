//! `cargo xtask fuzz`: runs the targets of `fuzz/` under libFuzzer if there is a C++ compiler, otherwise with our own runner.
//!
//! ```text
//! libfuzzer   guided by code coverage; the stable compiler, with the flags of cargo-fuzz
//! own         mutated fixtures without feedback; needs no tools, so CI runs it
//! ```
//!
//! libFuzzer's corpus is kept below the target folder, and is used as seeds the next time.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::interop::programs;
use crate::invocation::Invocation;
use crate::project::Project;

/// The compiler flags that libFuzzer needs.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table";

/// The largest input.
const LONGEST: u32 = 8 * 1024;

/// Seconds of one target in CI: there are twenty of them.
const CI: u64 = 3;

/// The options of `fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Fuzzing {
    /// One target only [default: all]
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Uses the runner of our own, although there is a C++ compiler
    #[arg(long)]
    own: bool,
    /// Runs one file, and nothing else
    #[arg(long, requires = "target")]
    input: Option<PathBuf>,
}

impl Fuzzing {
    /// Returns the options of CI.
    pub(crate) fn of_ci() -> Self {
        Self { target: None, seconds: CI, own: true, input: None }
    }

    /// Returns the options of the nightly run.
    pub(crate) fn of_the_night() -> Self {
        Self { target: None, seconds: 60, own: false, input: None }
    }
}

/// Runs the selected targets.
pub(crate) fn run(project: &Project, fuzzing: &Fuzzing) -> Result<()> {
    let program = programs::build_one(project, "fuzz")?;
    let target_folder = project.metadata()?.target_directory()?;
    let own = Invocation::new(program.to_string_lossy(), project.root());
    let own = own.args(fuzzing.target.clone());
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
        return own.args(["--seconds".to_owned(), fuzzing.seconds.to_string()]).run();
    }
    let program = build(project, &target_folder)?;
    for line in own.args(["--list"]).output()?.lines() {
        lead(project, &target_folder, &program, line, fuzzing.seconds)?;
    }
    Ok(())
}

/// Builds all targets with libFuzzer.
fn build(project: &Project, target_folder: &Path) -> Result<PathBuf> {
    let about = Invocation::new("rustc", project.root()).args(["-vV"]).output()?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let folder = target_folder.join("fuzz");
    // With an explicit target, so that the flags do not apply to build scripts.
    let call = project.cargo([
        "build",
        "--release",
        "--manifest-path",
        "fuzz/libfuzzer/Cargo.toml",
        "--target",
        host,
    ]);
    let call = call.args(["--target-dir".to_owned(), folder.to_string_lossy().into_owned()]);
    call.env("RUSTFLAGS", COVERAGE).run()?;
    Ok(folder.join(host).join("release/aqueduct-fuzz-libfuzzer"))
}

/// Runs one target; `line` contains its name and the folders of its seeds.
fn lead(project: &Project, target_folder: &Path, program: &Path, line: &str, seconds: u64) -> Result<()> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    if ["config", "script"].contains(&name) {
        println!(
            "    {name} is part of the gateway, which is not built for libFuzzer: `cargo xtask fuzz {name} --own`"
        );
        return Ok(());
    }
    let learnt = target_folder.join("fuzz/corpus").join(name);
    std::fs::create_dir_all(&learnt).with_context(|| format!("cannot make {}", learnt.display()))?;
    let kept = format!("fuzz/corpus/{name}");
    let seeds = words.map(str::to_owned).chain([kept]).filter(|place| project.root().join(place).is_dir());
    println!("\n==> {name}");
    Invocation::new(program.to_string_lossy(), project.root())
        .args([learnt.to_string_lossy().into_owned()])
        .args(seeds)
        .args([
            format!("-max_total_time={seconds}"),
            format!("-max_len={LONGEST}"),
            "-print_final_stats=1".to_owned(),
        ])
        .args([format!("-artifact_prefix={}/fuzz/crash-{name}-", target_folder.display())])
        .env("AQUEDUCT_FUZZ_TARGET", name)
        .run()
}
