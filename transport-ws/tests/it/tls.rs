//! TLS on both sides, with and without certificates of clients.

use std::sync::Arc;

use aqueduct_transport_ws::client::{Client, ConnectOptions};
use aqueduct_transport_ws::tls::{self, Identity};
use aqueduct_transport_ws::{Config, Endpoint, Error, Server};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::support::{RawPeer, ScriptedService, TestDialect, rest};

struct Pem {
    certificate: String,
    key: String,
}

impl Pem {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn identity(&self) -> Identity<'_> {
        Identity { certificates: self.certificate.as_bytes(), key: self.key.as_bytes() }
    }
}

async fn serve(server: &Pem, clients: Option<&Pem>) -> (Endpoint, ConnectOptions) {
    serve_with(ScriptedService::new(), server, clients).await
}

async fn serve_with(
    service: Arc<ScriptedService>,
    server: &Pem,
    clients: Option<&Pem>,
) -> (Endpoint, ConnectOptions) {
    let roots = clients.map(|pem| pem.certificate.as_bytes());
    let config = tls::server_config(server.identity(), roots).unwrap();
    let endpoint = Endpoint::new(service, Arc::new(TestDialect), Config::default());
    let listener =
        Server::bind("127.0.0.1:0".parse().unwrap(), endpoint.clone()).await.unwrap().with_tls(config);
    let port = listener.local_address().unwrap().port();
    tokio::spawn(listener.serve());
    (endpoint, ConnectOptions::new(format!("wss://localhost:{port}/ws")))
}

#[tokio::test]
async fn a_client_trusts_its_roots_only() {
    let server = Pem::new();
    let (endpoint, mut options) = serve(&server, None).await;
    options.tls = Some(tls::client_config(server.certificate.as_bytes(), None).unwrap());
    let client = Client::connect(&options).await.unwrap();
    let mut events = client.start(Some("count:500:100"), r#"{"run":"r"}"#).await.unwrap();
    assert_eq!(rest(&mut events).await.len(), 501);
    options.tls = Some(tls::client_config(Pem::new().certificate.as_bytes(), None).unwrap());
    assert!(matches!(Client::connect(&options).await, Err(Error::Io(_))));
    options.tls = None;
    assert!(matches!(Client::connect(&options).await, Err(Error::Tls(_))));
    drop((client, events));
    let gone = || endpoint.counters().snapshot().connections == 0;
    assert!(crate::support::within(std::time::Duration::from_secs(10), gone).await);
}

#[tokio::test]
async fn a_server_asks_for_certificates_if_it_is_told_to() {
    let (server, known) = (Pem::new(), Pem::new());
    let service = ScriptedService::new();
    let (_endpoint, mut options) = serve_with(Arc::clone(&service), &server, Some(&known)).await;
    let roots = server.certificate.as_bytes();
    options.tls = Some(tls::client_config(roots, Some(known.identity())).unwrap());
    assert_eq!(Client::connect(&options).await.unwrap().list_agents().await.unwrap().len(), 2);
    // The service learns by which certificate its caller is known.
    let shown = service.callers.lock().unwrap().last().unwrap().certificate.clone().unwrap();
    let der = CertificateDer::from_pem_slice(known.certificate.as_bytes()).unwrap();
    assert_eq!(&*shown, &*der);
    for identity in [None, Some(Pem::new())] {
        options.tls = Some(tls::client_config(roots, identity.as_ref().map(Pem::identity)).unwrap());
        assert!(Client::connect(&options).await.is_err());
    }
}

#[tokio::test]
async fn plain_text_on_a_tls_port_is_cut() {
    let (endpoint, options) = serve(&Pem::new(), None).await;
    let port = options.url.rsplit(':').next().unwrap().trim_end_matches("/ws").parse::<u16>().unwrap();
    let mut peer = RawPeer::dial(([127, 0, 0, 1], port).into()).await;
    peer.write(b"GET /ws HTTP/1.1\r\n\r\n").await;
    // An alert, perhaps, and the end; no HTTP.
    assert_eq!(peer.closed().await, None);
    drop(peer);
    let gone = || endpoint.counters().snapshot().connections == 0;
    assert!(crate::support::within(std::time::Duration::from_secs(10), gone).await);
}

#[tokio::test]
async fn bad_pem_is_the_callers_fault() {
    let pem = Pem::new();
    let bad = Identity { certificates: b"nothing", key: pem.key.as_bytes() };
    let error = tls::server_config(bad, None).unwrap_err();
    assert_eq!(error.fault(), aqueduct_transport_ws::Fault::Caller);
    let other = Pem::new();
    let mixed = Identity { certificates: pem.certificate.as_bytes(), key: other.key.as_bytes() };
    assert!(tls::server_config(mixed, None).is_err());
    assert!(!format!("{mixed:?}").contains("PRIVATE"));
}
