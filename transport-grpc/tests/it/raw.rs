//! A service of bytes: any path, any message, any status, over the same limits as the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aqueduct_transport_grpc::raw::{
    BytesCodec, Payloads, RawAnswer, RawCall, RawClient, RawRequest, RawService, RawStatus,
};
use aqueduct_transport_grpc::{
    ClientConfig, ClientLimits, ClientTimeouts, Config, Error, Limits, Services, Timeouts,
};
use aqueduct_transport_http::{Gauge, ServerConfig};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tonic::{Code, Request};

use crate::service::MemoryService;
use crate::support::{Running, Setup, until};

const MESSAGES: usize = 5_000;

/// Says back what it gets, counts to many, is silent, refuses.
#[derive(Default)]
struct Echo {
    /// Answers that somebody still waits for.
    open: Arc<AtomicUsize>,
    /// Payloads that were asked for.
    given: Arc<AtomicUsize>,
}

/// Counts down when it is dropped.
struct Held(Arc<AtomicUsize>);

impl Held {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl RawService for Echo {
    const NAME: &'static str = "test.v1.Echo";

    async fn call(&self, call: RawCall) -> Result<RawAnswer, RawStatus> {
        let held = Held::new(&self.open);
        match call.method.as_str() {
            "Say" => Ok(RawAnswer::Message(call.message)),
            "Who" => {
                let caller = &call.caller;
                let told = format!("{:?} {:?}", caller.token.as_deref(), caller.header("x-tenant"));
                Ok(RawAnswer::Message(told.into()))
            }
            "Count" => {
                let given = Arc::clone(&self.given);
                let numbers = stream::iter(0..MESSAGES).map(move |number| {
                    let _alive = &held;
                    given.fetch_add(1, Ordering::SeqCst);
                    Ok(Bytes::from(format!("{number:0100}")))
                });
                Ok(RawAnswer::Stream(Box::pin(numbers)))
            }
            "Break" => {
                let failure = RawStatus { details: Bytes::from_static(b"why"), ..RawStatus::new(14, "gone") };
                let parts: Payloads = Box::pin(stream::iter([Ok(Bytes::from_static(b"half")), Err(failure)]));
                Ok(RawAnswer::Stream(parts))
            }
            "Rest" => {
                let silence = stream::once(async move {
                    let _alive = held;
                    std::future::pending().await
                });
                Ok(RawAnswer::Stream(Box::pin(stream::iter([Ok(Bytes::new())]).chain(silence))))
            }
            "Think" => {
                let _alive = held;
                std::future::pending().await
            }
            "Refuse" => {
                Err(RawStatus { details: Bytes::from_static(b"why"), ..RawStatus::new(9, "not now") })
            }
            other => Err(RawStatus::no_such_method(other)),
        }
    }
}

struct Served {
    running: Running,
    echo: Arc<Echo>,
}

impl Served {
    async fn start(config: impl Into<Setup>) -> Self {
        let echo = Arc::new(Echo::default());
        let Setup { config, server } = config.into();
        let services = Services::new(Arc::new(MemoryService::with_examples()), config);
        let running = Running::start(services.mount_raw(Arc::clone(&echo)), server).await;
        Self { running, echo }
    }

    async fn client(&self, config: ClientConfig) -> RawClient {
        RawClient::connect(&self.running.url(), config).await.unwrap()
    }

    /// Nobody waits for anything any more.
    async fn is_left(&self) {
        until("the service is left alone", || self.echo.open.load(Ordering::SeqCst) == 0).await;
    }
}

fn ask(method: &str, message: &'static [u8]) -> RawRequest {
    let message = Bytes::from_static(message);
    RawRequest { path: format!("/test.v1.Echo/{method}"), metadata: Vec::new(), message }
}

fn status(error: Error) -> RawStatus {
    match error {
        Error::Raw(status) => status,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn bytes_go_there_and_back_and_metadata_with_them() {
    let served = Served::start(Config::default()).await;
    let client = served.client(ClientConfig::default()).await;
    assert_eq!(client.unary(ask("Say", b"\xff\x00 anything")).await.unwrap(), &b"\xff\x00 anything"[..]);
    assert_eq!(client.unary(ask("Say", b"")).await.unwrap(), "");
    let mut request = ask("Who", b"");
    request.metadata = vec![
        ("x-tenant".to_owned(), "blue".to_owned()),
        ("authorization".to_owned(), "Bearer secret".to_owned()),
    ];
    assert_eq!(client.unary(request).await.unwrap(), r#"Some("secret") Some("blue")"#);
    let mut unsendable = ask("Say", b"");
    unsendable.metadata = vec![("x-tenant".to_owned(), "line\nbreak".to_owned())];
    let error = client.unary(unsendable).await.unwrap_err();
    assert!(matches!(error, Error::Metadata { .. }), "{error}");
}

#[tokio::test]
async fn statuses_keep_their_details_both_before_and_after_messages() {
    let served = Served::start(Config::default()).await;
    let client = served.client(ClientConfig::default()).await;
    let refused = status(client.unary(ask("Refuse", b"")).await.unwrap_err());
    assert_eq!((refused.code, &*refused.message, &refused.details[..]), (9, "not now", &b"why"[..]));
    let refused = status(client.stream(ask("Refuse", b"")).await.unwrap_err());
    assert_eq!(refused.code, 9);
    let mut stream = client.stream(ask("Break", b"")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "half");
    let broken = stream.next().await.unwrap().unwrap_err();
    assert_eq!((broken.code, &broken.details[..]), (14, &b"why"[..]));
    assert!(stream.next().await.is_none());
    let unknown = status(client.unary(ask("Nothing", b"")).await.unwrap_err());
    assert_eq!(unknown.code, Code::Unimplemented as i32);
    let other = RawRequest { path: "/other.Service/Say".to_owned(), ..RawRequest::default() };
    assert_eq!(status(client.unary(other).await.unwrap_err()).code, Code::Unimplemented as i32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_holds_the_service_back_and_loses_nothing() {
    let served = Served::start(Config::default()).await;
    let client = served.client(ClientConfig::default()).await;
    let mut stream = client.stream(ask("Count", b"")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), format!("{:0100}", 0));
    // Nobody reads: what is on the way fills up, and the service is not asked for more.
    let given = || served.echo.given.load(Ordering::SeqCst);
    let mut seen = given();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if given() == seen {
            break;
        }
        seen = given();
    }
    assert!(seen < MESSAGES / 2, "{seen} payloads of 105 bytes were taken for a reader that read one");
    let mut read = 1;
    while let Some(message) = stream.next().await {
        assert_eq!(message.unwrap(), format!("{read:0100}"));
        read += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(read, MESSAGES);
    served.is_left().await;
}

#[tokio::test]
async fn whoever_goes_away_is_gone_for_the_service_too() {
    let served = Served::start(Config::default()).await;
    let client = served.client(ClientConfig::default()).await;
    let mut stream = client.stream(ask("Rest", b"")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "");
    drop(stream);
    served.is_left().await;
    let thinking = client.unary(ask("Think", b""));
    assert!(tokio::time::timeout(Duration::from_millis(200), thinking).await.is_err());
    served.is_left().await;
    until("nothing is counted as open", || served.running.counters.gauge(Gauge::Calls) == 0).await;
}

#[tokio::test]
async fn deadlines_hold_on_both_sides() {
    let served = Served::start(Config::default()).await;
    let timeouts = ClientTimeouts { call: Duration::from_millis(100), ..ClientTimeouts::default() };
    let client = served.client(ClientConfig { timeouts, ..ClientConfig::default() }).await;
    match client.unary(ask("Think", b"")).await.unwrap_err() {
        Error::Timeout { .. } => {}
        Error::Raw(status) => assert_eq!(status.code, Code::DeadlineExceeded as i32),
        other => panic!("{other}"),
    }
    served.is_left().await;
    // A caller that says how long it waits is told when that is over, although the service is silent.
    let mut grpc = tonic::client::Grpc::new(served.running.channel().await);
    grpc.ready().await.unwrap();
    let mut request = Request::new(Bytes::new());
    request.set_timeout(Duration::from_millis(100));
    let path = "/test.v1.Echo/Rest".parse().unwrap();
    let mut stream = grpc.server_streaming(request, path, BytesCodec).await.unwrap().into_inner();
    stream.message().await.unwrap();
    assert_eq!(stream.message().await.unwrap_err().code(), Code::DeadlineExceeded);
    served.is_left().await;
}

#[tokio::test]
async fn a_reader_that_stalls_is_dropped() {
    let timeouts = Timeouts { write_stall: Duration::from_millis(300), ..Timeouts::default() };
    let served = Served::start(Config { timeouts, ..Config::default() }).await;
    let client = served.client(ClientConfig::default()).await;
    let mut stream = client.stream(ask("Count", b"")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    served.is_left().await;
    let mut read = 1;
    let error = loop {
        match stream.next().await.expect("a stalled stream does not end well") {
            Ok(_) => read += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(error.code, Code::Unavailable as i32);
    assert!(read < MESSAGES);
    assert_eq!(served.running.stalled(), 1);
}

#[tokio::test]
async fn sizes_are_limited_both_ways() {
    let limits = Limits { request_bytes: 1024, ..Limits::default() };
    let served = Served::start(Config { limits, ..Config::default() }).await;
    let client = served.client(ClientConfig::default()).await;
    let large = RawRequest { message: Bytes::from(vec![0; 2048]), ..ask("Say", b"") };
    assert_eq!(status(client.unary(large).await.unwrap_err()).code, Code::OutOfRange as i32);
    let limits = ClientLimits { message_bytes: 8, ..ClientLimits::default() };
    let client = served.client(ClientConfig { limits, ..ClientConfig::default() }).await;
    assert_eq!(
        status(client.unary(ask("Say", b"0123456789")).await.unwrap_err()).code,
        Code::OutOfRange as i32
    );
}

#[tokio::test]
async fn a_server_that_stops_ends_open_streams_with_unavailable() {
    let mut config = ServerConfig::http2_only();
    config.timeouts.drain = Duration::from_millis(50);
    let served = Served::start(config).await;
    let client = served.client(ClientConfig::default()).await;
    let mut stream = client.stream(ask("Rest", b"")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    assert!(stream.next().now_or_never().is_none());
    served.running.stop.cancel();
    let status = stream.next().await.unwrap().unwrap_err();
    assert_eq!(status.code, Code::Unavailable as i32);
    served.is_left().await;
}

#[tokio::test]
async fn nobody_there_is_told_as_such() {
    let error = RawClient::connect("http://127.0.0.1:1", ClientConfig::default()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    let served = Served::start(Config::default()).await;
    let client = served.client(ClientConfig::default()).await;
    served.running.task.abort();
    let mut ended = false;
    for _ in 0..100 {
        if let Err(Error::Raw(status)) = client.unary(ask("Say", b"")).await {
            ended = matches!(status.code, 1 | 2 | 14);
            break;
        }
    }
    assert!(ended, "a connection that broke is a status");
}
