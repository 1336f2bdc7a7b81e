//! TLS: who is trusted, on both sides.

use std::sync::Arc;

use aqueduct_transport_grpc::tls::{Authorities, ClientTls, Identity, ServerTls};
use aqueduct_transport_grpc::{Client, ClientConfig, Error};
use aqueduct_transport_http::{ServerConfig, Total};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::endless::Endless;
use crate::service::MemoryService;
use crate::support::{Running, collect, prompt};

/// An authority and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn trusted(&self) -> Authorities {
        Authorities::from_pem(self.0.pem().as_bytes()).unwrap()
    }

    fn identity(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }
}

async fn serve(identity: Identity, client_authorities: Option<Authorities>) -> Running {
    let tls = Some(ServerTls { identity, client_authorities });
    let config = ServerConfig { tls, ..ServerConfig::http2_only() };
    Running::serve(MemoryService::with_examples(), config).await
}

async fn connect(server: &Running, tls: ClientTls) -> Result<Client, Error> {
    let address = format!("https://localhost:{}", server.address.port());
    Client::connect(&address, ClientConfig { tls, ..ClientConfig::default() }).await
}

#[tokio::test]
async fn a_trusted_server_is_used() {
    let authority = Authority::new();
    let server = serve(authority.identity("localhost"), None).await;
    let tls = ClientTls { authorities: Some(authority.trusted()), identity: None };
    let client = connect(&server, tls).await.unwrap();
    assert!(!collect(client.run("echo", &prompt("run")).await.unwrap()).await.is_empty());
    drop(client);
    server.is_empty().await;
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not() {
    let server = serve(Authority::new().identity("localhost"), None).await;
    let tls = ClientTls { authorities: Some(Authority::new().trusted()), identity: None };
    let error = connect(&server, tls).await.unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    server.is_empty().await;
}

#[tokio::test]
async fn a_server_with_another_name_is_not() {
    let authority = Authority::new();
    let server = serve(authority.identity("elsewhere"), None).await;
    let tls = ClientTls { authorities: Some(authority.trusted()), identity: None };
    connect(&server, tls).await.unwrap_err();
    server.is_empty().await;
}

#[tokio::test]
async fn clients_show_who_they_are_where_it_is_asked_for() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = serve(ours.identity("localhost"), Some(theirs.trusted())).await;
    let tls = |identity| ClientTls { authorities: Some(ours.trusted()), identity };
    let known = connect(&server, tls(Some(theirs.identity("client")))).await.unwrap();
    assert_eq!(known.list_agents().await.unwrap().len(), 3);
    for stranger in [None, Some(ours.identity("client"))] {
        // In TLS 1.3 a client learns only with its first answer that it was refused.
        let refused = match connect(&server, tls(stranger)).await {
            Ok(client) => client.list_agents().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(refused.can_continue(), "{refused:?}");
    }
    let (accepted, failed) =
        (server.sockets.total(Total::Connections), server.sockets.total(Total::HandshakeFailures));
    assert_eq!(accepted - failed, 1);
    drop(known);
    server.is_empty().await;
}

#[tokio::test]
async fn a_service_learns_by_which_certificate_its_caller_is_known() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    for (client_authorities, knows) in [(Some(theirs.trusted()), true), (None, false)] {
        let service = Endless::default();
        let callers = Arc::clone(&service.callers);
        let tls = Some(ServerTls { identity: ours.identity("localhost"), client_authorities });
        let server = Running::serve(service, ServerConfig { tls, ..ServerConfig::http2_only() }).await;
        let tls = ClientTls { authorities: Some(ours.trusted()), identity: Some(theirs.identity("client")) };
        connect(&server, tls).await.unwrap().list_agents().await.unwrap_err();
        let shown = callers.lock().unwrap()[0].certificate.clone();
        assert_eq!(shown.is_some_and(|der| der.len() > 100), knows);
    }
}

#[tokio::test]
async fn plain_text_is_refused_by_a_server_with_certificates() {
    let server = serve(Authority::new().identity("localhost"), None).await;
    let client = Client::connect(&server.url(), ClientConfig::default()).await;
    if let Ok(client) = client {
        client.list_agents().await.unwrap_err();
    }
    server.is_empty().await;
    assert!(server.sockets.total(Total::HandshakeFailures) >= 1);
}

#[test]
fn what_is_no_certificate_is_named() {
    let error = Identity::from_pem(b"nothing", b"nothing").unwrap_err().to_string();
    assert!(error.starts_with("cannot read a private key from memory"), "{error}");
    let error = Authorities::from_pem(b"").unwrap_err().to_string();
    assert!(error.contains("there is none"), "{error}");
}
