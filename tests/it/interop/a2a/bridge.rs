//! A gateway in this process, and what an AG-UI frontend sees through it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, verify_sse};
use aqueduct_core::CancelToken;
use aqueduct_gateway::config::load;
use aqueduct_gateway::serve::Listening;
use aqueduct_gateway::service::Gateway;
use aqueduct_transport_http::{Client, ClientConfig, ClientTimeouts};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Request;
use serde_json::{Map, Value, json};

/// A gateway that serves until it is dropped.
pub(super) struct Bridge {
    pub(super) address: SocketAddr,
    client: Client,
    shutdown: CancelToken,
    runs: AtomicU32,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Bridge {
    /// Serves a configuration on a free port.
    pub(super) async fn serve(toml: &str) -> Self {
        let mut config = load(Path::new("aqueduct.toml"), toml, []).unwrap();
        config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        let listening = Listening::bind(Gateway::new(config).unwrap()).await.unwrap();
        let address = listening.addresses().unwrap()[0];
        let shutdown = listening.shutdown();
        tokio::spawn(listening.serve());
        // On a busy machine 5,000 chunks take their time.
        let timeouts = ClientTimeouts { body: Duration::from_secs(120), ..ClientTimeouts::default() };
        let client = Client::new(ClientConfig { timeouts, ..ClientConfig::default() }).unwrap();
        Self { address, client, shutdown, runs: AtomicU32::new(0) }
    }

    /// One that asks the agent at that address, by that binding, with more settings.
    pub(super) async fn to(url: &str, binding: &str, settings: &str) -> Self {
        let card = format!("{url}/.well-known/agent-card.json");
        // gRPC has a port of its own.
        let hosts = "a2a.hosts = [\"127.0.0.1\"]\n";
        let a2a = format!("a2a.card = \"{card}\"\na2a.binding = \"{binding}\"\n{hosts}");
        Self::serve(&format!("[agents.peer]\n{a2a}{settings}")).await
    }

    fn post(&self, path: &str, body: &Value) -> Request<Bytes> {
        Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(Bytes::from(body.to_string()))
            .unwrap()
    }

    fn input(&self, thread: &str, text: &str, resume: Option<Value>) -> Value {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut input = json!({
            "protocolVersion": "1.0", "threadId": thread, "runId": format!("run-{number}"), "state": {}, "tools": [],
            "context": [], "forwardedProps": {},
            "messages": [{ "id": format!("m-{number}"), "role": "user", "content": text }],
        });
        if let Some(resume) = resume {
            input["resume"] = resume;
        }
        input
    }

    /// Sends a prompt and reads the run to its end.
    pub(super) async fn say(&self, thread: &str, text: &str) -> Seen {
        self.run(&self.input(thread, text, None)).await
    }

    /// Answers the question that a run ended with.
    pub(super) async fn answer(&self, thread: &str, asked: &Seen, text: &str) -> Seen {
        let resume = json!([{ "interruptId": asked.interrupt, "status": "resolved", "payload": text }]);
        self.run(&self.input(thread, text, Some(resume))).await
    }

    async fn run(&self, input: &Value) -> Seen {
        let response = self.client.request(self.post("/agents/peer", input)).await.unwrap();
        let text = String::from_utf8(response.body().to_vec()).unwrap();
        assert_eq!(response.status(), 200, "{text}");
        Seen::of_sse(&text)
    }

    /// Sends a prompt, and cancels the run once it has emitted `until`.
    pub(super) async fn say_and_stop(&self, text: &str, until: &str) -> Seen {
        let input = self.input("stopped", text, None);
        let cancel = format!("/runs/{}/cancel", input["runId"].as_str().unwrap());
        let mut stream = self.client.open_stream(self.post("/agents/peer", &input)).await.unwrap();
        let mut body = String::new();
        let mut is_stopped = false;
        while let Some(event) = stream.next().await {
            let data = event.unwrap().data;
            writeln!(body, "data: {data}\n").unwrap();
            if !is_stopped && data.contains(until) {
                is_stopped = true;
                self.client.request(self.post(&cancel, &json!({}))).await.unwrap();
            }
        }
        Seen::of_sse(&body)
    }
}

/// What a reader of an AG-UI stream ends up with.
#[derive(Debug, Default)]
pub(super) struct Seen {
    answers: Vec<String>,
    intermediate: Vec<String>,
    tools: Vec<String>,
    files: Vec<Value>,
    data: Vec<Value>,
    outcome: String,
    question: Option<String>,
    error: Option<String>,
    interrupt: Value,
    all: String,
}

impl Seen {
    /// Reads a stream, which the strict verifier must want too.
    fn of_sse(text: &str) -> Self {
        let found = verify_sse(text.as_bytes(), Dialect::V1_0, Level::Strict);
        assert!(found.is_empty(), "{found:#?}\n{text}");
        let mut seen = Self { all: text.to_owned(), ..Self::default() };
        let (mut texts, mut thoughts) = (Texts::default(), Texts::default());
        for line in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let event: Value = serde_json::from_str(line).unwrap();
            match event["type"].as_str().unwrap() {
                "TEXT_MESSAGE_CONTENT" => texts.add(&event),
                "REASONING_MESSAGE_CONTENT" => thoughts.add(&event),
                "TOOL_CALL_START" => seen.tools.push(event["toolCallName"].as_str().unwrap().to_owned()),
                "CUSTOM" => match event["name"].as_str().unwrap() {
                    "aqueduct.file" => seen.files.push(event["value"].clone()),
                    "aqueduct.data" => seen.data.push(event["value"].clone()),
                    _ => {}
                },
                "RUN_FINISHED" => {
                    event["outcome"]["type"].as_str().unwrap_or("success").clone_into(&mut seen.outcome);
                    let interrupt = &event["outcome"]["interrupts"][0];
                    seen.question = interrupt["message"].as_str().map(str::to_owned);
                    seen.interrupt = interrupt["id"].clone();
                }
                "RUN_ERROR" => {
                    "error".clone_into(&mut seen.outcome);
                    seen.error = event["message"].as_str().map(str::to_owned);
                }
                _ => {}
            }
        }
        (seen.answers, seen.intermediate) = (texts.into_list(), thoughts.into_list());
        seen
    }

    /// The run failed, with this message.
    #[track_caller]
    pub(super) fn failed(&self) {
        assert_eq!(self.outcome, "error", "{}", shortened(&self.all));
        assert!(self.error.as_deref().is_some_and(|error| !error.is_empty()), "an error without words");
    }

    /// Compares with `modes.json`; members that it does not name must be empty.
    #[track_caller]
    pub(super) fn is(&self, expected: &Value, what: &str) {
        let mut expected: Map<String, Value> = expected.as_object().unwrap().clone();
        let mut check = |key: &str, seen: Value, empty: Value| {
            let wanted = expected.remove(key).unwrap_or(empty);
            assert!(seen == wanted, "{what}: {key}: saw {seen}, expected {wanted}\n{}", shortened(&self.all));
        };
        if let Some(count) = check_count(&self.answers) {
            check("count", json!(count), Value::Null);
        } else {
            check("answers", json!(self.answers), json!([]));
        }
        check("intermediate", json!(self.intermediate), json!([]));
        check("tools", json!(self.tools), json!([]));
        check("data", json!(self.data), json!([]));
        check("outcome", json!(self.outcome), Value::Null);
        check("question", json!(self.question), Value::Null);
        let files = expected.remove("files").unwrap_or_else(|| json!([]));
        assert_eq!(
            self.files.len(),
            files.as_array().unwrap().len(),
            "{what}: files\n{}",
            shortened(&self.all)
        );
        for (seen, wanted) in self.files.iter().zip(files.as_array().unwrap()) {
            for (key, value) in wanted.as_object().unwrap() {
                assert_eq!(&seen[key], value, "{what}: {key} of {seen}");
            }
        }
        // An error names its cause; each server has its own wording.
        if let Some(words) = expected.remove("error") {
            let error = self.error.as_deref().unwrap_or_default();
            assert!(error.contains(words.as_str().unwrap()), "{what}: error: {error}");
        } else if self.outcome == "error" {
            self.failed();
        }
        assert!(expected.is_empty(), "{what}: {expected:?} was not looked at");
    }
}

fn shortened(text: &str) -> &str {
    text.get(..6000).unwrap_or(text)
}

/// Texts by message, in the order in which they began.
#[derive(Debug, Default)]
struct Texts {
    order: Vec<String>,
    texts: HashMap<String, String>,
}

impl Texts {
    fn add(&mut self, event: &Value) {
        let id = event["messageId"].as_str().unwrap().to_owned();
        if !self.texts.contains_key(&id) {
            self.order.push(id.clone());
        }
        self.texts.entry(id).or_default().push_str(event["delta"].as_str().unwrap());
    }

    fn into_list(mut self) -> Vec<String> {
        self.order.iter().filter_map(|id| self.texts.remove(id)).collect()
    }
}

/// How far an answer counts, if that is what it does: `0 1 2 …`, none missing, none twice.
pub(super) fn check_count(answers: &[String]) -> Option<usize> {
    let [answer] = answers else { return None };
    let mut count = 0;
    for word in answer.strip_suffix(' ')?.split(' ') {
        if word != count.to_string() {
            return None;
        }
        count += 1;
    }
    Some(count)
}
