//! `cargo xtask interop`: runs the tests with real peers, at pinned versions.
//!
//! A suite installs its peers below the target folder, checks that its own harness can fail, then runs the tests of
//! `aqueduct-tests` that need those peers, if it has any. Nothing is installed outside the target folder.

mod a2a;
mod agui;
pub(crate) mod ahead;
mod conformance;
mod frameworks;
mod frontends;
mod gateway;
mod inspector;
mod magentic;
mod packages;
pub(crate) mod peers;
pub(crate) mod programs;
mod resume;
mod runlog;
mod snippets;
mod soak;
mod tee;
mod transports;

pub(crate) use programs::EVERYTHING;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};

use crate::interop::peers::{Peers, python_variables, text};
use crate::invocation::Invocation;
use crate::project::{Project, Variables as Env};

/// The package and the feature with the tests of real peers.
const TESTS: (&str, &str) = ("aqueduct-tests", "interop");

/// The real peers of one protocol.
struct Suite {
    /// The name on the command line; the tests, if there are any, are in the module `interop::<name>`.
    name: &'static str,
    run: fn(&Project) -> Result<Env>,
    /// Set for suites that run only if named or with `--nightly`: their peers take gigabytes and minutes.
    nightly: bool,
    /// Not set for suites whose preparation is the whole check.
    has_tests: bool,
}

impl Suite {
    const fn new(name: &'static str, run: fn(&Project) -> Result<Env>) -> Self {
        Self { name, run, nightly: false, has_tests: true }
    }

    const fn nightly(name: &'static str, run: fn(&Project) -> Result<Env>) -> Self {
        Self { nightly: true, ..Self::new(name, run) }
    }

    const fn without_tests(self) -> Self {
        Self { has_tests: false, ..self }
    }

    /// Returns `true` if the command line selects this suite.
    fn is_chosen(&self, only: &[String], nightly: bool) -> bool {
        if only.is_empty() { nightly || !self.nightly } else { only.iter().any(|name| name == self.name) }
    }
}

const SUITES: &[Suite] = &[
    Suite::new("a2a", a2a::prepare),
    Suite::new("agui", agui::prepare),
    Suite::nightly("autobahn", conformance::prepare_autobahn),
    Suite::nightly("frameworks", frameworks::prepare),
    Suite::nightly("frontends", frontends::prepare),
    Suite::new("gateway", gateway::prepare),
    Suite::new("inspector", inspector::prepare),
    Suite::new("magentic", magentic::prepare),
    Suite::nightly("packages", packages::prepare).without_tests(),
    Suite::new("resume", resume::prepare),
    Suite::new("runlog", runlog::prepare),
    Suite::new("scale", soak::prepare),
    Suite::nightly("schemathesis", conformance::prepare_schemathesis),
    Suite::new("snippets", snippets::prepare).without_tests(),
    Suite::new("soak", soak::prepare_ci),
    Suite::new("tee", tee::prepare),
    Suite::new("transports", transports::prepare),
];

/// Runs one suite.
pub(crate) fn run_one(project: &Project, name: &str) -> Result<()> {
    run(project, &[name.to_owned()], true)
}

/// Runs the suite `scale`, optimised, with as many runs and kills as the goals name.
pub(crate) fn run_full_scale(project: &Project) -> Result<()> {
    let project = project.clone().optimised(true);
    programs::build(&project)?;
    let mut env = soak::prepare(&project)?;
    env.extend(FULL_SCALE.map(|(name, value)| (name, value.to_owned())));
    run_tests(&project, &["scale"], env, ALONE)
}

/// The size of the suite `scale` in the nightly tier.
const FULL_SCALE: [(&str, &str); 2] = [("AQUEDUCT_SCALE_RUNS", "1000"), ("AQUEDUCT_SCALE_KILLS", "20")];

/// Runs the suites of those names, or all; the nightly ones only if `nightly` is set or they are named.
pub(crate) fn run(project: &Project, only: &[String], nightly: bool) -> Result<()> {
    if let Some(unknown) = only.iter().find(|name| SUITES.iter().all(|suite| suite.name != **name)) {
        let known: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        bail!("there is no suite `{unknown}`; there is: {}", known.join(", "));
    }
    let chosen: Vec<_> = SUITES.iter().filter(|suite| suite.is_chosen(only, nightly)).collect();
    ensure!(
        !project.is_optimised() || chosen.iter().all(|suite| programs::TRIALS.contains(&suite.name)),
        "`--optimised` builds the gateway alone, which is enough for these suites: {}",
        programs::TRIALS.join(", ")
    );
    programs::build(project)?;
    let env =
        if let [suite] = chosen.as_slice() { (suite.run)(project)? } else { prepare(project, &chosen)? };
    let names: Vec<_> = chosen.iter().filter(|suite| suite.has_tests).map(|suite| suite.name).collect();
    // The runner of tests fails if it has none to run.
    if names.is_empty() { Ok(()) } else { run_tests(project, &names, env, &crate::ci::waiting_threads()) }
}

/// Prepares suites to run side by side.
fn prepare(project: &Project, suites: &[&Suite]) -> Result<Env> {
    let mut env = Env::new();
    for suite in suites {
        env.extend((suite.run)(project)?);
    }
    merged(env, &Peers::of(project, SHARED)?)
}

/// Prepares the suites of CI.
fn prepare_ci(project: &Project) -> Result<Env> {
    prepare(project, &SUITES.iter().filter(|suite| !suite.nightly).collect::<Vec<_>>())
}

/// Runs the tests of CI's suites and all tests without peers at once, by nextest.
pub(crate) fn run_beside_tests(project: &Project) -> Result<()> {
    programs::build(project)?;
    let env = project.peers().cloned().map_or_else(|| prepare_ci(project), Ok)?;
    let nightly = SUITES.iter().filter(|suite| suite.nightly && suite.has_tests);
    let nightly: Vec<String> = nightly.map(|suite| format!("test({})", test_module(suite.name))).collect();
    run_filtered(project, &format!("not ({})", nightly.join(" | ")), env, &crate::ci::waiting_threads())
}

/// The folder below `target/interop` of suites that run side by side.
const SHARED: &str = "all";

/// The variable with the folder of the files that tests write. Their names differ between suites, so that all can share one.
const CASES: &str = "AQUEDUCT_INTEROP_CASES";

/// Returns the variables of several suites as those of one. A variable means the same to all of them.
fn merged(env: Env, peers: &Peers) -> Result<Env> {
    let mut all = BTreeMap::from([(CASES, text(&peers.cases()?)?)]);
    for (name, value) in env {
        let known = all.entry(name).or_insert_with(|| value.clone());
        ensure!(
            name == CASES || *known == value,
            "two suites differ about {name}, so they cannot run side by side: {known}, {value}"
        );
    }
    Ok(all.into_iter().collect())
}

/// Runs the soak with that seed, for that many minutes, with so many clients.
pub(crate) fn soak(project: &Project, seed: u64, minutes: u64, clients: u32) -> Result<()> {
    programs::build(project)?;
    let mut env = soak::prepare(project)?;
    env.push(("AQUEDUCT_SOAK_SEED", seed.to_string()));
    env.push(("AQUEDUCT_SOAK_SECONDS", (minutes * 60).to_string()));
    env.push(("AQUEDUCT_SOAK_CLIENTS", clients.to_string()));
    run_tests(project, &["soak"], env, ALONE)
}

/// Suites whose bench compares with packages pinned in the folder `bench`, and the variable with their location.
const BENCH_PEERS: &[(&str, &str)] =
    &[("a2a", "AQUEDUCT_BENCH_A2A"), ("transports", "AQUEDUCT_BENCH_TRANSPORTS")];

/// Installs the peers of one suite's bench, and returns their locations.
pub(crate) fn bench_peers_of(project: &Project, name: &str) -> Result<Env> {
    if let Some((_, variable)) = BENCH_PEERS.iter().find(|(suite, _)| *suite == name) {
        let peers = Peers::of(project, name)?;
        let scripts = peers.scripts().parent().context("the scripts have no folder")?;
        return Ok(vec![
            ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
            (variable, text(&peers.npm_project("bench")?)?),
        ]);
    }
    let suite = SUITES.iter().find(|suite| suite.name == name).context("no suite of that name")?;
    (suite.run)(project)
}

/// Returns the modules of tests that need peers, which other steps exclude.
pub(crate) fn test_modules() -> impl Iterator<Item = String> {
    SUITES.iter().filter(|suite| suite.has_tests).map(|suite| test_module(suite.name))
}

/// Returns the suites that run only if named or with `--nightly`.
#[cfg(test)]
pub(crate) fn nightly_suites() -> impl Iterator<Item = &'static str> {
    SUITES.iter().filter(|suite| suite.nightly).map(|suite| suite.name)
}

fn test_module(suite: &str) -> String {
    format!("{}::{suite}::", TESTS.1)
}

/// The number of threads of trials that need the machine for themselves, whatever `.config/nextest.toml` lets run beside them.
const ALONE: &str = "1";

/// Runs the tests of the suites, as many side by side as `.config/nextest.toml` and `threads` allow.
fn run_tests(project: &Project, suites: &[&str], env: Env, threads: &str) -> Result<()> {
    let (package, feature) = TESTS;
    let modules = || suites.iter().map(|suite| test_module(suite));
    if crate::ci::has_nextest(project) {
        let tests: Vec<String> = modules().map(|module| format!("test({module})")).collect();
        return run_filtered(project, &format!("package({package}) & ({})", tests.join(" | ")), env, threads);
    }
    let call = project.cargo(["test", "--package", package, "--features", feature, "--"]).args(modules());
    with_variables(call, python_variables(project)?.into_iter().chain(env)).run()
}

/// Runs the tests that match a filter of nextest.
fn run_filtered(project: &Project, filter: &str, env: Env, threads: &str) -> Result<()> {
    let call = crate::ci::test_runner(project)?.args(["--test-threads", threads, "-E", filter]);
    with_variables(call, python_variables(project)?.into_iter().chain(env)).run()
}

fn with_variables(call: Invocation, env: impl IntoIterator<Item = (&'static str, String)>) -> Invocation {
    env.into_iter().fold(call, |call, (name, value)| call.env(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(only: &[&str], nightly: bool) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        SUITES.iter().filter(|suite| suite.is_chosen(&only, nightly)).map(|suite| suite.name).collect()
    }

    #[test]
    fn suites_that_run_side_by_side_share_their_variables_and_one_folder_of_cases() {
        let project = Project::locate(None).unwrap();
        let peers = Peers::of(&project, SHARED).unwrap();
        let env = |dir: &str, cases: &str| vec![("DIR", dir.to_owned()), (CASES, cases.to_owned())];
        let both = [env("a", "one"), env("a", "two")].concat();
        let shared = text(&peers.cases().unwrap()).unwrap();
        assert_eq!(merged(both, &peers).unwrap(), [(CASES, shared), ("DIR", "a".to_owned())]);
        let apart = [env("a", "one"), env("b", "two")].concat();
        assert!(merged(apart, &peers).unwrap_err().to_string().contains("DIR"));
    }

    #[test]
    fn a_nightly_suite_runs_only_when_asked_for() {
        assert!(!chosen(&[], false).contains(&"frameworks"));
        assert!(chosen(&[], false).contains(&"gateway"));
        assert_eq!(chosen(&[], true).len(), SUITES.len());
        assert_eq!(chosen(&["frameworks", "agui"], false), ["agui", "frameworks"]);
        assert_eq!(chosen(&["unknown"], true), Vec::<&str>::new());
    }

    #[test]
    fn a_suite_has_tests_if_there_is_a_module_of_its_name() {
        let folder = Project::locate(None).unwrap().root().join("tests/it/interop");
        for suite in SUITES {
            let module = folder.join(suite.name);
            let exists = module.is_dir() || module.with_extension("rs").is_file();
            assert_eq!(exists, suite.has_tests, "{}", suite.name);
        }
    }
}
