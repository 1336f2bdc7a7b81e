//! Manifests: predictable names, inherited settings, dependencies without default features.

use toml::{Table, Value};

use crate::tidy::finding::{Finding, line_of};
use crate::tidy::layer::Layer;
use crate::tidy::model::Model;

/// The folder of the crate that users add: its package has the name of the project.
const UMBRELLA: &str = "aqueduct";

/// The fields that a registry shows of a published crate.
const SHOWN: [&str; 6] = ["description", "readme", "keywords", "categories", "repository", "rust-version"];

/// The files that a published crate contains beside its source.
const CARRIED: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Checks that every package is named after its folder. In particular `core` must not be a package called `core`, which would
/// hide the standard library's.
pub(crate) fn names(model: &Model, findings: &mut Vec<Finding>) {
    for member in &model.workspace.members {
        let expected = match member.folder.as_str() {
            UMBRELLA => UMBRELLA.to_owned(),
            folder => format!("aqueduct-{}", folder.replace('/', "-")),
        };
        if member.name != expected {
            let what = format!("the package is called `{}`", member.name);
            let help = format!("call it `{expected}`, after its folder");
            let line = line_of(&member.manifest, "name");
            findings.push(Finding::error("package-name", &member.manifest_path(), line, what, &help));
        }
    }
}

/// The folder of the binary, which `cargo install` installs.
const GATEWAY: &str = "gateway";

/// Checks that libraries and the gateway can be published (metadata, README and licences), and that no other package can.
pub(crate) fn published(model: &Model, findings: &mut Vec<Finding>) {
    for member in &model.workspace.members {
        let manifest = member.manifest.parse::<Table>().unwrap_or_default();
        let package = manifest.get("package");
        let mut report = |what: String, help: &str| {
            findings.push(Finding::error("published", &member.manifest_path(), None, what, help));
        };
        let is_library = Layer::of(&member.folder).is_some_and(Layer::is_library);
        if !is_library && member.folder != GATEWAY {
            if package.and_then(|package| package.get("publish")) != Some(&Value::Boolean(false)) {
                report("`cargo publish` would publish a tool".to_owned(), "write `publish = false`");
            }
            continue;
        }
        let documented = package.and_then(|package| package.get("metadata")?.get("docs")?.get("rs"));
        if is_library && documented.is_none() {
            report("docs.rs would leave out optional features".to_owned(), "add [package.metadata.docs.rs]");
        }
        for key in SHOWN.iter().filter(|key| package.and_then(|package| package.get(**key)).is_none()) {
            report(format!("the package has no `{key}`"), "add it: registries show it");
        }
        if package.and_then(|package| package.get("publish")).is_some() {
            report("the package has a key `publish`".to_owned(), "libraries are published: delete the line");
        }
        for file in CARRIED {
            let path = format!("{}/{file}", member.folder);
            if !model.tree.files.iter().any(|file| file.path == path) {
                report(format!("{path} is missing"), "a published crate carries README and licences");
            }
        }
    }
}

/// Checks that edition, lints and versions of dependencies come from the workspace.
pub(crate) fn inherited(model: &Model, findings: &mut Vec<Finding>) {
    for member in &model.workspace.members {
        let Ok(manifest) = member.manifest.parse::<Table>() else {
            continue; // Cargo has read it, or there would be no model.
        };
        let mut report = |line, what, help: &str| {
            findings.push(Finding::error("inherited-settings", &member.manifest_path(), line, what, help));
        };
        let edition = manifest.get("package").and_then(|package| package.get("edition"));
        if !edition.is_some_and(is_inherited) {
            let line = line_of(&member.manifest, "edition");
            report(line, "the edition is not the workspace's".to_owned(), "write `edition.workspace = true`");
        }
        if !manifest.get("lints").is_some_and(is_inherited) {
            let help = "write `[lints] workspace = true`; exceptions go into the source as `#[expect]`";
            report(line_of(&member.manifest, "[lints"), "the lints are not the workspace's".to_owned(), help);
        }
        for (name, _) in own_dependencies(&manifest).into_iter().filter(|(_, value)| !is_shared(value)) {
            let help = "declare it under [workspace.dependencies] and write `workspace = true` here";
            report(
                line_of(&member.manifest, name),
                format!("`{name}` is not the workspace's dependency"),
                help,
            );
        }
    }
}

/// Checks that dependencies have no default features: the crate that needs a feature selects it.
pub(crate) fn default_features(model: &Model, findings: &mut Vec<Finding>) {
    let manifest = &model.workspace.manifest;
    let Ok(root) = manifest.parse::<Table>() else {
        return;
    };
    let shared = root.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    for (name, value) in shared.and_then(Value::as_table).into_iter().flatten() {
        if value.get("default-features").and_then(Value::as_bool) != Some(false) {
            let what = format!("`{name}` comes with its default features");
            let help = "write `default-features = false`; the crate that needs a feature names it";
            findings.push(Finding::error(
                "default-features",
                "Cargo.toml",
                line_of(manifest, name),
                what,
                help,
            ));
        }
    }
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// Returns `true` for a dependency from the workspace, or by path: a crate that names itself in its tests.
fn is_shared(value: &Value) -> bool {
    is_inherited(value) || value.get("path").is_some()
}

/// Returns the entries of all dependency tables, including those for one platform.
fn own_dependencies(manifest: &Table) -> Vec<(&str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let tables = std::iter::once(manifest).chain(targets.filter_map(|(_, target)| target.as_table()));
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let lists = tables.flat_map(|table| kinds.into_iter().filter_map(|kind| table.get(kind)?.as_table()));
    lists.flatten().map(|(name, value)| (name.as_str(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::{crates, member};
    use crate::tidy::model::{Member, Workspace};

    fn with_manifest(manifest: &str) -> Model {
        crates(vec![Member { manifest: manifest.to_owned(), ..member("core", &[]) }])
    }

    #[test]
    fn a_library_that_cannot_be_published_is_found() {
        let found_now = found(published, &crates(vec![member("core", &[])]));
        assert_eq!(found_now.len(), SHOWN.len() + CARRIED.len() + 1, "{found_now:?}");
    }

    #[test]
    fn a_tool_that_can_be_published_is_found() {
        let tool =
            |manifest: &str| crates(vec![Member { manifest: manifest.to_owned(), ..member("xtask", &[]) }]);
        assert_eq!(found(published, &tool("[package]\npublish = false\n")), [""; 0]);
        let found_now = found(published, &tool("[package]\nname = \"aqueduct-xtask\"\n"));
        assert!(found_now.len() == 1 && found_now[0].contains("`publish = false`"), "{found_now:?}");
    }

    #[test]
    fn a_good_crate_passes() {
        let model = crates(vec![member("core", &["bytes"]), member("tests/peers", &["bytes"])]);
        assert_eq!(found(names, &model), [""; 0]);
        assert_eq!(found(inherited, &model), [""; 0]);
    }

    #[test]
    fn a_package_not_called_after_its_folder_is_found() {
        let model = crates(vec![Member { name: "core".to_owned(), ..member("core", &[]) }]);
        let found = found(names, &model);
        assert!(found[0].starts_with("core/Cargo.toml:2: error[package-name]: the package is called `core`"));
        assert!(found[0].contains("`aqueduct-core`"), "{found:?}");
    }

    #[test]
    fn own_settings_are_found() {
        let found =
            found(inherited, &with_manifest("[package]\nname = \"aqueduct-core\"\nedition = \"2021\"\n"));
        assert!(
            found[0].starts_with("core/Cargo.toml:3: error[inherited-settings]: the edition"),
            "{found:?}"
        );
        assert!(found[1].starts_with("core/Cargo.toml: error[inherited-settings]: the lints"), "{found:?}");
    }

    #[test]
    fn own_versions_are_found_for_every_kind_and_platform() {
        let manifest = "[package]\nedition.workspace = true\n[lints]\nworkspace = true\n\
            [dependencies]\na = \"1\"\nb.workspace = true\n[dev-dependencies]\nc = { version = \"1\" }\nme = { path = \".\" }\n\
            [target.'cfg(unix)'.dependencies]\nd = \"1\"\n";
        let found = found(inherited, &with_manifest(manifest));
        let lines: Vec<_> = found.iter().filter_map(|text| text.split(':').nth(1)).collect();
        assert_eq!(lines, ["6", "9", "12"], "{found:?}");
    }

    #[test]
    fn default_features_are_found() {
        let manifest = "[workspace.dependencies]\na = { version = \"1\", default-features = false }\nb = \"1\"\n\
            c = { version = \"1\" }\n";
        let workspace = Workspace { manifest: manifest.to_owned(), members: Vec::new() };
        let found = found(default_features, &Model { workspace, ..Model::default() });
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("Cargo.toml:3: error[default-features]: `b`"), "{found:?}");
        assert!(found[1].starts_with("Cargo.toml:4: error[default-features]: `c`"), "{found:?}");
    }
}
