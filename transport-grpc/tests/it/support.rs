//! A server on a free port, clients for it, and what tests wait with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{NumberedEvent, RunService};
use aqueduct_core::{RunId, RunInput};
use aqueduct_transport_grpc::raw::BytesCodec;
use aqueduct_transport_grpc::{Client, ClientConfig, Config, Error, RunStream, Services, unimplemented};
use aqueduct_transport_http::{CancelToken, Counters, Drained, Gauge, Server, ServerConfig, Total};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;

use crate::service::MemoryService;

/// Longer than anything here takes; only a test that fails waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Services and their server.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) server: ServerConfig,
}

impl Default for Setup {
    fn default() -> Self {
        Self { config: Config::default(), server: ServerConfig::http2_only() }
    }
}

/// A reader stalls for both at the same time.
impl From<Config> for Setup {
    fn from(config: Config) -> Self {
        let mut server = ServerConfig::http2_only();
        server.timeouts.write_stall = config.timeouts.write_stall;
        Self { config, server }
    }
}

impl From<ServerConfig> for Setup {
    fn from(server: ServerConfig) -> Self {
        Self { server, ..Self::default() }
    }
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    /// The counts of the services.
    pub(crate) counters: Counters,
    /// The counts of the server.
    pub(crate) sockets: Counters,
    pub(crate) stop: CancelToken,
    pub(crate) task: JoinHandle<Drained>,
}

impl Running {
    pub(crate) async fn start(services: Services, server: ServerConfig) -> Self {
        let server = Server::bind("127.0.0.1:0", server).await.unwrap();
        let (counters, sockets) = (services.counters(), server.counters());
        let (address, stop) = (server.local_addr().unwrap(), CancelToken::new());
        let routes = services.router().unwrap().fallback(unimplemented);
        let task = tokio::spawn(server.serve(routes, stop.clone()));
        Self { address, counters, sockets, stop, task }
    }

    pub(crate) async fn serve(service: impl RunService, setup: impl Into<Setup>) -> Self {
        let Setup { config, server } = setup.into();
        Self::start(Services::new(Arc::new(service), config), server).await
    }

    pub(crate) async fn share(service: &Arc<MemoryService>, setup: impl Into<Setup>) -> Self {
        let Setup { config, server } = setup.into();
        let service: Arc<MemoryService> = Arc::clone(service);
        Self::start(Services::new(service, config), server).await
    }

    /// Stalled readers that the services or the server closed.
    pub(crate) fn stalled(&self) -> u64 {
        self.counters.total(Total::WriteStalls) + self.sockets.total(Total::WriteStalls)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.url(), ClientConfig::default()).await.unwrap()
    }

    pub(crate) async fn channel(&self) -> Channel {
        Channel::from_shared(self.url()).unwrap().connect().await.unwrap()
    }

    /// Waits until nothing is open any more.
    pub(crate) async fn is_empty(&self) {
        until("all connections and streams are closed", || {
            let open = [Gauge::Streams, Gauge::Publishers, Gauge::Calls];
            self.sockets.gauge(Gauge::Connections) == 0
                && open.iter().all(|gauge| self.counters.gauge(*gauge) == 0)
        })
        .await;
    }
}

/// A server with the agents of the example.
pub(crate) async fn example() -> Running {
    Running::serve(MemoryService::with_examples(), Setup::default()).await
}

pub(crate) fn prompt(run: &str) -> RunInput {
    RunInput::prompt("thread", run.to_owned(), "one two three")
}

pub(crate) async fn collect(mut run: RunStream) -> Vec<NumberedEvent> {
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event.unwrap());
    }
    events
}

/// Waits for a condition without a clock: every other task has its turn in between.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "waited too long until {what}");
}

/// Passes bytes on until it is cut, and keeps what the client sent.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) sent: Arc<std::sync::Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = Arc::clone(&sent);
        let task = tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(target).await.unwrap();
            pass(client, server, &log).await;
        });
        Self { address, sent, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts both sides.
    pub(crate) fn cut(&self) {
        self.task.abort();
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, log: &std::sync::Mutex<Vec<u8>>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        let mut buffer = vec![0; 4096];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            log.lock().unwrap().extend_from_slice(&buffer[..read]);
            if to_server.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    };
    let down = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::select! {
        () = up => {}
        _ = down => {}
    }
}

/// Calls any method with any bytes.
pub(crate) async fn raw_call(
    channel: Channel,
    path: &'static str,
    body: &'static [u8],
) -> Result<Bytes, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let request = tonic::Request::new(Bytes::from_static(body));
    client.unary(request, path.parse().unwrap(), BytesCodec).await.map(tonic::Response::into_inner)
}

/// The reason in a status of ours.
pub(crate) fn reason(status: &Status) -> Option<String> {
    use tonic_types::StatusExt as _;
    status.get_details_error_info().filter(|info| info.domain == "aqueduct").map(|info| info.reason)
}

#[track_caller]
pub(crate) fn assert_cut(error: &Error, code: tonic::Code) {
    assert!(matches!(error, Error::Cut { code: found, .. } if *found == code), "{error:?}");
    assert!(error.can_continue());
}

pub(crate) fn run_id(id: &str) -> RunId {
    RunId::from(id)
}
