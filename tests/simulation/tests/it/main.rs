//! The simulation itself: it is a log, it replays, and it finds what is planted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test says no")]

mod redis;

use std::sync::Arc;

use aqueduct_runlog::testing::{conform, conform_shared};
use aqueduct_runlog::{LogLimits, RunLog};

use aqueduct_tests_simulation::memory::server::Server;
use aqueduct_tests_simulation::memory::{Shared, SimulatedLog};
use aqueduct_tests_simulation::node::{Node, Weather};
use aqueduct_tests_simulation::panics;
use aqueduct_tests_simulation::planted::Planted;
use aqueduct_tests_simulation::random::Random;
use aqueduct_tests_simulation::trace::Trace;
use aqueduct_tests_simulation::{simulate, simulate_twice};

/// Worlds that CI lives.
const SEEDS: u64 = 2_000;

async fn log(limits: LogLimits) -> Arc<dyn RunLog> {
    let shared = Shared::new(Server::new(limits, None));
    let weather = Weather { delay: 3, slow: 5, lost: 0 };
    let node = Node::new("a".to_owned(), Trace::new(false), weather, Random::new(7, "conform"));
    std::future::ready(Arc::new(SimulatedLog::new(Arc::new(node), shared)) as Arc<dyn RunLog>).await
}

#[tokio::test(start_paused = true)]
async fn the_simulated_log_is_a_log() {
    conform(log).await;
    conform_shared(log).await;
}

#[test]
fn a_seed_is_a_world_line_by_line() {
    // Every sixteenth world has gateways.
    for seed in (0..20).chain((23..330).step_by(16)) {
        assert_eq!(simulate_twice(seed, None).unwrap().violations, [], "seed {seed}");
    }
}

/// Returns the first world of CI that breaks a rule because of a planted fault, and the rule.
fn found(planted: Planted) -> Option<(u64, &'static str)> {
    (0..SEEDS).find_map(|seed| {
        let outcome = simulate(seed, Some(planted), false).unwrap();
        outcome.violations.first().map(|violation| (seed, violation.rule))
    })
}

#[test]
fn planted_faults_are_found() {
    for (planted, rules) in [
        (Planted::SkipFence, &["fence", "balanced", "content", "agui", "views"][..]),
        (Planted::DropGoodbye, &["goodbye"][..]),
        (Planted::ReuseNumber, &["numbers", "views", "seen"][..]),
        (Planted::LoseReply, &["replies"][..]),
        (Planted::AppendTwice, &["balanced", "content", "agui"][..]),
        (Planted::ShareRuns, &["principals"][..]),
        (Planted::ResumeLate, &["views", "numbers"][..]),
        (Planted::PanicOnce, &["panics"][..]),
        (Planted::AcceptGap, &["views", "numbers", "seen", "balanced", "content"][..]),
    ] {
        let (seed, rule) = found(planted).unwrap_or_else(|| panic!("{planted:?} was not found"));
        assert!(rules.contains(&rule), "{planted:?} broke `{rule}` in seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_task_or_of_the_world_is_reported_and_is_a_line_of_the_trace() {
    let trace = Trace::new(true);
    let (lived, found) = panics::watch(&trace, || std::panic::catch_unwind(|| panic!("caught")).is_err());
    assert_eq!(lived, Some(true));
    assert!(
        matches!(&found[..], [what] if what.contains("it/main.rs") && what.contains("caught")),
        "{found:?}"
    );
    let (lived, found) = panics::watch(&trace, || -> u8 { panic!("the world") });
    assert_eq!(lived, None);
    assert_eq!(found.len(), 1);
    let lines = trace.lines();
    assert!(
        matches!(&lines[..], [one, two] if one.contains("caught") && two.contains("the world")),
        "{lines:?}"
    );
    assert_eq!(panics::watch(&trace, || 7), (Some(7), Vec::new()));
}
