//! `cargo xtask dist --check`: installs every package as its users do, and runs the demo from each installation.
//!
//! ```text
//! target/dist ──► target/dist-check/NAME/   one folder per installation, with a home of its own
//!                   installer (tar, pip, npm, dpkg) ──► aqueduct demo ──► aqueduct run …/agents/demo ──► Ctrl-C, exit code 0
//! ```
//!
//! Invariants: installers and programs inherit no variable but `PATH`; the only network is a registry for npm on loopback; nothing is
//! written outside of the folder. A package whose installer is missing on this machine is reported as skipped, with the reason.
//!
//! It does not look for what an agent or a frontend does wrong: that is the task of the tests.

mod debian;
mod demo;
mod image;
mod installers;
mod registry;
mod sandbox;
mod sdk;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use self::registry::Registry;
use self::sandbox::Sandbox;
use super::payload::Payload;
use crate::files;
use crate::interop::peers::Peers;
use crate::invocation::Invocation;
use crate::project::Project;

/// The packages to install, and where npm finds them.
struct Packages<'a> {
    project: &'a Project,
    payload: &'a Payload,
    /// The folder with the packages.
    folder: &'a Path,
    registry: Registry,
}

impl Packages<'_> {
    /// Returns the path of a package.
    fn path(&self, name: &str) -> Result<String> {
        let path = self.folder.join(name);
        ensure!(path.is_file(), "no package {name} was written to {}", self.folder.display());
        crate::interop::peers::text(&path)
    }
}

/// What became of a check that did not fail.
enum Outcome {
    Passed,
    /// The installer is not on this machine, or needs rights that this process does not have.
    Skipped(&'static str),
}

/// Installs one package and uses it.
type Check = fn(&Packages<'_>, &Sandbox) -> Result<Outcome>;

const CHECKS: [(&str, Check); 8] = [
    ("checksums", installers::checksums),
    ("archive", installers::archive),
    ("wheel", installers::wheel),
    ("npm", installers::npm),
    ("npx", installers::npx),
    ("debian", debian::check),
    ("image", image::check),
    ("sdk", sdk::check),
];

/// Installs every package and runs the demo from it.
///
/// # Errors
///
/// Fails if a package cannot be installed or used. All packages are tried; the error lists every failure.
pub(super) fn run(project: &Project, payload: &Payload, folder: &Path) -> Result<()> {
    let base = project.metadata()?.target_directory()?.join("dist-check");
    // Applications bring the peers of the SDKs: these are the application's.
    let peers = Peers::of(project, "packages")?.npm_project("peers")?;
    let registry = Registry::serve(folder, &peers.join("node_modules"))?;
    let packages = Packages { project, payload, folder, registry };
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        let started = Instant::now();
        let outcome = Sandbox::create(&base, name).and_then(|sandbox| check(&packages, &sandbox));
        let took = started.elapsed().as_secs_f64();
        match outcome {
            Ok(Outcome::Passed) => println!("  ok      {took:>6.1}s  {name}"),
            Ok(Outcome::Skipped(reason)) => println!("  skipped {took:>6.1}s  {name}: {reason}"),
            Err(error) => {
                println!("  FAILED  {took:>6.1}s  {name}");
                failed.push(format!("{name}: {error:#}"));
            }
        }
    }
    if failed.is_empty() {
        return files::remove(&base);
    }
    bail!("packages that do not work, with their folders in {}:\n  {}", base.display(), failed.join("\n  "))
}

/// Returns `true` if this process may change owners and the root folder.
fn is_root(sandbox: &Sandbox) -> bool {
    sandbox.call("id").args(["-u"]).output().is_ok_and(|user| user.trim() == "0")
}

/// Copies the shared libraries of `binary` into `root`, at the paths that the loader looks for.
fn copy_libraries(sandbox: &Sandbox, binary: &str, root: &Path) -> Result<()> {
    // A static program has none: `ldd` then fails.
    let listed = sandbox.call("ldd").args([binary]).output().unwrap_or_default();
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        files::copy(Path::new(library), &root.join(library.trim_start_matches('/')))?;
    }
    Ok(())
}

/// Returns a call of `program` inside `root`, by a user without rights.
fn confined(sandbox: &Sandbox, root: &Path, user: &str, program: &str) -> Result<Invocation> {
    let root = crate::interop::peers::text(root)?;
    Ok(sandbox.call("chroot").args([format!("--userspec={user}"), root, program.to_owned()]))
}
