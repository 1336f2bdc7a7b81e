//! The protocol `aqueduct.v1`: runs, resume, cancel, errors.

use std::sync::atomic::Ordering;

use aqueduct_transport_http::Total;
use aqueduct_transport_ws::Error;
use aqueduct_transport_ws::client::{Client, Position};
use aqueduct_transport_ws::{Config, Encoding, Limits};

use crate::support::{Host, delta, masked, next, rest, started};

#[tokio::test]
async fn a_run_is_started_followed_and_ended() {
    let host = Host::new().await;
    let client = host.client().await;
    let mut events = client.start(Some("manual"), r#"{"run":"r1"}"#).await.unwrap();
    assert_eq!(events.run(), "r1");
    host.service.push("r1", delta("Hel"));
    assert_eq!(next(&mut events).await, (1, r#""Hel""#.into()));
    host.service.push("r1", delta("lo"));
    host.service.finish("r1");
    assert_eq!(rest(&mut events).await, [(2, r#""lo""#.into()), (3, r#""finished""#.into())]);
    drop((client, events));
    host.settles().await;
}

#[tokio::test]
async fn the_wire_is_as_documented() {
    let host = Host::new().await;
    let mut peer = host.raw().await;
    peer.text(r#"{"type":"start","ref":"a","agent":"echo","input":{"run":"r1","say":"hé"}}"#).await;
    assert_eq!(peer.message().await.text(), r#"{"type":"started","ref":"a","run":"r1"}"#);
    let expected = [
        r#"{"type":"event","run":"r1","number":1,"data":{"started":"r1"},"more":true}"#,
        r#"{"type":"event","run":"r1","number":1,"k":1,"data":"first"}"#,
        r#"{"type":"event","run":"r1","number":2,"data":"hé"}"#,
        r#"{"type":"event","run":"r1","number":3,"data":"finished"}"#,
        r#"{"type":"ended","ref":"a","run":"r1","number":3}"#,
    ];
    for line in expected {
        assert_eq!(peer.message().await.text(), line);
    }
    peer.text(r#"{"type":"list","ref":"l"}"#).await;
    assert_eq!(
        peer.message().await.text(),
        r#"{"type":"agents","ref":"l","agents":[{"name":"manual","description":"The manual"},{"name":"echo","description":"The echo"}]}"#
    );
    peer.text(r#"{"type":"cancel","run":"r1"}"#).await;
    assert_eq!(peer.message().await.text(), r#"{"type":"cancelled","run":"r1","running":false}"#);
    peer.text(r#"{"type":"watch","ref":"w","run":"r1","after":2}"#).await;
    assert_eq!(peer.message().await.text(), r#"{"type":"watching","ref":"w","run":"r1"}"#);
    assert_eq!(peer.message().await.text(), expected[3]);
    assert_eq!(peer.message().await.text(), r#"{"type":"ended","ref":"w","run":"r1","number":3}"#);
    host.service.trim("r1", 3);
    peer.text(r#"{"type":"watch","ref":"x","run":"r1","after":1}"#).await;
    assert_eq!(peer.message().await.text(), r#"{"type":"gone","ref":"x","run":"r1","earliest":3}"#);
    peer.write(&masked(8, &1000_u16.to_be_bytes())).await;
    assert_eq!(peer.closed().await.unwrap().0, 1000);
    host.settles().await;
}

/// The agent decides how its run is shown: the settings of another agent may show more.
#[tokio::test]
async fn a_watcher_is_refused_while_the_agent_of_its_run_cannot_be_read() {
    let host = Host::new().await;
    let client = host.client().await;
    drop(client.start(Some("manual"), r#"{"run":"r"}"#).await.unwrap());
    host.service.agents_are_unreadable.store(true, Ordering::SeqCst);
    let other = host.client().await;
    assert!(matches!(other.watch("r", 0).await, Err(Error::Rejected { code, .. }) if code == "unavailable"));
    host.service.agents_are_unreadable.store(false, Ordering::SeqCst);
    other.watch("r", 0).await.unwrap();
}

#[tokio::test]
async fn a_watcher_continues_after_the_number_it_saw_wherever_it_was_cut() {
    let host = Host::new().await;
    host.service.open_run("r1");
    host.service.push("r1", started("r1"));
    for n in 0..10 {
        host.service.push("r1", delta(&n.to_string()));
    }
    host.service.finish("r1");
    let client = host.client().await;
    let whole = rest(&mut client.watch("r1", 0).await.unwrap()).await;
    assert_eq!(whole.len(), 13);
    for cut in 0..=whole.len() {
        let mut position = Position::default();
        let mut seen = Vec::new();
        let mut events = client.watch("r1", 0).await.unwrap();
        for _ in 0..cut {
            let event = events.next().await.unwrap().unwrap();
            assert!(position.advance(&event));
            seen.push((event.number, String::from_utf8(event.data.to_vec()).unwrap()));
        }
        drop(events);
        // Another connection, as after a cut.
        let again = host.client().await;
        let mut events = again.watch("r1", position.resume_after()).await.unwrap();
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            if position.advance(&event) {
                seen.push((event.number, String::from_utf8(event.data.to_vec()).unwrap()));
            }
        }
        assert_eq!(seen, whole, "cut after {cut}");
    }
}

#[tokio::test]
async fn several_runs_share_a_socket_and_a_silent_one_holds_up_nobody() {
    let host = Host::new().await;
    let client = host.client().await;
    let mut silent = client.start(Some("manual"), r#"{"run":"silent"}"#).await.unwrap();
    let mut runs = Vec::new();
    for n in 0..20 {
        runs.push(client.start(Some("count:50:10"), &format!(r#"{{"run":"r{n}"}}"#)).await.unwrap());
    }
    for run in &mut runs {
        let events = rest(run).await;
        let numbers: Vec<u64> = events.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (1..=51).collect::<Vec<_>>(), "{}", run.run());
    }
    // A start that the service never answers holds up nobody either.
    let stuck = client.clone();
    let stuck = tokio::spawn(async move { stuck.start(Some("never"), r#"{"run":"n"}"#).await.is_ok() });
    assert_eq!(client.list_agents().await.unwrap().len(), 2);
    stuck.abort();
    host.service.finish("silent");
    assert_eq!(rest(&mut silent).await.len(), 1);
}

#[tokio::test]
async fn runs_take_turns() {
    let limits = Limits { fair_share: 2, batch_bytes: 1 << 20, ..Limits::default() };
    let host = Host::with(Config { limits, ..Config::default() }).await;
    for run in ["a", "b"] {
        host.service.open_run(run);
    }
    let mut peer = host.raw().await;
    for run in ["a", "b"] {
        peer.text(&format!(r#"{{"type":"watch","ref":"{run}","run":"{run}"}}"#)).await;
        assert!(peer.message().await.text().contains("watching"));
    }
    // Both runs get all their events before the connection's task can look: one task, no await between.
    for n in 0..6 {
        host.service.push("a", delta(&n.to_string()));
        host.service.push("b", delta(&n.to_string()));
    }
    let mut order = String::new();
    for _ in 0..12 {
        let message = peer.message().await;
        order += if message.text().contains(r#""run":"a""#) { "a" } else { "b" };
    }
    assert!(order == "aabbaabbaabb" || order == "bbaabbaabbaa", "{order}");
}

#[tokio::test]
async fn cancelling_reaches_the_service_and_leaving_does_not() {
    let host = Host::new().await;
    let client = host.client().await;
    let mut left = client.start(Some("manual"), r#"{"run":"left"}"#).await.unwrap();
    let mut stopped = client.start(Some("manual"), r#"{"run":"stopped"}"#).await.unwrap();
    assert!(client.cancel("stopped").await.unwrap());
    assert_eq!(rest(&mut stopped).await.len(), 1);
    assert!(!client.cancel("stopped").await.unwrap());
    host.service.push("left", delta("x"));
    next(&mut left).await;
    drop(left);
    assert!(crate::support::within(std::time::Duration::from_secs(5), || host.service.watchers() == 0).await);
    assert_eq!(*host.service.cancelled.lock().unwrap(), ["stopped", "stopped"]);
    // The run goes on and can be followed again, on the same socket too.
    host.service.finish("left");
    assert_eq!(rest(&mut client.watch("left", 1).await.unwrap()).await.len(), 1);
}

#[tokio::test]
async fn refusals_are_answers_and_the_connection_goes_on() {
    let host = Host::new().await;
    let client = host.client().await;
    let code = |result: Result<_, Error>| match result {
        Err(Error::Rejected { code, .. }) => code,
        Err(other) => other.to_string(),
        Ok(_) => "ok".to_owned(),
    };
    assert_eq!(code(client.start(Some("nobody"), r#"{"run":"r"}"#).await), "not_found");
    assert_eq!(code(client.start(Some("manual"), r#"{"no":1}"#).await), "invalid");
    assert_eq!(code(client.start(None, r#"{"run":"r"}"#).await), "invalid");
    assert_eq!(code(client.watch("nothing", 0).await), "not_found");
    assert!(client.cancel("nothing").await.is_err());
    let first = client.start(Some("manual"), r#"{"run":"r"}"#).await.unwrap();
    assert_eq!(code(client.start(Some("manual"), r#"{"run":"r"}"#).await), "conflict");
    assert_eq!(code(client.watch("r", 0).await), "conflict");
    drop(first);
    host.service.trim("r", 5);
    assert!(matches!(host.client().await.watch("r", 3).await, Err(Error::Gone { earliest: 5 })));
}

#[tokio::test]
async fn unknown_and_incomplete_messages_are_answered() {
    let host = Host::new().await;
    let mut peer = host.raw().await;
    peer.text(r#"{"type":"dance","ref":"d"}"#).await;
    assert!(peer.message().await.text().starts_with(r#"{"type":"error","ref":"d","code":"unsupported""#));
    peer.text(r#"{"type":"watch","ref":"w"}"#).await;
    assert!(peer.message().await.text().starts_with(r#"{"type":"error","ref":"w","code":"invalid""#));
    peer.text(r#"{"type":"unwatch","run":"r"}"#).await;
    assert!(peer.message().await.text().starts_with(r#"{"type":"error","run":"r","code":"not_found""#));
    peer.text(r#"{"type":"finish","ref":"f"}"#).await;
    assert!(peer.message().await.text().starts_with(r#"{"type":"error","ref":"f","code":"not_found""#));
    host.service.open_run("seen");
    peer.text(r#"{"type":"watch","ref":"o","run":"seen","options":"refuse"}"#).await;
    assert!(peer.message().await.text().contains(r#""code":"invalid""#));
    // A watcher's version and the agent of the run decide how it is shown.
    host.service.push("seen", started("seen"));
    peer.text(r#"{"type":"watch","ref":"v","run":"seen","options":{"protocolVersion":"2"}}"#).await;
    assert!(peer.message().await.text().contains("watching"));
    peer.message().await;
    assert!(peer.message().await.text().contains(r#""the agent in 2""#));
}

#[tokio::test]
async fn limits_of_one_socket_are_refusals() {
    let limits = Limits { runs: 2, publishers: 1, requests: 1, ..Limits::default() };
    let host = Host::with(Config { limits, ..Config::default() }).await;
    let mut peer = host.raw().await;
    for n in 0..3 {
        peer.text(&format!(r#"{{"type":"start","ref":"{n}","agent":"manual","input":{{"run":"r{n}"}}}}"#))
            .await;
        let answer = peer.message().await;
        assert_eq!(answer.text().contains("started"), n < 2, "{}", answer.text());
        assert_eq!(answer.text().contains("busy"), n == 2, "{}", answer.text());
    }
    peer.text(r#"{"type":"unwatch","run":"r0"}"#).await;
    assert_eq!(peer.message().await.text(), r#"{"type":"unwatched","run":"r0"}"#);
    peer.text(r#"{"type":"start","ref":"n","agent":"never","input":{"run":"n"}}"#).await;
    peer.text(r#"{"type":"list","ref":"l"}"#).await;
    assert!(peer.message().await.text().contains("busy"));
}

#[tokio::test]
async fn a_lost_run_is_told_from_an_ended_one() {
    let host = Host::new().await;
    let client = host.client().await;
    let mut events = client.start(Some("manual"), r#"{"run":"r"}"#).await.unwrap();
    host.service.push("r", delta("x"));
    host.service.lose("r");
    next(&mut events).await;
    let error = events.next().await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Rejected { code, .. } if code == "lost"), "{error}");
    assert!(events.next().await.is_none());
    assert!(client.list_agents().await.is_ok());
}

#[tokio::test]
async fn binary_payloads_carry_the_same_addresses() {
    let host = Host::new().await;
    let mut options = host.options();
    options.encoding = Encoding::Binary;
    let client = Client::connect(&options).await.unwrap();
    let mut events = client.start(Some("echo"), r#"{"run":"r1","say":"hé"}"#).await.unwrap();
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        all.push((event.number, event.k, event.more, String::from_utf8(event.data.to_vec()).unwrap()));
    }
    let expected = [
        (1, 0, true, r#"{"started":"r1"}"#),
        (1, 1, false, "\"first\""),
        (2, 0, false, "\"hé\""),
        (3, 0, false, "\"finished\""),
    ];
    assert_eq!(all, expected.map(|(n, k, more, data)| (n, k, more, data.to_owned())));
}

#[tokio::test]
async fn the_path_names_the_default_agent() {
    let host = Host::new().await;
    let mut options = host.options();
    options.url = format!("ws://{}/agents/echo/ws", host.address);
    let client = Client::connect(&options).await.unwrap();
    assert_eq!(rest(&mut client.start(None, r#"{"run":"r","say":"x"}"#).await.unwrap()).await.len(), 4);
}

#[tokio::test]
async fn a_large_input_is_sent_in_frames_that_the_server_takes() {
    let host = Host::new().await;
    let client = host.client().await;
    let say = "é".repeat(400_000);
    let mut events = client.start(Some("echo"), &format!(r#"{{"run":"r","say":"{say}"}}"#)).await.unwrap();
    let all = rest(&mut events).await;
    assert_eq!(all[2].1.len(), 800_002);
}

#[tokio::test]
async fn waiting_events_leave_in_few_writes() {
    let host = Host::new().await;
    let client = host.client().await;
    let before = [Total::MessagesOut, Total::Flushes].map(|total| host.counters().total(total));
    let mut events = client.start(Some("count:2000:20"), r#"{"run":"r"}"#).await.unwrap();
    assert_eq!(rest(&mut events).await.len(), 2001);
    let after = [Total::MessagesOut, Total::Flushes].map(|total| host.counters().total(total));
    let (messages, flushes) = (after[0] - before[0], after[1] - before[1]);
    assert!(messages >= 2002);
    assert!(flushes * 32 < messages, "{messages} messages in {flushes} writes");
}
