//! Tasks that gateways serve over A2A, on one Redis: begun at one process, found, watched, answered and cancelled at another,
//! also after the first was killed; and receivers that are told by whichever gateway is left.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::replicas::{Alive, Speech, host, upstream};
use super::server::Server;

const SPEECH: Speech = Speech { words: 40, pace: Duration::from_millis(100) };
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

const ASKING: &str =
    "[[step]]\ntext = \"Hm.\"\n[[step]]\nask = \"Which cluster?\"\n[[step]]\ntext = \"Done: {answer}\"\n";
const WAITING: &str = "[[step]]\ntext = \"On it.\"\n[[step]]\nwait = \"300s\"\n";

fn configuration(server: &Server, agent: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    file("asking.toml", ASKING);
    file("waiting.toml", WAITING);
    file("redis-url", &server.url());
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\npush = \"any\"\n[log]\nlevel = \"error\"\n[runs]\nlog = \"redis\"\n\
         redis = \"file:redis-url\"\n[agents.asking]\nscript.file = \"asking.toml\"\n[agents.waiting]\n\
         script.file = \"waiting.toml\"\n[agents.task]\na2a.url = \"http://{agent}/a2a/slow\"\n"
    );
    file("aqueduct.toml", &config);
    folder
}

/// Begins a JSON-RPC call; the lines of its answer follow the head.
fn call(host: &str, agent: &str, method: &str, params: &Value) -> BufReader<TcpStream> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut socket = TcpStream::connect(host).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        socket,
        "POST /a2a/{agent} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 0 && line != "\r\n" {
        line.clear();
    }
    reader
}

fn rpc(host: &str, agent: &str, method: &str, params: &Value) -> Value {
    let mut text = String::new();
    call(host, agent, method, params).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{method}: {error}: {text}"))
}

fn message(text: &str) -> Value {
    json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]})
}

fn send(host: &str, agent: &str, configuration: &Value) -> Value {
    let answer =
        rpc(host, agent, "SendMessage", &json!({"message": message("hi"), "configuration": configuration}));
    assert!(answer["result"]["task"]["id"].is_string(), "{answer}");
    answer["result"]["task"].clone()
}

fn get(host: &str, agent: &str, task: &Value) -> Value {
    rpc(host, agent, "GetTask", &json!({"id": task["id"]}))["result"].clone()
}

fn reply_to(task: &Value, text: &str) -> Value {
    let mut reply = message(text);
    reply["taskId"] = task["id"].clone();
    json!({"message": reply})
}

/// The items of a stream, as they come.
fn items(reader: BufReader<TcpStream>) -> impl Iterator<Item = Value> {
    reader.lines().map_while(Result::ok).filter_map(|line| {
        let data = line.strip_prefix("data: ")?.to_owned();
        Some(serde_json::from_str::<Value>(&data).unwrap()["result"].clone())
    })
}

fn state_of(item: &Value) -> &str {
    item["statusUpdate"]["status"]["state"].as_str().unwrap_or_default()
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_task_is_served_by_every_replica_and_after_the_death_of_one() {
    let server = Server::start();
    let (agent, _kept) = upstream(SPEECH);
    let folder = configuration(&server, &host(&agent));
    let alive = Alive::default();
    let (first, second) = (alive.start(folder.path()), alive.start(folder.path()));
    let (a, b) = (host(&first), host(&second));

    // A follow-up at the other, watched where the task was begun.
    let asked = send(&a, "asking", &json!({}));
    assert_eq!(get(&b, "asking", &asked), asked);
    let mut watched = items(call(&a, "asking", "SubscribeToTask", &json!({"id": asked["id"]})));
    assert_eq!(watched.next().unwrap()["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let answered = rpc(&b, "asking", "SendMessage", &reply_to(&asked, "prod"))["result"]["task"].clone();
    assert_eq!(answered["status"]["state"], "TASK_STATE_COMPLETED", "{answered}");
    let rest: Vec<Value> = watched.collect();
    assert_eq!(state_of(rest.last().unwrap()), "TASK_STATE_COMPLETED", "{rest:?}");
    assert_eq!(get(&a, "asking", &asked), answered);
    let lists = [&a, &b].map(|at| rpc(at, "asking", "ListTasks", &json!({"includeArtifacts": true})));
    assert_eq!(lists[0], lists[1]);
    assert_eq!(lists[0]["result"]["tasks"], json!([answered]));

    // Cancelled at the other: one at work, one that waits.
    let (at_work, waits) =
        (send(&a, "waiting", &json!({"returnImmediately": true})), send(&a, "asking", &json!({})));
    for (name, task) in [("waiting", &at_work), ("asking", &waits)] {
        let cancelled = rpc(&b, name, "CancelTask", &json!({"id": task["id"]}))["result"].clone();
        assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
        assert_eq!(get(&a, name, task), cancelled);
    }

    // The first is killed: a task that waits, one of an agent that goes on, one that cannot.
    let waits = send(&a, "asking", &json!({}));
    let goes_on = send(&a, "task", &json!({"returnImmediately": true}));
    let ends = send(&a, "waiting", &json!({"returnImmediately": true}));
    alive.kill(first);
    assert_eq!(get(&b, "asking", &waits), waits);
    let answered = rpc(&b, "asking", "SendMessage", &reply_to(&waits, "prod"))["result"]["task"].clone();
    assert_eq!(answered["status"]["state"], "TASK_STATE_COMPLETED", "{answered}");
    let watched: Vec<Value> =
        items(call(&b, "task", "SubscribeToTask", &json!({"id": goes_on["id"]}))).collect();
    assert_eq!(state_of(watched.last().unwrap()), "TASK_STATE_COMPLETED", "{watched:?}");
    let whole = get(&b, "task", &goes_on);
    assert!(whole["artifacts"].to_string().contains(&SPEECH.text()), "{whole}");
    let ended = wait(|| {
        Some(get(&b, "waiting", &ends)).filter(|task| task["status"]["state"] != "TASK_STATE_WORKING")
    });
    assert_eq!(ended["status"]["state"], "TASK_STATE_FAILED", "{ended}");
}

/// Takes push notifications: ids and bodies, in order.
#[derive(Clone)]
struct Receiver {
    url: String,
    is_up: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<String>>>,
    taken: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let receiver = Self { url, is_up: Arc::default(), refused: Arc::default(), taken: Arc::default() };
        let own = receiver.clone();
        std::thread::spawn(move || listener.incoming().for_each(|stream| own.answer(stream.unwrap())));
        receiver
    }

    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut id, mut length, mut line) = (String::new(), 0, String::new());
        while reader.read_line(&mut line).unwrap_or(0) > 0 && line != "\r\n" {
            if let Some((name, value)) = line.trim_end().split_once(": ") {
                match name.to_ascii_lowercase().as_str() {
                    "x-a2a-notification-id" => id = value.to_owned(),
                    "content-length" => length = value.parse().unwrap(),
                    _ => {}
                }
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let is_up = self.is_up.load(Ordering::SeqCst);
        if is_up {
            self.taken.lock().unwrap().push((id, serde_json::from_slice(&body).unwrap()));
        } else {
            self.refused.lock().unwrap().push(id);
        }
        let status = if is_up { "200 OK" } else { "503 Service Unavailable" };
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let _ = reader.get_mut().write_all(head.as_bytes());
    }

    fn taken(&self) -> Vec<(String, Value)> {
        self.taken.lock().unwrap().clone()
    }
}

#[test]
fn a_receiver_is_told_everything_although_its_gateway_was_killed() {
    let server = Server::start();
    let (agent, _kept) = upstream(SPEECH);
    let folder = configuration(&server, &host(&agent));
    let alive = Alive::default();
    let (first, second) = (alive.start(folder.path()), alive.start(folder.path()));
    let (a, b) = (host(&first), host(&second));
    let receiver = Receiver::start();
    let push =
        json!({"returnImmediately": true, "taskPushNotificationConfig": {"id": "mine", "url": receiver.url}});
    let task = send(&a, "task", &push);
    wait(|| (!receiver.refused.lock().unwrap().is_empty()).then_some(()));
    alive.kill(first);
    receiver.is_up.store(true, Ordering::SeqCst);
    wait(|| receiver.taken().iter().any(|(_, body)| state_of(body) == "TASK_STATE_COMPLETED").then_some(()));
    let listed = rpc(&b, "task", "ListTaskPushNotificationConfigs", &json!({"taskId": task["id"]}));
    assert_eq!(listed["result"]["configs"][0]["id"], "mine", "{listed}");

    let taken = receiver.taken();
    let refused = receiver.refused.lock().unwrap().clone();
    assert_eq!(taken[0].0, refused[0], "the first one again, under its id");
    let number = |id: &str| id.rsplit_once(':').unwrap().1.split_once('.').unwrap().0.parse::<u64>().unwrap();
    assert!(taken.is_sorted_by_key(|(id, _)| number(id)), "in order");
    let mut told: Vec<(String, Value)> = taken.clone();
    told.dedup_by(|later, earlier| later.0 == earlier.0);
    let closing = told.iter().rev().find(|(_, body)| body["artifactUpdate"]["lastChunk"] == true).unwrap();
    assert!(closing.1.to_string().contains(&SPEECH.text()), "{closing:?}");
    println!("{} notifications, {} of them twice", taken.len(), taken.len() - told.len());
}
