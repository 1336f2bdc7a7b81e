//! `cargo xtask bench counts`: instructions per event of the hot paths, compared with the baseline in the tree.
//!
//! ```text
//! benches/counts ──► valgrind --tool=callgrind, case by case ──► instructions per event
//!                       benches/counts/baseline.toml ──┴──► what rose by more than the bound
//! ```
//!
//! Instructions do not depend on the load of the machine, so this bench can fail a build. They do depend on the compiler, on
//! valgrind and on the kind of processor: with others than the baseline's the table is printed with a notice, and nothing fails.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use toml::Table;

use crate::files;
use crate::interop::peers::{debian_package, text};
use crate::invocation::Invocation;
use crate::project::Project;

/// The package of the measured program.
const PACKAGE: &str = "aqueduct-benches-counts";
/// The measured function of that program.
const COUNTED: &str = "counts::counted";
/// The baseline, from the root of the workspace.
const BASELINE: &str = "benches/counts/baseline.toml";
/// The allowed rise, in percent. Counts of one build differ by less than one percent between two runs.
const BOUND: u64 = 5;
const HINT: &str = "install valgrind (on Debian: the package `valgrind`); it counts the instructions";

/// Fails if a hot path needs more instructions per event than the baseline allows.
pub(crate) fn check(project: &Project) -> Result<()> {
    run(project, false)
}

/// Counts, and compares with the baseline, or replaces the baseline if `write` is set.
pub(crate) fn run(project: &Project, write: bool) -> Result<()> {
    let tools = Tools::of(project)?;
    let counts = count(project)?;
    let path = project.root().join(BASELINE);
    if write {
        files::write(&path, render(&tools, &counts))?;
        println!("wrote {} cases to {BASELINE}", counts.len());
        return Ok(());
    }
    let baseline = files::read(&path).context(WRITE_HINT)?;
    let baseline = Baseline::parse(&baseline).with_context(|| format!("cannot read {BASELINE}"))?;
    print!("{}", table(&baseline, &counts));
    let findings = findings(&baseline, &counts);
    if baseline.tools != tools {
        let (found, known) = (&tools, &baseline.tools);
        println!("the baseline was counted with {known}, these counts with {found}: nothing is compared");
        return Ok(());
    }
    if findings.is_empty() {
        return Ok(());
    }
    bail!("{}\nIf that is intended: {WRITE_HINT}", findings.join("\n"))
}

const WRITE_HINT: &str = "store new counts with `cargo xtask bench counts -- --write`";

/// Instructions per event, by case, in the order of the program.
type Counts = Vec<(String, u64)>;

/// The programs that the counts depend on.
#[derive(Debug, PartialEq, Eq)]
struct Tools {
    rustc: String,
    valgrind: String,
}

impl std::fmt::Display for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} and {}", self.rustc, self.valgrind)
    }
}

impl Tools {
    /// Returns the versions of this machine, with valgrind installed where that needs no confirmation.
    fn of(project: &Project) -> Result<Self> {
        let root = project.root();
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
        let rustc = Invocation::new(rustc, root).args(["--version"]).output()?;
        // "rustc 1.95.0 (59807616e 2026-04-14)": the number and the processor determine the code that runs.
        let number = rustc.split_whitespace().nth(1).unwrap_or_default();
        let rustc = format!("rustc {number} for {}", processor());
        Ok(Self { rustc, valgrind: valgrind(root)? })
    }
}

/// Returns the version of valgrind, installed where that needs no confirmation.
pub(super) fn valgrind(folder: &Path) -> Result<String> {
    let version = Invocation::new("valgrind", folder).args(["--version"]).hint(HINT);
    if version.output().is_err() {
        debian_package(folder, "valgrind", HINT)?;
    }
    Ok(version.output()?.trim().to_owned())
}

/// Returns the architecture, with the instructions that the search for bytes uses where the processor has them.
fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    let vectors = if std::arch::is_x86_feature_detected!("avx2") { " with AVX2" } else { "" };
    #[cfg(not(target_arch = "x86_64"))]
    let vectors = "";
    format!("{}{vectors}", std::env::consts::ARCH)
}

/// Builds the program, runs it under callgrind, and returns its counts.
fn count(project: &Project) -> Result<Counts> {
    project.cargo(["build", "--quiet", "--profile", "counts", "--package", PACKAGE]).run()?;
    let target = project.metadata()?.target_directory()?;
    let folder = target.join("counts").join("callgrind");
    files::recreate(&folder)?;
    let program = text(&target.join("counts").join("counts"))?;
    let cases = project.program(Path::new(&program)).output()?;
    let count = |(at, name): (usize, &str)| -> Result<(String, u64)> {
        let out = folder.join(at.to_string());
        let events = project
            .program(Path::new("valgrind"))
            .args(["--tool=callgrind", "--collect-atstart=no"])
            .args([format!("--toggle-collect={COUNTED}"), format!("--callgrind-out-file={}", text(&out)?)])
            .args([program.as_str(), name])
            .hint(HINT)
            .output()?;
        let events = events.trim().parse::<u64>().with_context(|| format!("`{name}` printed no number"))?;
        Ok((name.to_owned(), total(&out)? / events.max(1)))
    };
    cases.lines().enumerate().map(count).collect()
}

/// Reads the instructions of a case.
fn total(path: &Path) -> Result<u64> {
    let dump = files::read(path)?;
    let total = dump.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.with_context(|| format!("{} has no totals", path.display()))?;
    total.trim().parse().with_context(|| format!("{} has no number of instructions", path.display()))
}

/// The stored counts.
#[derive(Debug)]
struct Baseline {
    tools: Tools,
    counts: Counts,
}

impl Baseline {
    fn parse(text: &str) -> Result<Self> {
        let table: Table = text.parse()?;
        let tool = |name: &str| {
            let version = table.get(name).and_then(toml::Value::as_str);
            version.map(str::to_owned).with_context(|| format!("`{name}` is missing"))
        };
        let counts = table.get("instructions_per_event").and_then(toml::Value::as_table);
        let counts = counts.context("`instructions_per_event` is missing")?.iter();
        let count = |(name, count): (&String, &toml::Value)| {
            let count = count.as_integer().and_then(|count| u64::try_from(count).ok());
            Ok((name.clone(), count.with_context(|| format!("the count of `{name}` is no number"))?))
        };
        Ok(Self {
            tools: Tools { rustc: tool("rustc")?, valgrind: tool("valgrind")? },
            counts: counts.map(count).collect::<Result<_>>()?,
        })
    }

    fn get(&self, name: &str) -> Option<u64> {
        find(&self.counts, name)
    }
}

fn find(counts: &Counts, name: &str) -> Option<u64> {
    counts.iter().find(|(known, _)| known == name).map(|(_, count)| *count)
}

fn render(tools: &Tools, counts: &Counts) -> String {
    let Tools { rustc, valgrind } = tools;
    let mut toml = format!(
        "# Written by `cargo xtask bench counts -- --write`.\nrustc = \"{rustc}\"\nvalgrind = \"{valgrind}\"\n\n[instructions_per_event]\n"
    );
    for (name, count) in counts {
        writeln!(toml, "\"{name}\" = {count}").unwrap_or_default();
    }
    toml
}

fn table(baseline: &Baseline, counts: &Counts) -> String {
    let mut table = format!("{:<56} {:>10} {:>10} {:>8}\n", "instructions per event", "baseline", "now", "");
    for (name, now) in counts {
        let line = match baseline.get(name) {
            Some(before) => format!("{name:<56} {before:>10} {now:>10} {:>8}", change(before, *now)),
            None => format!("{name:<56} {:>10} {now:>10}", "-"),
        };
        writeln!(table, "{}", line.trim_end()).unwrap_or_default();
    }
    table
}

/// Returns the change in tenths of a percent, with its sign.
fn change(before: u64, now: u64) -> String {
    let tenths = now.abs_diff(before).saturating_mul(1000) / before.max(1);
    let sign = if now < before { '-' } else { '+' };
    format!("{sign}{}.{}%", tenths / 10, tenths % 10)
}

/// Returns one line per case that rose by more than the bound, is new, or is gone.
fn findings(baseline: &Baseline, counts: &Counts) -> Vec<String> {
    let judged = counts.iter().filter_map(|(name, now)| match baseline.get(name) {
        None => Some(format!("`{name}` has no baseline")),
        Some(before) if now.saturating_mul(100) > before.saturating_mul(100 + BOUND) => Some(format!(
            "`{name}` rose from {before} to {now} instructions per event ({}; the bound is {BOUND} %)",
            change(before, *now)
        )),
        Some(_) => None,
    });
    let gone = baseline.counts.iter().filter(|(name, _)| find(counts, name).is_none());
    judged.chain(gone.map(|(name, _)| format!("`{name}` has a baseline and was not counted"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> Counts {
        all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn baseline(all: &[(&str, u64)]) -> Baseline {
        let tools = Tools { rustc: "rustc 1.95.0".to_owned(), valgrind: "valgrind-3.19.0".to_owned() };
        let text = render(&tools, &counts(all));
        Baseline::parse(&text).unwrap()
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let read = baseline(&[("decode, 1.0", 2611), ("encode", 846)]);
        assert_eq!(read.tools.valgrind, "valgrind-3.19.0");
        assert_eq!((read.get("decode, 1.0"), read.get("encode")), (Some(2611), Some(846)));
    }

    #[test]
    fn a_rise_above_the_bound_is_named() {
        let baseline = baseline(&[("decode", 1000), ("encode", 1000)]);
        assert!(findings(&baseline, &counts(&[("decode", 1050), ("encode", 500)])).is_empty());
        let found = findings(&baseline, &counts(&[("decode", 1051), ("encode", 1000)]));
        assert_eq!(
            found,
            ["`decode` rose from 1000 to 1051 instructions per event (+5.1%; the bound is 5 %)"]
        );
    }

    #[test]
    fn cases_that_came_and_went_are_named() {
        let found = findings(&baseline(&[("decode", 1000)]), &counts(&[("encode", 1000)]));
        assert_eq!(found, ["`encode` has no baseline", "`decode` has a baseline and was not counted"]);
    }

    #[test]
    fn a_baseline_without_counts_is_refused() {
        let error = Baseline::parse("rustc = \"1\"\nvalgrind = \"2\"\n").unwrap_err();
        assert!(error.to_string().contains("instructions_per_event"), "{error}");
    }
}
