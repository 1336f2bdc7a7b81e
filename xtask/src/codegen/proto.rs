//! Compiles protobuf to Rust with a compiler written in Rust, without `protoc`.
//!
//! A row of the table selects the output: messages, messages with the stubs of a service (`configure` sets the service
//! generator), or the descriptor set for a reflection service.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use prost_build::{Config, Module};
use protox::prost_reflect::prost_types::field_descriptor_proto::Type;
use protox::prost_reflect::prost_types::{DescriptorProto, FileDescriptorSet};

/// Returns the Rust types of one protobuf package, spread over `files` in `folder`. The package is that of the first file.
/// Imports of Google's well-known types become `prost_types`.
pub(crate) fn messages(folder: &Path, files: &[&str], configure: fn(&mut Config)) -> Result<String> {
    generate(compile(folder, files)?, files, configure)
}

/// Like [`messages`], with every `string` as `bytes::Bytes`: the same bytes on the wire, and text shares its buffer instead of
/// being copied. The reader of such a field checks that it is UTF-8.
pub(crate) fn messages_with_shared_text(
    folder: &Path,
    files: &[&str],
    configure: fn(&mut Config),
) -> Result<String> {
    fn share(message: &mut DescriptorProto) {
        for field in message.field.iter_mut().filter(|field| field.r#type() == Type::String) {
            field.set_type(Type::Bytes);
        }
        message.nested_type.iter_mut().for_each(share);
    }
    let mut descriptors = compile(folder, files)?;
    descriptors.file.iter_mut().flat_map(|file| &mut file.message_type).for_each(share);
    generate(descriptors, files, configure)
}

/// Returns the descriptor set of `files` as a constant, without comments.
pub(crate) fn description(folder: &Path, files: &[&str]) -> Result<String> {
    let mut descriptors = compile(folder, files)?;
    descriptors.file.iter_mut().for_each(|file| file.source_code_info = None);
    let bytes = protox::prost_reflect::prost::Message::encode_to_vec(&descriptors);
    Ok(format!(
        "/// A `google.protobuf.FileDescriptorSet` in its wire format.\n\
         pub const FILE_DESCRIPTOR_SET: &[u8] = b\"{}\";\n",
        bytes.escape_ascii()
    ))
}

fn compile(folder: &Path, files: &[&str]) -> Result<FileDescriptorSet> {
    protox::compile(files, [folder]).map_err(|error| anyhow::anyhow!("{error:?}"))
}

fn generate(descriptors: FileDescriptorSet, files: &[&str], configure: fn(&mut Config)) -> Result<String> {
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
