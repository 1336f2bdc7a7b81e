//! Runs steps one after the other, and a second lane of them beside the first.
//!
//! A failure in one lane stops the other before its next step. What the steps beside print is kept in a file, which is shown if
//! one of them fails.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::steps::Step;
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
    run_until(project, steps, passed, &AtomicBool::new(false))
}

/// Runs steps in order, as long as no step of the other lane fails.
pub(crate) fn run_while(
    project: &Project,
    steps: &[Step],
    passed: &mut Passed,
    other: &Lane<'_>,
) -> Result<()> {
    run_until(project, steps, passed, &other.is_over)
}

fn run_until(project: &Project, steps: &[Step], passed: &mut Passed, over: &AtomicBool) -> Result<()> {
    for step in steps {
        if over.load(Ordering::Relaxed) {
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
    /// Set by either lane when it fails.
    is_over: Arc<AtomicBool>,
    log: PathBuf,
    running: ScopedJoinHandle<'scope, (Passed, Result<()>)>,
}

impl<'scope> Lane<'scope> {
    /// Starts the steps; cargo writes to the file `log`.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        project: &Project,
        steps: Vec<Step>,
        log: PathBuf,
    ) -> Result<Self> {
        std::fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, project) = (Arc::clone(&is_over), project.in_background(log.clone()));
        let running = scope.spawn(move || {
            let mut passed = Passed::default();
            let outcome = run_until(&project, &steps, &mut passed, &over);
            over.fetch_or(outcome.is_err(), Ordering::Relaxed);
            (passed, outcome)
        });
        Ok(Self { is_over, log, running })
    }

    /// Waits for the end of the steps; with `stop` only of the one that runs. Shows what they printed if one failed.
    pub(crate) fn join(self, passed: &mut Passed, stop: bool) -> Result<()> {
        self.is_over.fetch_or(stop, Ordering::Relaxed);
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

    fn log(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("aqueduct-lanes-{}-{test}", std::process::id()))
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
        let mut passed = Passed::default();
        let outcome = std::thread::scope(|scope| {
            let beside = Lane::start(scope, &project(), vec![BROKEN], log("broken")).unwrap();
            while !beside.is_over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            run_while(&project(), &[FINE], &mut passed, &beside).unwrap();
            beside.join(&mut passed, false)
        });
        std::fs::remove_file(log("broken")).unwrap();
        assert!(outcome.unwrap_err().to_string().contains("`broken`"));
        assert_eq!(names(&passed), Vec::<&str>::new());
    }

    #[test]
    fn both_lanes_count() {
        let mut passed = Passed::default();
        std::thread::scope(|scope| {
            let beside = Lane::start(scope, &project(), vec![FINE, FINE], log("fine")).unwrap();
            run_while(&project(), &[FINE], &mut passed, &beside).unwrap();
            beside.join(&mut passed, false).unwrap();
        });
        std::fs::remove_file(log("fine")).unwrap();
        assert_eq!(passed.len(), 3);
    }
}
