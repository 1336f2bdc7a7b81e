//! Runs the container image: unpacked into a root folder of its own, and in a container that buildah makes of it.
//!
//! ```text
//! IMAGE.tar ──┬─► layer unpacked, `chroot` as the image's user ──► demo, health check, configuration, names of hosts
//!             └─► buildah (where it is installed): from the layout and from the index of `docker save` ──► demo
//! ```
//!
//! The folder shows that the image has all files that the program needs; buildah shows that a container engine reads the image. Docker
//! itself is not part of it: its engine is a service that few test machines have.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::sandbox::Sandbox;
use super::{Outcome, Packages, confined, demo, is_root};
use crate::dist::archive::gunzip;
use crate::dist::image::{CONFIGURATION, PROGRAM, file_name};
use crate::files;
use crate::invocation::Invocation;

/// A configuration as it is mounted into a container.
const MOUNTED: &str = "[agents.research]\na2a = { url = \"http://127.0.0.1:9999\" }\n";

/// The table of hosts that container engines mount.
const HOSTS: &str = "127.0.0.1 localhost\n";

/// Unpacks the image and runs the demo in it, then lets buildah do the same.
pub(super) fn check(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let Some(architecture) = packages.payload.platform.container() else {
        return Ok(Outcome::Skipped("containers run on Linux"));
    };
    if !is_root(sandbox) {
        return Ok(Outcome::Skipped("changing the root folder needs root"));
    }
    let path = packages.path(&file_name(&packages.payload.version, architecture))?;
    let image = Image::read(&files::read_bytes(Path::new(&path))?)?;
    check_folder(sandbox, &image)?;
    if sandbox.call("buildah").args(["--version"]).output().is_err() {
        println!("    buildah is not installed: the image was unpacked and run, but no engine has read it");
        return Ok(Outcome::Passed);
    }
    for transport in ["oci-archive", "docker-archive"] {
        check_container(sandbox, &format!("{transport}:{path}"), &image)
            .with_context(|| format!("buildah, {transport}"))?;
    }
    Ok(Outcome::Passed)
}

/// Runs the program with the unpacked layer as its root folder.
fn check_folder(sandbox: &Sandbox, image: &Image) -> Result<()> {
    let root = sandbox.folder().join("root");
    image.unpack(&root)?;
    let program = confined(sandbox, &root, &image.user, PROGRAM)?;
    demo::check(&program)?;
    sandbox.write("root/etc/hosts", HOSTS)?;
    let served = demo::Demo::start(&program)?;
    program.clone().args(["health", &served.probe()]).output()?;
    let named = served.agent("demo").replace("127.0.0.1", "localhost");
    program.clone().args(["run", &named, "Write about Rust"]).output().context("a host by its name")?;
    served.stop()?;
    sandbox.write(&format!("root{CONFIGURATION}"), MOUNTED)?;
    let checked = program.args(["config", "check", "--config", CONFIGURATION]).output()?;
    ensure!(!checked.contains("error"), "`config check` in the image: {checked}");
    Ok(())
}

/// Makes a container of the image and runs the demo in it.
fn check_container(sandbox: &Sandbox, source: &str, image: &Image) -> Result<()> {
    let storage = sandbox.path("storage")?;
    let buildah = || {
        let folders = ["--root", &storage, "--runroot", &storage, "--storage-driver", "vfs"];
        sandbox.call("buildah").args(folders)
    };
    let policy = sandbox.write("policy.json", r#"{ "default": [{ "type": "insecureAcceptAnything" }] }"#)?;
    let container = buildah().args(["from", "--quiet", "--signature-policy", &policy, source]).output()?;
    let container = container.trim().to_owned();
    let user = buildah().args(["inspect", "--format", "{{.OCIv1.Config.User}}", &container]).output()?;
    ensure!(user.trim() == image.user, "the container's user is {user:?}, not {}", image.user);
    let run: Invocation = buildah().args(["run", "--isolation", "chroot", &container, "--", PROGRAM]);
    demo::check_by_launcher(&run, PROGRAM)?;
    buildah().args(["rm", &container]).output().map(drop)
}

/// Returns the text at a JSON pointer.
fn text(value: &Value, pointer: &str) -> Result<String> {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| format!("the image has no text at {pointer}"))
}

/// An image, as its index for Docker describes it.
struct Image {
    /// `UID:GID`.
    user: String,
    layer: Vec<u8>,
}

impl Image {
    fn read(archive: &[u8]) -> Result<Self> {
        let index: Value = serde_json::from_slice(&entry(archive, "manifest.json")?)?;
        let configuration: Value = serde_json::from_slice(&entry(archive, &text(&index, "/0/Config")?)?)?;
        let user = text(&configuration, "/config/User")?;
        Ok(Self { user, layer: gunzip(&entry(archive, &text(&index, "/0/Layers/0")?)?)? })
    }

    /// Unpacks the layer with its owners.
    fn unpack(&self, root: &Path) -> Result<()> {
        let mut layer = tar::Archive::new(self.layer.as_slice());
        layer.set_preserve_ownerships(true);
        layer.set_preserve_permissions(true);
        layer.unpack(root).with_context(|| format!("cannot unpack the layer into {}", root.display()))
    }
}

/// Returns the content of one entry of a tar archive.
fn entry(archive: &[u8], name: &str) -> Result<Vec<u8>> {
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        if entry.path()? == Path::new(name) {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).with_context(|| format!("cannot read {name}"))?;
            return Ok(content);
        }
    }
    anyhow::bail!("the image has no {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_missing_is_named() {
        let archive = crate::dist::archive::tar(&[], &[]).unwrap();
        assert!(entry(&archive, "manifest.json").unwrap_err().to_string().contains("manifest.json"));
    }
}
