//! What else is on the port: health, reflection, other services.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use aqueduct_transport_grpc::{AgentStreamServer, Config, FILE_DESCRIPTOR_SET, Services};
use aqueduct_transport_http::{PeerAddr, ServerConfig};
use prost::Message as _;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::service::MemoryService;
use crate::support::{Running, collect, example, prompt, raw_call};

#[tokio::test]
async fn health_answers_for_the_server_and_the_service() {
    let server = example().await;
    let mut client = HealthClient::new(server.channel().await);
    for service in ["", "aqueduct.v1.AgentStream"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        assert_eq!(client.check(request).await.unwrap().into_inner().status, 1, "{service}: SERVING");
    }
    let request = HealthCheckRequest { service: "nothing".to_owned() };
    assert_eq!(client.check(request).await.unwrap_err().code(), Code::NotFound);
}

async fn reflect(server: &Running, question: MessageRequest) -> MessageResponse {
    let mut client = ServerReflectionClient::new(server.channel().await);
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let answers = client.server_reflection_info(futures_util::stream::iter([request])).await.unwrap();
    let answer: ServerReflectionResponse = answers.into_inner().message().await.unwrap().unwrap();
    answer.message_response.unwrap()
}

#[tokio::test]
async fn reflection_tells_of_every_service_and_gives_its_file() {
    let server = example().await;
    let MessageResponse::ListServicesResponse(list) =
        reflect(&server, MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list");
    };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    assert!(names.contains(&"aqueduct.v1.AgentStream".to_owned()), "{names:?}");
    assert!(names.contains(&"grpc.health.v1.Health".to_owned()), "{names:?}");
    let symbol = MessageRequest::FileContainingSymbol("aqueduct.v1.AgentStream".to_owned());
    let MessageResponse::FileDescriptorResponse(files) = reflect(&server, symbol).await else {
        panic!("no file");
    };
    let [file] = files.file_descriptor_proto.as_slice() else { panic!("{files:?}") };
    let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    assert_eq!(prost_types::FileDescriptorProto::decode(file.as_slice()).unwrap(), set.file[0]);
}

#[tokio::test]
async fn health_and_reflection_can_be_left_out() {
    let config = Config { health: false, reflection: false, ..Config::default() };
    let server = Running::serve(MemoryService::with_examples(), config).await;
    for path in ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"]
    {
        let status = raw_call(server.channel().await, path, b"").await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
}

/// Answers every call with a status of its own.
#[derive(Clone)]
struct Dummy;

impl NamedService for Dummy {
    const NAME: &'static str = "test.Dummy";
}

impl Service<http::Request<axum::body::Body>> for Dummy {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<axum::body::Body>) -> Self::Future {
        let knows_peer = request.extensions().get::<PeerAddr>().is_some();
        Box::pin(async move { Ok(Status::already_exists(format!("peer known: {knows_peer}")).into_http()) })
    }
}

#[tokio::test]
async fn another_service_on_the_same_port() {
    let service = Arc::new(MemoryService::with_examples());
    let server =
        Running::start(Services::new(service, Config::default()).mount(Dummy), ServerConfig::http2_only())
            .await;
    let status = raw_call(server.channel().await, "/test.Dummy/Anything", b"").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::AlreadyExists, "peer known: true"));
    let events = collect(server.client().await.run("echo", &prompt("run")).await.unwrap()).await;
    assert!(!events.is_empty());
}

#[tokio::test]
async fn the_service_is_a_tower_service_like_any_other() {
    let mut service = AgentStreamServer::new(Arc::new(MemoryService::with_examples()), &Config::default());
    let request = http::Request::post("http://x/aqueduct.v1.AgentStream/ListAgents")
        .header("content-type", "application/grpc")
        .body(Body::new(http_body_util::Full::new(bytes::Bytes::from_static(&[0; 5]))))
        .unwrap();
    let response = service.call(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(!response.headers().contains_key("grpc-status"), "{response:?}");
}
