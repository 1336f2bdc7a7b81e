//! [`Project`]: the location of the workspace, and the metadata of cargo.
//!
//! Reads only. `cargo metadata` is called once per task and kept as JSON: each task picks the few fields it needs.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::invocation::{Invocation, Priority};

/// The variable that switches incremental compilation on or off.
const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// The variable with the debug information of our own code, which comes to line numbers in backtraces.
const DEBUG: &str = "CARGO_PROFILE_DEV_DEBUG";

/// The workspace of a task.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    root: PathBuf,
    is_built: bool,
    is_optimised: bool,
    has_lines: bool,
    background: Option<(PathBuf, Priority)>,
    peers: Option<Variables>,
}

/// The variables of a program.
pub(crate) type Variables = Vec<(&'static str, String)>;

impl Project {
    /// Returns the workspace at `root`, or the one this tool belongs to.
    pub(crate) fn locate(root: Option<PathBuf>) -> Result<Self> {
        let root = root.unwrap_or_else(|| {
            // `cargo run` sets the variable at run time; the compiled-in value serves a binary started by hand.
            let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
                .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
            manifest_dir.join("..")
        });
        let root = root.canonicalize().with_context(|| format!("no such folder: {}", root.display()))?;
        Ok(Self {
            root,
            is_built: false,
            is_optimised: false,
            has_lines: true,
            background: None,
            peers: None,
        })
    }

    /// Returns the folder with the workspace's `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the workspace after `cargo xtask test build`: its programs and tests are started without a call of cargo, which
    /// would wait for the compiler of a step that runs beside them.
    pub(crate) fn built(&self) -> Self {
        Self { is_built: true, ..self.clone() }
    }

    /// Returns `true` if all programs and tests are known to be built.
    pub(crate) fn is_built(&self) -> bool {
        self.is_built
    }

    /// Returns the workspace whose gateway and trials are built with optimisations if `is_optimised` is set.
    pub(crate) fn optimised(self, is_optimised: bool) -> Self {
        Self { is_optimised, ..self }
    }

    /// Returns `true` if the gateway and the trials are built with optimisations (the profile `trial`).
    pub(crate) fn is_optimised(&self) -> bool {
        self.is_optimised
    }

    /// Returns the workspace whose peers are known to be installed and prepared, if there are `variables` with their locations.
    pub(crate) fn with_peers(&self, variables: Option<Variables>) -> Self {
        Self { peers: variables, ..self.clone() }
    }

    /// Returns the variables with the locations of all peers of CI, if these are known to be prepared.
    pub(crate) fn peers(&self) -> Option<&Variables> {
        self.peers.as_ref()
    }

    /// Returns the workspace that is compiled without line numbers for backtraces, unless the environment decides.
    pub(crate) fn without_lines(&self) -> Self {
        Self { has_lines: false, ..self.clone() }
    }

    /// Returns the workspace for steps in the background: their programs have that priority, and write to the file `log`.
    pub(crate) fn in_background(&self, log: PathBuf, priority: Priority) -> Self {
        Self { background: Some((log, priority)), ..self.clone() }
    }

    /// Returns a call of a program in the root.
    pub(crate) fn program(&self, path: &Path) -> Invocation {
        self.with_log(Invocation::new(path.to_string_lossy(), &self.root))
    }

    /// Runs the call in the background, if this is the workspace of background steps.
    fn with_log(&self, call: Invocation) -> Invocation {
        match &self.background {
            Some((log, priority)) => call.in_background(log.clone(), *priority),
            None => call,
        }
    }

    /// Returns a call of cargo in the root, with the toolchain of this task.
    ///
    /// Without incremental compilation, unless the environment decides: a task compiles everything once, and what would be kept
    /// for the next time costs time and gigabytes.
    pub(crate) fn cargo<const N: usize>(&self, args: [&str; N]) -> Invocation {
        let call = self.with_log(Invocation::cargo(&self.root).args(args));
        let settings = [(INCREMENTAL, "0", true), (DEBUG, "false", !self.has_lines)];
        let settings =
            settings.into_iter().filter(|(name, _, is_set)| *is_set && std::env::var_os(name).is_none());
        settings.fold(call, |call, (name, value, _)| call.env(name, value))
    }

    /// Returns the metadata of the workspace's own packages.
    pub(crate) fn metadata(&self) -> Result<Metadata> {
        let text = self.cargo(["metadata", "--format-version", "1", "--no-deps"]).output()?;
        let json = serde_json::from_str(&text).context("cargo metadata gave no JSON")?;
        Ok(Metadata { json })
    }
}

/// The output of `cargo metadata --no-deps`.
#[derive(Debug)]
pub(crate) struct Metadata {
    json: Value,
}

impl Metadata {
    /// Returns the packages of the workspace.
    pub(crate) fn packages(&self) -> impl Iterator<Item = Package<'_>> {
        self.json.get("packages").and_then(Value::as_array).into_iter().flatten().map(Package)
    }

    /// Returns the package `name`, if the workspace has it.
    pub(crate) fn package(&self, name: &str) -> Option<Package<'_>> {
        self.packages().find(|package| package.name() == name)
    }

    /// Returns the folder of build products (`target`, or the one of the environment).
    pub(crate) fn target_directory(&self) -> Result<PathBuf> {
        let path = self.json.get("target_directory").and_then(Value::as_str);
        Ok(PathBuf::from(path.context("cargo metadata names no target directory")?))
    }
}

/// One package of the workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package<'a>(&'a Value);

impl<'a> Package<'a> {
    /// Returns the name in the manifest.
    pub(crate) fn name(self) -> &'a str {
        self.text("name")
    }

    /// Returns the version.
    pub(crate) fn version(self) -> &'a str {
        self.text("version")
    }

    /// Returns `true` if `cargo publish` accepts the package.
    pub(crate) fn is_published(self) -> bool {
        self.0.get("publish").is_none_or(Value::is_null)
    }

    /// Returns the path of the manifest.
    pub(crate) fn manifest_path(self) -> &'a Path {
        Path::new(self.text("manifest_path"))
    }

    /// Returns the names of all declared dependencies, of every kind, including optional ones.
    pub(crate) fn dependencies(self) -> impl Iterator<Item = &'a str> {
        let list = self.0.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|dependency| dependency.get("name").and_then(Value::as_str))
    }

    fn text(self, key: &str) -> &'a str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}
