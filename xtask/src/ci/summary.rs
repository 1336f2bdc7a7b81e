//! [`Summary`]: the steps that passed or were skipped. A skipped step is never counted as passed.

use std::fmt;
use std::time::Duration;

/// The error of a step that cannot run on this machine: it names what is missing and the command that installs it. It fails no
/// other step.
#[derive(Debug)]
pub(crate) struct Skipped(pub(crate) String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// A step that did not fail.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    took: Duration,
    skipped: Option<Skipped>,
}

/// The steps that did not fail, in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct Summary(Vec<Entry>);

impl Summary {
    /// Adds a step, with the reason if it was skipped.
    pub(crate) fn add(&mut self, name: &'static str, took: Duration, skipped: Option<Skipped>) {
        self.0.push(Entry { name, took, skipped });
    }

    /// Adds the steps of another lane.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the names of the steps that passed.
    pub(crate) fn passed(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter(|entry| entry.skipped.is_none()).map(|entry| entry.name)
    }

    /// Returns one line that counts the steps that passed, and names the others.
    pub(crate) fn verdict(&self) -> String {
        let passed = self.passed().count();
        let skipped: Vec<_> =
            self.0.iter().filter(|entry| entry.skipped.is_some()).map(|entry| entry.name).collect();
        if skipped.is_empty() {
            return format!("all {passed} steps passed");
        }
        format!("{passed} steps passed, {} skipped: {}", skipped.len(), skipped.join(", "))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { name, took, skipped } in &self.0 {
            let took = seconds(*took);
            match skipped {
                None => writeln!(f, "  ok      {took:>7}  {name}")?,
                Some(reason) => writeln!(f, "  skipped {took:>7}  {name}: {reason}")?,
            }
        }
        Ok(())
    }
}

/// Returns a duration as the summary shows it.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_step_is_listed_with_its_reason_and_not_counted_as_passed() {
        let mut summary = Summary::default();
        summary.add("fmt", Duration::from_millis(1500), None);
        assert_eq!(summary.verdict(), "all 1 steps passed");
        let reason = "cargo-deny is not installed: `cargo install --locked cargo-deny`";
        summary.add("dependencies", Duration::ZERO, Some(Skipped(reason.to_owned())));
        assert_eq!(summary.verdict(), "1 steps passed, 1 skipped: dependencies");
        assert_eq!(summary.passed().collect::<Vec<_>>(), ["fmt"]);
        let listed = format!("  ok         1.5s  fmt\n  skipped    0.0s  dependencies: {reason}\n");
        assert_eq!(summary.to_string(), listed);
    }
}
