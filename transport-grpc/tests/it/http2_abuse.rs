//! Peers that abuse HTTP/2 on the port of the service: the connection is closed with an error, nothing is left behind.

use std::time::Duration;

use aqueduct_transport_http::{ServerConfig, Timeouts};
use tokio::io::AsyncWriteExt as _;

use crate::h2_peer::{self as h2, H2Peer, Heard, frame};
use crate::service::MemoryService;
use crate::support::{Running, example};

const WATCH: &str = "/aqueduct.v1.AgentStream/Watch";

/// Floods a fresh server and gives what it said; then checks that it serves others and is empty.
async fn abused(bytes: impl IntoIterator<Item = Vec<u8>>) -> Heard {
    let server = example().await;
    let heard = H2Peer::connect(server.address).await.flood(bytes).await;
    is_well(&server).await;
    heard
}

async fn is_well(server: &Running) {
    let client = server.client().await;
    assert_eq!(client.list_agents().await.unwrap().len(), 3);
    drop(client);
    server.is_empty().await;
}

fn call(stream: u32) -> Vec<u8> {
    h2::post(stream, WATCH, "application/grpc")
}

#[tokio::test]
async fn rapid_resets_are_cut_off() {
    let reset = 8_u32.to_be_bytes();
    let rounds = h2::streams().map(|id| [call(id), frame(h2::RST_STREAM, 0, id, &reset)].concat());
    let rounds: Vec<_> = rounds.take(50_000).collect();
    let heard = abused(rounds.chunks(100).map(<[_]>::concat)).await;
    assert_eq!(heard.goaway, Some(h2::ENHANCE_YOUR_CALM), "{heard:?}");
}

#[tokio::test]
async fn a_flood_of_empty_data_is_cut_off() {
    let empty = std::iter::repeat_n(frame(h2::DATA, 0, 1, b"").repeat(100), 10_000);
    let heard = abused(std::iter::once(call(1)).chain(empty)).await;
    assert_eq!(heard.goaway, Some(h2::ENHANCE_YOUR_CALM), "{heard:?}");
}

#[tokio::test]
async fn endless_metadata_in_continuations_is_cut_off() {
    let start = frame(h2::HEADERS, 0, 1, &h2::fields(&[(":method", "POST")]));
    for more in [h2::fields(&[("x-more", "of the same")]), Vec::new()] {
        let more = std::iter::repeat_n(frame(h2::CONTINUATION, 0, 1, &more).repeat(10), 10_000);
        let heard = abused(std::iter::once(start.clone()).chain(more)).await;
        assert_eq!(heard.goaway, Some(h2::ENHANCE_YOUR_CALM), "{heard:?}");
    }
}

#[tokio::test]
async fn calls_beyond_the_limit_are_refused_and_then_cut_off() {
    let heard = abused(h2::streams().take(1000).map(call)).await;
    assert!(heard.resets.iter().any(|(_, code)| *code == h2::REFUSED_STREAM), "{heard:?}");
    assert_eq!(heard.goaway, Some(h2::ENHANCE_YOUR_CALM), "{heard:?}");
}

#[tokio::test]
async fn frames_that_break_the_rules_are_errors_of_the_connection() {
    let window = 0x7fff_ffff_u32.to_be_bytes();
    for (what, bytes) in [
        ("DATA without a stream", frame(h2::DATA, 0, 0, b"x")),
        ("a PING of the wrong size", frame(h2::PING, 0, 0, b"short")),
        ("SETTINGS of the wrong size", frame(h2::SETTINGS, 0, 0, b"12345")),
        ("a frame too large", frame(h2::DATA, 0, 1, &vec![0; 20_000])),
        ("a window too large", frame(h2::WINDOW_UPDATE, 0, 0, &window)),
    ] {
        let heard = abused([bytes]).await;
        assert!(heard.goaway.is_some_and(|code| code != h2::NO_ERROR), "{what}: {heard:?}");
    }
}

/// Settings and pings must be answered. Who floods with them and does not read the answers is not read any more, and is
/// closed like every reader that takes nothing.
#[tokio::test]
async fn a_flood_of_questions_without_reading_the_answers_is_closed() {
    for question in [frame(h2::SETTINGS, 0, 0, b""), frame(h2::PING, 0, 0, &[7; 8])] {
        let timeouts = Timeouts { write_stall: Duration::from_millis(300), ..Timeouts::default() };
        let config = ServerConfig { timeouts, ..ServerConfig::http2_only() };
        let server = Running::serve(MemoryService::with_examples(), config).await;
        let (_unread, mut write) = H2Peer::connect(server.address).await.0.into_split();
        let questions = question.repeat(1000);
        let mut written = 0_usize;
        while write.write_all(&questions).await.is_ok() {
            written += questions.len();
        }
        // The answers fill both kernels' buffers; then nothing more is taken.
        assert!(written < 64 * 1024 * 1024, "{written} bytes of questions were taken");
        assert_eq!(server.stalled(), 1);
        is_well(&server).await;
    }
}
