//! Installs foreign programs by their own package managers, at pinned versions, below the target folder.
//!
//! ```text
//! tests/interop/<suite>/<name>/   pins: package.json + package-lock.json, requirements.txt, or Cargo.lock
//! target/interop/<suite>/<name>/  the installation, and `.pins`: the pins it was installed from
//! ```
//!
//! `.pins` is written last. So a folder with the right `.pins` is complete and is kept; any other is removed and created
//! again. Install scripts of packages are not run. Rust peers are built by cargo, which detects changes itself.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use crate::invocation::Invocation;
use crate::project::{Project, Variables};

const NODE_HINT: &str = "install Node.js 20 or later; it runs the real AG-UI and A2A clients";
const NPM_HINT: &str = "install npm (it comes with Node.js); it installs the real AG-UI and A2A clients";
const PYTHON_HINT: &str = "install Python 3.10 or later; it runs the real Python SDKs";
const OLDEST_NODE: u32 = 20;
const OLDEST_PYTHON: u32 = 10;
/// The version of pip that installs Python packages: any that can install for another environment.
const PIP: &str = "25.3";
const STAMP: &str = ".pins";

/// The folders of one suite.
#[derive(Debug)]
pub(crate) struct Peers {
    pins: PathBuf,
    installed: PathBuf,
}

impl Peers {
    /// Returns the folders of a suite.
    pub(crate) fn of(project: &Project, suite: &str) -> Result<Self> {
        let installed = project.metadata()?.target_directory()?.join("interop").join(suite);
        Ok(Self { pins: project.root().join("tests/interop").join(suite), installed })
    }

    /// Returns the folder of the suite's own scripts and pins.
    pub(crate) fn scripts(&self) -> &Path {
        &self.pins
    }

    /// Returns a folder for the cases that tests write, for the inspection of failures.
    pub(crate) fn cases(&self) -> Result<PathBuf> {
        let folder = self.installed.join("cases");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Installs the npm packages pinned in the suite's folder `name`. Returns the folder with `node_modules`.
    pub(crate) fn npm_project(&self, name: &str) -> Result<PathBuf> {
        check_node(&self.pins)?;
        let files = ["package.json", "package-lock.json"];
        self.install(name, &files, "", |folder| {
            let npm = Invocation::new("npm", folder).hint(NPM_HINT);
            let quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
            npm.args(["ci"]).args(quiet).output().map(drop)
        })
    }

    /// Installs the Python packages pinned in the suite's folder `name`. Returns the interpreter of their environment.
    pub(crate) fn python_venv(&self, name: &str) -> Result<PathBuf> {
        let version = check_python(&self.pins)?;
        let folder = self.install(name, &["requirements.txt"], &version, |folder| {
            venv(folder, &["--without-pip"])?;
            let pip = self.pip()?.args(["--python".to_owned(), text(&interpreter(folder))?]);
            let requirements = text(&folder.join("requirements.txt"))?;
            // A module is compiled when it is first imported ([`python_variables`]): most are never.
            pip.args(["install", "--no-compile", "--requirement", &requirements]).output().map(drop)
        })?;
        Ok(interpreter(&folder))
    }

    /// Returns a call of the pip that installs for all environments: an environment with a pip of its own takes seconds more.
    fn pip(&self) -> Result<Invocation> {
        let folder = self.installed.with_file_name("pip");
        let call = Invocation::new(text(&interpreter(&folder))?, &self.pins).args([
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ]);
        if call.clone().args(["--version"]).output().is_ok_and(|version| version.contains(PIP)) {
            return Ok(call);
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        venv(&folder, &["--clear"])?;
        call.clone().args(["install", &format!("pip=={PIP}")]).output()?;
        Ok(call)
    }

    /// Installs the Python packages pinned in the suite's folder `name` by the pip of `python`, into a folder. Returns the
    /// folder, which is the `PYTHONPATH` of the packages. For a Python that has no virtual environments.
    pub(crate) fn python_packages(&self, name: &str, python: &str, hint: &'static str) -> Result<PathBuf> {
        let folder = self.install(name, &["requirements.txt"], python, |folder| {
            let pip = Invocation::new(python, folder).hint(hint).args(["-m", "pip", "install", "--quiet"]);
            pip.args(["--target", "packages", "--requirement", "requirements.txt"]).output().map(drop)
        })?;
        Ok(folder.join("packages"))
    }

    /// Builds the cargo project with a lock file in the suite's folder `name`. Returns the program.
    pub(crate) fn cargo_project(&self, name: &str) -> Result<PathBuf> {
        let (project, target) = (self.pins.join(name), self.installed.join(name));
        println!("interop: building {name} into {}", target.display());
        let cargo = Invocation::cargo(&project).args(["build", "--locked", "--quiet", "--target-dir"]);
        let built = cargo.args([text(&target)?]).run();
        built.with_context(|| format!("cannot build the peer in {}", project.display()))?;
        Ok(target.join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
    }

    fn install(
        &self,
        name: &str,
        files: &[&str],
        environment: &str,
        install: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let (pins, folder) = (self.pins.join(name), self.installed.join(name));
        let mut stamp = environment.to_owned();
        for file in files {
            stamp.push_str(&read(&pins.join(file))?);
        }
        if std::fs::read_to_string(folder.join(STAMP)).is_ok_and(|found| found == stamp) {
            return Ok(folder);
        }
        println!("interop: installing {name} into {}", folder.display());
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for file in files {
            std::fs::copy(pins.join(file), folder.join(file))
                .with_context(|| format!("cannot copy {file}"))?;
        }
        install(&folder).with_context(|| format!("cannot install the peers in {}", pins.display()))?;
        std::fs::write(folder.join(STAMP), stamp).context("cannot write the stamp")?;
        Ok(folder)
    }
}

/// Whether the lists of the distribution's packages were fetched. It is locked while apt runs: a second one would fail.
static FETCHED: Mutex<bool> = Mutex::new(false);

/// Installs a package of the distribution if that needs no confirmation: as root, with apt.
pub(crate) fn debian_package(folder: &Path, package: &str, hint: &'static str) -> Result<()> {
    let user = Invocation::new("id", folder).args(["-u"]).output().unwrap_or_default();
    let apt = || Invocation::new("apt-get", folder).hint(hint).env("DEBIAN_FRONTEND", "noninteractive");
    if user.trim() != "0" || apt().args(["--version"]).output().is_err() {
        return Ok(());
    }
    let mut fetched = FETCHED.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{package} is not there: installing it");
    if !*fetched {
        apt().args(["update", "--quiet"]).run()?;
        *fetched = true;
    }
    apt().args(["install", "--yes", "--quiet", "--no-install-recommends", package]).run()
}

/// Returns a path as text, for arguments and variables.
pub(crate) fn text(path: &Path) -> Result<String> {
    Ok(path.to_str().context("the path of the target folder is not UTF-8")?.to_owned())
}

/// Returns the version of Node.js, if it is installed and recent enough.
pub(crate) fn check_node(folder: &Path) -> Result<String> {
    let version = Invocation::new("node", folder).args(["--version"]).hint(NODE_HINT).output()?;
    let version = version.trim();
    Invocation::new("npm", folder).args(["--version"]).hint(NPM_HINT).output()?;
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < OLDEST_NODE) {
        bail!("node {version} is too old: {NODE_HINT}");
    }
    Ok(format!("node {version}"))
}

/// Returns the version of Python, if it is installed, recent enough and able to create virtual environments.
pub(crate) fn check_python(folder: &Path) -> Result<String> {
    let version = python(folder).args(["--version"]).output()?;
    let version = version.trim();
    let mut numbers =
        version.trim_start_matches("Python ").split('.').map_while(|number| number.parse::<u32>().ok());
    if numbers.next() != Some(3) || numbers.next().is_none_or(|minor| minor < OLDEST_PYTHON) {
        bail!("{version} is too old: {PYTHON_HINT}");
    }
    let modules = python(folder).args(["-c", "import venv, ensurepip"]).output();
    modules.context("python3 has no `venv` (on Debian and Ubuntu: install `python3-venv`)")?;
    Ok(version.to_owned())
}

fn python(folder: &Path) -> Invocation {
    Invocation::new("python3", folder).hint(PYTHON_HINT)
}

/// Returns the variables with which Python compiles a module when it is first imported, and keeps it below the target folder:
/// not in the source tree, and whatever the environment of this process says.
pub(crate) fn python_variables(project: &Project) -> Result<Variables> {
    let folder = project.metadata()?.target_directory()?.join("interop").join("bytecode");
    Ok(vec![("PYTHONPYCACHEPREFIX", text(&folder)?), ("PYTHONDONTWRITEBYTECODE", String::new())])
}

/// Creates the virtual environment of a folder.
fn venv(folder: &Path, options: &[&str]) -> Result<()> {
    let call = python(folder).args(["-m", "venv", "venv"]).args(options.iter().copied());
    let hint = "cannot make a Python virtual environment (on Debian and Ubuntu: install `python3-venv`)";
    call.output().map(drop).context(hint)
}

fn interpreter(folder: &Path) -> PathBuf {
    folder.join("venv").join("bin").join("python")
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn peers(test: &str) -> (Peers, PathBuf) {
        let root = std::env::temp_dir().join(format!("aqueduct-peers-{}-{test}", std::process::id()));
        let peers = Peers { pins: root.join("pins"), installed: root.join("installed") };
        std::fs::create_dir_all(peers.pins.join("one")).unwrap();
        std::fs::write(peers.pins.join("one/pins.txt"), "a==1").unwrap();
        (peers, root)
    }

    #[test]
    fn installs_once_per_set_of_pins() {
        let (peers, root) = peers("once");
        let count = Cell::new(0);
        let install = || {
            peers.install("one", &["pins.txt"], "", |_| {
                count.set(count.get() + 1);
                Ok(())
            })
        };
        install().unwrap();
        install().unwrap();
        assert_eq!(count.get(), 1);
        std::fs::write(peers.pins.join("one/pins.txt"), "a==2").unwrap();
        let folder = install().unwrap();
        assert_eq!(count.get(), 2);
        assert_eq!(std::fs::read_to_string(folder.join("pins.txt")).unwrap(), "a==2");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_failed_installation_is_tried_again() {
        let (peers, root) = peers("again");
        let error = peers.install("one", &["pins.txt"], "", |_| bail!("no network")).unwrap_err();
        assert!(format!("{error:#}").contains("no network"));
        let count = Cell::new(0);
        let installed = |_: &Path| {
            count.set(1);
            Ok(())
        };
        peers.install("one", &["pins.txt"], "", installed).unwrap();
        assert_eq!(count.get(), 1);
        std::fs::remove_dir_all(root).unwrap();
    }
}
