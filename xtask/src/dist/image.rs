//! The container image, written without a container engine: an image layout (OCI image specification 1.1) in a tar archive that also
//! has the index of `docker save`, so that `docker load`, `podman load`, `ctr images import` and `kind load image-archive` read it.
//!
//! ```text
//! binary, its shared libraries, licences, /var/lib/aqueduct ──► layer (tar.gz) ─┐
//! user, command, health check ──► configuration (JSON) ─────────────────────────┴─► manifest ──► IMAGE.tar
//! ```
//!
//! Invariants: no base image, so nothing of the image comes from a registry; no shell; the user is a number other than 0; two runs over the
//! same binary and libraries write the same bytes. Roots of trust are compiled into the binary.
//!
//! It does not link the binary statically: the shared libraries are those of the machine that builds, at the paths where the loader
//! looks for them, with the licence texts of their Debian packages where that machine has them. glibc 2.34 and later resolves names without further libraries.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::archive::{Folder, folders_above, gzip, save, sha256, tar};
use super::payload::{File, HOMEPAGE, LICENCE, Payload, SUMMARY};
use super::platform::newest_glibc;
use crate::files::read_bytes;
use crate::invocation::Invocation;

/// The user and group of the program.
const USER: u64 = 65_532;

/// The folder that the user may write to: a run log on disk, if no volume is mounted.
const STATE: &str = "var/lib/aqueduct/";

/// The program.
pub(super) const PROGRAM: &str = "/aqueduct";

/// The configuration file that the program reads unless the container has another command.
pub(super) const CONFIGURATION: &str = "/etc/aqueduct/aqueduct.toml";

/// The oldest glibc whose resolver needs no library that `ldd` does not list.
const RESOLVER_BUILT_IN: (u32, u32) = (2, 34);

/// Licence texts of the shared libraries, on Debian and its relatives.
const LIBRARY_LICENCES: [&str; 2] = ["usr/share/doc/libc6/copyright", "usr/share/doc/libgcc-s1/copyright"];

/// Returns the file name of the image.
pub(super) fn file_name(version: &str, architecture: &str) -> String {
    format!("aqueduct-{version}-linux-{architecture}.image.tar")
}

/// Writes the image, on platforms that have containers.
pub(super) fn write(payload: &Payload, out: &Path) -> Result<()> {
    let Some(architecture) = payload.platform.container() else { return Ok(()) };
    let files = files(payload)?;
    let mut folders: Vec<Folder> = folders_above(&files).into_iter().map(Folder::of_root).collect();
    folders.extend(["var/", "var/lib/"].map(|path| Folder::of_root(path.to_owned())));
    folders.push(Folder { path: STATE.to_owned(), owner: USER });
    let layer = tar(&folders, &files)?;
    let image = archive(&layer, &payload.version, architecture)?;
    save(out, &file_name(&payload.version, architecture), &image)
}

/// Returns the files of the layer.
fn files(payload: &Payload) -> Result<Vec<File>> {
    let mut files = vec![File::program(PROGRAM.trim_start_matches('/'), payload.binary.clone())];
    files.extend(
        payload
            .licences
            .iter()
            .map(|file| File::new(format!("usr/share/doc/aqueduct/{}", file.path), file.content.clone())),
    );
    files.extend(libraries(payload)?);
    Ok(files)
}

/// Returns the shared libraries of the binary, which are none if it is static, with their licence texts.
fn libraries(payload: &Payload) -> Result<Vec<File>> {
    if newest_glibc(&payload.binary).is_none() {
        return Ok(Vec::new());
    }
    let binary = crate::interop::peers::text(&payload.path)?;
    let listed = Invocation::new("ldd", Path::new("/")).args([binary]).output()?;
    let mut files = Vec::new();
    for path in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let file = File::program(path.trim_start_matches('/'), read_bytes(Path::new(path))?);
        if path.contains("/libc.so") {
            ensure!(
                newest_glibc(&file.content) >= Some(RESOLVER_BUILT_IN),
                "the image needs glibc {RESOLVER_BUILT_IN:?} or later: older ones load the resolver at run time"
            );
        }
        files.push(file);
    }
    for path in LIBRARY_LICENCES {
        files.extend(std::fs::read(Path::new("/").join(path)).map(|text| File::new(path, text)).ok());
    }
    Ok(files)
}

/// Returns the archive of an image with one layer.
fn archive(layer: &[u8], version: &str, architecture: &str) -> Result<Vec<u8>> {
    let compressed = gzip(layer)?;
    let configuration = configuration(layer, version, architecture).to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &configuration),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &compressed)],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut described = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    let annotations = json!({
        "io.containerd.image.name": format!("docker.io/library/aqueduct:{version}"),
        "org.opencontainers.image.ref.name": version,
    });
    if let Some(fields) = described.as_object_mut() {
        fields.insert("annotations".to_owned(), annotations);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    let saved = json!([{
        "Config": blob(&configuration),
        "RepoTags": [format!("aqueduct:{version}")],
        "Layers": [blob(&compressed)],
    }]);
    let text = |name: &str, value: &Value| File::new(name, value.to_string());
    let mut files = vec![
        text("oci-layout", &json!({ "imageLayoutVersion": "1.0.0" })),
        text("index.json", &index),
        text("manifest.json", &saved),
    ];
    files.extend([configuration, manifest, compressed].map(|content| File::new(blob(&content), content)));
    let folders = folders_above(&files).into_iter().map(Folder::of_root).collect::<Vec<_>>();
    tar(&folders, &files)
}

/// Returns the configuration of the image, in the form that the OCI specification and Docker share.
fn configuration(layer: &[u8], version: &str, architecture: &str) -> Value {
    let seconds = |seconds: u64| seconds * 1_000_000_000;
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "WorkingDir": format!("/{}", STATE.trim_end_matches('/')),
            "ExposedPorts": { "8080/tcp": {}, "9090/tcp": {} },
            "Entrypoint": [PROGRAM],
            "Cmd": ["serve", "--config", CONFIGURATION],
            "StopSignal": "SIGTERM",
            // Docker's own field: Kubernetes has probes, and other engines ignore it.
            "Healthcheck": {
                "Test": ["CMD", PROGRAM, "health"],
                "Interval": seconds(10), "Timeout": seconds(3), "StartPeriod": seconds(5), "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "aqueduct",
                "org.opencontainers.image.description": SUMMARY,
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": LICENCE,
                "org.opencontainers.image.source": HOMEPAGE,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(layer))] },
        "history": [{ "created_by": "cargo xtask dist" }],
    })
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{}", sha256(content)), "size": content.len() })
}

/// Returns the path of a blob in the layout.
fn blob(content: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(content))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use super::*;

    fn unpack(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().to_string_lossy().into_owned(), content)
        });
        entries.collect()
    }

    fn parse(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Value {
        serde_json::from_slice(&files[name]).unwrap()
    }

    #[test]
    fn both_indexes_lead_to_the_same_layer_and_configuration() {
        let files = unpack(&archive(b"layer", "1.2.3", "amd64").unwrap());
        let path = |digest: &Value| format!("blobs/{}", digest.as_str().unwrap().replace(':', "/"));
        let manifest = parse(&files, &path(&parse(&files, "index.json")["manifests"][0]["digest"]));
        let saved = parse(&files, "manifest.json");
        assert_eq!(saved[0]["RepoTags"][0], "aqueduct:1.2.3");
        assert_eq!(saved[0]["Config"], path(&manifest["config"]["digest"]));
        assert_eq!(saved[0]["Layers"][0], path(&manifest["layers"][0]["digest"]));
        for (name, content) in
            files.iter().filter(|(name, _)| name.starts_with("blobs/sha256/") && !name.ends_with('/'))
        {
            assert_eq!(*name, blob(content), "a blob is named by its content");
        }
    }

    #[test]
    fn the_program_runs_without_rights_and_is_asked_whether_it_is_ready() {
        let configuration = configuration(b"layer", "1.2.3", "amd64");
        let user = configuration["config"]["User"].as_str().unwrap();
        assert!(user.split(':').all(|id| id.parse::<u32>().unwrap() > 0), "{user}");
        assert_eq!(configuration["config"]["Healthcheck"]["Test"][1], PROGRAM);
        assert_eq!(configuration["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(b"layer")));
    }
}
