//! Archives: tar and `.tar.gz` with fixed times and owners, so that the same files give the same bytes, and their checksums.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

use super::payload::{File, Payload};
use crate::files;

/// The modification time of every file in a package: the earliest time of a ZIP archive, 1980-01-01.
const EPOCH: u64 = 315_532_800;

/// Writes `aqueduct-VERSION-TRIPLE.tar.gz`: the binary and its files, in one folder.
pub(super) fn write(payload: &Payload, out: &Path) -> Result<()> {
    let name = format!("aqueduct-{}-{}", payload.version, payload.platform.triple);
    let mut files = vec![
        File::program(format!("{name}/{}", payload.platform.binary()), payload.binary.clone()),
        File::new(format!("{name}/README.md"), payload.readme.clone()),
        File::new(format!("{name}/aqueduct.service"), payload.unit.clone()),
    ];
    let groups = [("", &payload.licences), ("share/", &payload.completions), ("man/", &payload.man_pages)];
    for (folder, group) in groups {
        files.extend(
            group.iter().map(|file| File::new(format!("{name}/{folder}{}", file.path), file.content.clone())),
        );
    }
    save(out, &format!("{name}.tar.gz"), &tar_gz(&files)?)
}

/// A folder of an archive.
#[derive(Debug)]
pub(super) struct Folder {
    /// The path, with `/` at its end.
    pub(super) path: String,
    /// The number of its user and group.
    pub(super) owner: u64,
}

impl Folder {
    /// Returns a folder that belongs to root.
    pub(super) fn of_root(path: String) -> Self {
        Self { path, owner: 0 }
    }
}

/// Returns every folder above the files, outer ones first.
pub(super) fn folders_above(files: &[File]) -> BTreeSet<String> {
    let above = |file: &File| {
        let ends: Vec<usize> = file.path.match_indices('/').map(|(at, _)| at).collect();
        ends.iter().filter_map(|end| file.path.get(..=*end).map(str::to_owned)).collect::<Vec<_>>()
    };
    files.iter().flat_map(above).collect()
}

/// Returns a gzip-compressed tar archive of `files`.
pub(super) fn tar_gz(files: &[File]) -> Result<Vec<u8>> {
    gzip(&tar(&[], files)?)
}

/// Returns `content`, compressed.
pub(super) fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut compressed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    compressed.write_all(content)?;
    Ok(compressed.finish()?)
}

/// Returns the decompressed `content`.
pub(super) fn gunzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(content).read_to_end(&mut plain)?;
    Ok(plain)
}

/// Returns a tar archive with entries for folders before the files: dpkg and container engines create no folder that has none.
pub(super) fn tar(folders: &[Folder], files: &[File]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for folder in folders {
        let mut header = header(0, 0o755);
        header.set_entry_type(tar::EntryType::Directory);
        header.set_uid(folder.owner);
        header.set_gid(folder.owner);
        archive
            .append_data(&mut header, &folder.path, std::io::empty())
            .with_context(|| format!("cannot archive {}", folder.path))?;
    }
    for file in files {
        let mut header = header(file.content.len() as u64, if file.is_executable { 0o755 } else { 0o644 });
        archive
            .append_data(&mut header, &file.path, file.content.as_slice())
            .with_context(|| format!("cannot archive {}", file.path))?;
    }
    Ok(archive.into_inner()?)
}

/// Returns the header of an entry that belongs to root and has the same time in every archive.
fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(EPOCH);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Writes a package into the folder of all packages.
pub(super) fn save(out: &Path, name: &str, content: &[u8]) -> Result<()> {
    files::write(&out.join(name), content)
}

/// Writes `SHA256SUMS` over every file in `out`, in the form of `sha256sum --check`. Returns its lines.
pub(super) fn write_checksums(out: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for path in files::list(out)? {
        lines.push(format!("{}  {}", sha256(&files::read_bytes(&path)?), files::name(&path)?));
    }
    save(out, "SHA256SUMS", format!("{}\n", lines.join("\n")).as_bytes())?;
    Ok(lines)
}

/// Returns the SHA-256 of `content` in hexadecimal.
pub(super) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::new(), |mut text, byte| {
        // Writing into a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let files = [File::program("bin/a", "x"), File::new("b", "y")];
        assert_eq!(tar_gz(&files).unwrap(), tar_gz(&files).unwrap());
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
    #[test]
    fn folders_come_before_what_is_in_them() {
        let files = [File::new("./usr/bin/a", ""), File::new("./usr/share/b", "")];
        assert_eq!(Vec::from_iter(folders_above(&files)), ["./", "./usr/", "./usr/bin/", "./usr/share/"]);
    }
}
