//! JSON-RPC at `/`, HTTP+JSON below `/rest`, gRPC on a port of its own.

use std::error::Error;
use std::sync::Arc;

use a2a::{AgentCapabilities, AgentCard, AgentInterface, AgentSkill};
use a2a::{TRANSPORT_PROTOCOL_GRPC, TRANSPORT_PROTOCOL_HTTP_JSON, TRANSPORT_PROTOCOL_JSONRPC};
use a2a_grpc::GrpcHandler;
use a2a_pb::proto::a2a_service_server::A2aServiceServer;
use a2a_server::agent_card::agent_card_router;
use a2a_server::jsonrpc::jsonrpc_router;
use a2a_server::rest::rest_router;
use a2a_server::{DefaultRequestHandler, InMemoryTaskStore, StaticAgentCard};
use axum::Router;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use crate::modes::Executor;

fn card(http: &str, grpc: &str) -> AgentCard {
    let skill = AgentSkill {
        id: "play".to_owned(),
        name: "play".to_owned(),
        description: "Plays modes.".to_owned(),
        tags: vec!["test".to_owned()],
        examples: None,
        input_modes: None,
        output_modes: None,
        security_requirements: None,
    };
    AgentCard {
        name: "scripted".to_owned(),
        description: "Plays modes.".to_owned(),
        version: "1".to_owned(),
        supported_interfaces: vec![
            AgentInterface::new(format!("{http}/"), TRANSPORT_PROTOCOL_JSONRPC),
            AgentInterface::new(format!("{http}/rest"), TRANSPORT_PROTOCOL_HTTP_JSON),
            AgentInterface::new(grpc, TRANSPORT_PROTOCOL_GRPC),
        ],
        capabilities: AgentCapabilities { streaming: Some(true), ..AgentCapabilities::default() },
        default_input_modes: vec!["text/plain".to_owned()],
        default_output_modes: vec!["text/plain".to_owned()],
        skills: vec![skill],
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: None,
        security_requirements: None,
        signatures: None,
    }
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let http = TcpListener::bind("127.0.0.1:0").await?;
    let grpc = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", http.local_addr()?);
    let card = card(&url, &grpc.local_addr()?.to_string());
    let handler = Arc::new(DefaultRequestHandler::new(Executor::default(), InMemoryTaskStore::new()));
    let service = A2aServiceServer::new(GrpcHandler::new(handler.clone()));
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(grpc)));
    let app = Router::new()
        .merge(agent_card_router(Arc::new(StaticAgentCard::new(card))))
        .nest("/rest", rest_router(handler.clone()))
        .merge(jsonrpc_router(handler));
    println!("{url}");
    axum::serve(http, app).await?;
    Ok(())
}
