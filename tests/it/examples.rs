//! Each example links the crates it needs and no other. (The examples themselves are run by their own tests.)

use std::collections::BTreeSet;
use std::process::Command;

/// An example, the crates of ours that it needs, and foreign crates that would be a mistake.
const EXAMPLES: &[(&str, &[&str], &[&str])] = &[
    (
        "agui-endpoint",
        &["adapter-agui", "core", "transport-http"],
        &["prost", "rustls", "tonic", "tungstenite"],
    ),
    (
        "a2a-bridge",
        &["adapter-a2a", "adapter-agui", "core", "transport-http"],
        &["prost", "rustls", "tonic", "tungstenite"],
    ),
    (
        "ws-endpoint",
        &["adapter-agui", "core", "examples-logged-agent", "runlog", "transport-http", "transport-ws"],
        &["axum", "hyper", "prost", "rustls", "tonic"],
    ),
    (
        "grpc-service",
        &["core", "examples-logged-agent", "runlog", "transport-grpc", "transport-http"],
        &["rustls", "tungstenite", "webpki-roots"],
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
