//! `cargo xtask mutants`: mutates the code and checks that a test fails.
//!
//! The files are those whose bugs would be silent: numbers, leases, takeovers, balance, coalescing, identity. `docs/testing.md`
//! explains each mutant that no test detects.
//!
//! ```text
//! find    places of a file that can be mutated: operators, guards, arms, bodies
//! weave   all mutants of a package in one text, each behind a switch
//! trial   one build, then the tests once for each switch
//! ```
//!
//! The parser of Rust comes with this tool's feature `mutants`; a build without the feature starts one with it.

#[cfg(feature = "mutants")]
mod find;
#[cfg(all(test, feature = "mutants"))]
mod tests;
#[cfg(feature = "mutants")]
mod trial;
#[cfg(feature = "mutants")]
mod weave;

use anyhow::Result;

use crate::project::Project;

/// The mutated files of a package, and the tests that must notice.
#[cfg(feature = "mutants")]
#[derive(Debug)]
struct Subject {
    package: &'static str,
    folder: &'static str,
    /// Files and folders below `src`.
    files: &'static [&'static str],
    /// Arguments of `cargo test` that select the test programs.
    tests: &'static [&'static str],
}

#[cfg(feature = "mutants")]
const SUBJECTS: &[Subject] = &[
    Subject {
        package: "aqueduct-core",
        folder: "core",
        files: &["coalesce.rs", "principal.rs", "recent.rs", "stream", "stream/text", "stream/tools"],
        tests: &["--lib"],
    },
    Subject {
        package: "aqueduct-runlog",
        folder: "runlog",
        files: &[
            "claims.rs",
            "follow.rs",
            "ledger.rs",
            "limits.rs",
            "memory",
            "remains.rs",
            "signal.rs",
            "tail.rs",
        ],
        tests: &["--lib", "--test", "it"],
    },
    Subject {
        package: "aqueduct-runs",
        folder: "runs",
        files: &["access.rs", "replica.rs", "reply.rs", "sweeper.rs", "takeover.rs"],
        tests: &["--lib", "--test", "it"],
    },
    Subject { package: "aqueduct-gateway", folder: "gateway", files: &["identity"], tests: &["--lib"] },
];

/// The options of `mutants`.
#[derive(Debug, clap::Args)]
pub(crate) struct Mutations {
    /// One package of the list only [default: all]
    package: Option<String>,
    /// Mutants that are tested side by side
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Mutants only whose line of the list contains this text, such as `ledger.rs` or `append:`
    #[arg(long)]
    only: Option<String>,
    /// Lists the mutants, some of which may not compile, and runs nothing
    #[arg(long)]
    list: bool,
}

impl Mutations {
    /// Returns the options of the nightly run.
    pub(crate) fn of_the_night() -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { package: None, jobs, only: None, list: false }
    }
}

/// Mutates the chosen packages.
///
/// # Errors
///
/// Returns an error that names every package of which less than nine of ten mutants are detected.
#[cfg(feature = "mutants")]
pub(crate) fn run(project: &Project, mutations: &Mutations) -> Result<()> {
    use anyhow::ensure;

    let is_chosen =
        |subject: &&Subject| mutations.package.as_ref().is_none_or(|name| name == subject.package);
    let chosen: Vec<&Subject> = SUBJECTS.iter().filter(is_chosen).collect();
    let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.package).collect();
    ensure!(!chosen.is_empty(), "no such package in the list; there is: {}", names.join(", "));
    let mut failed = Vec::new();
    for subject in chosen {
        let mut trial = trial::Trial::new(project, subject)?;
        if mutations.list {
            for mutant in trial.weave()? {
                println!("{mutant}");
            }
            continue;
        }
        trial.build()?;
        let count = trial.select(mutations.only.as_deref());
        println!("    {}: {count} mutants", subject.package);
        let missed = trial.run(mutations.jobs)?.len();
        let caught = count - missed;
        println!("    {}: {caught} of {count} detected ({} %)", subject.package, caught * 100 / count.max(1));
        if caught * 10 < count * 9 {
            failed.push(format!("{missed} of {count} mutants of {} are not detected", subject.package));
        }
    }
    // All packages are mutated, although one fails.
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// Starts this tool again, built with the parser.
#[cfg(not(feature = "mutants"))]
pub(crate) fn run(project: &Project, mutations: &Mutations) -> Result<()> {
    let call =
        project.cargo(["run", "--quiet", "--package", "aqueduct-xtask", "--features", "mutants", "--"]);
    let call = call.args(["mutants", "--jobs", &mutations.jobs.to_string()]);
    let call = if mutations.list { call.args(["--list"]) } else { call };
    let call = mutations.only.iter().fold(call, |call, text| call.args(["--only", text]));
    call.args(mutations.package.clone()).run()
}
