//! Checks the container image as far as that is possible without a container engine.
//!
//! The Dockerfile is read, and its last stage is assembled by hand in a folder: the files that it copies, with their owners, and no
//! others. The program of `ENTRYPOINT` then runs with that folder as its root, by the image's user. Building the image itself needs a
//! container engine and is not part of it; if the binary is not static, the shared libraries of this machine are added.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::sandbox::Sandbox;
use super::{Outcome, Packages, confined, copy_libraries, demo, is_root};
use crate::interop::peers::text;

/// The Dockerfile, relative to the workspace.
const DOCKERFILE: &str = "deploy/docker/Dockerfile";

/// Reads the Dockerfile, assembles the image, and runs the demo in it.
pub(super) fn check(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let path = packages.project.root().join(DOCKERFILE);
    let dockerfile = std::fs::read_to_string(&path).with_context(|| format!("cannot read {DOCKERFILE}"))?;
    let image = Image::read(&dockerfile).with_context(|| DOCKERFILE.to_owned())?;
    if !cfg!(target_os = "linux") || !is_root(sandbox) {
        return Ok(Outcome::Skipped("the Dockerfile is sound, but assembling the image needs root on Linux"));
    }
    let root = sandbox.folder().join("root");
    for copy in &image.copies {
        assemble(packages, sandbox, &root, copy)?;
    }
    let program = text(&root.join(image.program.trim_start_matches('/')))?;
    copy_libraries(sandbox, &program, &root)?;
    let program = confined(sandbox, &root, &image.user, &image.program)?;
    demo::check(&program)?;
    let served = demo::Demo::start(&program)?;
    program.clone().args(["health", &served.probe()]).output()?;
    served.stop()?;
    sandbox.write("root/etc/aqueduct/aqueduct.toml", CONFIGURATION)?;
    let checked = program.clone().args(["config", "check", "--config", &image.configuration]).output()?;
    ensure!(!checked.contains("error"), "`config check` in the image: {checked}");
    Ok(Outcome::Passed)
}

/// A configuration as it is mounted into a container.
const CONFIGURATION: &str = "[agents.research]\na2a = { url = \"http://127.0.0.1:9999\" }\n";

/// What the last stage of a Dockerfile consists of.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    copies: Vec<Copy>,
    /// `UID:GID`, as numbers.
    user: String,
    /// The path of the program.
    program: String,
    /// The configuration file that the program reads without arguments.
    configuration: String,
}

/// A file or folder that is copied from the stage that builds.
#[derive(Debug, PartialEq, Eq)]
struct Copy {
    owner: Option<String>,
    from: String,
    to: String,
}

impl Image {
    /// Reads a Dockerfile.
    ///
    /// # Errors
    ///
    /// Fails if a base is not pinned to a version, the user is root or named (a name needs `/etc/passwd`), the program is not copied into
    /// the image, or an instruction that it needs is missing.
    fn read(dockerfile: &str) -> Result<Self> {
        let instructions = instructions(dockerfile);
        for (_, base) in instructions.iter().filter(|(name, _)| name == "FROM") {
            check_base(base.split_whitespace().next().unwrap_or_default())?;
        }
        let last = instructions.iter().rposition(|(name, _)| name == "FROM").context("no FROM")?;
        let stage = instructions.get(last..).unwrap_or_default();
        let value = |name: &str| {
            let found = stage.iter().rev().find(|(instruction, _)| instruction == name);
            found.map(|(_, value)| value.as_str()).with_context(|| format!("the last stage has no {name}"))
        };
        let copies = stage.iter().filter(|(name, _)| name == "COPY").map(|(_, value)| Copy::read(value));
        let copies = copies.collect::<Result<Vec<_>>>()?;
        let user = value("USER")?.to_owned();
        let numbers: Vec<u32> = user.split(':').map_while(|number| number.parse().ok()).collect();
        ensure!(
            numbers.len() == 2 && !numbers.contains(&0),
            "USER {user} is not `UID:GID` of a user without rights"
        );
        let words = |name: &str| -> Result<Vec<String>> {
            serde_json::from_str(value(name)?)
                .with_context(|| format!("{name} is no list: a shell would be needed"))
        };
        let program = words("ENTRYPOINT")?.into_iter().next().context("an empty ENTRYPOINT")?;
        ensure!(copies.iter().any(|copy| copy.to == program), "{program} is not copied into the image");
        let health = value("HEALTHCHECK")?;
        ensure!(
            health.contains(&format!("CMD [\"{program}\"")),
            "HEALTHCHECK needs a program that the image lacks"
        );
        value("STOPSIGNAL")?;
        let configuration = words("CMD")?.into_iter().next_back().context("an empty CMD")?;
        Ok(Self { copies, user, program, configuration })
    }
}

impl Copy {
    fn read(value: &str) -> Result<Self> {
        let (options, paths): (Vec<&str>, Vec<&str>) =
            value.split_whitespace().partition(|word| word.starts_with("--"));
        ensure!(options.contains(&"--from=build"), "COPY {value} does not copy what was built");
        let owner = options.iter().find_map(|option| option.strip_prefix("--chown="));
        let [from, to] = paths[..] else { bail!("COPY {value} is not one path to another") };
        Ok(Self { owner: owner.map(str::to_owned), from: from.to_owned(), to: to.to_owned() })
    }
}

/// Returns the instructions with their arguments; comments are left out, continued lines are joined.
fn instructions(dockerfile: &str) -> Vec<(String, String)> {
    let joined =
        dockerfile.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let joined = joined.replace("\\\n", " ");
    let split = |line: &str| {
        let (name, value) = line.trim().split_once(char::is_whitespace)?;
        Some((name.to_uppercase(), value.trim().to_owned()))
    };
    joined.lines().filter_map(split).collect()
}

/// Requires a version with a minor number, so that a build of the same sources does not change by itself.
fn check_base(base: &str) -> Result<()> {
    if base == "scratch" {
        return Ok(());
    }
    let (_, tag) = base.rsplit_once(':').with_context(|| format!("the base {base} has no tag"))?;
    let version = tag.split('-').next().unwrap_or_default();
    ensure!(version.split('.').count() >= 2, "the base {base} is not pinned to a version");
    Ok(())
}

fn assemble(packages: &Packages<'_>, sandbox: &Sandbox, root: &Path, copy: &Copy) -> Result<()> {
    let to = root.join(copy.to.trim_start_matches('/'));
    let parent = to.parent().context("a path without a folder")?;
    std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    if copy.from.ends_with("/aqueduct") && copy.from.contains("/target/") {
        std::fs::write(&to, &packages.payload.binary).context("cannot write the program")?;
        sandbox.call("chmod").args(["0755", &text(&to)?]).output()?;
    } else {
        // Everything else that the build stage makes is an empty folder.
        std::fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
    }
    let Some(owner) = &copy.owner else { return Ok(()) };
    sandbox.call("chown").args([owner, &text(&to)?]).output().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "FROM rust:1.95-alpine AS build\nRUN a && \\\n  b\nFROM scratch\nCOPY --from=build /src/target/release/aqueduct /aqueduct\n\
        COPY --from=build --chown=7:7 /state /state\nUSER 7:7\nHEALTHCHECK CMD [\"/aqueduct\", \"health\"]\nSTOPSIGNAL SIGTERM\n\
        ENTRYPOINT [\"/aqueduct\"]\nCMD [\"serve\", \"--config\", \"/a.toml\"]\n";

    #[test]
    fn the_dockerfile_of_the_tree_is_sound() {
        let image = Image::read(include_str!("../../../../deploy/docker/Dockerfile")).unwrap();
        assert!(
            image.copies.iter().any(|copy| copy.owner.as_ref() == Some(&image.user)),
            "no folder is the user's"
        );
    }

    #[test]
    fn the_last_stage_is_read() {
        let image = Image::read(GOOD).unwrap();
        assert_eq!((image.user.as_str(), image.program.as_str()), ("7:7", "/aqueduct"));
        assert_eq!(image.configuration, "/a.toml");
        assert_eq!(image.copies.len(), 2);
        assert_eq!(image.copies[1].owner.as_deref(), Some("7:7"));
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, message) in [
            ("rust:1.95-alpine", "rust:1-alpine", "not pinned"),
            ("rust:1.95-alpine", "rust", "no tag"),
            ("USER 7:7", "USER 0:0", "without rights"),
            ("USER 7:7", "USER nobody", "without rights"),
            ("/aqueduct /aqueduct", "/aqueduct /bin/aqueduct", "not copied"),
            ("HEALTHCHECK CMD [\"/aqueduct\"", "HEALTHCHECK CMD [\"/bin/curl\"", "lacks"),
            ("STOPSIGNAL SIGTERM", "", "STOPSIGNAL"),
            ("ENTRYPOINT [\"/aqueduct\"]", "ENTRYPOINT /aqueduct", "shell"),
        ] {
            let error = format!("{:#}", Image::read(&GOOD.replace(from, to)).unwrap_err());
            assert!(error.contains(message), "{error}");
        }
    }
}
