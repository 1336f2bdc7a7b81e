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
use crate::invocation::Priority;
use crate::project::Project;

/// The steps that passed, and their durations.
#[derive(Debug, Default)]
pub(crate) struct Passed(Vec<(&'static str, Duration)>);

impl Passed {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Prints the steps in the order in which they ended.
    pub(crate) fn print(&self) {
        println!("\n==> summary");
        for (name, took) in &self.0 {
            println!("  ok      {:>7}  {name}", seconds(*took));
        }
    }
}

/// Runs steps in order.
pub(crate) fn run(project: &Project, steps: &[Step], passed: &mut Passed) -> Result<()> {
    run_until(project, steps, passed, &Over::default())
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
pub(crate) fn run_until(project: &Project, steps: &[Step], passed: &mut Passed, over: &Over) -> Result<()> {
    let outcome = run_steps(project, steps, passed, over);
    over.note(&outcome);
    outcome
}

fn run_steps(project: &Project, steps: &[Step], passed: &mut Passed, over: &Over) -> Result<()> {
    for step in steps {
        if over.is_set() {
            return Ok(());
        }
        println!("\n==> {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)(project);
        let took = started.elapsed();
        if let Err(error) = outcome {
            eprintln!("\nerror: {error:#}");
            bail!(
                "step `{}` failed after {}; repeat it with:\n\n    cargo xtask test {}\n",
                step.name,
                seconds(took),
                step.name
            );
        }
        println!("    {} took {}", step.name, seconds(took));
        passed.0.push((step.name, took));
    }
    Ok(())
}

/// Steps that run beside others.
pub(crate) struct Lane<'scope> {
    log: PathBuf,
    running: ScopedJoinHandle<'scope, (Passed, Result<()>)>,
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
            let mut passed = Passed::default();
            let outcome = run_until(&project, &steps, &mut passed, &over);
            (passed, outcome)
        });
        Ok(Self { log, running })
    }

    /// Waits for the end of the steps. Shows what they printed if one failed.
    pub(crate) fn join(self, passed: &mut Passed) -> Result<()> {
        let joined = self.running.join();
        let (ended, outcome) = joined.map_err(|_| anyhow::anyhow!("the steps beside the tests panicked"))?;
        passed.0.extend(ended.0);
        if outcome.is_err() {
            let printed = std::fs::read(&self.log).unwrap_or_default();
            eprintln!("\n==> {}\n{}", self.log.display(), String::from_utf8_lossy(&printed));
        }
        outcome
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
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
    const BROKEN: Step = Step { name: "broken", run: |_| bail!("no") };

    fn names(passed: &Passed) -> Vec<&str> {
        passed.0.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn the_first_failure_is_named_and_is_the_end() {
        let mut passed = Passed::default();
        let error = run(&project(), &[FINE, BROKEN, FINE], &mut passed).unwrap_err().to_string();
        assert!(error.contains("cargo xtask test broken"), "{error}");
        assert_eq!(names(&passed), ["fine"]);
    }

    #[test]
    fn a_failure_beside_stops_the_front_and_is_the_outcome() {
        let (mut passed, over) = (Passed::default(), Over::default());
        let outcome = std::thread::scope(|scope| {
            let beside = Lane::start(scope, &project(), vec![BROKEN], log("broken"), &over).unwrap();
            while !over.is_set() {
                std::thread::yield_now();
            }
            run_until(&project(), &[FINE], &mut passed, &over).unwrap();
            beside.join(&mut passed)
        });
        std::fs::remove_file(log("broken").0).unwrap();
        assert!(outcome.unwrap_err().to_string().contains("`broken`"));
        assert_eq!(names(&passed), Vec::<&str>::new());
    }

    #[test]
    fn a_failure_in_front_stops_the_lanes_beside() {
        let (mut passed, over) = (Passed::default(), Over::default());
        std::thread::scope(|scope| {
            run_until(&project(), &[BROKEN], &mut passed, &over).unwrap_err();
            let beside = Lane::start(scope, &project(), vec![FINE], log("stopped"), &over).unwrap();
            beside.join(&mut passed).unwrap();
        });
        std::fs::remove_file(log("stopped").0).unwrap();
        assert_eq!(names(&passed), Vec::<&str>::new());
    }

    #[test]
    fn all_lanes_count() {
        let (mut passed, over) = (Passed::default(), Over::default());
        std::thread::scope(|scope| {
            let beside = Lane::start(scope, &project(), vec![FINE, FINE], log("fine"), &over).unwrap();
            let idle = Lane::start(scope, &project(), vec![FINE], log("idle"), &over).unwrap();
            run_until(&project(), &[FINE], &mut passed, &over).unwrap();
            beside.join(&mut passed).unwrap();
            idle.join(&mut passed).unwrap();
        });
        for name in ["fine", "idle"] {
            std::fs::remove_file(log(name).0).unwrap();
        }
        assert_eq!(passed.len(), 4);
    }
}
