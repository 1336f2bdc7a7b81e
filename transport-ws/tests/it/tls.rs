//! TLS on both sides, with and without certificates of clients.

use aqueduct_transport_http::{Admission, ServerConfig};
use aqueduct_transport_ws::client::{Client, ConnectOptions};
use aqueduct_transport_ws::tls::{Authorities, ClientTls, Identity, ServerTls};
use aqueduct_transport_ws::{Config, Error};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::support::{Host, RawPeer, ScriptedService, rest};

struct Pem {
    certificate: String,
    key: String,
}

impl Pem {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn identity(&self) -> Identity {
        Identity::from_pem(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }

    fn authorities(&self) -> Authorities {
        Authorities::from_pem(self.certificate.as_bytes()).unwrap()
    }

    /// A client that trusts this one.
    fn trusted_by(&self, identity: Option<&Self>) -> ClientTls {
        ClientTls { authorities: Some(self.authorities()), identity: identity.map(Self::identity) }
    }
}

async fn serve(server: &Pem, clients: Option<&Pem>) -> (Host, ConnectOptions) {
    let tls = ServerTls { identity: server.identity(), client_authorities: clients.map(Pem::authorities) };
    let config = ServerConfig { tls: Some(tls), ..ServerConfig::default() };
    let (any, service) = ("127.0.0.1:0".parse().unwrap(), ScriptedService::new());
    let host = Host::served(any, service, Config::default(), config, Admission::default()).await;
    let options = ConnectOptions::new(format!("wss://localhost:{}/ws", host.address.port()));
    (host, options)
}

#[tokio::test]
async fn a_client_trusts_its_roots_only() {
    let server = Pem::new();
    let (host, mut options) = serve(&server, None).await;
    options.tls = server.trusted_by(None);
    let client = Client::connect(&options).await.unwrap();
    let mut events = client.start(Some("count:500:100"), r#"{"run":"r"}"#).await.unwrap();
    assert_eq!(rest(&mut events).await.len(), 501);
    // Neither another authority nor those of the web have signed it.
    for stranger in [Pem::new().trusted_by(None), ClientTls::default()] {
        options.tls = stranger;
        assert!(matches!(Client::connect(&options).await, Err(Error::Io(_))));
    }
    drop((client, events));
    host.settles().await;
}

#[tokio::test]
async fn a_server_asks_for_certificates_if_it_is_told_to() {
    let (server, known) = (Pem::new(), Pem::new());
    let (host, mut options) = serve(&server, Some(&known)).await;
    options.tls = server.trusted_by(Some(&known));
    assert_eq!(Client::connect(&options).await.unwrap().list_agents().await.unwrap().len(), 2);
    // The service learns by which certificate its caller is known.
    let shown = host.service.callers.lock().unwrap().last().unwrap().certificate.clone().unwrap();
    let der = CertificateDer::from_pem_slice(known.certificate.as_bytes()).unwrap();
    assert_eq!(&*shown, &*der);
    for identity in [None, Some(Pem::new())] {
        options.tls = server.trusted_by(identity.as_ref());
        assert!(Client::connect(&options).await.is_err());
    }
}

#[tokio::test]
async fn plain_text_on_a_tls_port_is_cut() {
    let (host, options) = serve(&Pem::new(), None).await;
    let port = options.url.rsplit(':').next().unwrap().trim_end_matches("/ws").parse::<u16>().unwrap();
    let mut peer = RawPeer::dial(([127, 0, 0, 1], port).into()).await;
    peer.write(b"GET /ws HTTP/1.1\r\n\r\n").await;
    // An alert, perhaps, and the end; no HTTP.
    assert_eq!(peer.closed().await, None);
    drop(peer);
    host.settles().await;
}
