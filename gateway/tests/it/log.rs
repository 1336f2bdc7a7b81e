//! `aqueduct log check` and `log repair`, on a folder that a log has written and a test has damaged.

use std::path::Path;

use aqueduct_core::{RunInfo, RunOutcome, SourceEvent, StreamContext, Timestamp, Update};
use aqueduct_runlog::{DiskLog, LogLimits, RunLog as _, RunMeta};
use serde_json::Value;

use super::program::{aqueduct, code, text};

/// Two runs that have ended; returns the journal.
async fn written(folder: &Path) -> Vec<u8> {
    let log = DiskLog::open(folder, LogLimits::default()).unwrap();
    for run in ["one", "two"] {
        let meta = RunMeta {
            run_id: run.into(),
            thread_id: "thread".into(),
            agent: "agent".to_owned(),
            owner: "owner".to_owned(),
            opened_at: Timestamp(1),
        };
        let lease = log.open(meta, Timestamp(1_000)).await.unwrap();
        let mut context = StreamContext::new(RunInfo::new("thread", run));
        for word in 0..20 {
            context.handle_update(Update::text(format!("word {word} "))).unwrap();
        }
        context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None }).unwrap();
        while let Some(event) = context.poll_event() {
            log.append(&lease, vec![event], Timestamp(2)).await.unwrap();
        }
    }
    drop(log);
    // Opening cuts the zeros at the end of the journal.
    drop(DiskLog::open(folder, LogLimits::default()).unwrap());
    std::fs::read(folder.join("0.jnl")).unwrap()
}

#[tokio::test]
async fn a_damaged_log_is_reported_refused_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut journal = written(folder.path()).await;
    let output = aqueduct(&["log", "check", path], b"");
    assert_eq!((code(&output), text(&output.stderr)), (0, String::new()));
    assert!(text(&output.stdout).contains("2 runs, 2 of them whole"), "{}", text(&output.stdout));
    let at = journal.len() / 4;
    for byte in &mut journal[at..at + 10] {
        *byte ^= 0xff;
    }
    std::fs::write(folder.path().join("0.jnl"), &journal).unwrap();

    let output = aqueduct(&["log", "check", path, "--json"], b"");
    assert_eq!(code(&output), 1);
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((&report["sound"], report["runs"].as_array().unwrap().len()), (&Value::Bool(false), 2));
    assert!(report["files"][0]["file"].as_str().unwrap().ends_with("0.jnl"), "{report}");
    let config = folder.path().join("aqueduct.toml");
    let settings = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[runs]\nlog = \"disk\"\nfolder = {path:?}\n[agents.a]\nagui.url = \"http://127.0.0.1:1\"\n"
    );
    std::fs::write(&config, settings).unwrap();
    let output = aqueduct(&["serve", "--config", config.to_str().unwrap()], b"");
    let said = text(&output.stderr);
    assert_ne!(code(&output), 0, "a gateway does not start on it");
    assert!(said.contains("0.jnl") && said.contains(&format!("aqueduct log repair {path}")), "{said}");

    let output = aqueduct(&["log", "repair", path], b"");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("damaged-1"), "{}", text(&output.stdout));
    assert_eq!(std::fs::read(folder.path().join("damaged-1/0.jnl")).unwrap(), journal);
    let output = aqueduct(&["log", "check", path, "--json"], b"");
    let after: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((code(&output), &after["sound"]), (0, &Value::Bool(true)), "{after}");
    for run in 0..2 {
        assert_eq!(after["runs"][run]["events"], report["runs"][run]["events"]);
    }
    let output = aqueduct(&["log", "repair", path], b"");
    assert_eq!(code(&output), 0, "a sound log needs no repair");
    assert!(!folder.path().join("damaged-2").exists());
}

#[test]
fn a_folder_without_a_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["check", "repair"] {
        let output = aqueduct(&["log", command, folder.path().to_str().unwrap()], b"");
        assert_eq!(code(&output), 2);
        assert!(text(&output.stderr).contains("holds no run log"), "{}", text(&output.stderr));
    }
}
