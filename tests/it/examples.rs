//! Each example links the crates it needs and no other. (The examples themselves are run by their own tests.)

use std::collections::BTreeSet;
use std::process::Command;

/// An example, the crates of ours that it needs, and foreign crates that would be a mistake.
const EXAMPLES: &[(&str, &[&str], &[&str])] = &[
    (
        "agui-endpoint",
        &["adapter-agui", "core", "runlog", "runs", "transport-http"],
        &["fjall", "prost", "redis", "rustls", "tonic", "tungstenite"],
    ),
    (
        "a2a-endpoint",
        &["adapter-a2a", "core", "runlog", "runs", "transport-http"],
        &["fjall", "prost", "redis", "rustls", "tonic", "tungstenite"],
    ),
    (
        "a2a-bridge",
        &["adapter-a2a", "adapter-agui", "core", "runlog", "runs", "transport-http"],
        &["fjall", "prost", "redis", "rustls", "tonic", "tungstenite"],
    ),
    (
        "ws-endpoint",
        &["adapter-agui", "core", "runlog", "runs", "transport-http", "transport-ws"],
        &["fjall", "prost", "redis", "rustls", "tonic"],
    ),
    (
        "grpc-service",
        &["core", "runlog", "runs", "transport-grpc", "transport-http"],
        &["fjall", "redis", "rustls", "tungstenite", "webpki-roots"],
    ),
];

/// All crates that a program links, by name.
fn linked(package: &str) -> BTreeSet<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args([
        "tree",
        "--offline",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--package",
        package,
    ]);
    let output = tree.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

#[test]
fn examples_link_only_the_crates_they_need() {
    for (example, needed, mistakes) in EXAMPLES {
        let package = format!("aqueduct-examples-{example}");
        let linked = linked(&package);
        let ours: BTreeSet<&str> = linked
            .iter()
            .filter_map(|name| name.strip_prefix("aqueduct-"))
            .filter(|name| !package.ends_with(name))
            .collect();
        assert_eq!(ours, needed.iter().copied().collect(), "{example}");
        for mistake in *mistakes {
            let found =
                linked.iter().find(|name| name.split('-').any(|part| part == *mistake) || name == mistake);
            assert_eq!(found, None, "{example}");
        }
        assert!(linked.contains("tokio"), "{example}: the tree was not read");
    }
}

/// A crate outside the workspace with one dependency on ours.
const OUTSIDE: &str = r#"[package]
name = "outside"
version = "0.1.0"
edition = "2024"

[dependencies]
aqueduct = { path = "PATH", default-features = false, features = ["agui", "http"] }

[workspace]
"#;

#[test]
fn a_crate_outside_the_workspace_builds_and_links_no_other_transport_or_engine() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let manifest = OUTSIDE.replace("PATH", root.join("aqueduct").to_str().unwrap());
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    // The versions that are here: the test needs no network.
    std::fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    let program = "use aqueduct::prelude::*;\n\nfn main() {\n    let agent = |input: RunInput| stream! { yield Update::text(input.text()); };\n    drop(agui::router(&Runs::new().agent(\"echo\", agent)));\n}\n";
    std::fs::write(folder.path().join("src/main.rs"), program).unwrap();
    let cargo = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(args).arg("--offline").current_dir(folder.path()).env_remove("CARGO_TARGET_DIR");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let tree = cargo(&["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(linked.contains("aqueduct-adapter-agui"), "the tree was not read: {tree}");
    for mistake in ["tonic", "tungstenite", "tokio-tungstenite", "redis", "fjall"] {
        assert!(!linked.contains(mistake), "{mistake}");
    }
    cargo(&["check"]);
}
