//! The installers of the binary that need no rights: tar, pip, npm, npx.

use anyhow::{Result, ensure};

use super::sandbox::Sandbox;
use super::{Outcome, Packages, demo};
use crate::dist::payload::PACKAGE;
use crate::invocation::Invocation;

/// Checks every package against `SHA256SUMS` with the tool of the system.
pub(super) fn checksums(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let tools = [("sha256sum", "--strict"), ("shasum", "--algorithm=256")];
    let is_here = |(tool, _): &&(&str, &str)| sandbox.call(*tool).args(["--version"]).output().is_ok();
    let Some((tool, option)) = tools.iter().find(is_here) else {
        return Ok(Outcome::Skipped("no `sha256sum` or `shasum`"));
    };
    let call = Invocation::new(*tool, packages.folder).args([*option]);
    let checked = call.args(["--check", "SHA256SUMS"]).output()?;
    let listed = checked.lines().count();
    let written = std::fs::read_dir(packages.folder)?.count();
    ensure!(listed + 1 == written, "SHA256SUMS lists {listed} of {} files", written - 1);
    Ok(Outcome::Passed)
}

/// Unpacks the archive and starts the binary in it.
pub(super) fn archive(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let (version, platform) = (&packages.payload.version, packages.payload.platform);
    let name = format!("aqueduct-{version}-{}", platform.triple);
    let archive = packages.path(&format!("{name}.tar.gz"))?;
    sandbox.call("tar").args(["-xzf", &archive]).output()?;
    demo::check(&sandbox.call(sandbox.path(&format!("{name}/{}", platform.binary()))?))?;
    Ok(Outcome::Passed)
}

/// Installs the wheel into a new virtual environment, without an index.
pub(super) fn wheel(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let python = virtual_environment(packages, sandbox, &[PACKAGE])?;
    let program = sandbox.call(sandbox.path("venv/bin/aqueduct")?);
    let version = program.clone().args(["--version"]).output()?;
    ensure!(version.contains(&packages.payload.version), "the wheel contains {}", version.trim());
    demo::check(&program)?;
    python.args(["-m", "pip", "uninstall", "--yes", "--quiet", PACKAGE]).output()?;
    let is_left = sandbox.folder().join("venv/bin/aqueduct").exists();
    ensure!(!is_left, "pip uninstalled the wheel and left the binary");
    Ok(Outcome::Passed)
}

/// Makes a virtual environment with packages of the folder. Returns a call of its interpreter.
pub(super) fn virtual_environment(
    packages: &Packages<'_>,
    sandbox: &Sandbox,
    names: &[&str],
) -> Result<Invocation> {
    // A wrapper in `PATH` may need the user's home to find the interpreter.
    let find = Invocation::new("python3", sandbox.folder()).args(["-c", "import sys; print(sys.executable)"]);
    sandbox.call(find.output()?.trim()).args(["-m", "venv", "venv"]).output()?;
    let python = sandbox.call(sandbox.path("venv/bin/python")?);
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links"];
    let folder = crate::interop::peers::text(packages.folder)?;
    python.clone().args(install).args([folder]).args(names.iter().copied()).output()?;
    python.clone().args(["-m", "pip", "check", "--disable-pip-version-check"]).output()?;
    Ok(python)
}

/// Installs the npm package for all users of a prefix.
pub(super) fn npm(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let prefix = sandbox.path("prefix")?;
    packages.npm(sandbox)?.args(["install", "--global", "--prefix", &prefix, PACKAGE]).output()?;
    let program = sandbox.call(format!("{prefix}/bin/aqueduct"));
    let version = program.clone().args(["--version"]).output()?;
    ensure!(version.contains(&packages.payload.version), "the npm package contains {}", version.trim());
    let failed = program.clone().args(["no-such-command"]).output().map_err(|error| format!("{error:#}"));
    let code = failed.err().unwrap_or_default();
    ensure!(code.contains("exit status: 2"), "the launcher hides the exit code of the binary: {code}");
    demo::check(&program)?;
    let demo = demo::Demo::start(&program)?;
    demo.expect_name("aqueduct")?;
    demo.stop()?;
    Ok(Outcome::Passed)
}

/// Starts the binary without installing it.
pub(super) fn npx(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let program = packages.node(sandbox, "npx")?.args(["--yes", PACKAGE]);
    demo::check_by_launcher(&program, "npx aqueduct-gateway")?;
    Ok(Outcome::Passed)
}

impl Packages<'_> {
    /// Returns a call of npm that knows the registry on loopback alone.
    pub(super) fn npm(&self, sandbox: &Sandbox) -> Result<Invocation> {
        Ok(self.node(sandbox, "npm")?.args([
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--loglevel=error",
        ]))
    }

    fn node(&self, sandbox: &Sandbox, program: &str) -> Result<Invocation> {
        let call = sandbox.call(program).env("npm_config_registry", self.registry.address());
        let call = call.env("npm_config_cache", sandbox.path("npm-cache")?);
        Ok(call.env("npm_config_update_notifier", "false"))
    }
}
