//! Files fit together: what `record` writes is read by every command, a wrong dialect is an error, findings have formats for
//! machines, and streams are compared by content.

use serde_json::Value;

use crate::program::{aqueduct, code, root, text};

fn fixture(path: &str) -> String {
    root().join("tests/fixtures").join(path).to_str().unwrap().to_owned()
}

/// A file of this test's own.
fn file(name: &str, content: &str) -> String {
    let folder = crate::scratch::folder().join("files");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The frames of a stream as `record` writes them.
fn recording(dialect: &str, stream: &str) -> String {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut lines = vec![format!("{{\"aqueduct\":\"recording\",\"version\":1,\"dialect\":\"{dialect}\"}}")];
    lines.extend(data.map(|data| serde_json::json!({ "at": 1, "data": data }).to_string()));
    lines.push("{\"at\":2,\"end\":\"closed\"}".to_owned());
    lines.join("\n") + "\n"
}

#[test]
fn what_record_writes_is_read_by_every_command() {
    let sse = std::fs::read_to_string(fixture("a2a/v1-jsonrpc-default.sse")).unwrap();
    let recorded = file("a2a.jsonl", &recording("a2a", &sse));
    let plain = aqueduct(&["convert", "--to", "response", &fixture("a2a/v1-jsonrpc-default.sse")], b"");
    for from in [
        &["convert", "--to", "response", &recorded][..],
        &["convert", "--from", "a2a", "--to", "response", &recorded],
    ] {
        let output = aqueduct(from, b"");
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), text(&plain.stdout));
    }
    assert_eq!(code(&aqueduct(&["replay", &recorded, "--speed", "max"], b"")), 0);
    let output = aqueduct(&["verify", &recorded], b"");
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("aqueduct convert"), "{}", text(&output.stderr));
    let agui = aqueduct(&["convert", "--to", "agui", "--sse", &recorded], b"");
    let agui = file("agui.jsonl", &recording("agui", &text(&agui.stdout)));
    let output = aqueduct(&["verify", &agui], b"");
    assert_eq!(
        (code(&output), text(&output.stdout).trim()),
        (0, "nothing found"),
        "{}",
        text(&output.stderr)
    );
    // A stream that is no recording is played too.
    assert_eq!(
        code(&aqueduct(&["replay", &fixture("a2a/v1-jsonrpc-default.sse"), "--speed", "max"], b"")),
        0
    );
}

#[test]
fn a_wrong_dialect_is_an_error_and_nothing_comes_out() {
    let streams = [
        ("a2a", "a2a/v1-jsonrpc-default.sse"),
        ("a2a-0.3", "a2a/v03-jsonrpc-default.sse"),
        ("agui", "agui/agui_agent_tool.sse"),
        ("magentic", "magentic/mag_tool_int.events.jsonl"),
    ];
    for (dialect, path) in streams {
        let path = fixture(path);
        for (wrong, _) in streams.iter().filter(|(other, _)| *other != dialect) {
            let output = aqueduct(&["convert", "--from", wrong, "--to", "agui", &path], b"");
            let (out, notes) = (text(&output.stdout), text(&output.stderr));
            assert_eq!((code(&output), out.as_str()), (1, ""), "{path} as {wrong}: {notes}");
            assert!(notes.contains(&format!("use `--from {dialect}`")), "{path} as {wrong}: {notes}");
        }
        assert_eq!(code(&aqueduct(&["convert", "--from", dialect, "--to", "agui", &path], b"")), 0, "{path}");
        assert_eq!(code(&aqueduct(&["convert", "--to", "agui", &path], b"")), 0, "{path}");
    }
    for from in ["auto", "a2a", "magentic", "agui"] {
        let output = aqueduct(&["convert", "--from", from, "--to", "agui"], b"{\"a\":1}\n{\"b\":2}\n");
        assert_eq!(code(&output), 1, "{from}: {}{}", text(&output.stdout), text(&output.stderr));
    }
    assert_eq!(code(&aqueduct(&["convert", "--to", "agui", "/no/such/file"], b"")), 2);
}

const BAD: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
                   data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m<&>\",\"delta\":\"x\"}\n\n";

#[test]
fn findings_have_line_rule_and_remedy_in_every_format() {
    let bad = file("bad.sse", BAD);
    let output = aqueduct(&["verify", &bad], b"");
    let report = text(&output.stdout);
    assert!(
        report.contains(&format!("{bad}:3: event 1 TEXT_MESSAGE_CONTENT: text-not-open (rejected)")),
        "{report}"
    );
    let sarif = aqueduct(&["verify", &bad, "--format", "sarif"], b"");
    assert_eq!(code(&sarif), 1);
    let sarif: Value = serde_json::from_str(&text(&sarif.stdout)).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!((&sarif["version"], &run["results"][0]["ruleId"]), (&"2.1.0".into(), &"text-not-open".into()));
    let place = &run["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(
        (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
        (&bad.as_str().into(), &3.into())
    );
    assert!(
        run["tool"]["driver"]["rules"]
            .as_array()
            .unwrap()
            .iter()
            .all(|rule| rule["help"]["text"].is_string())
    );
    let junit = text(&aqueduct(&["verify", &bad, "--format", "junit"], b"").stdout);
    assert!(junit.starts_with("<?xml") && junit.contains("<failure type=\"text-not-open\""), "{junit}");
    assert!(!junit.contains("m<&>") && junit.contains("fix: "), "{junit}");
    let good = text(&aqueduct(&["verify", &fixture("agui/good.jsonl"), "--format", "junit"], b"").stdout);
    assert!(good.contains("failures=\"0\"") && good.contains("<testcase"), "{good}");
}

#[test]
fn streams_are_compared_by_content() {
    let path = fixture("a2a/v1-jsonrpc-default.sse");
    let stream = std::fs::read_to_string(&path).unwrap();
    // Another run of the same: other ids, and framed as a recording.
    let ids: Vec<&str> =
        stream.split('"').filter(|word| word.len() == 36 && word.matches('-').count() == 4).collect();
    let other = ids.iter().fold(stream.clone(), |text, id| text.replace(id, &id.replace(['a', '1'], "e")));
    assert_ne!(stream, other);
    let other = file("other.jsonl", &recording("a2a", &other));
    let output = aqueduct(&["diff", &path, &other], b"");
    assert_eq!((code(&output), text(&output.stdout).trim()), (0, "no difference in content"));
    let agui = file("diff-agui.jsonl", &text(&aqueduct(&["convert", "--to", "agui", &path], b"").stdout));
    let text_of = |path: &str| text(&aqueduct(&["diff", path, &agui, "--json"], b"").stdout);
    assert_eq!(text_of(&agui), "");
    let changed = file(
        "changed.jsonl",
        &std::fs::read_to_string(&agui).unwrap().replacen("\"delta\":\"", "\"delta\":\"Indeed, ", 1),
    );
    let output = aqueduct(&["diff", &agui, &changed], b"");
    let report = text(&output.stdout);
    assert_eq!(code(&output), 1, "{report}");
    assert!(
        report.contains(".text\n  - ") && report.contains("  + \"Indeed, ") && report.contains("difference"),
        "{report}"
    );
    assert_eq!(code(&aqueduct(&["diff", &agui, "/no/such/file"], b"")), 2);
    let twice = aqueduct(&["diff", "-", "-"], stream.as_bytes());
    assert_eq!(code(&twice), 2, "{}", text(&twice.stdout));
    assert!(text(&twice.stderr).contains("only one of the two"), "{}", text(&twice.stderr));
}

#[test]
fn manual_pages_and_completions_name_every_command() {
    let folder = crate::scratch::folder().join("man");
    assert_eq!(code(&aqueduct(&["man", "--out", folder.to_str().unwrap()], b"")), 0);
    let commands = text(&aqueduct(&["--help"], b"").stdout);
    let names =
        commands.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> =
        names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(names.len() > 12, "{commands}");
    let bash = text(&aqueduct(&["completions", "bash"], b"").stdout);
    for name in names {
        let page = std::fs::read_to_string(folder.join(format!("aqueduct-{name}.1")))
            .unwrap_or_else(|_| panic!("{name}"));
        assert!(page.contains(".SH") && page.contains("Examples"), "{name}: {page}");
        assert!(bash.contains(name), "{name}");
    }
    std::fs::remove_dir_all(folder).unwrap();
    assert!(text(&aqueduct(&["man"], b"").stdout).contains("aqueduct"));
}

/// One mistake, one message: no part of it is repeated.
#[test]
fn errors_are_said_once() {
    for args in [
        &["run", "http://127.0.0.1:9", "hi", "--protocol", "agui"][..],
        &["run", "nobody", "hi", "--config", "/no/such.toml"],
        &["record", "http://127.0.0.1:9", "hi", "--protocol", "agui"],
        &["verify", "http://127.0.0.1:9/x"],
        &["verify", "/no/such/file"],
        &["convert", "--to", "agui", "/no/such/file"],
        &["replay", "/no/such/file"],
        &["mock", "/no/such/file"],
        &["serve", "--config", "/no/such/file"],
        &["doctor", "ftp://x"],
        &["diff", "/no/such/file", "/no/such/file"],
    ] {
        let output = aqueduct(args, b"");
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_ne!(code(&output), 0, "{args:?}");
        let parts: Vec<&str> = all.trim().split(": ").filter(|part| part.len() > 8).collect();
        let unique: std::collections::BTreeSet<&&str> = parts.iter().collect();
        assert_eq!(parts.len(), unique.len(), "{args:?}: {all}");
        assert!(all.trim().lines().count() <= 2, "{args:?}: {all}");
    }
}

/// A command reads the configuration and its secrets, so it needs no proof, whatever kind the gateway requires.
#[test]
fn commands_need_no_proof() {
    let folder = crate::scratch::folder();
    let config = folder.join("aqueduct.toml");
    std::fs::write(folder.join("a.toml"), "[[step]]\ntext = \"hello\"\n").unwrap();
    std::fs::write(folder.join("secret"), "a-token-0123456789").unwrap();
    let issuer = "issuer = \"http://127.0.0.1:9\"\naudiences = [\"a\"]\n";
    let secret = format!("\"file:{}\"", folder.join("secret").display());
    for proof in [
        format!("[server]\ntokens = [{secret}]\n"),
        format!("[principals.ann]\ntoken = {secret}\n"),
        format!("[issuers.corp]\n{issuer}"),
        format!("[agents.a]\ntokens = [{secret}]\n"),
    ] {
        std::fs::write(&config, format!("{proof}[agents.a.script]\nfile = \"a.toml\"\n")).unwrap();
        let config = config.to_str().unwrap();
        let ran = aqueduct(&["run", "a", "hi", "--config", config], b"");
        assert_eq!(code(&ran), 0, "{proof}: {}", text(&ran.stderr));
        let recorded = aqueduct(&["record", "a", "hi", "--config", config], b"");
        assert_eq!(code(&recorded), 0, "{proof}: {}", text(&recorded.stderr));
        assert!(text(&recorded.stdout).contains("hello"), "{proof}: {}", text(&recorded.stdout));
    }
}
