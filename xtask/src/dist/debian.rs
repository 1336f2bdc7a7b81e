//! The Debian package: an `ar` archive of a version, the control files and the data files (deb(5)).
//!
//! The package installs the unit but does not start it: a gateway without agents has nothing to serve.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::archive::{Folder, folders_above, gzip, save, tar, tar_gz};
use super::payload::{File, HOMEPAGE, PACKAGE, Payload, SUMMARY};
use super::platform::newest_glibc;

/// The maintainer field, which Debian requires.
const MAINTAINER: &str = "The Aqueduct developers <aqueduct@localhost>";

/// The configuration file that the unit reads; kept over upgrades.
const CONFIGURATION: &str = "etc/aqueduct/aqueduct.toml";

/// What stands in the configuration file until an administrator edits it. Removing the `#` before a line of the example is enough.
const EMPTY_CONFIGURATION: &str = "\
# The agents of this gateway. `aqueduct config check --config /etc/aqueduct/aqueduct.toml` finds mistakes;
# `systemctl enable --now aqueduct` starts the gateway. All keys: docs/configuration.md.
#
# Secrets: NAME=value lines in /etc/aqueduct/environment (mode 0600), named here as \"env:NAME\".
#
#[agents.research]
#a2a = { url = \"http://127.0.0.1:9999\" }
";

/// Writes `aqueduct_VERSION_ARCH.deb`, on platforms that Debian supports.
pub(super) fn write(payload: &Payload, out: &Path) -> Result<()> {
    let Some(architecture) = payload.platform.debian else { return Ok(()) };
    let data = data(payload);
    let folders: Vec<Folder> = folders_above(&data).into_iter().map(Folder::of_root).collect();
    let installed: usize = data.iter().map(|file| file.content.len()).sum();
    let control = [
        File::new("./control", control(payload, architecture, installed)),
        File::new("./conffiles", format!("/{CONFIGURATION}\n")),
    ];
    let members: [(&str, Vec<u8>); 3] = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", tar_gz(&control)?),
        ("data.tar.gz", gzip(&tar(&folders, &data)?)?),
    ];
    save(out, &format!("aqueduct_{}_{architecture}.deb", payload.version), &ar(&members))
}

fn control(payload: &Payload, architecture: &str, installed: usize) -> String {
    let mut depends = String::from("libgcc-s1");
    if let Some((major, minor)) = newest_glibc(&payload.binary) {
        // Writing into a string cannot fail.
        write!(depends, ", libc6 (>= {major}.{minor})").ok();
    }
    format!(
        "Package: aqueduct\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\nSection: net\n\
         Priority: optional\nHomepage: {HOMEPAGE}\nInstalled-Size: {}\nDepends: {depends}\nDescription: {SUMMARY}\n \
         Gateway between agents and agent frontends. Also known as {PACKAGE}.\n",
        payload.version,
        installed.div_ceil(1024),
    )
}

fn data(payload: &Payload) -> Vec<File> {
    let mut files = vec![
        File::program("./usr/bin/aqueduct", payload.binary.clone()),
        File::new("./usr/lib/systemd/system/aqueduct.service", unit(&payload.unit)),
        File::new(format!("./{CONFIGURATION}"), EMPTY_CONFIGURATION),
        File::new("./usr/share/doc/aqueduct/copyright", copyright()),
        File::new("./usr/share/doc/aqueduct/README.md", payload.readme.clone()),
    ];
    let groups = [
        ("usr/share/doc/aqueduct", &payload.licences),
        ("usr/share", &payload.completions),
        ("usr/share/man/man1", &payload.man_pages),
    ];
    for (folder, group) in groups {
        files.extend(
            group.iter().map(|file| File::new(format!("./{folder}/{}", file.path), file.content.clone())),
        );
    }
    files
}

/// Returns the unit with the path of a packaged binary: a package never writes to `/usr/local`.
fn unit(unit: &[u8]) -> String {
    String::from_utf8_lossy(unit).replace("/usr/local/bin/", "/usr/bin/")
}

/// Returns the machine-readable copyright file (format 1.0).
fn copyright() -> String {
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: aqueduct\n\
         Source: {HOMEPAGE}\n\nFiles: *\nCopyright: The Aqueduct developers\nLicense: Apache-2.0 or Expat\n \
         The texts are beside this file: LICENSE-APACHE, LICENSE-MIT.\n"
    )
}

/// Returns an `ar` archive in the common format: names of at most 16 bytes, members at even offsets.
fn ar(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", content.len());
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(content);
        if content.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_the_packaged_binary() {
        let unit = unit(b"# cp aqueduct /usr/local/bin/\nExecStart=/usr/local/bin/aqueduct serve\n");
        assert!(unit.ends_with("ExecStart=/usr/bin/aqueduct serve\n") && !unit.contains("/local/"), "{unit}");
    }

    #[test]
    fn members_have_headers_of_sixty_bytes_at_even_offsets() {
        let archive = ar(&[("debian-binary", b"2.0\n".to_vec()), ("odd", b"x".to_vec())]);
        assert_eq!(archive.len(), 8 + 60 + 4 + 60 + 1 + 1);
        assert_eq!(&archive[66..72], b"`\n2.0\n");
        assert!(archive.ends_with(b"x\n"));
    }
}
