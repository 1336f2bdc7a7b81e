//! `tidy` as a contributor meets it: the built program, on small workspaces of its own.
//!
//! The workspaces need no network: the `tokio` in them is an empty crate beside them.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail like tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = r#"
[workspace]
resolver = "3"
members = ["core", "adapter-agui", "transport-ws"]
exclude = ["outside"]
[workspace.package]
edition = "2024"
[workspace.lints.rust]
unsafe_code = "forbid"
[workspace.dependencies]
aqueduct-core = { path = "core", default-features = false }
aqueduct-transport-ws = { path = "transport-ws", default-features = false }
helper = { path = "outside/helper", default-features = false }
tokio = { path = "outside/tokio", default-features = false }
"#;

/// A workspace in order, in a folder that is empty at the start of each test.
fn workspace(test: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tidy").join(test);
    if root.exists() {
        fs::remove_dir_all(&root).unwrap();
    }
    write(&root, "Cargo.toml", ROOT);
    package(&root, "core", "");
    package(&root, "adapter-agui", "aqueduct-core.workspace = true");
    package(&root, "transport-ws", "aqueduct-core.workspace = true\ntokio.workspace = true");
    for sans_io in ["core", "adapter-agui"] {
        write(&root, &format!("{sans_io}/clippy.toml"), include_str!("../../core/clippy.toml"));
    }
    foreign(&root, "tokio", "");
    foreign(&root, "helper", "tokio = { path = \"../tokio\" }");
    root
}

/// A crate of the workspace with these dependencies.
fn package(root: &Path, folder: &str, dependencies: &str) {
    let unpublished = if folder.starts_with("examples/") { "publish = false\n" } else { "" };
    let manifest = format!(
        "[package]\n{unpublished}name = \"aqueduct-{}\"\ndescription = \"x\"\nreadme = \"README.md\"\nkeywords = []\n\
         categories = []\nrepository = \"x\"\nrust-version = \"1.90\"\nedition.workspace = true\n\
         [package.metadata.docs.rs]\nall-features = true\n[features]\nextra = []\n[lints]\nworkspace = true\n[dependencies]\n{dependencies}\n",
        folder.replace('/', "-")
    );
    write(root, &format!("{folder}/Cargo.toml"), &manifest);
    write(root, &format!("{folder}/src/lib.rs"), "//! Nothing.\n");
    for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        write(root, &format!("{folder}/{file}"), "Nothing.\n");
    }
}

/// A third-party crate.
fn foreign(root: &Path, name: &str, dependencies: &str) {
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{dependencies}\n"
    );
    write(root, &format!("outside/{name}/Cargo.toml"), &manifest);
    write(root, &format!("outside/{name}/src/lib.rs"), "//! Nothing.\n");
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn tidy(root: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct-xtask"));
    command.args(["tidy", "--root"]).arg(root).env("CARGO_NET_OFFLINE", "true");
    command.output().unwrap()
}

#[test]
fn a_runtime_behind_a_feature_of_an_adapter_fails() {
    let root = workspace("runtime_behind_a_feature");
    let manifest = fs::read_to_string(root.join("adapter-agui/Cargo.toml")).unwrap();
    let manifest = manifest.replace("extra = []", "extra = [\"dep:tokio\"]");
    let manifest = format!("{manifest}tokio = {{ workspace = true, optional = true }}\n");
    write(&root, "adapter-agui/Cargo.toml", &manifest);
    check_fails(&root, "aqueduct-adapter-agui links tokio");
}

#[test]
fn an_adapter_that_does_not_ban_locks_fails() {
    let root = workspace("adapter_without_bans");
    let bans = include_str!("../../core/clippy.toml").replace("std::sync::Mutex", "std::sync::Arc");
    write(&root, "adapter-agui/clippy.toml", &bans);
    check_fails(&root, "aqueduct-adapter-agui does not ban `std::sync::Mutex`");
}

#[track_caller]
fn check_fails(root: &Path, expected: &str) {
    let output = tidy(root);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success(), "tidy passed:\n{text}");
    assert!(text.contains(expected), "not told:\n{text}");
    assert!(text.contains(" 1 errors"), "other errors:\n{text}");
}

#[test]
fn a_workspace_in_order_passes() {
    let output = tidy(&workspace("in-order"));
    let (text, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("3 crates"), "{text}");
}

#[test]
fn tokio_in_core_fails() {
    let root = workspace("tokio-in-core");
    package(&root, "core", "tokio.workspace = true");
    // The adapter links it too, by way of core, and both would be reported: keep the adapter out of this one.
    package(&root, "adapter-agui", "");
    check_fails(
        &root,
        "core/Cargo.toml:17: error[forbidden-crate]: aqueduct-core links tokio: aqueduct-core -> tokio",
    );
}

#[test]
fn tokio_behind_another_crate_fails_with_the_way_to_it() {
    let root = workspace("tokio-behind-helper");
    package(&root, "adapter-agui", "aqueduct-core.workspace = true\nhelper.workspace = true");
    check_fails(&root, "aqueduct-adapter-agui links tokio: aqueduct-adapter-agui -> helper -> tokio");
}

#[test]
fn an_adapter_that_depends_on_a_transport_fails() {
    let root = workspace("adapter-on-transport");
    // Without the runtime, so that the direction alone is at fault.
    package(&root, "transport-ws", "");
    package(&root, "adapter-agui", "aqueduct-transport-ws.workspace = true");
    check_fails(
        &root,
        "adapter-agui/Cargo.toml:17: error[dependency-direction]: aqueduct-adapter-agui depends on aqueduct-transport-ws",
    );
}

#[test]
fn an_example_may_join_an_adapter_and_a_transport() {
    let root = workspace("example");
    let members = ROOT.replace(r#""transport-ws"]"#, r#""transport-ws", "examples/*"]"#);
    write(&root, "Cargo.toml", &members);
    package(
        &root,
        "examples/endpoint",
        "aqueduct-core.workspace = true\naqueduct-transport-ws.workspace = true\ntokio.workspace = true",
    );
    let output = tidy(&root);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("4 crates"), "{text}");
    // Its package is called after its whole path.
    let manifest = root.join("examples/endpoint/Cargo.toml");
    let renamed = fs::read_to_string(&manifest).unwrap().replace("aqueduct-examples-", "aqueduct-");
    fs::write(manifest, renamed).unwrap();
    check_fails(&root, "error[package-name]: the package is called `aqueduct-endpoint`");
}

#[test]
fn a_comment_that_hides_its_subject_fails_with_the_better_wording() {
    let root = workspace("wording");
    write(&root, "core/src/lib.rs", "//! Nothing.\n\n// Whoever reads this gets all of it.\n");
    check_fails(&root, "core/src/lib.rs:3: error[wording]: a comment contains `whoever`");
    check_fails(&root, "name the role: caller, client, watcher, owner, publisher, replica");
    // The remedy is enough.
    write(&root, "core/src/lib.rs", "//! Nothing.\n\n// Every watcher gets all of it.\n");
    assert!(tidy(&root).status.success());
}
