//! WebSocket: several runs on one socket, with cancel, resume, replies and ingest.
//!
//! | route | what |
//! |---|---|
//! | `GET /ws` | requests name their agent |
//! | `GET /agents/{name}/ws` | requests are for that agent unless they name another |

use std::sync::Arc;

use aqueduct_core::RunId;
use aqueduct_core::protocol::{Encoding, Protocol};
use aqueduct_core::service::{BoxFuture, EventEncoder, RefusalKind, ServiceError};
use aqueduct_runs::Runs;
use aqueduct_transport_http::{PeerAddr, PeerCertificate};
use aqueduct_transport_ws::{Config, Dialect, Encoding as Frames, Endpoint, ReadInput};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use hyper_util::rt::TokioIo;
use serde_json::Value;

/// Returns the routes for the agents of `runs`, in AG-UI.
#[cfg(feature = "agui")]
pub fn router(runs: &Runs) -> Router {
    router_with(runs, Arc::new(crate::agui::AguiProtocol::default()), Config::default())
}

/// Returns the routes for the agents of `runs`, in the protocol of one's choice.
pub fn router_with(runs: &Runs, protocol: Arc<dyn Protocol>, config: Config) -> Router {
    let dialect = Arc::new(Spoken { runs: runs.clone(), protocol });
    let endpoint = Endpoint::new(Arc::new(runs.clone()), dialect, config);
    Router::new().route("/ws", get(socket)).route("/agents/{name}/ws", get(agent_socket)).with_state(endpoint)
}

async fn socket(State(endpoint): State<Endpoint>, request: Request) -> Response {
    upgrade(&endpoint, None, request)
}

async fn agent_socket(
    State(endpoint): State<Endpoint>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    upgrade(&endpoint, Some(&name), request)
}

/// Answers an upgrade, and leaves the connection to the endpoint.
fn upgrade(endpoint: &Endpoint, agent: Option<&str>, mut request: Request) -> Response {
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

/// A [`Protocol`] as the transport takes it.
struct Spoken {
    runs: Runs,
    protocol: Arc<dyn Protocol>,
}

fn encoding(frames: Frames) -> Encoding {
    match frames {
        Frames::Json => Encoding::Json,
        Frames::Binary => Encoding::Binary,
    }
}

impl Dialect for Spoken {
    fn read_input(&self, agent: &str, input: &str, frames: Frames) -> Result<ReadInput, ServiceError> {
        let read = self.protocol.read_input(agent, input.as_bytes(), encoding(frames))?;
        Ok(ReadInput { input: read.input, encoder: read.encoder })
    }

    fn encoder<'a>(
        &'a self,
        run: &'a RunId,
        frames: Frames,
        options: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn EventEncoder>, ServiceError>> {
        Box::pin(async move {
            let options: Option<Value> = options.map(serde_json::from_str).transpose().map_err(|error| {
                ServiceError::new(RefusalKind::Invalid, format!("the options are not JSON: {error}"))
            })?;
            let declared = options.as_ref().and_then(|options| options.get("protocolVersion")?.as_str());
            let state = self.runs.run_log().state(run).await;
            let agent = state.map(|state| state.meta.agent).unwrap_or_default();
            Ok(self.protocol.encoder(&agent, declared, encoding(frames)))
        })
    }
}
