//! The npm packages: one with the launcher, which people install, and one per platform with its binary.
//!
//! The launcher names every platform package as an optional dependency; npm installs the one whose `os` and `cpu` match. No
//! package runs a script at installation.

use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::archive::{save, tar_gz};
use super::payload::{File, HOMEPAGE, LICENCE, PACKAGE, Payload, SUMMARY};
use super::platform::{PLATFORMS, Platform};

/// The program that npm links as `aqueduct`.
const LAUNCHER: &str = include_str!("npm/launcher.js");

/// Writes the launcher's tarball and that of this platform.
pub(super) fn write(payload: &Payload, out: &Path) -> Result<()> {
    let platform = payload.platform;
    let binary = File::program(format!("package/bin/{}", platform.binary()), payload.binary.clone());
    let name = platform_package(platform);
    save_package(payload, out, &name, &platform_manifest(payload, platform), binary)?;
    let launcher = File::program("package/bin/aqueduct.js", LAUNCHER);
    save_package(payload, out, PACKAGE, &launcher_manifest(&payload.version), launcher)
}

fn save_package(payload: &Payload, out: &Path, name: &str, manifest: &Value, program: File) -> Result<()> {
    let mut files = vec![
        File::new("package/package.json", format!("{manifest:#}\n")),
        program,
        File::new("package/README.md", payload.readme.clone()),
    ];
    let licences = payload.licences.iter();
    files.extend(licences.map(|file| File::new(format!("package/{}", file.path), file.content.clone())));
    save(out, &format!("{name}-{}.tgz", payload.version), &tar_gz(&files)?)
}

fn platform_package(platform: Platform) -> String {
    format!("{PACKAGE}-{}-{}", platform.node.0, platform.node.1)
}

fn platform_manifest(payload: &Payload, platform: Platform) -> Value {
    json!({
        "name": platform_package(platform),
        "version": payload.version,
        "description": format!("The aqueduct binary for {}", platform.triple),
        "license": LICENCE,
        "homepage": HOMEPAGE,
        "os": [platform.node.0],
        "cpu": [platform.node.1],
        "files": ["bin", "LICENSE-APACHE", "LICENSE-MIT"],
        "preferUnplugged": true,
    })
}

fn launcher_manifest(version: &str) -> Value {
    let platforms: Map<String, Value> =
        PLATFORMS.iter().map(|platform| (platform_package(*platform), json!(version))).collect();
    json!({
        "name": PACKAGE,
        "version": version,
        "description": SUMMARY,
        "license": LICENCE,
        "homepage": HOMEPAGE,
        "bin": { "aqueduct": "bin/aqueduct.js" },
        "files": ["bin", "LICENSE-APACHE", "LICENSE-MIT"],
        "engines": { "node": ">=18" },
        "optionalDependencies": platforms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_depends_on_every_platform_at_its_own_version() {
        let manifest = launcher_manifest("1.2.3");
        let platforms = manifest["optionalDependencies"].as_object().unwrap();
        assert_eq!(platforms.len(), PLATFORMS.len());
        assert_eq!(platforms["aqueduct-gateway-linux-x64"], "1.2.3");
    }
}
