//! The bill of materials: every crate that the binary is built from, as `CycloneDX` 1.6.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::archive::save;
use super::payload::{PACKAGE, Payload};
use crate::project::Project;
use crate::released::with_allocator;

/// Writes `aqueduct-VERSION-TRIPLE.cdx.json`.
pub(super) fn write(project: &Project, payload: &Payload, out: &Path) -> Result<()> {
    let triple = payload.platform.triple;
    let metadata =
        project.cargo(["metadata", "--format-version", "1", "--locked", "--filter-platform", triple]);
    let metadata = with_allocator(metadata).output()?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata gave no JSON")?;
    let bill = bill(&metadata, &payload.version).context("cargo metadata has no dependency graph")?;
    save(out, &format!("aqueduct-{}-{triple}.cdx.json", payload.version), format!("{bill:#}\n").as_bytes())
}

fn bill(metadata: &Value, version: &str) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> = list(metadata, "packages")
        .filter_map(|package| Some((package.get("id")?.as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(metadata.get("resolve")?, "nodes")
        .filter_map(|node| Some((node.get("id")?.as_str()?, node)))
        .collect();
    let (root, _) = packages.iter().find(|(_, package)| package["name"] == PACKAGE)?;
    let reached = reached(&nodes, root);
    let components: Vec<Value> =
        reached.iter().filter(|id| *id != root).filter_map(|id| component(packages.get(id)?)).collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "aqueduct", "version": version } },
        "components": components,
    }))
}

/// Returns the ids of all packages that `root` is built from: normal dependencies of normal dependencies.
fn reached<'a>(nodes: &BTreeMap<&'a str, &'a Value>, root: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![root]);
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| list(node, "deps"));
        let normal = dependencies
            .filter(|dependency| list(dependency, "dep_kinds").any(|kind| kind["kind"].is_null()));
        open.extend(normal.filter_map(|dependency| dependency.get("pkg")?.as_str()));
    }
    reached
}

fn component(package: &Value) -> Option<Value> {
    let (name, version) = (package.get("name")?.as_str()?, package.get("version")?.as_str()?);
    let licence =
        package.get("license").and_then(Value::as_str).unwrap_or("NOASSERTION").replace('/', " OR ");
    Some(json!({
        "type": "library",
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
        "licenses": [{ "expression": licence }],
    }))
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_what_the_binary_is_built_from_and_nothing_that_only_tests_use() {
        let node = |id: &str, deps: Value| json!({ "id": id, "deps": deps });
        let package = |id: &str, name: &str| json!({ "id": id, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let metadata = json!({
            "packages": [package("g", PACKAGE), package("a", "used"), package("b", "tested")],
            "resolve": { "nodes": [
                node("g", json!([
                    { "pkg": "a", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "b", "dep_kinds": [{ "kind": "dev" }] },
                ])),
                node("a", json!([])),
            ] },
        });
        let bill = bill(&metadata, "2.0.0").unwrap();
        let components = bill["components"].as_array().unwrap();
        assert_eq!(components.len(), 1);
        assert_eq!(components[0]["purl"], "pkg:cargo/used@1.0.0");
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
