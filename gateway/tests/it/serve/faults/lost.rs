//! A2A agents that are lost once their task is known: they are asked for it again, for some seconds, before the run
//! fails. All cases wait at once.

use futures_util::future::join_all;

use super::super::support::{Say, Upstream, answer, http, serve, sse};
use super::cases::{A2A_CHUNK, A2A_TASK, agent, mortal};
use super::error;

#[tokio::test]
async fn an_agent_that_is_lost_after_its_task_is_told_with_the_cause() {
    let begun = sse(&[A2A_TASK, A2A_CHUNK].concat());
    let hangs = Upstream::start(|asked| match asked.body["method"].as_str() {
        Some("GetTask") => Say::Hang(Vec::new()),
        _ => Say::Hang(sse(A2A_TASK)),
    })
    .await;
    let soon = "timeouts.idle = \"50ms\"\ntimeouts.response = \"500ms\"\n";
    let broken = Upstream::start(|asked| match asked.body["method"].as_str() {
        Some("SendStreamingMessage") => Say::Close(sse(A2A_TASK)),
        _ => Say::Close(http("500 Internal Server Error", "text/plain", "out of order")),
    })
    .await;
    let cases = [
        ("a2a-dies-after-task", mortal(sse(A2A_TASK)).await, "", "cannot connect", ""),
        ("a2a-dies-midway", mortal(begun).await, "", "cannot connect", "half an"),
        ("a2a-hangs", hangs.url, soon, "timeout", ""),
        ("a2a-broken", broken.url, "", "out of order", ""),
    ];
    let toml: String = cases.iter().map(|(name, url, settings, ..)| agent(name, url) + settings).collect();
    let served = serve(&toml, &[]).await;
    let runs = cases.iter().map(|(name, _, _, words, said)| {
        let served = &served;
        async move {
            let events = served.run(name, name).await;
            let (code, told) = error(name, &events);
            assert!(told.contains(words), "{name}: {code}: {told}");
            assert_eq!(answer(&events), *said, "{name}");
        }
    });
    join_all(runs).await;
    served.idle().await;
}

/// Each run is cut at another byte. The stream that resumes its task is cut there too, or after the task.
#[tokio::test]
async fn a_stream_of_a2a_cut_at_every_byte_ends_well_formed() {
    let whole = sse(&[A2A_TASK, A2A_CHUNK].concat());
    let (length, body_starts) = (whole.len(), whole.len() - A2A_TASK.len() - A2A_CHUNK.len());
    let task_ends = body_starts + A2A_TASK.len();
    let upstream = Upstream::start(move |asked| {
        let path = asked.head.split_whitespace().nth(1).unwrap();
        let at: usize = path[1..].parse().unwrap();
        Say::Close(match asked.body["method"].as_str() {
            Some("SendStreamingMessage") => whole[..at].to_vec(),
            Some("SubscribeToTask") => whole[..at.min(task_ends)].to_vec(),
            _ => Vec::new(),
        })
    })
    .await;
    let name = |at: usize| format!("a2a-{at}");
    let toml: String = (0..=length).map(|at| agent(&name(at), &format!("{}/{at}", upstream.url))).collect();
    let served = serve(&toml, &[]).await;
    let runs = (0..=length).map(|at| {
        let served = &served;
        async move {
            let events = served.run(&name(at), &name(at)).await;
            let (code, told) = error("cut", &events);
            // A task that is known is looked at in the end, which fails too.
            let is_unknown = (body_starts..task_ends - 2).contains(&at);
            let words = if is_unknown { "was cut" } else { "failed" };
            assert!(told.contains(words), "{at}: {code}: {told}");
            if at >= length - 2 {
                assert_eq!(answer(&events), "half an", "{at}");
            }
        }
    });
    join_all(runs).await;
    served.idle().await;
}
