//! Wheels: ZIP archives that pip unpacks into an environment.
//!
//! Format: the binary distribution format of the Python packaging specifications (`WHEEL` 1.0, metadata 2.4). The wheel of the binary has it
//! in `.data/scripts`, which pip copies into the environment's `bin`.

use std::io::{Cursor, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::archive::save;
use super::payload::{File, HOMEPAGE, LICENCE, PACKAGE, Payload, SUMMARY};

/// Writes `aqueduct_gateway-VERSION-py3-none-PLATFORM.whl`.
pub(super) fn write(payload: &Payload, out: &Path) -> Result<()> {
    let stem = format!("{}-{}", PACKAGE.replace('-', "_"), payload.version);
    let binary = format!("{stem}.data/scripts/{}", payload.platform.binary());
    let wheel = Wheel {
        tag: format!("py3-none-{}", payload.platform.wheel_tag(&payload.binary)?),
        is_pure: false,
        metadata: metadata(payload),
        files: vec![File::program(binary, payload.binary.clone())],
        licences: payload.licences.clone(),
        stem,
    };
    wheel.save(out)
}

/// The contents of a wheel, without the files that describe them.
pub(super) struct Wheel {
    /// Name and version, as in the file name: `aqueduct_gateway-0.1.0`.
    pub(super) stem: String,
    /// The compatibility tag.
    pub(super) tag: String,
    /// Set if the wheel has no binary.
    pub(super) is_pure: bool,
    /// The text of `METADATA`.
    pub(super) metadata: String,
    /// The files, by their path in the archive.
    pub(super) files: Vec<File>,
    /// The licences, without folder.
    pub(super) licences: Vec<File>,
}

impl Wheel {
    /// Adds the descriptions and writes the wheel into the folder of all packages.
    pub(super) fn save(self, out: &Path) -> Result<()> {
        let Self { stem, tag, is_pure, metadata, mut files, licences } = self;
        let info = format!("{stem}.dist-info");
        let pure = if is_pure { "true" } else { "false" };
        let about =
            format!("Wheel-Version: 1.0\nGenerator: aqueduct-xtask\nRoot-Is-Purelib: {pure}\nTag: {tag}\n");
        files.push(File::new(format!("{info}/METADATA"), metadata));
        files.push(File::new(format!("{info}/WHEEL"), about));
        files.extend(
            licences
                .into_iter()
                .map(|file| File::new(format!("{info}/licenses/{}", file.path), file.content)),
        );
        files.push(File::new(format!("{info}/RECORD"), record(&files, &info)));
        save(out, &format!("{stem}-{tag}.whl"), &zipped(&files)?)
    }
}

fn metadata(payload: &Payload) -> String {
    let head = format!(
        "Metadata-Version: 2.4\nName: {PACKAGE}\nVersion: {}\nSummary: {SUMMARY}\nLicense-Expression: {LICENCE}\n\
         License-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\nProject-URL: Homepage, {HOMEPAGE}\n\
         Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n",
        payload.version
    );
    format!("{head}\n{}", String::from_utf8_lossy(&payload.readme))
}

/// Returns the list of files with their hashes, which pip checks and uninstalls by.
fn record(files: &[File], info: &str) -> String {
    let line = |file: &File| {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&file.content));
        format!("{},sha256={digest},{}\n", file.path, file.content.len())
    };
    files.iter().map(line).collect::<String>() + &format!("{info}/RECORD,,\n")
}

fn zipped(files: &[File]) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(if file.is_executable { 0o755 } else { 0o644 });
        archive.start_file(&file.path, options).with_context(|| format!("cannot add {}", file.path))?;
        archive.write_all(&file.content).with_context(|| format!("cannot add {}", file.path))?;
    }
    Ok(archive.finish().context("cannot finish the wheel")?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_names_every_file_and_itself() {
        let record = record(&[File::new("a/b", "")], "i");
        assert_eq!(record, "a/b,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\ni/RECORD,,\n");
    }
}
