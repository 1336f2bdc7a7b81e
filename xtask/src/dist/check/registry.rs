//! [`Registry`]: an npm registry on loopback, with the packages of this project and those that an installed folder has.
//!
//! It serves the two requests that an installation needs: the description of a package, and its tarball. Installed packages are packed
//! when npm requests them. It serves one version of each name, and knows no search, no login and no upload.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use crate::dist::archive::tar_gz;
use crate::dist::payload::File;
use crate::files;

/// A running registry; it ends with the process.
#[derive(Debug)]
pub(super) struct Registry {
    address: String,
}

/// Where the content of a package is.
#[derive(Debug)]
enum Source {
    Tarball(PathBuf),
    Installed(PathBuf),
}

/// The packages by name.
type Index = BTreeMap<String, Source>;

impl Registry {
    /// Serves the tarballs in `packages`, and the packages installed in `node_modules`.
    pub(super) fn serve(packages: &Path, node_modules: &Path) -> Result<Self> {
        let mut index = Index::new();
        add_installed(&mut index, node_modules, "")?;
        for entry in files::list(packages)? {
            if entry.extension().is_some_and(|extension| extension == "tgz") {
                let manifest = manifest(&files::read_bytes(&entry)?)?;
                let name = field(&manifest, "name")?.to_owned();
                index.insert(name, Source::Tarball(entry));
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
        let address = format!("http://{}", listener.local_addr()?);
        let (index, base) = (Arc::new(index), address.clone());
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (index, base) = (Arc::clone(&index), base.clone());
                // npm gives up on a connection that ends early, and reports the package.
                thread::spawn(move || answer(&index, &base, connection).ok());
            }
        });
        Ok(Self { address })
    }

    /// Returns the URL for npm's setting `registry`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

fn add_installed(index: &mut Index, folder: &Path, scope: &str) -> Result<()> {
    for entry in files::list(folder)? {
        let name = files::name(&entry)?.to_owned();
        if name.starts_with('@') {
            add_installed(index, &entry, &format!("{name}/"))?;
        } else if entry.join("package.json").is_file() {
            index.insert(format!("{scope}{name}"), Source::Installed(entry));
        }
    }
    Ok(())
}

impl Source {
    fn tarball(&self) -> Result<Vec<u8>> {
        match self {
            Self::Tarball(path) => files::read_bytes(path),
            Self::Installed(folder) => {
                let mut packed = Vec::new();
                add_files(&mut packed, folder, "package")?;
                tar_gz(&packed)
            }
        }
    }
}

fn add_files(packed: &mut Vec<File>, folder: &Path, prefix: &str) -> Result<()> {
    for entry in files::list(folder)? {
        let name = files::name(&entry)?;
        let path = format!("{prefix}/{name}");
        match entry.is_dir() {
            // Packages inside a package are other packages.
            true if name == "node_modules" => {}
            true => add_files(packed, &entry, &path)?,
            false => packed.push(File::program(path, files::read_bytes(&entry)?)),
        }
    }
    Ok(())
}

/// Returns the manifest in a tarball.
fn manifest(tarball: &[u8]) -> Result<Value> {
    let mut archive = tar::Archive::new(GzDecoder::new(tarball));
    for entry in archive.entries().context("cannot read a tarball")? {
        let mut entry = entry.context("cannot read a tarball")?;
        if entry.path()?.ends_with("package.json") && entry.path()?.components().count() == 2 {
            let mut text = String::new();
            entry.read_to_string(&mut text).context("cannot read a manifest")?;
            return serde_json::from_str(&text).context("a manifest is no JSON");
        }
    }
    anyhow::bail!("a tarball without a manifest")
}

/// Answers one request and closes the connection.
fn answer(index: &Index, base: &str, mut connection: TcpStream) -> Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let request = lines.next().context("an empty request")??;
    // The headers decide nothing; the request has no body.
    lines.find(|line| !line.as_ref().is_ok_and(|line| !line.is_empty()));
    let path = request.split(' ').nth(1).context("a request without a path")?;
    let (status, kind, body) = match respond(index, base, path)? {
        Some((kind, body)) => ("200 OK", kind, body),
        None => ("404 Not Found", "application/json", b"{}".to_vec()),
    };
    let length = body.len();
    write!(
        connection,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    Ok(connection.write_all(&body)?)
}

fn respond(index: &Index, base: &str, path: &str) -> Result<Option<(&'static str, Vec<u8>)>> {
    let path = path.trim_start_matches('/').replace("%2f", "/").replace("%2F", "/");
    if let Some(source) = path.strip_suffix("/-/package.tgz").and_then(|name| index.get(name)) {
        return Ok(Some(("application/octet-stream", source.tarball()?)));
    }
    let Some(source) = index.get(&path) else { return Ok(None) };
    let description = describe(&path, &source.tarball()?, base)?;
    Ok(Some(("application/json", description.to_string().into_bytes())))
}

/// Returns what a registry says about a package: its only version, with the address and the hash of the tarball.
fn describe(name: &str, tarball: &[u8], base: &str) -> Result<Value> {
    let mut manifest = manifest(tarball)?;
    let version = field(&manifest, "version")?.to_owned();
    let integrity = format!("sha512-{}", BASE64_STANDARD.encode(Sha512::digest(tarball)));
    let dist = json!({ "tarball": format!("{base}/{name}/-/package.tgz"), "integrity": integrity });
    manifest.as_object_mut().context("a manifest is no object")?.insert("dist".to_owned(), dist);
    Ok(json!({ "name": name, "dist-tags": { "latest": version }, "versions": { version: manifest } }))
}

fn field<'a>(manifest: &'a Value, name: &str) -> Result<&'a str> {
    let value = manifest.get(name).and_then(Value::as_str);
    value.with_context(|| format!("a manifest without `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_described_with_its_tarball_and_hash() {
        let files = [File::new("package/package.json", r#"{"name":"@a/b","version":"1.2.3"}"#)];
        let tarball = tar_gz(&files).unwrap();
        let described = describe("@a/b", &tarball, "http://127.0.0.1:1").unwrap();
        assert_eq!(described["dist-tags"]["latest"], "1.2.3");
        let dist = &described["versions"]["1.2.3"]["dist"];
        assert_eq!(dist["tarball"], "http://127.0.0.1:1/@a/b/-/package.tgz");
        assert!(dist["integrity"].as_str().unwrap().starts_with("sha512-"));
        assert!(manifest(&tar_gz(&[]).unwrap()).is_err());
    }

    #[test]
    fn an_unknown_package_is_not_found() {
        assert!(respond(&Index::new(), "http://127.0.0.1:1", "/unknown").unwrap().is_none());
    }
}
