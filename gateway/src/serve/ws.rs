//! WebSocket on the gateway's own port: the upgrade is answered here, the connection belongs to the transport.

use std::sync::Arc;

use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::input::{read_input, run_input};
use aqueduct_adapter_agui::version::Encoding as AguiEncoding;
use aqueduct_core::service::{EventEncoder, RefusalKind, RunService, ServiceError};
use aqueduct_transport_http::{PeerAddr, PeerCertificate};
use aqueduct_transport_ws::{Admission, Config as WsConfig, Dialect, Encoding, Endpoint, Limits, ReadInput};
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use hyper_util::rt::TokioIo;

use super::agui::settings_for;
use crate::config::{Agent, Config};

/// An endpoint for the gateway's runs.
pub(super) fn endpoint(service: Arc<dyn RunService>, config: &Config) -> Endpoint {
    let server = &config.server;
    let admission = Admission {
        hosts: server.hosts.clone(),
        any_host: server.any_host,
        origins: server.origins.clone(),
        token_required: false,
    };
    let limits = Limits { merge_bytes: super::MERGE_BYTES, ..Limits::default() };
    Endpoint::new(service, Arc::new(Agui), WsConfig { limits, admission, ..WsConfig::default() })
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
            tokio::spawn(async move {
                // A peer that went away before the upgrade has no connection to serve.
                if let Ok(io) = on_upgrade.await {
                    endpoint.serve(TokioIo::new(io), upgrade).await;
                }
            });
            response.into_response()
        }
    }
}

/// AG-UI as the dialect of connections. An input does not name its agent here, so every agent is shown by the defaults
/// of the version that the client declares.
struct Agui;

impl Agui {
    fn encoder_for(declared: Option<&str>, encoding: Encoding) -> Box<dyn EventEncoder> {
        let encoding = match encoding {
            Encoding::Json => AguiEncoding::Sse,
            Encoding::Binary => AguiEncoding::Proto,
        };
        Box::new(WatcherEncoder::new(converters(&settings_for(&Agent::default(), declared)), encoding))
    }
}

impl Dialect for Agui {
    fn read_input(&self, input: &str, encoding: Encoding) -> Result<ReadInput, ServiceError> {
        let invalid = |message: String| ServiceError::new(RefusalKind::Invalid, message);
        let input = read_input(input.as_bytes()).map_err(|error| invalid(error.to_string()))?;
        if input.thread_id.is_empty() || input.run_id.is_empty() {
            return Err(invalid("threadId and runId must not be empty: choose ids of your own".to_owned()));
        }
        let encoder = Self::encoder_for(input.protocol_version.as_deref(), encoding);
        Ok(ReadInput { input: run_input(input), encoder })
    }

    fn encoder(
        &self,
        encoding: Encoding,
        options: Option<&str>,
    ) -> Result<Box<dyn EventEncoder>, ServiceError> {
        let options: serde_json::Value = options
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| {
                ServiceError::new(RefusalKind::Invalid, format!("the options are no JSON: {error}"))
            })?
            .unwrap_or_default();
        let declared = options.get("protocolVersion").and_then(serde_json::Value::as_str);
        // Bytes are read by 1.0 alone.
        let declared = declared.or_else(|| (encoding == Encoding::Binary).then_some("1.0"));
        Ok(Self::encoder_for(declared, encoding))
    }
}
