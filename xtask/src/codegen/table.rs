//! All generated code of the workspace, one row each.

use crate::codegen::generator::Generator;
use crate::codegen::proto;

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
pub(crate) const GENERATORS: &[Generator] = &[
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
