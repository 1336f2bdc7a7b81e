//! Builds a package with all its mutants, and runs its tests once for each mutant.
//!
//! One build contains all mutants; an environment variable selects the one that is active (see `weave`). The package is built in a
//! copy of the tree, into a target folder of its own: cargo identifies a crate by its path in the workspace, so in a shared folder
//! the mutated crate would replace the real one. Mutants that do not compile are excluded, and the build is repeated.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::Subject;
use super::find;
use super::weave::{Mutant, SWITCH, Weaver};
use crate::files;
use crate::invocation::Invocation;
use crate::project::Project;

/// The most builds of one package: each excludes the mutants that did not compile in the build before.
const ROUNDS: usize = 12;

/// A test that hangs has detected its mutant. The tests of a mutant count as hanging after this many times the duration of the tests
/// without a mutant, and not before [`MIN_TIMEOUT`].
const SLOWDOWN: u32 = 5;
const MIN_TIMEOUT: Duration = Duration::from_secs(20);

/// The mutants of one package, in a copy of the tree.
pub(super) struct Trial<'p> {
    project: &'p Project,
    subject: &'p Subject,
    /// The folder of the copy.
    tree: PathBuf,
    /// The numbers of mutants that do not compile.
    excluded: BTreeSet<usize>,
    mutants: Vec<Mutant>,
    /// The built test programs.
    programs: Vec<PathBuf>,
}

impl<'p> Trial<'p> {
    /// Copies the tree. [`weave`](Self::weave) adds the mutants.
    pub(super) fn new(project: &'p Project, subject: &'p Subject) -> Result<Self> {
        let tree = project.metadata()?.target_directory()?.join("mutants/tree");
        let files = Invocation::new("git", project.root())
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .output()?;
        for file in files.lines() {
            copy(&project.root().join(file), &tree.join(file))?;
        }
        let trial = Self {
            project,
            subject,
            tree,
            excluded: BTreeSet::new(),
            mutants: Vec::new(),
            programs: Vec::new(),
        };
        Ok(trial)
    }

    /// Writes the files of the subject with all mutants that are not excluded, and returns these mutants.
    pub(super) fn weave(&mut self) -> Result<&[Mutant]> {
        self.mutants.clear();
        let mut next = 1;
        for file in self.files()? {
            let text = self.read(&file)?;
            let places = find::places(&text).with_context(|| file.clone())?;
            let mut weaver = Weaver::new(&file, &text, places, next, &self.excluded);
            let woven = weaver.weave();
            next = weaver.next_number();
            let mutants = weaver.mutants;
            self.mutants.extend(mutants);
            write(&self.tree.join(&file), woven.as_bytes())?;
        }
        let root = format!("{}/src/lib.rs", self.subject.folder);
        let text = self.read(&root)?;
        write(&self.tree.join(&root), format!("{text}{SWITCH}").as_bytes())?;
        Ok(&self.mutants)
    }

    /// Returns the text of a file of the original tree.
    fn read(&self, file: &str) -> Result<String> {
        files::read(&self.project.root().join(file))
    }

    /// Returns the paths of the subject's files. A folder means all Rust files in it except `tests.rs`.
    fn files(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for name in self.subject.files {
            let name = format!("{}/src/{name}", self.subject.folder);
            let path = self.project.root().join(&name);
            if path.is_file() {
                found.push(name);
                continue;
            }
            for file in files::list(&path)? {
                let file_name = files::name(&file)?;
                if file.extension().is_some_and(|kind| kind == "rs") && file_name != "tests.rs" {
                    found.push(format!("{name}/{file_name}"));
                }
            }
        }
        Ok(found)
    }

    /// Keeps the mutants whose line of the list contains `text`, and returns how many mutants are left.
    pub(super) fn select(&mut self, text: Option<&str>) -> usize {
        self.mutants.retain(|mutant| text.is_none_or(|text| mutant.to_string().contains(text)));
        self.mutants.len()
    }

    /// Builds the tests, and excludes mutants until the rest compiles.
    pub(super) fn build(&mut self) -> Result<()> {
        for _ in 0..ROUNDS {
            self.weave()?;
            let output = self.cargo().output().context("cannot start cargo")?;
            let printed = String::from_utf8_lossy(&output.stdout);
            let messages: Vec<Value> =
                printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            if output.status.success() {
                let programs = messages.iter().filter_map(|message| message.get("executable")?.as_str());
                self.programs = programs.map(PathBuf::from).collect();
                ensure!(!self.programs.is_empty(), "{} has no tests", self.subject.package);
                return Ok(());
            }
            let before = self.excluded.len();
            for (file, line) in messages.iter().flat_map(errors) {
                let is_here = |mutant: &&Mutant| file.ends_with(&mutant.file) && mutant.lines.contains(&line);
                self.excluded.extend(self.mutants.iter().filter(is_here).map(|mutant| mutant.number));
            }
            if self.excluded.len() == before {
                bail!("the mutants do not compile:\n{}\n{printed}", String::from_utf8_lossy(&output.stderr));
            }
        }
        bail!("the mutants of {} do not compile after {ROUNDS} builds", self.subject.package)
    }

    /// Returns the command that builds the tests.
    fn cargo(&self) -> Command {
        let mut call = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        call.current_dir(&self.tree).args(["test", "--no-run", "--message-format=json", "--all-features"]);
        call.args(["--package", self.subject.package])
            .args(self.subject.tests)
            .arg("--target-dir")
            .arg(self.tree.join("target"));
        call
    }

    /// Runs the tests with the mutant of that number, until a test program fails or hangs.
    fn outcome(&self, number: usize, filter: Option<&str>, timeout: Duration) -> Result<Outcome> {
        for program in &self.programs {
            let mut call = Command::new(program);
            // cargo starts tests in the folder of their package; fixtures are found relative to it.
            call.current_dir(self.tree.join(self.subject.folder)).args(filter);
            call.arg("--test-threads=4").env("AQUEDUCT_MUTANT", number.to_string());
            call.env("PROPTEST_CASES", "64").env("CARGO_MANIFEST_DIR", self.tree.join(self.subject.folder));
            call.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let child = call.spawn().with_context(|| format!("cannot start {}", program.display()))?;
            let outcome = wait(child, timeout)?;
            if outcome != Outcome::Passed {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Passed)
    }

    /// Runs the tests for each mutant, the tests of its module first, and returns the mutants that no test detects.
    pub(super) fn run(&self, jobs: usize) -> Result<Vec<Mutant>> {
        let begun = Instant::now();
        let outcome = self.outcome(0, None, Duration::MAX)?;
        ensure!(outcome == Outcome::Passed, "the tests of {} fail without a mutant", self.subject.package);
        let timeout = MIN_TIMEOUT.max(begun.elapsed() * SLOWDOWN);
        let (next, missed) = (Mutex::new(self.mutants.iter()), Mutex::new(Vec::new()));
        let work = || -> Result<()> {
            loop {
                let mutant = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(mutant) = mutant else { return Ok(()) };
                let mut outcome = self.outcome(mutant.number, module(&mutant.file), timeout)?;
                if outcome == Outcome::Passed {
                    outcome = self.outcome(mutant.number, None, timeout)?;
                }
                match outcome {
                    Outcome::Failed => {}
                    Outcome::Hung => println!("    hangs: {mutant}"),
                    Outcome::Passed => {
                        println!("    missed: {mutant}");
                        missed.lock().unwrap_or_else(PoisonError::into_inner).push(mutant.clone());
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
        })?;
        Ok(missed.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How the tests of a mutant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// No test detects the mutant.
    Passed,
    /// A test failed, or the program was aborted.
    Failed,
    /// The tests did not end in time. On a machine that has no time for them, this says nothing about the mutant.
    Hung,
}

/// Waits for a test program. Kills the program when a test has failed, or after `timeout`.
fn wait(mut child: Child, timeout: Duration) -> Result<Outcome> {
    let stdout = child.stdout.take().context("the test program has no output")?;
    let (failed, failure) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
        // The end of the output drops the sender, which ends the wait too.
        if lines.any(|line| line.starts_with(b"test ") && line.ends_with(b"FAILED")) {
            failed.send(()).ok();
        }
    });
    let outcome = match failure.recv_timeout(timeout) {
        Err(RecvTimeoutError::Disconnected) if child.wait()?.success() => Outcome::Passed,
        Ok(()) | Err(RecvTimeoutError::Disconnected) => Outcome::Failed,
        Err(RecvTimeoutError::Timeout) => Outcome::Hung,
    };
    if outcome != Outcome::Passed {
        // Fails if the program has ended, which is as good.
        child.kill().ok();
        child.wait()?;
    }
    reader.join().ok();
    Ok(outcome)
}

/// Returns the name of the top-level module of a file, by which its tests are filtered.
fn module(file: &str) -> Option<&str> {
    file.split("/src/").nth(1)?.split(['/', '.']).next()
}

/// Returns the files and lines of a compiler message, if it is an error.
fn errors(message: &Value) -> Vec<(String, usize)> {
    let Some(message) = message.get("message").filter(|message| message["level"] == "error") else {
        return Vec::new();
    };
    let spans = message["spans"].as_array().into_iter().flatten();
    let place = |span: &Value| {
        Some((span["file_name"].as_str()?.to_owned(), usize::try_from(span["line_start"].as_u64()?).ok()?))
    };
    spans.filter_map(place).collect()
}

/// Copies a file, or the files of a folder: git lists a link to a folder as a file. Files that git lists although they were deleted
/// are left out.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        let mut entries = files::list(from)?.into_iter();
        return entries.try_for_each(|entry| copy(&entry, &to.join(files::name(&entry)?)));
    }
    std::fs::read(from).map_or(Ok(()), |content| write(to, &content))
}

/// Writes a file only if its content differs, because cargo builds newer files again.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    files::write(path, content)
}
