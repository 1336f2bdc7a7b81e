//! All generated code of the workspace, one row each.

use crate::codegen::generator::Generator;

/// What `cargo xtask codegen` generates. A row for a .proto file looks like this:
///
/// ```text
/// Generator {
///     name: "AG-UI events",
///     folder: "adapter-agui/proto",
///     inputs: &["agui.proto"],
///     output: "adapter-agui/src/pb/generated/agui.rs",
///     run: |folder, inputs| proto::messages(folder, inputs, |config| { config.bytes(["."]); }),
/// }
/// ```
pub(crate) const GENERATORS: &[Generator] = &[];
