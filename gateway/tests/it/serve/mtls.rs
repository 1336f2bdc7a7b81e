//! Client certificates: a name in a certificate proves a principal, over every surface; and a certificate that names none
//! proves nothing.

use std::path::PathBuf;

use aqueduct_adapter_a2a::call::{Call, SendMessage, user_message};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_adapter_a2a::wire::Part;
use aqueduct_core::RunId;
use aqueduct_transport_grpc::Error as GrpcError;
use aqueduct_transport_grpc::raw::{RawClient, RawRequest};
use aqueduct_transport_grpc::{Client as GrpcClient, ClientConfig as GrpcConfig};
use aqueduct_transport_http::tls::{Authorities, ClientTls, Identity};
use aqueduct_transport_http::{Client, ClientConfig};
use aqueduct_transport_ws::client::{Client as WsClient, ConnectOptions};
use bytes::Bytes;
use http::{Request, Response};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

use super::support::{Served, input, serve};
use crate::program::root;

/// An authority that certifies the gateway and its callers.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key, as PEM.
    fn certify(&self, common_name: &str, names: &[SanType]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.subject_alt_names.extend(names.iter().cloned());
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// What a caller shows, and whom it trusts.
    fn caller(&self, common_name: &str, names: &[SanType]) -> ClientTls {
        let (chain, key) = self.certify(common_name, names);
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let authorities = Authorities::from_pem(self.0.pem().as_bytes()).unwrap();
        ClientTls { authorities: Some(authorities), identity: Some(identity) }
    }
}

fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

/// The gateway, for `ann` by the subject and `bob` by an alternative name.
async fn gateway(authority: &Authority) -> Served {
    let folder = crate::scratch::folder().join("mtls");
    std::fs::create_dir_all(&folder).unwrap();
    let localhost = SanType::DnsName("localhost".try_into().unwrap());
    let (chain, key) = authority.certify("gateway", &[localhost]);
    let file = |name: &str, text: &str| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let toml = format!(
        "[server.tls]\ncertificate = \"{}\"\nkey = \"{}\"\nclient_ca = \"{}\"\n\
         [principals.ann]\ncertificates = [\"CN=ann\"]\n[principals.bob]\ncertificates = [\"uri:spiffe://acme/bob\"]\n\
         [agents.a]\nscript.file = \"{}/scripts/demo-thinking.toml\"\n",
        file("chain.pem", &chain).display(),
        file("key.pem", &key).display(),
        file("clients.pem", &authority.0.pem()).display(),
        root().display()
    );
    serve(&toml, &[]).await
}

fn url(served: &Served, path: &str) -> String {
    format!("https://localhost:{}{path}", served.address.port())
}

/// A request of this caller; `None` if TLS does not let it in.
async fn http(tls: &ClientTls, request: http::request::Builder, body: Bytes) -> Option<Response<Bytes>> {
    let client = Client::new(ClientConfig { tls: tls.clone(), ..ClientConfig::default() }).unwrap();
    client.request(request.body(body).unwrap()).await.ok()
}

async fn watch(served: &Served, tls: &ClientTls) -> Option<u16> {
    let answer = http(tls, Request::get(url(served, "/runs/r/events")), Bytes::new()).await?;
    Some(answer.status().as_u16())
}

async fn ws(served: &Served, tls: &ClientTls) -> bool {
    let mut options = ConnectOptions::new(url(served, "/ws").replace("https", "wss"));
    options.tls = tls.clone();
    match WsClient::connect(&options).await {
        Ok(client) => client.watch("r", 0).await.is_ok(),
        Err(_) => false,
    }
}

fn grpc_config(tls: &ClientTls) -> GrpcConfig {
    GrpcConfig { tls: tls.clone(), ..GrpcConfig::default() }
}

async fn grpc(served: &Served, tls: &ClientTls) -> bool {
    match GrpcClient::connect(&url(served, ""), grpc_config(tls)).await {
        Ok(client) => client.watch(&RunId::from("r"), 0).await.is_ok(),
        Err(_) => false,
    }
}

/// A call of A2A: what is answered, or `-` if TLS does not let the caller in.
async fn a2a(served: &Served, tls: &ClientTls, spoken: (Binding, Version), call: &Call) -> String {
    let (binding, version) = spoken;
    if binding == Binding::Grpc {
        let endpoint = Endpoint::new(served.address.to_string(), binding, version);
        let request = endpoint.grpc_request(call).unwrap();
        let metadata = request.metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let request = RawRequest { path: request.path, metadata, message: request.message.into() };
        let Ok(client) = RawClient::connect(&url(served, ""), grpc_config(tls)).await else {
            return "-".to_owned();
        };
        return match client.unary(request).await {
            Ok(message) => String::from_utf8_lossy(&message).into_owned(),
            // What a connection that broke looks like.
            Err(GrpcError::Raw(status)) if status.message.contains("transport error") => "-".to_owned(),
            Err(GrpcError::Raw(status)) => format!("refused {}", status.message),
            Err(_) => "-".to_owned(),
        };
    }
    let endpoint = Endpoint::new(url(served, "/a2a/a"), binding, version);
    let request = endpoint.http_request(call, 1).unwrap();
    let mut sent = Request::builder().method(request.method).uri(&request.url);
    for (name, value) in &request.headers {
        sent = sent.header(*name, value);
    }
    let answer = http(tls, sent, Bytes::from(request.body)).await;
    answer.map_or_else(|| "-".to_owned(), |answer| String::from_utf8_lossy(answer.body()).into_owned())
}

#[tokio::test]
async fn a_certificate_proves_its_principal_over_every_surface() {
    let authority = Authority::new();
    let served = gateway(&authority).await;
    let ann = authority.caller("ann", &[]);
    let bob = authority.caller("x", &[uri("spiffe://acme/bob")]);
    let eve = authority.caller("eve", &[uri("spiffe://acme/eve")]);
    let foreign = Authority::new().caller("ann", &[]);
    let foreign = ClientTls { authorities: ann.authorities.clone(), ..foreign };
    let nobody = ClientTls { identity: None, ..ann.clone() };

    let start = Request::post(url(&served, "/agents/a")).header("content-type", "application/json");
    let started = http(&ann, start, Bytes::from(input("r", Some("1.0")).to_string())).await.unwrap();
    assert_eq!(started.status(), 200);
    for (tls, expected) in
        [(&ann, Some(200)), (&bob, Some(404)), (&eve, Some(401)), (&foreign, None), (&nobody, None)]
    {
        assert_eq!(watch(&served, tls).await, expected);
        assert_eq!(ws(&served, tls).await, expected == Some(200), "WebSocket: {expected:?}");
        assert_eq!(grpc(&served, tls).await, expected == Some(200), "gRPC: {expected:?}");
    }

    let send = Call::SendMessage(Box::new(SendMessage::new(user_message("m", None, vec![Part::text("hi")]))));
    let begun = a2a(&served, &ann, (Binding::JsonRpc, Version::V1), &send).await;
    let task = begun.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    let get = Call::GetTask { id: task.clone(), history_length: None };
    for binding in [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc] {
        for version in [Version::V1, Version::V03] {
            let at = format!("{binding:?} {version:?}");
            let answers = |tls| a2a(&served, tls, (binding, version), &get);
            let own = answers(&ann).await;
            assert!(own.contains(&task) && !own.contains("there is no task"), "{at}: {own}");
            assert!(answers(&bob).await.contains("there is no task"), "{at}");
            assert!(answers(&eve).await.contains("send a token"), "{at}: {}", answers(&eve).await);
            assert_eq!(answers(&foreign).await, "-", "{at}");
            assert_eq!(answers(&nobody).await, "-", "{at}");
        }
    }
}
