//! The direction of dependencies between our crates, and the foreign crates that a layer must not link.

use crate::tidy::finding::{Finding, line_of};
use crate::tidy::layer::Layer;
use crate::tidy::model::{LinkedPackage, Member, Model};

/// Runtimes and transports. Code that links one of them does IO sooner or later, and imposes the runtime on its users.
const FORBIDDEN_IN_SANS_IO: &[&str] = &[
    "async-std",
    "axum",
    "h2",
    "hyper",
    "mio",
    "quinn",
    "reqwest",
    "smol",
    "tokio",
    "tokio-tungstenite",
    "tonic",
    "tungstenite",
];

/// Checks that a crate depends on another crate of ours only in the direction of the picture in [`Layer`].
///
/// Every kind of dependency counts, including those of tests: what needs two crates to be tested is tested in `tests`.
pub(crate) fn direction(model: &Model, findings: &mut Vec<Finding>) {
    for member in &model.workspace.members {
        let path = member.manifest_path();
        let Some(layer) = Layer::of(&member.folder) else {
            let what = format!("the folder `{}` belongs to no layer", member.folder);
            let help = "give it a layer in xtask/src/tidy/layer.rs, or move the crate";
            findings.push(Finding::error("dependency-direction", &path, None, what, help));
            continue;
        };
        for other in dependencies_of_ours(model, member) {
            if Layer::of(&other.folder).is_some_and(|other| !layer.may_use(other)) {
                let what = format!("{} depends on {}", member.name, other.name);
                let help = format!("{}; meet in core's types instead", layer.rule());
                let line = line_of(&member.manifest, &other.name);
                findings.push(Finding::error("dependency-direction", &path, line, what, &help));
            }
        }
    }
}

/// Checks that core and the adapters link no runtime and no transport, not even transitively.
pub(crate) fn forbidden(model: &Model, findings: &mut Vec<Finding>) {
    for member in &model.workspace.members {
        if !Layer::of(&member.folder).is_some_and(Layer::is_sans_io) {
            continue;
        }
        for (index, package) in member.linked.iter().enumerate() {
            if FORBIDDEN_IN_SANS_IO.contains(&package.name.as_str()) {
                let way = way_to(&member.linked, index);
                let what = format!("{} links {}: {}", member.name, package.name, way.join(" -> "));
                let help = "core and adapters do no IO: move that code to a transport or the gateway";
                let line = way.get(1).and_then(|direct| line_of(&member.manifest, direct));
                let path = member.manifest_path();
                findings.push(Finding::error("forbidden-crate", &path, line, what, help));
            }
        }
    }
}

/// Checks that libraries return typed errors.
pub(crate) fn untyped_errors(model: &Model, findings: &mut Vec<Finding>) {
    for member in &model.workspace.members {
        let allowed = Layer::of(&member.folder).is_none_or(Layer::may_use_anyhow);
        if !allowed && member.declared.iter().any(|name| name == "anyhow") {
            let what = format!("{} depends on anyhow", member.name);
            let help =
                "libraries give typed errors: use a `thiserror` enum; anyhow is for programs and tests";
            let line = line_of(&member.manifest, "anyhow");
            findings.push(Finding::error("untyped-errors", &member.manifest_path(), line, what, help));
        }
    }
}

/// Returns the dependencies that are crates of ours. A crate may name itself, to enable its own features in its tests.
fn dependencies_of_ours<'a>(model: &'a Model, member: &'a Member) -> impl Iterator<Item = &'a Member> {
    let ours = |name: &String| model.workspace.members.iter().find(|other| other.name == *name);
    member.declared.iter().filter(|name| **name != member.name).filter_map(ours)
}

/// Returns the names on the path from the root of the tree to the line at `index`: the last line before it of every smaller
/// depth.
fn way_to(tree: &[LinkedPackage], index: usize) -> Vec<&str> {
    let mut way = Vec::new();
    let mut depth = usize::MAX;
    for package in tree.iter().take(index + 1).rev() {
        if package.depth < depth {
            depth = package.depth;
            way.push(package.name.as_str());
        }
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::{crates, linking, member};

    fn whole() -> Vec<Member> {
        let ours = ["aqueduct-core", "aqueduct-adapter-agui", "aqueduct-transport-ws", "aqueduct-runlog"];
        vec![
            member("core", &["aqueduct-core", "bytes"]),
            member("adapter-agui", &["aqueduct-core"]),
            member("transport-ws", &["aqueduct-core", "tokio"]),
            member("runlog", &["aqueduct-core"]),
            member("runs", &["aqueduct-core", "aqueduct-runlog"]),
            member("gateway", &ours),
            member("tests", &ours),
            member("xtask", &["anyhow"]),
        ]
    }

    #[test]
    fn the_planned_picture_is_in_order() {
        let model = crates(whole());
        assert_eq!(found(direction, &model), [""; 0]);
        assert_eq!(found(untyped_errors, &model), [""; 0]);
    }

    #[track_caller]
    fn check_direction(folder: &str, dependency: &str, expected: &str) {
        let mut members = whole();
        members.retain(|member| member.folder != folder);
        members.push(member(folder, &[dependency]));
        let found = found(direction, &crates(members));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(expected), "{found:?}");
    }

    #[test]
    fn wrong_directions_are_found() {
        let rule = "error[dependency-direction]: aqueduct";
        check_direction(
            "core",
            "aqueduct-runlog",
            &format!("core/Cargo.toml:5: {rule}-core depends on aqueduct-runlog"),
        );
        check_direction("adapter-a2a", "aqueduct-adapter-agui", &format!("adapter-a2a/Cargo.toml:5: {rule}"));
        check_direction("adapter-a2a", "aqueduct-transport-ws", &format!("adapter-a2a/Cargo.toml:5: {rule}"));
        check_direction(
            "transport-http",
            "aqueduct-adapter-agui",
            &format!("transport-http/Cargo.toml:5: {rule}"),
        );
        check_direction("runlog", "aqueduct-transport-ws", &format!("runlog/Cargo.toml:5: {rule}"));
        check_direction("runs", "aqueduct-adapter-agui", &format!("runs/Cargo.toml:5: {rule}"));
        check_direction("runs", "aqueduct-transport-ws", &format!("runs/Cargo.toml:5: {rule}"));
        check_direction("xtask", "aqueduct-core", &format!("xtask/Cargo.toml:5: {rule}"));
    }

    #[test]
    fn a_folder_without_a_layer_is_found() {
        let found = found(direction, &crates(vec![member("misc", &[])]));
        assert!(found[0].contains("the folder `misc` belongs to no layer"), "{found:?}");
    }

    #[test]
    fn a_runtime_is_found_with_the_way_to_it() {
        let tree =
            [(0, "aqueduct-core"), (1, "bytes"), (1, "helper"), (2, "other"), (2, "tokio"), (3, "mio")];
        let found = found(forbidden, &crates(vec![linking("core", &tree)]));
        assert_eq!(found.len(), 2);
        assert!(
            found[0].contains("aqueduct-core links tokio: aqueduct-core -> helper -> tokio"),
            "{found:?}"
        );
        assert!(found[1].contains("aqueduct-core -> helper -> tokio -> mio"), "{found:?}");
    }

    #[test]
    fn a_runtime_is_welcome_in_a_transport() {
        let tree = [(0, "aqueduct-transport-ws"), (1, "tokio")];
        assert_eq!(found(forbidden, &crates(vec![linking("transport-ws", &tree)])), [""; 0]);
    }

    #[test]
    fn anyhow_in_a_library_is_found() {
        let found = found(untyped_errors, &crates(vec![member("adapter-a2a", &["anyhow"])]));
        assert!(found[0].starts_with("adapter-a2a/Cargo.toml:5: error[untyped-errors]"), "{found:?}");
    }
}
