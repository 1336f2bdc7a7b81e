//! Encrypted connections: the server's certificate, the client's certificate, and what happens without them.

use aqueduct_transport_http::tls::{Authorities, ClientTls, Identity, ServerTls};
use aqueduct_transport_http::{
    Client, ClientConfig, ClientTimeouts, Error, HttpVersions, ServerConfig, Timeouts, TlsError, Total,
};
use futures_util::TryStreamExt as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

use crate::support::{Running, ScriptedService, eventually, post, read_to_close, ready, routes, script};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn identity(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }

    fn authorities(&self) -> Authorities {
        Authorities::from_pem(self.0.pem().as_bytes()).unwrap()
    }
}

async fn server(tls: ServerTls) -> Running {
    let service = ScriptedService::new(|text| ready(script(&[text])));
    let timeouts = Timeouts { handshake: Duration::from_millis(200), ..Timeouts::default() };
    Running::start(routes(&service), ServerConfig { tls: Some(tls), timeouts, ..ServerConfig::default() })
        .await
}

async fn talk(server: &Running, tls: ClientTls, versions: HttpVersions) -> Result<http::Version, Error> {
    let client = Client::new(ClientConfig { tls, versions, ..ClientConfig::default() })?;
    let uri = format!("https://localhost:{}/", server.addr.port());
    let stream = client.open_stream(post(&uri, "secret")).await?;
    let version = stream.head().version();
    let events: Vec<_> = stream.try_collect().await?;
    assert_eq!(&*events[0].data, "secret");
    Ok(version)
}

#[tokio::test]
async fn both_versions_are_offered_and_http2_is_preferred() {
    let authority = Authority::new();
    let server =
        server(ServerTls { identity: authority.identity("localhost"), client_authorities: None }).await;
    let tls = ClientTls { authorities: Some(authority.authorities()), identity: None };
    for (versions, expected) in [
        (HttpVersions::Negotiated, http::Version::HTTP_2),
        (HttpVersions::Http2, http::Version::HTTP_2),
        (HttpVersions::Http1, http::Version::HTTP_11),
    ] {
        assert_eq!(talk(&server, tls.clone(), versions).await.unwrap(), expected);
    }
    server.is_empty().await;
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_trusted() {
    let server =
        server(ServerTls { identity: Authority::new().identity("localhost"), client_authorities: None })
            .await;
    for authorities in [Some(Authority::new().authorities()), None] {
        let tls = ClientTls { authorities, identity: None };
        let error = talk(&server, tls, HttpVersions::Negotiated).await.unwrap_err();
        assert!(matches!(&error, Error::Connect { reason, .. } if reason.contains("certificate")), "{error}");
    }
    eventually("both were counted", || server.counters.total(Total::HandshakeFailures) == 2).await;
    server.is_empty().await;
}

#[tokio::test]
async fn a_client_without_the_right_certificate_is_refused() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let tls =
        ServerTls { identity: ours.identity("localhost"), client_authorities: Some(theirs.authorities()) };
    let server = server(tls).await;
    let with = |identity| ClientTls { authorities: Some(ours.authorities()), identity };
    assert!(talk(&server, with(Some(theirs.identity("client"))), HttpVersions::Negotiated).await.is_ok());
    for identity in [None, Some(ours.identity("client"))] {
        let error = talk(&server, with(identity), HttpVersions::Http1).await.unwrap_err();
        assert!(matches!(error, Error::Request { .. } | Error::Connect { .. }), "{error}");
    }
    server.is_empty().await;
}

#[tokio::test]
async fn plain_text_and_slow_handshakes_are_closed() {
    let server =
        server(ServerTls { identity: Authority::new().identity("localhost"), client_authorities: None })
            .await;
    let answer = server.exchange(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(!answer.contains("HTTP"), "{answer:?}");
    let mut slow = server.connect().await;
    slow.write_all(b"\x16\x03\x01").await.unwrap();
    read_to_close(&mut slow).await;
    assert_eq!(server.counters.total(Total::HandshakeFailures), 2);
    server.is_empty().await;
}

#[test]
fn files_that_hold_nothing_are_named() {
    let missing = Identity::from_files("no-such-chain.pem", "no-such-key.pem").unwrap_err();
    assert!(missing.to_string().contains("no-such-chain.pem"), "{missing}");
    assert!(matches!(Authorities::from_pem(b"nonsense"), Err(TlsError::Pem { what: "a certificate", .. })));
    assert!(matches!(Identity::from_pem(b"", b""), Err(TlsError::Pem { what: "a private key", .. })));
}

#[tokio::test]
async fn a_key_that_does_not_fit_is_told_at_the_start() {
    let authority = Authority::new();
    let key = KeyPair::generate().unwrap();
    let other = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority.0).unwrap();
    let identity =
        Identity::from_pem(certificate.pem().as_bytes(), other.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig {
        tls: Some(ServerTls { identity, client_authorities: None }),
        ..ServerConfig::default()
    };
    let error = aqueduct_transport_http::Server::bind("127.0.0.1:0", config).await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[tokio::test]
async fn a_handshake_that_is_never_answered_ends_with_the_limit_for_connecting() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("https://localhost:{}/", silent.local_addr().unwrap().port());
    let timeouts = ClientTimeouts { connect: Duration::from_millis(200), ..ClientTimeouts::default() };
    let client = Client::new(ClientConfig { timeouts, ..ClientConfig::default() }).unwrap();
    let error =
        crate::support::soon("the client gives up", client.request(post(&uri, "x"))).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains("`connect`"), "{error}");
}

#[tokio::test]
async fn a_handler_learns_by_which_certificate_its_caller_is_known() {
    async fn shown(request: axum::extract::Request) -> String {
        let (parts, _) = request.into_parts();
        aqueduct_transport_http::caller(&parts).certificate.map_or(0, |der| der.len()).to_string()
    }
    let (ours, theirs) = (Authority::new(), Authority::new());
    for (client_authorities, knows) in [(Some(theirs.authorities()), true), (None, false)] {
        let tls = Some(ServerTls { identity: ours.identity("localhost"), client_authorities });
        let routes = axum::Router::new().route("/", axum::routing::post(shown));
        let server = Running::start(routes, ServerConfig { tls, ..ServerConfig::default() }).await;
        let tls =
            ClientTls { authorities: Some(ours.authorities()), identity: Some(theirs.identity("client")) };
        let client = Client::new(ClientConfig { tls, ..ClientConfig::default() }).unwrap();
        let uri = format!("https://localhost:{}/", server.addr.port());
        let answer = client.request(post(&uri, "x")).await.unwrap();
        let length: usize = std::str::from_utf8(answer.body()).unwrap().parse().unwrap();
        assert_eq!(length > 100, knows, "{length}");
    }
}
