//! `cargo xtask interop`: runs the tests with real peers, at pinned versions.
//!
//! A suite installs its peers below the target folder, checks that its own harness can fail, then runs the tests of
//! `aqueduct-tests` that need those peers. Nothing is installed outside the target folder.

mod a2a;
mod agui;
pub(crate) mod ahead;
mod frameworks;
mod frontends;
mod gateway;
mod inspector;
mod magentic;
mod packages;
pub(crate) mod peers;
mod programs;
mod resume;
mod runlog;
mod snippets;
mod soak;
mod tee;
mod transports;

pub(crate) use programs::EVERYTHING;

use anyhow::{Context as _, Result};

use crate::interop::peers::{Peers, text};
use crate::project::Project;

/// The package and the feature with the tests of real peers.
const TESTS: (&str, &str) = ("aqueduct-tests", "interop");

/// The real peers of one protocol.
struct Suite {
    /// The name on the command line; the tests are in the module `interop::<name>`.
    name: &'static str,
    run: fn(&Project) -> Result<Env>,
    /// Set for suites that run only if named or with `--nightly`: their peers take gigabytes and minutes.
    nightly: bool,
}

impl Suite {
    const fn new(name: &'static str, run: fn(&Project) -> Result<Env>) -> Self {
        Self { name, run, nightly: false }
    }

    const fn nightly(name: &'static str, run: fn(&Project) -> Result<Env>) -> Self {
        Self { name, run, nightly: true }
    }

    /// Returns `true` if the command line selects this suite.
    fn is_chosen(&self, only: Option<&str>, nightly: bool) -> bool {
        only.map_or(nightly || !self.nightly, |name| name == self.name)
    }
}

/// Variables with the locations of the peers, for the tests.
type Env = Vec<(&'static str, String)>;

const SUITES: &[Suite] = &[
    Suite::new("a2a", a2a::prepare),
    Suite::new("agui", agui::prepare),
    Suite::nightly("frameworks", frameworks::prepare),
    Suite::nightly("frontends", frontends::prepare),
    Suite::new("gateway", gateway::prepare),
    Suite::new("inspector", inspector::prepare),
    Suite::new("magentic", magentic::prepare),
    Suite::nightly("packages", packages::prepare),
    Suite::new("resume", resume::prepare),
    Suite::new("runlog", runlog::prepare),
    Suite::new("scale", soak::prepare),
    Suite::new("snippets", snippets::prepare),
    Suite::nightly("soak", soak::prepare),
    Suite::new("tee", tee::prepare),
    Suite::new("transports", transports::prepare),
];

/// Runs the nightly suites, and the suite `scale` with as many runs and kills as the goals name.
pub(crate) fn run_nightly(project: &Project) -> Result<()> {
    for suite in SUITES.iter().filter(|suite| suite.nightly) {
        run(project, Some(suite.name), true)?;
    }
    let mut env = soak::prepare(project)?;
    env.extend(FULL_SCALE.map(|(name, value)| (name, value.to_owned())));
    run_tests(project, "scale", env)
}

/// The size of the suite `scale` in the nightly tier.
const FULL_SCALE: [(&str, &str); 2] = [("AQUEDUCT_SCALE_RUNS", "1000"), ("AQUEDUCT_SCALE_KILLS", "20")];

/// Runs one suite, or all; the nightly ones only if `nightly` is set or one is named.
pub(crate) fn run(project: &Project, only: Option<&str>, nightly: bool) -> Result<()> {
    let known = || SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
    let chosen: Vec<_> = SUITES.iter().filter(|suite| suite.is_chosen(only, nightly)).collect();
    chosen.first().with_context(|| format!("no suite of that name; there is: {}", known()))?;
    programs::build(project)?;
    for suite in chosen {
        let env = (suite.run)(project)?;
        run_tests(project, suite.name, env)?;
    }
    Ok(())
}

/// Runs the soak with that seed, for that many minutes, with so many clients.
pub(crate) fn soak(project: &Project, seed: u64, minutes: u64, clients: u32) -> Result<()> {
    programs::build(project)?;
    let mut env = soak::prepare(project)?;
    env.push(("AQUEDUCT_SOAK_SEED", seed.to_string()));
    env.push(("AQUEDUCT_SOAK_SECONDS", (minutes * 60).to_string()));
    env.push(("AQUEDUCT_SOAK_CLIENTS", clients.to_string()));
    run_tests(project, "soak", env)
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
    SUITES.iter().map(|suite| test_module(suite.name))
}

fn test_module(suite: &str) -> String {
    format!("{}::{suite}::", TESTS.1)
}

fn run_tests(project: &Project, suite: &str, env: Env) -> Result<()> {
    let (package, feature) = TESTS;
    if !project.metadata()?.package(package).is_some_and(|tests| tests.has_feature(feature)) {
        println!(
            "interop {suite}: the peers are ready, but there is no {package} with feature `{feature}` yet"
        );
        return Ok(());
    }
    let call = if crate::ci::has_nextest(project) {
        let filter = format!("package({package}) & test({})", test_module(suite));
        // A suite without tests has still checked its peers: nextest warns and continues.
        let call = project.cargo(["nextest", "run", "--profile", "ci", "--no-tests", "warn"]);
        call.args(EVERYTHING).args(["-E", &filter])
    } else {
        project.cargo(["test", "--package", package, "--features", feature]).args([test_module(suite)])
    };
    env.into_iter().fold(call, |call, (name, value)| call.env(name, value)).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(only: Option<&str>, nightly: bool) -> Vec<&'static str> {
        SUITES.iter().filter(|suite| suite.is_chosen(only, nightly)).map(|suite| suite.name).collect()
    }

    #[test]
    fn a_nightly_suite_runs_only_when_asked_for() {
        assert!(!chosen(None, false).contains(&"frameworks"));
        assert!(chosen(None, false).contains(&"gateway"));
        assert_eq!(chosen(None, true).len(), SUITES.len());
        assert_eq!(chosen(Some("frameworks"), false), ["frameworks"]);
        assert_eq!(chosen(Some("unknown"), true), Vec::<&str>::new());
    }
}
