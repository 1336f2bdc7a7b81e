//! The body that pulls events: chunks, ids, keep-alives and ends, without a socket.

use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_core::service::{EventEncoder, EventStream, PayloadSink, PayloadStream};
use aqueduct_core::{BlockEvent, RunId, RunInfo};
use aqueduct_transport_http::{EventPosition, StreamOptions, payload_response, stream_response};
use axum::body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::support::{BinaryEncoder, HoldingEncoder, TextEncoder, delta, finished, numbered, ready, script};

fn start() -> EventPosition {
    EventPosition::start(RunId::from("run"))
}

fn body(events: EventStream, options: &StreamOptions) -> Body {
    stream_response(&start(), events, Box::new(TextEncoder), options).into_body()
}

async fn chunks(mut body: Body) -> Vec<String> {
    let mut chunks = Vec::new();
    while let Some(frame) = body.frame().await {
        let bytes = frame.unwrap().into_data().unwrap();
        chunks.push(String::from_utf8(bytes.to_vec()).unwrap());
    }
    chunks
}

/// Events that arrive when the test says so.
fn channel() -> (mpsc::Sender<BlockEvent>, EventStream) {
    let (sender, mut receiver) = mpsc::channel(16);
    let mut number = 0;
    let events = futures_util::stream::poll_fn(move |cx| {
        receiver.poll_recv(cx).map(|event| {
            number += 1;
            event.map(|event| aqueduct_core::service::NumberedEvent { number, event })
        })
    });
    (sender, Box::pin(events))
}

#[tokio::test]
async fn what_is_ready_goes_out_in_one_chunk() {
    let body = body(ready(script(&["a", "b\nc", "d"])), &StreamOptions::default());
    assert_eq!(chunks(body).await, ["data: a\n\ndata: b\ndata: c\n\ndata: d\n\ndata: end\n\n"]);
}

#[tokio::test]
async fn chunks_stay_near_their_limit_and_lose_nothing() {
    let texts: Vec<String> = (0..1000).map(|i| format!("{i:040}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let options = StreamOptions { chunk_bytes: 512, ..StreamOptions::default() };
    let chunks = chunks(body(ready(script(&texts)), &options)).await;
    assert!(chunks.iter().all(|chunk| chunk.len() < 512 + 64), "an event more than the limit at most");
    assert!(chunks.len() < 100, "{} chunks", chunks.len());
    let all = chunks.concat();
    let read: Vec<&str> = all.split_terminator("\n\n").map(|frame| &frame[6..]).collect();
    assert_eq!(read[..1000], texts);
    assert_eq!(read[1000], "end");
}

#[tokio::test]
async fn the_end_is_known_with_the_last_chunk_and_the_events_are_dropped() {
    let (sender, events) = channel();
    let mut body = body(events, &StreamOptions::default());
    sender.send(finished()).await.unwrap();
    body.frame().await.unwrap().unwrap();
    assert!(http_body::Body::is_end_stream(&body));
    assert!(sender.is_closed(), "the source is told at once");
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn events_that_end_without_a_terminal_one_break_the_body() {
    let mut body = body(ready(numbered([delta("a")])), &StreamOptions::default());
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: a\n\n");
    assert!(!http_body::Body::is_end_stream(&body));
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("without a terminal event"), "{error}");
}

#[tokio::test]
async fn a_reader_that_comes_back_after_the_end_gets_a_clean_end() {
    let resumed = |events| {
        let position = EventPosition::parse("run.3.1").unwrap();
        stream_response(&position, ready(events), Box::new(TextEncoder), &StreamOptions::default())
            .into_body()
    };
    assert_eq!(chunks(resumed(Vec::new())).await, [""; 0]);
    // The event whose payloads it has comes again: nothing is left of it, and the end is clean as well.
    assert_eq!(chunks(resumed(script(&["a", "b"]).split_off(2))).await, [""; 0]);
    // A run that goes on and is lost then is a cut.
    let lost = resumed(script(&["a", "b", "c"])[2..3].to_vec()).collect().await;
    assert!(lost.is_err());
}

#[tokio::test]
async fn a_new_run_without_events_is_a_lost_one() {
    assert!(body(ready(Vec::new()), &StreamOptions::default()).collect().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_kept_alive_and_a_busy_one_left_alone() {
    let (sender, events) = channel();
    let options = StreamOptions { keep_alive: Some(Duration::from_secs(15)), ..StreamOptions::default() };
    let mut body = body(events, &options);
    let began = Instant::now();
    let mut next = async || body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(next().await, ": keep-alive\n\n");
    assert_eq!(began.elapsed(), Duration::from_secs(15));
    assert_eq!(next().await, ": keep-alive\n\n");
    assert_eq!(began.elapsed(), Duration::from_secs(30));

    tokio::time::advance(Duration::from_secs(10)).await;
    sender.send(delta("x")).await.unwrap();
    assert_eq!(next().await, "data: x\n\n");
    assert_eq!(next().await, ": keep-alive\n\n");
    assert_eq!(began.elapsed().as_secs(), 55, "counted from the last write");
}

#[tokio::test(start_paused = true)]
async fn keep_alives_can_be_off_and_are_never_in_binary_streams() {
    let off = StreamOptions { keep_alive: None, ..StreamOptions::default() };
    for (encoder, options) in [
        (Box::new(TextEncoder) as Box<dyn EventEncoder>, &off),
        (Box::new(BinaryEncoder), &StreamOptions { ids: true, ..StreamOptions::default() }),
    ] {
        let (_sender, events) = channel();
        let mut body = stream_response(&start(), events, encoder, options).into_body();
        let hour = tokio::time::timeout(Duration::from_secs(3600), body.frame());
        assert!(hour.await.is_err());
    }
}

#[tokio::test]
async fn ids_number_every_payload_after_a_start_that_can_be_resumed() {
    let options = StreamOptions { ids: true, ..StreamOptions::default() };
    let chunks = chunks(body(ready(script(&["a|b", "c"])), &options)).await;
    assert_eq!(
        chunks.concat(),
        concat!(
            "id: run.0\nretry: 1000\n\n",
            "id: run.1.1\ndata: a\n\nid: run.1.2\ndata: b\n\nid: run.2.1\ndata: c\n\nid: run.3.1\ndata: end\n\n",
        )
    );
}

#[tokio::test(start_paused = true)]
async fn the_start_goes_out_before_any_event() {
    let (_sender, events) = channel();
    let options = StreamOptions { ids: true, ..StreamOptions::default() };
    let first = body(events, &options).frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "id: run.0\nretry: 1000\n\n");
}

#[tokio::test]
async fn a_stream_goes_on_exactly_after_any_payload() {
    let options = StreamOptions { ids: true, ..StreamOptions::default() };
    let events = || script(&["a|b|c", "d", "e|f"]);
    let whole = chunks(body(ready(events()), &options)).await.concat();
    let frames: Vec<&str> = whole.split_inclusive("\n\n").collect();
    for (index, frame) in frames.iter().enumerate() {
        let id = frame.lines().next().unwrap().strip_prefix("id: ").unwrap();
        let position = EventPosition::parse(id).unwrap();
        let rest: Vec<_> = events().into_iter().filter(|event| event.number > position.after()).collect();
        let resumed = stream_response(&position, ready(rest), Box::new(TextEncoder), &options);
        let resumed = chunks(resumed.into_body()).await.concat();
        let start = if index == 0 { frames[0] } else { "" };
        assert_eq!(resumed, format!("{start}{}", frames[index + 1..].concat()), "after {id}");
    }
}

#[tokio::test]
async fn a_run_with_a_forged_id_cannot_leave_its_line() {
    let position = EventPosition::start(RunId::from("x\n\ndata: forged\r\0\u{e9}"));
    let options = StreamOptions { ids: true, ..StreamOptions::default() };
    let response = stream_response(&position, ready(script(&["a"])), Box::new(TextEncoder), &options);
    let text = chunks(response.into_body()).await.concat();
    assert!(text.starts_with("id: x%0A%0Adata:%20forged%0D%00%C3%A9.0\n"), "{text}");
    assert!(!text.contains("\ndata: forged"));
}

#[tokio::test]
async fn binary_payloads_are_written_as_they_are() {
    let events = ready(script(&["a\n", "b"]));
    let response = stream_response(&start(), events, Box::new(BinaryEncoder), &StreamOptions::default());
    assert_eq!(response.headers()["content-type"], "application/x.frames+proto");
    assert_eq!(chunks(response.into_body()).await.concat(), "\u{2}a\n\u{1}b\u{5}\n\0end");
}

#[tokio::test]
async fn the_head_tells_caches_and_proxies_to_stay_out() {
    let response =
        stream_response(&start(), ready(script(&[])), Box::new(TextEncoder), &StreamOptions::default());
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert!(response.headers()["cache-control"].to_str().unwrap().contains("no-cache"));
    assert_eq!(response.headers()["x-accel-buffering"], "no");
}

#[tokio::test]
async fn events_that_become_nothing_do_not_hold_the_thread() {
    let silent = BlockEvent::RunStarted(std::sync::Arc::new(RunInfo::new("thread", "run")));
    let events = numbered(std::iter::repeat_n(silent, 10_000).chain([finished()]));
    let mut body = body(ready(events), &StreamOptions::default());
    let other = async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    };
    let first = tokio::select! {
        biased;
        _ = body.frame() => "body",
        () = other => "other",
    };
    assert_eq!(first, "other");
    assert_eq!(chunks(body).await, ["data: end\n\n"]);
}

/// Merges early, so that few events show it.
fn merging() -> StreamOptions {
    StreamOptions { chunk_bytes: 200, merge_bytes: 100, ids: true, ..StreamOptions::default() }
}

/// The id and the text of each event.
fn ids_and_texts(stream: &str) -> Vec<(String, String)> {
    let frames = stream.split_terminator("\n\n").filter_map(|frame| frame.split_once("\ndata: "));
    frames.map(|(id, text)| (id.trim_start_matches("id: ").to_owned(), text.to_owned())).collect()
}

#[tokio::test]
async fn deltas_that_wait_are_merged_and_any_id_resumes_exactly() {
    let texts: Vec<String> = (0..100).map(|i| format!("<{i:08}>")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let sent = ids_and_texts(&chunks(body(ready(script(&texts)), &merging())).await.concat());
    assert!(sent.len() < 30, "{} events", sent.len());
    assert!(sent.iter().all(|(_, text)| text.len() <= 100));
    assert_eq!(sent.iter().map(|(_, text)| text.as_str()).collect::<String>(), texts.concat() + "end");
    for (at, (id, _)) in sent.iter().enumerate() {
        let position = EventPosition::parse(id).unwrap();
        let events = script(&texts).into_iter().filter(|event| event.number > position.after()).collect();
        let rest = stream_response(&position, ready(events), Box::new(TextEncoder), &merging()).into_body();
        let rest = ids_and_texts(&chunks(rest).await.concat());
        let seen = &sent[..=at];
        let all: String = seen.iter().chain(&rest).map(|(_, text)| text.as_str()).collect();
        assert_eq!(all, texts.concat() + "end", "after {id}");
    }
}

#[tokio::test]
async fn what_becomes_several_payloads_is_not_merged() {
    let texts: Vec<String> = (0..40).map(|i| format!("{i}|x")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let sent = ids_and_texts(&chunks(body(ready(script(&texts)), &merging())).await.concat());
    let expected = (1..=40).flat_map(|number| [format!("run.{number}.1"), format!("run.{number}.2")]);
    assert!(sent.iter().map(|(id, _)| id.clone()).eq(expected.chain(["run.41.1".to_owned()])));
}

/// The second encoding of a delta would lack what the first one released.
#[tokio::test]
async fn an_encoder_with_state_encodes_every_delta_once() {
    let texts: Vec<String> = (0..100).map(|i| format!("<{i:08}>")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut short = merging();
    short.chunk_bytes = 50;
    for limit in [0, 405, 10_000] {
        let encoder = Box::new(HoldingEncoder { limit, held: Vec::new(), is_open: false });
        let position = EventPosition::start("run".into());
        let response = stream_response(&position, ready(script(&texts)), encoder, &short);
        let sent = ids_and_texts(&chunks(response.into_body()).await.concat());
        let sent: Vec<&str> = sent.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(sent, [texts.as_slice(), &["end"]].concat(), "limit {limit}");
    }
}

/// Payloads that come when the test says so; `!` before one names its frame `error`.
struct Told(mpsc::Receiver<&'static str>);

impl PayloadStream for Told {
    fn poll_payload(&mut self, cx: &mut Context<'_>, sink: &mut dyn PayloadSink) -> Poll<bool> {
        let Some(text) = std::task::ready!(self.0.poll_recv(cx)) else { return Poll::Ready(false) };
        match text.strip_prefix('!') {
            Some(error) => sink.push_named("error", &mut |out| out.extend_from_slice(error.as_bytes())),
            None => sink.push(&mut |out| out.extend_from_slice(text.as_bytes())),
        }
        Poll::Ready(true)
    }

    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }
}

#[tokio::test(start_paused = true)]
async fn payloads_are_streamed_like_events() {
    let (sender, receiver) = mpsc::channel(16);
    let response = payload_response(Box::new(Told(receiver)), &StreamOptions::default());
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    for text in ["a", "b", "!c"] {
        sender.send(text).await.unwrap();
    }
    let mut body = response.into_body();
    let mut next = async || {
        let frame = body.frame().await?.unwrap().into_data().unwrap();
        Some(String::from_utf8(frame.to_vec()).unwrap())
    };
    assert_eq!(next().await.unwrap(), "data: a\n\ndata: b\n\nevent: error\ndata: c\n\n", "one chunk");
    assert_eq!(next().await.unwrap(), ": keep-alive\n\n", "quiet streams are kept alive");
    drop(sender);
    assert_eq!(next().await, None, "the end of the payloads is the end of the body");
}
