//! A2A over gRPC: both packages, for every agent, on the port of the other bindings.
//!
//! gRPC has no path below a service, so the agent of a request is determined otherwise, in this order:
//!
//! 1. the `tenant` of the request (1.0), which clients copy from the card, if it names an agent;
//! 2. the metadata `x-aqueduct-agent`, which 0.3 clients can be configured to send;
//! 3. the only agent that exists.
//!
//! A tenant that names no agent is forwarded, as over HTTP, if 2 or 3 determine the agent.

use aqueduct_adapter_a2a::pb::read::Asked;
use aqueduct_adapter_a2a::pb::serve::{GrpcAnswer, GrpcStatus};
use aqueduct_adapter_a2a::pb::{V1_SERVICE, V03_SERVICE};
use aqueduct_adapter_a2a::server::ServerError;
use aqueduct_adapter_a2a::version::Version;
use aqueduct_core::service::Caller;
use aqueduct_transport_grpc::raw::{RawAnswer, RawCall, RawService, RawStatus};
use futures_util::StreamExt as _;

use super::Servers;

/// The metadata that names an agent.
const AGENT: &str = "x-aqueduct-agent";

/// The service `lf.a2a.v1.A2AService`.
#[derive(Debug)]
pub struct A2aV1(pub Servers);

/// The service `a2a.v1.A2AService`.
#[derive(Debug)]
pub struct A2aV03(pub Servers);

impl RawService for A2aV1 {
    const NAME: &'static str = V1_SERVICE;

    async fn call(&self, call: RawCall) -> Result<RawAnswer, RawStatus> {
        answer(&self.0, Version::V1, call).await
    }
}

impl RawService for A2aV03 {
    const NAME: &'static str = V03_SERVICE;

    async fn call(&self, call: RawCall) -> Result<RawAnswer, RawStatus> {
        answer(&self.0, Version::V03, call).await
    }
}

/// Determines the agent of a call, and has its server handle it.
async fn answer(servers: &Servers, version: Version, call: RawCall) -> Result<RawAnswer, RawStatus> {
    let refuse = |error: ServerError| raw_status(GrpcStatus::of(&error, version));
    let asked = Asked::read(version, &call.method, &call.message);
    let Some(name) = servers.agent_of_call(&call.caller, &asked.tenant) else {
        let message =
            "name the agent: as `tenant` of the request, as its card says, or as metadata `x-aqueduct-agent`";
        return Err(refuse(ServerError::invalid_field("tenant", message)));
    };
    let Some(card) = servers.card_at(&name, call.authority.as_deref()) else {
        return Err(refuse(servers.no_such_agent(&call.caller, &name).into()));
    };
    let answered = servers.server(&name).handle_grpc(call.caller, version, asked, &card).await;
    Ok(match answered.map_err(raw_status)? {
        GrpcAnswer::Message(message) => RawAnswer::Message(message.into()),
        GrpcAnswer::Stream(events) => {
            RawAnswer::Stream(Box::pin(events.map(|event| event.map(Into::into).map_err(raw_status))))
        }
    })
}

impl Servers {
    /// Returns the agent that a gRPC call names by its tenant or its metadata, or the only agent. Returns `None` if
    /// there are several and the call names none.
    pub fn agent_of_call(&self, caller: &Caller, tenant: &str) -> Option<String> {
        let agents = self.cards.names();
        let tenant = Some(tenant).filter(|name| !name.is_empty());
        let named = tenant.filter(|name| agents.iter().any(|agent| agent == name));
        let named = named.or_else(|| caller.header(AGENT));
        let named = named.or_else(|| agents.first().filter(|_| agents.len() == 1).map(String::as_str));
        named.or(tenant).map(str::to_owned)
    }
}

/// Converts a status of the adapter into one of the transport.
fn raw_status(status: GrpcStatus) -> RawStatus {
    RawStatus { code: status.code, message: status.message, details: status.details.into() }
}
