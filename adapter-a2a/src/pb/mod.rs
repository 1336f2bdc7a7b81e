//! A2A over gRPC (feature `proto`): the messages of both packages, and their conversion to and from the wire model.
//!
//! The types are generated from `proto/` and checked in. A transport sends messages by method path; this module only
//! converts them. Stream items are converted both ways for both versions, so one reducer serves gRPC too.
//!
//! ```text
//! Call ► Endpoint::grpc_request ► (path, metadata, bytes) ► answer::read_* ► StreamItem ► client::TaskClient
//!                                                         ► WireError::from_grpc (any status but OK)
//! (path, bytes) ► read::Asked ► AgentServer::handle_grpc ► serve::GrpcAnswer (bytes, or a stream of them)
//!                                                        ► serve::GrpcStatus
//! ```
//!
//! What gRPC cannot represent: unknown members (proto3 drops them), the order of members in JSON objects, and the
//! difference between `1` and `1.0` (numbers are doubles; whole ones are decoded as integers).

pub mod answer;
#[cfg(feature = "server")]
mod card;
mod convert;
mod names;
#[cfg(feature = "server")]
pub mod read;
pub mod request;
#[cfg(feature = "server")]
pub mod serve;
pub mod status;
mod value;

/// Messages of 1.0: package `lf.a2a.v1`.
#[path = "generated/v1.rs"]
pub mod v1;

/// Messages of 0.3: package `a2a.v1`.
#[path = "generated/v03.rs"]
pub mod v03;

/// The full name of the 1.0 service: the first segment of its request paths.
pub const V1_SERVICE: &str = "lf.a2a.v1.A2AService";
/// The full name of the 0.3 service. Both services can be served at one address.
pub const V03_SERVICE: &str = "a2a.v1.A2AService";

#[cfg(test)]
mod tests;
