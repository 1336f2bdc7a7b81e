//! The gateway as a process: signals, TLS, logs.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use aqueduct_transport_http::{Client, ClientConfig, tls};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, StatusCode};
use serde_json::Value;

use crate::serve::support::{Upstream, input, sse};

/// A gateway in a process of its own, stopped with the test.
pub(crate) struct Process {
    child: Child,
    /// The address of its first agent.
    pub(crate) url: String,
    folder: PathBuf,
    /// What it has logged so far, and the thread that reads it.
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Serves these files, of which `aqueduct.toml` is one.
    pub(crate) fn serve(name: &str, files: &[(&str, &str)], environment: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("aqueduct-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            std::fs::write(folder.join(file), text).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(folder.join("aqueduct.toml"));
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        assert!(url.contains("/agents/"), "{url}");
        let (log, stderr) = (Arc::new(Mutex::new(String::new())), child.stderr.take().unwrap());
        let shared = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = shared.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self { child, url: url.trim().to_owned(), folder, log, reader: Some(reader) }
    }

    pub(crate) fn root(&self) -> &str {
        self.url.split("/agents/").next().unwrap()
    }

    /// A request that runs one of its agents.
    pub(crate) fn ask(&self, agent: &str, input: &Value) -> Request<Bytes> {
        let url = format!("{}/agents/{agent}", self.root());
        post(&url).body(Bytes::from(input.to_string())).unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Puts another file in the place of one, at once.
    fn replace(&self, file: &str, text: &str) {
        let beside = self.folder.join("beside");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, self.folder.join(file)).unwrap();
    }

    /// Waits until it has logged these words.
    async fn logged(&self, words: &str) {
        while !self.log.lock().unwrap().contains(words) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for its end; gives the exit code and what it logged.
    pub(crate) async fn end(mut self) -> (Option<i32>, String) {
        let reader = self.reader.take().unwrap();
        tokio::task::spawn_blocking(move || reader.join().unwrap()).await.unwrap();
        (self.child.wait().unwrap().code(), self.log.lock().unwrap().clone())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn client() -> Client {
    Client::new(ClientConfig::default()).unwrap()
}

fn post(url: &str) -> http::request::Builder {
    Request::post(url).header("content-type", "application/json").header("accept", "text/event-stream")
}

fn body(run: &str) -> Bytes {
    Bytes::from(input(run, Some("1.0")).to_string())
}

/// A supervisor may send a signal as soon as it has read the address of a gateway.
#[cfg(unix)]
#[test]
fn a_signal_right_after_the_first_line_ends_the_program_in_order() {
    let script = crate::program::root().join("scripts/demo-tools.toml");
    let script = script.to_str().unwrap();
    for arguments in [vec!["demo", "--port", "0"], vec!["mock", script, "--listen", "127.0.0.1:0"]] {
        for _ in 0..5 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
            let mut child = command.args(&arguments).stdout(Stdio::piped()).spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            output.read_line(&mut String::new()).unwrap();
            let id = child.id().to_string();
            assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
            std::io::copy(&mut output, &mut std::io::sink()).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments:?}");
        }
    }
}

const SLOW: &str = "[[step]]\ntext = \"begun\"\n[[step]]\nsleep = \"1s\"\n[[step]]\ntext = \"and ended\"\n";

#[cfg(unix)]
#[tokio::test]
async fn sigterm_lets_open_runs_end() {
    let toml = "[agents.a.script]\nfile = \"a.toml\"\n";
    let process = Process::serve("drain", &[("aqueduct.toml", toml), ("a.toml", SLOW)], &[]);
    let client = client();
    let request = post(&process.url).body(body("r")).unwrap();
    let mut stream = client.open_stream(request).await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    assert!(first.data.contains("RUN_STARTED"));
    process.signal("-TERM");
    let mut rest = String::new();
    while let Some(event) = stream.next().await {
        rest.push_str(&event.unwrap().data);
    }
    assert!(rest.contains("and ") && rest.contains("RUN_FINISHED"), "{rest}");
    let (code, log) = process.end().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("draining") && log.contains("stopped"), "{log}");
}

#[cfg(unix)]
#[tokio::test]
async fn sigterm_ends_honestly_what_does_not_end_in_time() {
    let toml = "[server]\npre_stop = \"1s\"\ndrain = \"3s\"\n[agents.a.script]\nfile = \"a.toml\"\n";
    let endless = "[[step]]\ntext = \"begun\"\n[[step]]\nsleep = \"1h\"\n";
    let process = Process::serve("drain-limit", &[("aqueduct.toml", toml), ("a.toml", endless)], &[]);
    let request = post(&process.url).body(body("r")).unwrap();
    let mut stream = client().open_stream(request).await.unwrap();
    stream.next().await.unwrap().unwrap();
    process.signal("-TERM");
    let mut last = String::new();
    while let Some(event) = stream.next().await {
        last = event.unwrap().data.to_string();
    }
    assert!(last.contains("gateway_lost") && last.contains("was stopped"), "readers are told: {last}");
    assert_eq!(process.end().await.0, Some(0));
}

fn certificate(folder: &Path) -> (String, String, tls::Authorities) {
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let file = folder.join(format!("aqueduct-ca-{}.pem", std::process::id()));
    std::fs::write(&file, &certificate).unwrap();
    let authorities = tls::Authorities::from_file(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    (certificate, key, authorities)
}

#[tokio::test]
async fn a_gateway_with_a_certificate_speaks_tls() {
    let (certificate, key, authorities) = certificate(&std::env::temp_dir());
    let toml =
        "[server.tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n[agents.a.script]\nfile = \"a.toml\"\n";
    let files = [
        ("aqueduct.toml", toml),
        ("a.toml", "[[step]]\ntext = \"hi\"\n"),
        ("c.pem", &*certificate),
        ("k.pem", &*key),
    ];
    let process = Process::serve("tls", &files, &[]);
    assert!(process.url.starts_with("https://"), "{}", process.url);
    let trusting = tls::ClientTls { authorities: Some(authorities), ..tls::ClientTls::default() };
    let client = Client::new(ClientConfig { tls: trusting, ..ClientConfig::default() }).unwrap();
    let response = client.request(post(&process.url).body(body("r")).unwrap()).await.unwrap();
    assert!(String::from_utf8_lossy(response.body()).contains("RUN_FINISHED"));
    // Plain text at the same port, and a client that does not know the authority, get nowhere.
    let plain = process.url.replace("https://", "http://");
    assert!(self::client().request(post(&plain).body(body("p")).unwrap()).await.is_err());
    assert!(self::client().request(post(&process.url).body(body("q")).unwrap()).await.is_err());
    // Commands trust the authorities of `--ca`.
    let ca = crate::scratch::folder().join("ca.pem");
    std::fs::write(&ca, &certificate).unwrap();
    let (url, ca) = (process.url.clone(), ca.to_str().unwrap().to_owned());
    let tried = tokio::task::spawn_blocking(move || {
        let args = ["run", &url, "hello", "--protocol", "agui"];
        let with = crate::program::aqueduct(&[&args[..], &["--ca", &ca]].concat(), b"");
        (crate::program::code(&with), crate::program::code(&crate::program::aqueduct(&args, b"")))
    });
    assert_eq!(tried.await.unwrap(), (0, 1));
}

#[cfg(unix)]
#[tokio::test]
async fn logs_have_ids_and_no_secrets() {
    let upstream =
        Upstream::saying(sse("data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n"))
            .await;
    let toml = format!(
        "[server]\ntokens = [\"env:GATE\"]\n[log]\nformat = \"json\"\nlevel = \"trace\"\n\
         [agents.a]\nagui.url = \"{}\"\ncredentials = \"env:UPSTREAM\"\nforward_headers = [\"x-secret\"]\n",
        upstream.url
    );
    let secrets = [("GATE", "open-sesame-1"), ("UPSTREAM", "open-sesame-2")];
    let process = Process::serve("logs", &[("aqueduct.toml", &toml)], &secrets);
    let client = client();
    let asked = |token: &str, run: &str| {
        let request = post(&process.url).header("authorization", format!("Bearer {token}"));
        let request = request.header("x-request-id", "my-request").header("x-secret", "open-sesame-3");
        request.body(body(run)).unwrap()
    };
    let refused = client.request(asked("open-sesame-4", "r1")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let answered = client.request(asked("open-sesame-1", "r2")).await.unwrap();
    assert_eq!(answered.status(), 200);
    assert_eq!(answered.headers()["x-request-id"], "my-request");
    let query = Request::get(format!("{}/runs/r2/events?token=open-sesame-5", process.root()));
    client.request(query.body(Bytes::new()).unwrap()).await.unwrap();
    process.signal("-TERM");
    let (code, log) = process.end().await;
    assert_eq!(code, Some(0));
    assert!(!log.contains("open-sesame"), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |what: &str| {
        lines.iter().find(|line| line["message"] == what).unwrap_or_else(|| panic!("{what}: {log}"))
    };
    let started = has("run started");
    assert_eq!((&started["run"], &started["span"]["id"]), (&"r2".into(), &"my-request".into()), "{started}");
    assert_eq!(has("run failed")["code"], "upstream_ended");
    let refused = has("refused");
    assert_eq!(refused["span"]["id"], "my-request");
    assert_eq!((&refused["code"], &refused["key"]), (&"unauthenticated".into(), &"principals".into()));
    assert!(refused["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{refused}");
    let begun = has("started");
    assert_eq!((&begun["engine"], &begun["agents"]), (&"memory".into(), &"a".into()), "{begun}");
    assert!(begun["version"].is_string() && begun["listen"].as_str().unwrap().starts_with("127.0.0.1:"));
}

/// With `log.access` every answer is a line; while a run is traced, its lines carry the id of the trace and of the run.
#[cfg(unix)]
#[tokio::test]
async fn answers_are_logged_where_it_is_wanted_with_trace_and_run() {
    // The address has no listener: spans have ids all the same.
    let toml = "telemetry.otlp = \"http://127.0.0.1:1\"\nlog = { format = \"json\", access = true }\n\
                [agents.a.script]\nfile = \"a.toml\"\n";
    let files = [("aqueduct.toml", toml), ("a.toml", "[[step]]\ntext = \"x\"\n")];
    let process = Process::serve("access-log", &files, &[]);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = post(&process.url).header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"));
    assert_eq!(client().request(request.body(body("r1")).unwrap()).await.unwrap().status(), 200);
    process.signal("-TERM");
    let (_, log) = process.end().await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let started =
        lines.iter().find(|line| line["message"] == "run started").unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&started["run"], &started["span"]["trace"]), (&"r1".into(), &trace.into()), "{log}");
    let ended = lines.iter().find(|line| line["message"] == "run ended").unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&ended["run"], &ended["span"]["trace"]), (&"r1".into(), &trace.into()), "{log}");
    let answered = lines.iter().find(|line| line["message"] == "answered").unwrap_or_else(|| panic!("{log}"));
    assert_eq!(
        (&answered["status"], &answered["span"]["id"]),
        (&200.into(), &started["span"]["id"]),
        "{log}"
    );
}

/// An agent that the file gains is there, without a signal, where the file is watched.
#[cfg(unix)]
#[tokio::test]
async fn a_watched_configuration_is_read_again_by_itself() {
    let toml = "server.watch = true\n[agents.a.script]\nfile = \"a.toml\"\n";
    let files = [("aqueduct.toml", toml), ("a.toml", "[[step]]\ntext = \"x\"\n")];
    let process = Process::serve("watched", &files, &[]);
    process.replace("aqueduct.toml", &format!("{toml}[agents.b.script]\nfile = \"a.toml\"\n"));
    process.logged("why=\"its files changed\"").await;
    assert_eq!(agents(&process).await, ["a", "b"]);
    process.replace("aqueduct.toml", &format!("{toml}[agents.b.script]\nfiel = \"a.toml\"\n"));
    process.logged("did you mean `file`?").await;
    assert_eq!(agents(&process).await, ["a", "b"], "a mistake changes nothing");
}

/// Runs that are begun over a socket have the id of the request that opened it, those that are published among them.
#[tokio::test]
async fn runs_of_a_socket_are_logged_with_its_request() {
    use aqueduct_core::service::PublishRequest;
    use aqueduct_transport_ws::client::{Client, ConnectOptions};
    let toml = "log.format = \"json\"\n[agents.a.script]\nfile = \"a.toml\"\n[agents.flow.magentic]\ningest = true\n";
    let files = [("aqueduct.toml", toml), ("a.toml", "[[step]]\ntext = \"x\"\n")];
    let process = Process::serve("socket-log", &files, &[]);
    let options = ConnectOptions::new(format!("{}/ws", process.root().replace("http", "ws")));
    let client = Client::connect(&options).await.unwrap();
    let input = input("asked", None).to_string();
    let mut run = client.start(Some("a"), &input).await.unwrap();
    while run.next().await.is_some() {}
    let request = PublishRequest {
        agent: "flow".to_owned(),
        thread_id: None,
        run_id: Some("fed".into()),
        format: "magentic".to_owned(),
    };
    client.publish(&request).await.unwrap().finish().await.unwrap();
    process.logged("\"fed\"").await;
    client.close().await;
    process.signal("-TERM");
    let (_, log) = process.end().await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let started =
        |run: &str| lines.iter().find(|line| line["message"] == "run started" && line["run"] == run);
    let ids =
        ["asked", "fed"].map(|run| started(run).unwrap_or_else(|| panic!("{log}"))["span"]["id"].clone());
    assert!(ids[0].as_str().is_some_and(|id| !id.is_empty()) && ids[0] == ids[1], "{log}");
}

/// Returns the names of the agents from `GET /agents`.
async fn agents(process: &Process) -> Vec<String> {
    let request = Request::get(format!("{}/agents", process.root())).body(Bytes::new()).unwrap();
    let list: Value = serde_json::from_slice(client().request(request).await.unwrap().body()).unwrap();
    list["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["name"].as_str().unwrap().to_owned())
        .collect()
}

/// SIGHUP puts another configuration in place while a run of the one before goes on.
#[cfg(unix)]
#[tokio::test]
async fn sighup_reloads_without_dropping_runs() {
    let scripted = |name: &str| format!("[agents.{name}.script]\nfile = \"{name}.toml\"\n");
    let (old, new) = (scripted("a"), scripted("b"));
    let files = [("aqueduct.toml", &*old), ("a.toml", SLOW), ("b.toml", "[[step]]\ntext = \"new\"\n")];
    let process = Process::serve("reload", &files, &[]);
    let request = post(&process.url).body(body("r")).unwrap();
    let mut stream = client().open_stream(request).await.unwrap();
    stream.next().await.unwrap().unwrap();

    process.replace("aqueduct.toml", &new);
    process.signal("-HUP");
    process.logged("added=[\"b\"] changed=[] removed=[\"a\"]").await;
    assert_eq!(agents(&process).await, ["b"]);
    let gone = client().request(post(&process.url).body(body("r2")).unwrap()).await.unwrap();
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    let url = process.url.replace("/agents/a", "/agents/b");
    let answer = client().request(post(&url).body(body("r3")).unwrap()).await.unwrap();
    assert!(String::from_utf8_lossy(answer.body()).contains("new"));
    let mut rest = String::new();
    while let Some(event) = stream.next().await {
        rest.push_str(&event.unwrap().data);
    }
    assert!(rest.contains("RUN_FINISHED"), "the run of an agent that is gone: {rest}");
    // It can still be watched again.
    let again = Request::get(format!("{}/runs/r/events", process.root())).body(Bytes::new()).unwrap();
    assert_eq!(client().request(again).await.unwrap().status(), 200);

    // What is wrong, or needs new sockets, changes nothing.
    let sockets = format!("[server]\nbody = \"2MiB\"\n{old}");
    for (bad, told) in
        [("[agents.c]\nscript.file = 7\n", "aqueduct.toml:2:15"), (&*sockets, "needs a restart")]
    {
        process.replace("aqueduct.toml", bad);
        process.signal("-HUP");
        process.logged(told).await;
        assert_eq!(agents(&process).await, ["b"]);
    }
}

/// A certificate that was renewed is shown to the next connection, after SIGHUP and by watching the file; connections that
/// are open go on.
#[cfg(unix)]
#[tokio::test]
async fn a_renewed_certificate_is_served_after_a_reload() {
    let (certificate, key, first) = certificate(&std::env::temp_dir());
    let toml = "[server]\nwatch = true\n[server.tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n\
                [agents.a.script]\nfile = \"a.toml\"\n";
    let files = [
        ("aqueduct.toml", toml),
        ("a.toml", "[[step]]\ntext = \"hi\"\n"),
        ("c.pem", &*certificate),
        ("k.pem", &*key),
    ];
    let process = Process::serve("renewed", &files, &[]);
    let trusting = |authorities: &tls::Authorities| {
        let tls = tls::ClientTls { authorities: Some(authorities.clone()), ..tls::ClientTls::default() };
        Client::new(ClientConfig { tls, ..ClientConfig::default() }).unwrap()
    };
    let asked = async |client: &Client| {
        let request = Request::get(format!("{}/healthz", process.root())).body(Bytes::new()).unwrap();
        client.request(request).await.is_ok_and(|response| response.status() == 200)
    };
    let old = trusting(&first);
    assert!(asked(&old).await);
    let mut last = first;
    for (turn, by_signal) in [(1, true), (2, false)] {
        let (certificate, key, renewed) = self::certificate(&std::env::temp_dir());
        process.replace("k.pem", &key);
        process.replace("c.pem", &certificate);
        if by_signal {
            process.signal("-HUP");
            process.logged("certificate=true why=\"SIGHUP\"").await;
        } else {
            process.logged("certificate=true why=\"its files changed\"").await;
        }
        assert!(asked(&trusting(&renewed)).await, "{turn}: the renewed certificate is shown");
        assert!(!asked(&trusting(&last)).await, "{turn}: the former one is not");
        last = renewed;
    }
    assert!(asked(&old).await, "a connection that was open goes on");
    // A key of another certificate changes nothing.
    let (_, key, _) = self::certificate(&std::env::temp_dir());
    process.replace("k.pem", &key);
    process.signal("-HUP");
    process.logged("configuration not reloaded").await;
    assert!(asked(&trusting(&last)).await);
}

/// A refused preflight is logged with the key to set; browsers show nothing.
#[tokio::test]
async fn a_refused_preflight_says_what_to_set() {
    let toml = "log.format = \"json\"\n[agents.a.script]\nfile = \"a.toml\"\n";
    let files = [("aqueduct.toml", toml), ("a.toml", "[[step]]\ntext = \"x\"\n")];
    let process = Process::serve("preflight", &files, &[]);
    for (origin, remedy) in [
        ("https://app.example", "add the origin to `server.origins`, and set `server.cors = true`"),
        ("http://localhost:3000", "set `server.cors = true`"),
    ] {
        let preflight = Request::builder().method("OPTIONS").uri(&process.url).header("origin", origin);
        let preflight = preflight.header("access-control-request-method", "POST").body(Bytes::new()).unwrap();
        client().request(preflight).await.unwrap();
        process.logged(&format!("\"origin\":\"{origin}\",\"remedy\":\"{remedy}\"")).await;
    }
}
