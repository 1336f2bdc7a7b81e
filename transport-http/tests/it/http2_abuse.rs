//! Peers that abuse HTTP/2: the connection is closed with an error that says why, a good peer is served meanwhile, and
//! nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_transport_http::{Client, ClientConfig, HttpVersions, Limits, ServerConfig, Timeouts, Total};
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::h2_peer::{self as h2, H2Peer, Heard, frame};
use crate::support::{Running, ScriptedService, eventually, ready, routes, script};

const JSON: &str = "application/json";

/// `pending` says nothing more after its first word, anything else is said back.
fn service() -> Arc<ScriptedService> {
    ScriptedService::new(|text| match text {
        "pending" => Box::pin(
            futures_util::stream::iter(script(&["first"]).into_iter().take(1))
                .chain(futures_util::stream::pending()),
        ),
        text => ready(script(&[text])),
    })
}

struct Abused {
    server: Running,
    service: Arc<ScriptedService>,
}

impl Abused {
    async fn start(config: ServerConfig) -> Self {
        let service = service();
        Self { server: Running::start(routes(&service), config).await, service }
    }

    /// Floods a fresh server and gives what it said; then checks that it is well and empty.
    async fn by(bytes: impl IntoIterator<Item = Vec<u8>>) -> Heard {
        let abused = Self::start(ServerConfig::default()).await;
        let heard = H2Peer::connect(abused.server.addr).await.flood(bytes).await;
        abused.is_well().await;
        heard
    }

    async fn is_well(&self) {
        let client = ClientConfig { versions: HttpVersions::Http2, ..ClientConfig::default() };
        let client = Client::new(client).unwrap();
        let request = crate::support::post(&self.server.uri("/"), "well");
        let events: Vec<_> = client.open_stream(request).await.unwrap().try_collect().await.unwrap();
        assert_eq!(&*events[0].data, "well");
        drop(client);
        self.server.is_empty().await;
        eventually("no run", || self.service.open.load(Ordering::SeqCst) == 0).await;
    }
}

/// A request for a run that stays open.
fn pending(stream: u32) -> Vec<u8> {
    [h2::post(stream, "/", JSON), frame(h2::DATA, 1, stream, b"\"pending\"")].concat()
}

#[tokio::test]
async fn rapid_resets_are_cut_off() {
    let reset = 8_u32.to_be_bytes();
    let open_and_reset =
        h2::streams().map(|id| [h2::post(id, "/", JSON), frame(h2::RST_STREAM, 0, id, &reset)].concat());
    let heard =
        Abused::by(open_and_reset.take(100_000).collect::<Vec<_>>().chunks(100).map(<[_]>::concat)).await;
    assert_eq!(heard.goaway, Some(h2::ENHANCE_YOUR_CALM), "{heard:?}");
}

#[tokio::test]
async fn a_flood_of_empty_data_is_cut_off() {
    let empty = std::iter::repeat_n(frame(h2::DATA, 0, 1, b"").repeat(100), 10_000);
    let heard = Abused::by(std::iter::once(h2::post(1, "/", JSON)).chain(empty)).await;
    assert_eq!(heard.goaway, Some(h2::ENHANCE_YOUR_CALM), "{heard:?}");
}

#[tokio::test]
async fn endless_continuations_are_cut_off() {
    let start = frame(h2::HEADERS, 0, 1, &h2::fields(&[(":method", "POST")]));
    let few = h2::fields(&[("x-more", "of the same")]);
    for more in [few.repeat(800), few, Vec::new()] {
        let more = std::iter::repeat_n(frame(h2::CONTINUATION, 0, 1, &more).repeat(10), 10_000);
        let heard = Abused::by(std::iter::once(start.clone()).chain(more)).await;
        assert_eq!(heard.goaway, Some(h2::ENHANCE_YOUR_CALM), "{heard:?}");
    }
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_and_then_cut_off() {
    let heard = Abused::by(h2::streams().take(1000).map(pending)).await;
    assert!(heard.resets.iter().any(|(_, code)| *code == h2::REFUSED_STREAM), "{heard:?}");
    assert_eq!(heard.goaway, Some(h2::ENHANCE_YOUR_CALM), "{heard:?}");
}

#[tokio::test]
async fn frames_that_break_the_rules_are_errors_of_the_connection() {
    let window = 0x7fff_ffff_u32.to_be_bytes();
    for (what, bytes) in [
        ("DATA without a stream", frame(h2::DATA, 0, 0, b"x")),
        ("HEADERS of an even stream", h2::post(2, "/", JSON)),
        ("a PING of the wrong size", frame(h2::PING, 0, 0, b"short")),
        ("SETTINGS of the wrong size", frame(h2::SETTINGS, 0, 0, b"12345")),
        ("a frame too large", frame(h2::DATA, 0, 1, &vec![0; 20_000])),
        ("a window too large", frame(h2::WINDOW_UPDATE, 0, 0, &window)),
        ("a CONTINUATION of nothing", frame(h2::CONTINUATION, 4, 1, b"")),
        ("a RST_STREAM of nothing", frame(h2::RST_STREAM, 0, 0, &[0; 4])),
    ] {
        let heard = Abused::by([bytes]).await;
        assert!(heard.goaway.is_some_and(|code| code != h2::NO_ERROR), "{what}: {heard:?}");
    }
}

/// Settings and pings must be answered. Who floods with them and does not read the answers is not read any more, and is
/// closed like every reader that takes nothing.
#[tokio::test]
async fn a_flood_of_questions_without_reading_the_answers_is_closed() {
    for question in [frame(h2::SETTINGS, 0, 0, b""), frame(h2::PING, 0, 0, &[7; 8])] {
        let timeouts = Timeouts { write_stall: Duration::from_millis(300), ..Timeouts::default() };
        let abused = Abused::start(ServerConfig { timeouts, ..ServerConfig::default() }).await;
        let socket = H2Peer::connect(abused.server.addr).await.0;
        socket2::SockRef::from(&socket).set_recv_buffer_size(4096).unwrap();
        let (_unread, mut write) = socket.into_split();
        let questions = question.repeat(1000);
        let mut written = 0_usize;
        while tokio::io::AsyncWriteExt::write_all(&mut write, &questions).await.is_ok() {
            written += questions.len();
        }
        // The answers fill both kernels' buffers, a few hundred KiB; then nothing more is taken.
        assert!(written < 16 * 1024 * 1024, "{written} bytes of questions were taken");
        assert_eq!(abused.server.counters.total(Total::WriteStalls), 1);
        abused.is_well().await;
    }
}

/// Open streams of a peer that is cut off end with it.
#[tokio::test]
async fn runs_of_a_peer_that_is_cut_off_are_dropped() {
    let abused = Abused::start(ServerConfig { limits: Limits::default(), ..ServerConfig::default() }).await;
    let open: Vec<_> = h2::streams().take(50).map(pending).collect();
    let bad = frame(h2::DATA, 0, 0, b"x");
    let heard = H2Peer::connect(abused.server.addr).await.flood(open.into_iter().chain([bad])).await;
    assert!(heard.goaway.is_some_and(|code| code != h2::NO_ERROR), "{heard:?}");
    abused.is_well().await;
}
