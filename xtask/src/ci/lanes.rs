//! Runs steps one after the other, and further lanes of them beside the first.
//!
//! A failure in one lane stops the others before their next step. What the steps of another lane than the first print is kept in
//! a file, which is shown if one of them fails.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::steps::Step;
use super::summary::{Skipped, Summary, seconds};
use crate::invocation::Priority;
use crate::project::Project;

/// Runs steps in order.
pub(crate) fn run(project: &Project, steps: &[Step], summary: &mut Summary) -> Result<()> {
    run_until(project, steps, summary, &Over::default())
}

/// Runs all steps in order, although some fail.
///
/// # Errors
///
/// Returns one error that names every step that failed.
pub(crate) fn run_each(project: &Project, steps: &[Step], summary: &mut Summary) -> Result<()> {
    let outcomes = steps.iter().map(|step| run(project, std::slice::from_ref(step), summary));
    let failed: Vec<String> = outcomes.filter_map(Result::err).map(|error| error.to_string()).collect();
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

/// Set when a step of any lane has failed: no lane begins another step then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Over(Arc<AtomicBool>);

impl Over {
    /// Sets it if the lane of that outcome has failed.
    fn note(&self, outcome: &Result<()>) {
        self.0.fetch_or(outcome.is_err(), Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs steps in order, as long as no step of another lane fails.
pub(crate) fn run_until(project: &Project, steps: &[Step], summary: &mut Summary, over: &Over) -> Result<()> {
    let outcome = run_steps(project, steps, summary, over);
    over.note(&outcome);
    outcome
}

fn run_steps(project: &Project, steps: &[Step], summary: &mut Summary, over: &Over) -> Result<()> {
    for step in steps {
        if over.is_set() {
            return Ok(());
        }
        println!("\n==> {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)(project);
        let took = started.elapsed();
        let skipped =
            outcome.map_or_else(|error| explain(step.name, took, error).map(Some), |()| Ok(None))?;
        if skipped.is_none() {
            println!("    {} took {}", step.name, seconds(took));
        }
        summary.add(step.name, took, skipped);
    }
    Ok(())
}

/// Prints why a step did not pass. Returns the reason if the step was skipped, and an error if it failed.
fn explain(name: &str, took: Duration, error: anyhow::Error) -> Result<Skipped> {
    match error.downcast::<Skipped>() {
        Ok(reason) => {
            println!("    {name} is skipped: {reason}");
            Ok(reason)
        }
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            let took = seconds(took);
            bail!("step `{name}` failed after {took}; repeat it with:\n\n    cargo xtask test {name}\n")
        }
    }
}

/// Steps that run beside others.
pub(crate) struct Lane<'scope> {
    log: PathBuf,
    running: ScopedJoinHandle<'scope, (Summary, Result<()>)>,
}

impl<'scope> Lane<'scope> {
    /// Starts the steps; their programs have that priority and write to the file `log`.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        project: &Project,
        steps: Vec<Step>,
        (log, priority): (PathBuf, Priority),
        over: &Over,
    ) -> Result<Self> {
        std::fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
        let (over, project) = (over.clone(), project.in_background(log.clone(), priority));
        let running = scope.spawn(move || {
            let mut summary = Summary::default();
            let outcome = run_until(&project, &steps, &mut summary, &over);
            (summary, outcome)
        });
        Ok(Self { log, running })
    }

    /// Waits for the end of the steps. Shows what they printed if one failed.
    pub(crate) fn join(self, summary: &mut Summary) -> Result<()> {
        let joined = self.running.join();
        let (ended, outcome) = joined.map_err(|_| anyhow::anyhow!("the steps beside the tests panicked"))?;
        summary.extend(ended);
        if outcome.is_err() {
            let printed = std::fs::read(&self.log).unwrap_or_default();
            eprintln!("\n==> {}\n{}", self.log.display(), String::from_utf8_lossy(&printed));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> Project {
        Project::locate(None).unwrap()
    }

    fn log(test: &str) -> (PathBuf, Priority) {
        let path = std::env::temp_dir().join(format!("aqueduct-lanes-{}-{test}", std::process::id()));
        (path, Priority::Low)
    }

    const FINE: Step = Step { name: "fine", run: |_| Ok(()) };
    const LACKING: Step =
        Step { name: "lacking", run: |_| Err(Skipped("no tool: `install it`".to_owned()).into()) };
    const BROKEN: Step = Step { name: "broken", run: |_| bail!("no") };

    fn names(summary: &Summary) -> Vec<&str> {
        summary.passed().collect()
    }

    #[test]
    fn the_first_failure_is_named_and_is_the_end() {
        let mut summary = Summary::default();
        let error = run(&project(), &[FINE, BROKEN, FINE], &mut summary).unwrap_err().to_string();
        assert!(error.contains("cargo xtask test broken"), "{error}");
        assert_eq!(names(&summary), ["fine"]);
    }

    #[test]
    fn every_step_of_the_night_runs_and_every_failure_is_named() {
        const WRONG: Step = Step { name: "wrong", run: |_| bail!("no") };
        let mut summary = Summary::default();
        let error = run_each(&project(), &[BROKEN, FINE, WRONG, LACKING, FINE], &mut summary).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("test broken") && error.contains("test wrong"), "{error}");
        assert_eq!(names(&summary), ["fine", "fine"]);
        assert_eq!(summary.verdict(), "2 steps passed, 1 skipped: lacking");
        run_each(&project(), &[FINE, LACKING], &mut summary).unwrap();
    }

    #[test]
    fn a_step_without_its_tool_is_skipped_and_the_next_one_runs() {
        let mut summary = Summary::default();
        run(&project(), &[LACKING, FINE], &mut summary).unwrap();
        assert_eq!(names(&summary), ["fine"]);
        assert_eq!(summary.verdict(), "1 steps passed, 1 skipped: lacking");
        assert!(summary.to_string().contains("lacking: no tool: `install it`"), "{summary}");
    }

    #[test]
    fn a_failure_beside_stops_the_front_and_is_the_outcome() {
        let (mut summary, over) = (Summary::default(), Over::default());
        let outcome = std::thread::scope(|scope| {
            let beside = Lane::start(scope, &project(), vec![BROKEN], log("broken"), &over).unwrap();
            while !over.is_set() {
                std::thread::yield_now();
            }
            run_until(&project(), &[FINE], &mut summary, &over).unwrap();
            beside.join(&mut summary)
        });
        std::fs::remove_file(log("broken").0).unwrap();
        assert!(outcome.unwrap_err().to_string().contains("`broken`"));
        assert_eq!(names(&summary), Vec::<&str>::new());
    }

    #[test]
    fn a_failure_in_front_stops_the_lanes_beside() {
        let (mut summary, over) = (Summary::default(), Over::default());
        std::thread::scope(|scope| {
            run_until(&project(), &[BROKEN], &mut summary, &over).unwrap_err();
            let beside = Lane::start(scope, &project(), vec![FINE], log("stopped"), &over).unwrap();
            beside.join(&mut summary).unwrap();
        });
        std::fs::remove_file(log("stopped").0).unwrap();
        assert_eq!(names(&summary), Vec::<&str>::new());
    }

    #[test]
    fn all_lanes_count() {
        let (mut summary, over) = (Summary::default(), Over::default());
        std::thread::scope(|scope| {
            let beside = Lane::start(scope, &project(), vec![FINE, FINE], log("fine"), &over).unwrap();
            let idle = Lane::start(scope, &project(), vec![FINE], log("idle"), &over).unwrap();
            run_until(&project(), &[FINE], &mut summary, &over).unwrap();
            beside.join(&mut summary).unwrap();
            idle.join(&mut summary).unwrap();
        });
        for name in ["fine", "idle"] {
            std::fs::remove_file(log(name).0).unwrap();
        }
        assert_eq!(names(&summary).len(), 4);
    }
}
