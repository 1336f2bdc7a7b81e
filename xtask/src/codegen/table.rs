//! All generated code of the workspace, one row each.

use std::path::Path;

use anyhow::Result;

use crate::codegen::generator::Generator;
use crate::codegen::proto;

/// The files that `cargo xtask codegen` generates. A row for a .proto file looks like this:
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
pub(crate) const GENERATORS: &[Generator] = &[
    Generator {
        name: "A2A 1.0",
        folder: "adapter-a2a/proto",
        inputs: &["lf.a2a.v1.proto"],
        output: "adapter-a2a/src/pb/generated/v1.rs",
        run: a2a_messages,
    },
    Generator {
        name: "A2A 0.3",
        folder: "adapter-a2a/proto",
        inputs: &["a2a.v1.proto"],
        output: "adapter-a2a/src/pb/generated/v03.rs",
        run: a2a_messages,
    },
    Generator {
        name: "aqueduct.v1",
        folder: "transport-grpc/proto",
        inputs: &["aqueduct/v1/agent_stream.proto"],
        output: "transport-grpc/src/generated/aqueduct_v1.rs",
        run: |folder, inputs| {
            proto::messages_with_shared_text(folder, inputs, |config| {
                config.bytes(["."]);
                let services = tonic_prost_build::configure()
                    .build_transport(false)
                    .codec_path("crate::codec::MessageCodec");
                config.service_generator(services.service_generator());
            })
        },
    },
    Generator {
        name: "the description of aqueduct.v1",
        folder: "transport-grpc/proto",
        inputs: &["aqueduct/v1/agent_stream.proto"],
        output: "transport-grpc/src/generated/description.rs",
        run: proto::description,
    },
];

/// Generates maps in the order of their keys, so that the encoding is deterministic.
fn a2a_messages(folder: &Path, inputs: &[&str]) -> Result<String> {
    proto::messages(folder, inputs, |config| {
        config.btree_map(["."]);
    })
}
