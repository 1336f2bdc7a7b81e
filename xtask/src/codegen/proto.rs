//! Protobuf messages to Rust, with a compiler written in Rust: nobody needs `protoc`.
//!
//! Services are not generated here: a transport moves messages by method path.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use prost_build::{Config, Module};

/// The Rust types for the messages of one protobuf package, spread over `files` in `folder`. The package is that
/// of the first file. Imports of Google's well-known types become `prost_types`.
#[cfg_attr(not(test), expect(dead_code, reason = "no row of the table has a .proto file yet"))]
pub(crate) fn messages(folder: &Path, files: &[&str], configure: fn(&mut Config)) -> Result<String> {
    let descriptors = protox::compile(files, [folder]).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let first = files.first().context("no input files")?;
    let package =
        descriptors.file.iter().find(|file| file.name() == *first).map(|file| file.package().to_owned());
    let wanted = Module::from_protobuf_package_name(&package.context("the first file was not compiled")?);
    let requests = descriptors.file.into_iter().map(|file| {
        let module = Module::from_protobuf_package_name(file.package());
        (module, file)
    });
    let mut config = Config::new();
    configure(&mut config);
    let mut modules = config.generate(requests.collect())?;
    let code = modules.remove(&wanted).context("the first file has no messages")?;
    modules.retain(|_, code| !code.trim().is_empty());
    if let Some(other) = modules.keys().next() {
        bail!("the files reach into another package ({other}): give it a generator of its own");
    }
    Ok(code)
}
