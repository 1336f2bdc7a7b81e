//! A stream recorded from a real socket and played again is the same stream.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{aqueduct, code, root, text};
use crate::serve::support::{Upstream, events, input, serve, sse};

/// A folder that is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("aqueduct-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn fixture(path: &str) -> String {
    std::fs::read_to_string(root().join("tests/fixtures").join(path)).unwrap()
}

async fn run(args: Vec<String>) -> std::process::Output {
    let work = move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        aqueduct(&args, b"")
    };
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// What matters of events: ids and times differ from run to run.
fn shape(events: &[Value]) -> Vec<(Value, Value)> {
    events.iter().map(|event| (event["type"].clone(), event["delta"].clone())).collect()
}

#[tokio::test]
async fn an_a2a_stream_is_recorded_and_comes_again() {
    let folder = Folder::new("record-a2a");
    let file = folder.file("a.jsonl");
    let body = fixture("a2a/v1-jsonrpc-default.sse");
    let frames = body.matches("data: ").count();
    let upstream = Upstream::saying(sse(&body)).await;
    let config = folder.file("aqueduct.toml");
    let toml = format!("[agents.a.a2a]\nurl = \"{}\"\nbinding = \"jsonrpc\"\n", upstream.url);
    std::fs::write(&config, &toml).unwrap();
    let output = run(words(&["record", "a", "hello", "--config", &config, "-o", &file])).await;
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let recorded = std::fs::read_to_string(&file).unwrap();
    assert_eq!(recorded.lines().count(), frames + 2, "{recorded}");
    assert!(recorded.lines().last().unwrap().contains("\"end\":\"closed\""), "{recorded}");

    // Straight from the agent, and from the recording: the same events.
    let live = serve(&toml, &[]).await;
    let again = serve(&format!("[agents.a]\nreplay = {{ file = \"{file}\", speed = \"max\" }}\n"), &[]).await;
    let seen = again.run("a", "r").await;
    assert_eq!(shape(&seen), shape(&live.run("a", "r").await));
    assert_eq!(seen.last().unwrap()["type"], "RUN_FINISHED");

    let output = run(words(&["replay", &file, "--speed", "max", "--events"])).await;
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(text(&output.stdout).lines().last().unwrap().contains("run.finished"));
}

#[tokio::test]
async fn an_agui_stream_that_was_cut_comes_again_as_cut() {
    let folder = Folder::new("record-agui");
    let file = folder.file("a.jsonl");
    let upstream =
        Upstream::saying(sse("data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
         data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"half\"}\n\n"))
        .await;
    let output = run(words(&["record", &upstream.url, "hello", "--protocol", "agui", "-o", &file])).await;
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let output = run(words(&["replay", &file])).await;
    assert_eq!(code(&output), 1);
    let shown = text(&output.stdout);
    assert!(shown.contains("half") && shown.contains("upstream_ended"), "{shown}");
}

#[tokio::test]
async fn an_agent_of_another_kind_is_recorded_as_agui() {
    let folder = Folder::new("record-script");
    let (file, config) = (folder.file("a.jsonl"), folder.file("aqueduct.toml"));
    std::fs::write(
        folder.file("s.toml"),
        "[[step]]\nthinking = \"hm\"\n[[step]]\ntext = \"said: {prompt}\"\n",
    )
    .unwrap();
    std::fs::write(&config, "[agents.a.script]\nfile = \"s.toml\"\n").unwrap();
    let output = run(words(&["record", "a", "this", "--config", &config, "-o", &file])).await;
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let output = run(words(&["replay", &file, "--speed", "max"])).await;
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "hm\nsaid: this\n"));
}

#[tokio::test]
async fn an_agent_that_cannot_be_asked_leaves_no_file() {
    let folder = Folder::new("record-none");
    let file = folder.file("a.jsonl");
    let output =
        run(words(&["record", "http://127.0.0.1:9", "hello", "--protocol", "agui", "-o", &file])).await;
    assert_eq!(code(&output), 1);
    assert!(text(&output.stderr).contains("upstream_unreachable"), "{}", text(&output.stderr));
    assert!(!std::path::Path::new(&file).exists());
}

/// `replay --listen` is a gateway: the first line of its output is its address.
#[tokio::test]
async fn a_recording_is_served_as_an_agent() {
    let folder = Folder::new("replay-listen");
    let file = folder.file("a.jsonl");
    let head = "{\"aqueduct\":\"recording\",\"version\":1,\"dialect\":\"agui\"}\n";
    let frames = "{\"at\":1,\"data\":\"{\\\"type\\\":\\\"RUN_STARTED\\\",\\\"threadId\\\":\\\"t\\\",\\\"runId\\\":\\\"r\\\"}\"}\n\
        {\"at\":2,\"data\":\"{\\\"type\\\":\\\"RUN_FINISHED\\\",\\\"threadId\\\":\\\"t\\\",\\\"runId\\\":\\\"r\\\"}\"}\n\
        {\"at\":3,\"end\":\"closed\"}\n";
    std::fs::write(&file, format!("{head}{frames}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
    command.args(["replay", &file, "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut url = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut url).unwrap();
    assert!(url.trim().ends_with("/agents/replay"), "{url}");
    let client =
        aqueduct_transport_http::Client::new(aqueduct_transport_http::ClientConfig::default()).unwrap();
    let request = http::Request::post(url.trim())
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(bytes::Bytes::from(input("mine", Some("1.0")).to_string()))
        .unwrap();
    let seen = events(&client.request(request).await.unwrap());
    assert_eq!(seen[0]["runId"], "mine", "{seen:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// `run`, `record`, `verify` and `doctor` send the token and the headers of the command line.
#[tokio::test]
async fn tokens_and_headers_reach_the_agent() {
    let body = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
                data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n";
    for command in ["run", "record", "verify", "doctor"] {
        let mut upstream = Upstream::saying(sse(body)).await;
        let mut args = words(&[command, &upstream.url, "--token", "s3cret", "--header", "X-Team: blue"]);
        match command {
            "run" | "record" => args.extend(words(&["hello", "--protocol", "agui"])),
            "doctor" => args.extend(words(&["--protocol", "agui"])),
            _ => {}
        }
        let output = run(args).await;
        let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_ne!(code(&output), 2, "{command}: {shown}");
        assert!(!shown.contains("s3cret"), "{command}: {shown}");
        let asked = upstream.asked.recv().await.unwrap();
        let head = format!("{asked:?}").to_lowercase();
        assert!(
            head.contains("bearer s3cret") && head.contains("x-team") && head.contains("blue"),
            "{command}: {head}"
        );
    }
}

/// The doctor reports the protocol of a real A2A agent, and writes a configuration that `config check` accepts.
#[tokio::test]
async fn the_doctor_looks_at_an_agent_and_writes_its_configuration() {
    let folder = Folder::new("doctor");
    let script = folder.file("s.toml");
    std::fs::write(
        &script,
        "description = \"Knows.\"\n[[step]]\nartifact = \"a\"\ntext = [\"one \", \"two\"]\n",
    )
    .unwrap();
    let mut mock = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
    mock.args(["mock", &script, "--listen", "127.0.0.1:0", "--name", "weather"]).stdout(Stdio::piped());
    let mut mock = mock.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(mock.stdout.take().unwrap()), &mut line)
        .unwrap();
    let (address, _) = line.trim().split_once("/agents/").unwrap();
    let output = run(words(&["doctor", address])).await;
    let shown = text(&output.stdout);
    assert_eq!(code(&output), 0, "{shown}{}", text(&output.stderr));
    for part in [
        "A2A: the card is at",
        "the gateway uses JsonRpc",
        "artifact chunks",
        &format!("a2a.url = \"{address}\""),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let config = folder.file("aqueduct.toml");
    let (_, lines) = shown.split_once("\n[agents.").unwrap();
    std::fs::write(&config, format!("[agents.{lines}")).unwrap();
    let checked = run(words(&["config", "check", "--config", &config])).await;
    assert_eq!(code(&checked), 0, "{}{lines}", text(&checked.stderr));
    // An AG-UI agent beside it, and one that is not there.
    let output = run(words(&["doctor", line.trim()])).await;
    assert_eq!(code(&output), 0, "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("AG-UI: clients take the stream"), "{}", text(&output.stdout));
    mock.kill().unwrap();
    mock.wait().unwrap();
    let output = run(words(&["doctor", "http://127.0.0.1:9"])).await;
    assert_eq!(code(&output), 1);
    assert!(text(&output.stdout).contains("✗ it cannot be reached"), "{}", text(&output.stdout));
}

/// Events are counted by their framing: text that looks like a `data` line is content.
#[tokio::test]
async fn the_events_of_a_url_are_counted() {
    let body: String = [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"data: data: data:"}"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#,
    ]
    .map(|event| format!("data: {event}\n\n"))
    .concat();
    let upstream = Upstream::saying(sse(&body)).await;
    let output = run(words(&["verify", &upstream.url, "--format", "junit"])).await;
    assert!(text(&output.stdout).contains("name=\"5 events\""), "{}", text(&output.stdout));
}

/// A stream that is longer than the doctor reads is judged by its beginning alone.
#[tokio::test]
async fn the_doctor_does_not_judge_an_end_that_it_did_not_read() {
    let begun = [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
    ];
    let more = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#;
    let frames = begun.into_iter().chain(std::iter::repeat_n(more, 2_500));
    let body = frames.map(|event| format!("data: {event}\n\n")).collect::<Vec<_>>().concat();
    let upstream = Upstream::saying(sse(&body)).await;
    let output = run(words(&["doctor", &upstream.url, "--protocol", "agui"])).await;
    let shown = text(&output.stdout);
    assert!(shown.contains("· it sends more than 2000 frames"), "{shown}");
    assert!(shown.contains("AG-UI: clients take the stream"), "{shown}");
}

/// What the demo prints works as printed: each line is a command for a shell.
#[cfg(unix)]
#[tokio::test]
async fn what_the_demo_prints_works_as_printed() {
    let folder = Folder::new("demo");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
    demo.args(["demo", "--port", "0"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut demo = demo.spawn().unwrap();
    let mut stdout = std::io::BufReader::new(demo.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("Ctrl-C stops") {
        assert_ne!(std::io::BufRead::read_line(&mut stdout, &mut printed).unwrap(), 0, "{printed}");
    }
    let own = std::fs::canonicalize(env!("CARGO_BIN_EXE_aqueduct")).unwrap();
    let commands: Vec<&str> =
        printed.lines().map(str::trim).filter(|line| line.starts_with(own.to_str().unwrap())).collect();
    assert!(commands.len() >= 4, "{printed}");
    for command in commands {
        let mut shell = Command::new("sh");
        let output =
            shell.args(["-c", command]).current_dir(&folder.0).stdin(Stdio::null()).output().unwrap();
        let expected = i32::from(command.contains("/agents/failure"));
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(expected), "{command}\n{all}");
    }
    demo.kill().unwrap();
    demo.wait().unwrap();
}
