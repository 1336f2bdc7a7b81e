//! Builds a package with all its mutants, and runs its tests once for each mutant.
//!
//! One build contains all mutants; an environment variable selects the one that is active (see `weave`). The package is built in a
//! copy of the tree, into a target folder of its own: cargo identifies a crate by its path in the workspace, so in a shared folder
//! the mutated crate would replace the real one. Mutants that do not compile are excluded, and the build is repeated.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::Subject;
use super::find;
use super::weave::{Mutant, SWITCH, Weaver};
use crate::invocation::Invocation;
use crate::project::Project;

/// The most builds of one package: each excludes the mutants that did not compile in the build before.
const ROUNDS: usize = 12;

/// The time after which tests with a mutant count as hanging. A mutant that makes a test hang is detected.
const TIMEOUT: Duration = Duration::from_secs(60);

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
            let from = project.root().join(file);
            // Deleted files that git still lists, and links to folders, cannot be read and are not part of a build.
            if let Ok(content) = std::fs::read(&from) {
                write(&tree.join(file), &content)?;
            }
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
        let path = self.project.root().join(file);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Returns the paths of the subject's files. A folder means all Rust files in it except `tests.rs`.
    fn files(&self) -> Result<Vec<String>> {
        let mut files = Vec::new();
        for name in self.subject.files {
            let name = format!("{}/src/{name}", self.subject.folder);
            let path = self.project.root().join(&name);
            if path.is_file() {
                files.push(name);
                continue;
            }
            let entries =
                std::fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            let is_code = |name: &String| {
                Path::new(name).extension().is_some_and(|kind| kind == "rs") && name != "tests.rs"
            };
            let mut names: Vec<_> = names.filter(is_code).map(|file| format!("{name}/{file}")).collect();
            names.sort();
            files.append(&mut names);
        }
        Ok(files)
    }

    /// Builds the tests, and excludes mutants until the rest compiles. Returns the mutants of the successful build.
    pub(super) fn build(&mut self) -> Result<&[Mutant]> {
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
                return Ok(&self.mutants);
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

    /// Returns `true` if the tests pass with the mutant of that number: no test detects it.
    fn passes(&self, number: usize, filter: Option<&str>) -> Result<bool> {
        for program in &self.programs {
            let mut call = Command::new(program);
            // cargo starts tests in the folder of their package; fixtures are found relative to it.
            call.current_dir(self.tree.join(self.subject.folder)).args(filter);
            call.args(["--quiet", "--test-threads=4"]).env("AQUEDUCT_MUTANT", number.to_string());
            call.env("PROPTEST_CASES", "64").env("CARGO_MANIFEST_DIR", self.tree.join(self.subject.folder));
            call.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = call.spawn().with_context(|| format!("cannot start {}", program.display()))?;
            let started = Instant::now();
            let status = loop {
                match child.try_wait()? {
                    Some(status) => break Some(status),
                    None if started.elapsed() > TIMEOUT => break None,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            if status.is_none() {
                child.kill()?;
                child.wait()?;
            }
            if !status.is_some_and(|status| status.success()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs the tests for each mutant, the tests of its module first, and returns the mutants that no test detects.
    pub(super) fn run(&self, jobs: usize) -> Result<Vec<Mutant>> {
        ensure!(self.passes(0, None)?, "the tests of {} fail without a mutant", self.subject.package);
        let (next, missed) = (Mutex::new(self.mutants.iter()), Mutex::new(Vec::new()));
        let work = || -> Result<()> {
            loop {
                let mutant = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(mutant) = mutant else { return Ok(()) };
                if self.passes(mutant.number, module(&mutant.file))? && self.passes(mutant.number, None)? {
                    println!("    missed: {}:{} {}", mutant.file, mutant.lines.start, mutant.about);
                    missed.lock().unwrap_or_else(PoisonError::into_inner).push(mutant.clone());
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

/// Writes a file only if its content differs, because cargo builds newer files again.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let folder = path.parent().context("no folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
