//! Installs the Debian package by dpkg into a root folder that has nothing but its dependencies, and uses it there.
//!
//! The folder's database of packages lists what the package depends on, at the versions of this machine: so dpkg itself checks the
//! dependencies. The demo and the commands of the unit run inside the folder, by a user without rights. systemd does not run here: its
//! settings are read by `systemd-analyze verify` where that is installed.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::sandbox::Sandbox;
use super::{Outcome, Packages, confined, copy_libraries, demo, is_root};
use crate::files;
use crate::interop::peers::text;
use crate::invocation::Invocation;

/// The packages that the package may depend on.
const DEPENDENCIES: [&str; 2] = ["libc6", "libgcc-s1"];

/// A user without rights.
const USER: &str = "65534:65534";

/// Files that the package must bring, beside the binary.
const FILES: [&str; 9] = [
    "usr/lib/systemd/system/aqueduct.service",
    "usr/share/man/man1/aqueduct.1",
    "usr/share/man/man1/aqueduct-serve.1",
    "usr/share/bash-completion/completions/aqueduct",
    "usr/share/zsh/vendor-completions/_aqueduct",
    "usr/share/fish/vendor_completions.d/aqueduct.fish",
    "usr/share/doc/aqueduct/LICENSE-APACHE",
    "usr/share/doc/aqueduct/LICENSE-MIT",
    "usr/share/doc/aqueduct/copyright",
];

/// Installs the package, runs the demo and the unit's check of the configuration, and removes the package.
pub(super) fn check(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let Some(architecture) = packages.payload.platform.debian else {
        return Ok(Outcome::Skipped("Debian has no such platform"));
    };
    if !is_root(sandbox) || sandbox.call("dpkg").args(["--version"]).output().is_err() {
        return Ok(Outcome::Skipped("dpkg installs as root, on Debian and its relatives"));
    }
    let package = packages.path(&format!("aqueduct_{}_{architecture}.deb", packages.payload.version))?;
    let root = sandbox.folder().join("root");
    create_database(sandbox)?;
    let dpkg = || Ok::<_, anyhow::Error>(dpkg(sandbox, &text(&root)?));
    dpkg()?.args(["--install", &package]).output()?;
    let missing: Vec<_> = FILES.iter().filter(|file| !root.join(file).is_file()).collect();
    ensure!(missing.is_empty(), "the package lacks {missing:?}");
    copy_libraries(sandbox, &text(&root.join("usr/bin/aqueduct"))?, &root)?;
    demo::check(&confined(sandbox, &root, USER, "/usr/bin/aqueduct")?)?;
    check_files(sandbox, &root)?;
    check_unit(sandbox, &root)?;
    dpkg()?.args(["--purge", "aqueduct"]).output()?;
    let left: Vec<_> = FILES.iter().filter(|file| root.join(file).exists()).collect();
    ensure!(left.is_empty(), "dpkg removed the package and left {left:?}");
    Ok(Outcome::Passed)
}

/// Writes a database of packages that has the dependencies as installed.
fn create_database(sandbox: &Sandbox) -> Result<()> {
    let known =
        Invocation::new("dpkg-query", sandbox.folder()).args(["--status"]).args(DEPENDENCIES).output()?;
    sandbox.write("root/var/lib/dpkg/status", &format!("{}\n", known.trim_end()))?;
    for folder in ["info", "updates"] {
        files::create(&sandbox.folder().join("root/var/lib/dpkg").join(folder))?;
    }
    Ok(())
}

fn dpkg(sandbox: &Sandbox, root: &str) -> Invocation {
    let log = sandbox.folder().join("dpkg.log");
    let options = [format!("--root={root}"), format!("--log={}", log.display())];
    sandbox.call("dpkg").args(options)
}

/// Lets the programs that use the other files read them.
fn check_files(sandbox: &Sandbox, root: &Path) -> Result<()> {
    let share = text(&root.join("usr/share"))?;
    sandbox.call("bash").args(["-n", &format!("{share}/bash-completion/completions/aqueduct")]).output()?;
    let man = sandbox.call("man").args(["--manpath", &format!("{share}/man"), "--warnings"]);
    if sandbox.call("man").args(["--version"]).output().is_ok() {
        let page = man.args(["aqueduct-serve"]).env("MANPAGER", "cat").output()?;
        ensure!(page.contains("aqueduct"), "man shows {page:?}");
    }
    Ok(())
}

/// Checks the unit, and runs its check of the configuration inside the root folder with the example of the shipped file.
fn check_unit(sandbox: &Sandbox, root: &Path) -> Result<()> {
    let unit = files::read(&root.join("usr/lib/systemd/system/aqueduct.service"))?;
    let command =
        unit.lines().find_map(|line| line.strip_prefix("ExecStartPre=")).context("no ExecStartPre")?;
    let mut words = command.split_whitespace();
    let program = words.next().context("an empty ExecStartPre")?;
    let run = || Ok::<_, anyhow::Error>(confined(sandbox, root, USER, program)?.args(words.clone()));
    let refused = run()?.output().map_err(|error| format!("{error:#}")).err().unwrap_or_default();
    ensure!(refused.contains("[agents.NAME]"), "a configuration without agents is refused with {refused:?}");
    let path = root.join("etc/aqueduct/aqueduct.toml");
    let shipped = files::read(&path)?;
    // Prose begins with `# `, a line of the example with `#` alone.
    let example =
        shipped.lines().filter_map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')));
    files::write(&path, example.collect::<Vec<_>>().join("\n"))?;
    run()?.output()?;
    analyze(sandbox, root, &unit)
}

/// Lets systemd check every setting of the unit, with the binary at its place below the root folder.
fn analyze(sandbox: &Sandbox, root: &Path, unit: &str) -> Result<()> {
    if sandbox.call("systemd-analyze").args(["--version"]).output().is_err() {
        return Ok(());
    }
    let moved = unit.replace("/usr/bin/aqueduct", &text(&root.join("usr/bin/aqueduct"))?);
    let unit = sandbox.write("unit/aqueduct.service", &moved)?;
    let findings = sandbox.call("sh").args(["-c", "systemd-analyze verify \"$0\" 2>&1", &unit]).output()?;
    ensure!(findings.trim().is_empty(), "systemd-analyze reports:\n{findings}");
    Ok(())
}
