//! WebSocket on the gateway's own port: the upgrade is answered here, the connection belongs to the transport.

use std::sync::Arc;

use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::input::{read_input, run_input};
use aqueduct_adapter_agui::version::Encoding as AguiEncoding;
use aqueduct_core::RunId;
use aqueduct_core::service::{BoxFuture, EventEncoder, RefusalKind, RunService, ServiceError};
use aqueduct_transport_http::{PeerAddr, PeerCertificate};
use aqueduct_transport_ws::{Admission, Config as WsConfig, Dialect, Encoding, Endpoint, Limits, ReadInput};
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use hyper_util::rt::TokioIo;
use tracing::Instrument as _;

use super::agui::settings_for;
use crate::config::Agent;
use crate::service::Gateway;

/// An endpoint for the gateway's runs.
pub(super) fn endpoint(service: Arc<dyn RunService>, gateway: &Arc<Gateway>) -> Endpoint {
    let server = &gateway.config().server;
    let admission = Admission {
        hosts: server.hosts.clone(),
        any_host: server.any_host,
        origins: server.origins.clone(),
        token_required: false,
    };
    let limits = Limits { merge_bytes: gateway.config().server.merge, ..Limits::default() };
    let config = WsConfig { limits, admission, ..WsConfig::default() };
    Endpoint::new(service, Arc::new(Agui(Arc::clone(gateway))), config)
}

/// Answers an upgrade and leaves the connection to the endpoint.
pub(super) fn upgrade(endpoint: &Endpoint, agent: Option<&str>, mut request: Request) -> Response {
    let on_upgrade = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    let peer = parts.extensions.get::<PeerAddr>().map(|peer| peer.0.to_string());
    match endpoint.accept(&parts, agent, peer) {
        Err(refusal) => refusal.response().map(Body::from).into_response(),
        Ok(mut upgrade) => {
            let certificate = parts.extensions.get::<PeerCertificate>();
            upgrade.caller.certificate = certificate.map(|certificate| certificate.0.clone());
            let response = upgrade.response().map(|()| Body::empty());
            let endpoint = endpoint.clone();
            let connection = async move {
                // A peer that went away before the upgrade has no connection to serve.
                if let Ok(io) = on_upgrade.await {
                    endpoint.serve(TokioIo::new(io), upgrade).await;
                }
            };
            // What is logged of its runs has the id of the request that opened it.
            tokio::spawn(connection.in_current_span());
            response.into_response()
        }
    }
}

/// AG-UI as the dialect of connections: each agent is shown as its configuration says.
struct Agui(Arc<Gateway>);

fn encoder_for(agent: &Agent, declared: Option<&str>, encoding: Encoding) -> Box<dyn EventEncoder> {
    let encoding = match encoding {
        Encoding::Json => AguiEncoding::Sse,
        Encoding::Binary => AguiEncoding::Proto,
    };
    Box::new(WatcherEncoder::new(converters(&settings_for(agent, declared)), encoding))
}

impl Dialect for Agui {
    fn read_input(&self, agent: &str, input: &str, encoding: Encoding) -> Result<ReadInput, ServiceError> {
        let invalid = |message: String| ServiceError::new(RefusalKind::Invalid, message);
        let input = read_input(input.as_bytes()).map_err(|error| invalid(error.to_string()))?;
        if input.thread_id.is_empty() || input.run_id.is_empty() {
            return Err(invalid("threadId and runId must not be empty: choose ids of your own".to_owned()));
        }
        // An agent that is not there is refused by the service, in its own words.
        let agent = self.0.agent(agent).map(|agent| agent.config.clone()).unwrap_or_default();
        let encoder = encoder_for(&agent, input.protocol_version.as_deref(), encoding);
        Ok(ReadInput { input: run_input(input), encoder })
    }

    fn encoder<'a>(
        &'a self,
        run: &'a RunId,
        encoding: Encoding,
        options: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn EventEncoder>, ServiceError>> {
        Box::pin(async move {
            let options: Option<serde_json::Value> =
                options.map(serde_json::from_str).transpose().map_err(|error| {
                    ServiceError::new(RefusalKind::Invalid, format!("the options are no JSON: {error}"))
                })?;
            let declared = options.as_ref().and_then(|options| options.get("protocolVersion")?.as_str());
            // Bytes are read by 1.0 alone.
            let declared = declared.or_else(|| (encoding == Encoding::Binary).then_some("1.0"));
            let agent = self.0.agent_of(run).await.unwrap_or_default();
            Ok(encoder_for(&agent, declared, encoding))
        })
    }
}
