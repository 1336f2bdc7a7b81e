//! Relates calls to agents, at one replica and at two that share a log.

use aqueduct_runlog::{MemoryLog, RunMeta};
use aqueduct_runs::RunHandle;

use super::*;
use crate::tee::relation::trace_id;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const ALL: [RelateBy; 3] = [RelateBy::Token, RelateBy::Trace, RelateBy::Context];

fn tee_on(log: Arc<dyn RunLog>, kinds: &[RelateBy]) -> Arc<Tee> {
    Tee::new(kinds.to_vec(), log, Arc::new(|| Timestamp(0)), Arc::default())
}

fn tee() -> Arc<Tee> {
    tee_on(Arc::new(MemoryLog::default()), &ALL)
}

async fn anchor(tee: &Arc<Tee>, run: &'static str, trace: Option<&str>, context: &str) -> Arc<Anchor> {
    owned_anchor(tee, (run, ""), trace, context).await
}

async fn owned_anchor(
    tee: &Arc<Tee>,
    (run, owner): (&'static str, &str),
    trace: Option<&str>,
    context: &str,
) -> Arc<Anchor> {
    let meta = RunMeta {
        run_id: run.into(),
        thread_id: "t".into(),
        agent: String::new(),
        owner: owner.to_owned(),
        opened_at: Timestamp(0),
    };
    tee.log.open(meta, Timestamp(1)).await.unwrap();
    let handle = Arc::new(RunHandle::new(run.into()));
    let run = (Arc::new(TeeRun::new(tee, &handle)), run.into(), owner.to_owned());
    let anchor = tee.root(run, trace.and_then(trace_id));
    anchor.add_context(context);
    anchor.publish().await;
    anchor
}

/// Relates a call at a replica that drives exactly the runs of its own index.
async fn related(tee: &Tee, headers: &[(&'static str, &str)], body: &str) -> Option<(Caller, RelateBy)> {
    let requester = Requester { principal: String::new(), is_supervisor: false };
    related_for(tee, &requester, headers, body).await
}

async fn related_for(
    tee: &Tee,
    requester: &Requester,
    headers: &[(&'static str, &str)],
    body: &str,
) -> Option<(Caller, RelateBy)> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().unwrap());
    }
    let here: Vec<RunId> = {
        let all = tee.log.list(aqueduct_runlog::RunQuery::default(), 99).await.unwrap();
        all.into_iter().map(|run| run.meta.run_id).filter(|run| tee.index().has_run(run)).collect()
    };
    let call = PassingCall::of_rest("POST", "message:send", body);
    tee.relate(requester, &map, &call, |run| here.contains(run)).await
}

/// A call is related only to runs of its own principal, unless the principal is a supervisor.
#[tokio::test]
async fn a_call_belongs_to_runs_of_its_own_principal() {
    let log: Arc<dyn RunLog> = Arc::new(MemoryLog::default());
    let make = || tee_on(Arc::clone(&log), &ALL);
    let (tee, other) = (make(), make());
    let of_ann = owned_anchor(&tee, ("1", "ann"), Some(TRACE), "c").await;
    let token = of_ann.token.as_ref().unwrap().as_str().to_owned();
    let ways = [
        ("token", vec![("x-aqueduct-run", token.as_str())], String::new()),
        ("trace", vec![("traceparent", TRACE)], String::new()),
        ("context", vec![], in_context("c")),
    ];
    for (way, headers, body) in &ways {
        // At the replica that drives the run, and at one that shares its log.
        for tee in [&tee, &other] {
            for (owner, is_supervisor, expected) in
                [("ann", false, true), ("bob", false, false), ("", false, false), ("sup", true, true)]
            {
                let requester = Requester { principal: owner.to_owned(), is_supervisor };
                let found = related_for(tee, &requester, headers, body).await;
                assert_eq!(found.is_some(), expected, "{way} {owner}");
            }
        }
    }
    // A run of another principal with the same context makes nothing ambiguous.
    let of_bob = owned_anchor(&tee, ("2", "bob"), Some(TRACE), "c").await;
    for (owner, anchor) in [("ann", &of_ann), ("bob", &of_bob)] {
        let requester = Requester { principal: owner.to_owned(), is_supervisor: false };
        for (headers, body) in [(&[("traceparent", TRACE)][..], String::new()), (&[], in_context("c"))] {
            let found = here(related_for(&tee, &requester, headers, &body).await);
            assert!(Arc::ptr_eq(&found, anchor), "{owner}");
        }
    }
}

fn here(found: Option<(Caller, RelateBy)>) -> Arc<Anchor> {
    match found {
        Some((Caller::Here(anchor), _)) => anchor,
        other => panic!("{other:?}"),
    }
}

fn in_context(context: &str) -> String {
    format!("{{\"message\":{{\"contextId\":\"{context}\"}}}}")
}

#[tokio::test]
async fn every_place_of_a_token_counts() {
    let tee = tee();
    let (one, _other) = (anchor(&tee, "1", None, "a").await, anchor(&tee, "2", None, "b").await);
    let token = one.token.clone().unwrap().as_str().to_owned();
    assert_eq!(token.len(), 49);
    let baggage = format!("x=1, aqueduct-run = {token} ;p=1,y=2");
    let message =
        format!("{{\"message\":{{\"contextId\":\"b\",\"metadata\":{{\"aqueduct/run\":\"{token}\"}}}}}}");
    let call = format!("{{\"message\":{{}},\"metadata\":{{\"aqueduct/run\":\"{token}\"}}}}");
    for (headers, body) in [
        (vec![("x-aqueduct-run", token.as_str())], "{}"),
        (vec![("baggage", baggage.as_str())], "{}"),
        (vec![], message.as_str()),
        (vec![], call.as_str()),
    ] {
        let found = here(related(&tee, &headers, body).await);
        assert!(Arc::ptr_eq(&found, &one), "{headers:?} {body}");
    }
    for token in ["", "0000", &"0".repeat(49), token.split_once('-').unwrap().0, &format!("{token}0")] {
        assert!(related(&tee, &[("x-aqueduct-run", token)], "{}").await.is_none());
    }
}

#[tokio::test]
async fn a_trace_or_context_of_two_runs_relates_nothing() {
    let tee = tee();
    let one = anchor(&tee, "1", Some(TRACE), "c").await;
    let body = in_context("c");
    assert_eq!(related(&tee, &[("traceparent", TRACE)], &body).await.unwrap().1, RelateBy::Trace);
    assert_eq!(related(&tee, &[], &body).await.unwrap().1, RelateBy::Context);
    let two = anchor(&tee, "2", Some(TRACE), "c").await;
    assert!(related(&tee, &[("traceparent", TRACE)], &body).await.is_none());
    drop(one);
    tokio::task::yield_now().await;
    assert!(Arc::ptr_eq(&here(related(&tee, &[("traceparent", TRACE)], "{}").await), &two));
    drop(two);
    assert!(tee.is_empty(), "nothing is left of runs that ended");
}

#[tokio::test]
async fn a_context_leads_to_the_run_before_its_lanes() {
    let tee = tee();
    let root = anchor(&tee, "1", None, "c").await;
    let lane = root.child(Source::root().child("x")).unwrap();
    lane.learn_context("c");
    lane.learn_context("own");
    assert!(Arc::ptr_eq(&here(related(&tee, &[], &in_context("c")).await), &root));
    assert!(Arc::ptr_eq(&here(related(&tee, &[], &in_context("own")).await), &lane));
    let token = lane.token.clone().unwrap();
    assert_eq!(token.shared(), root.token.as_ref().unwrap().shared(), "the run is the same");
    let found = here(related(&tee, &[("x-aqueduct-run", token.as_str())], "{}").await);
    assert!(Arc::ptr_eq(&found, &lane));
}

#[tokio::test]
async fn what_is_switched_off_relates_nothing() {
    let tee = tee_on(Arc::new(MemoryLog::default()), &[RelateBy::Context]);
    let one = anchor(&tee, "1", Some(TRACE), "c").await;
    assert!(one.token.is_none());
    assert!(related(&tee, &[("traceparent", TRACE)], "{}").await.is_none());
    assert!(related(&tee, &[], &in_context("c")).await.is_some());
}

#[tokio::test]
async fn another_gateway_finds_the_run_and_not_those_of_two() {
    let log: Arc<dyn RunLog> = Arc::new(MemoryLog::default());
    let (one, other) = (tee_on(Arc::clone(&log), &ALL), tee_on(log, &ALL));
    let root = anchor(&one, "1", Some(TRACE), "c").await;
    let lane = root.child(Source::root().child("x")).unwrap();
    let token = lane.token.clone().unwrap().as_str().to_owned();
    for (headers, body) in [
        (vec![("x-aqueduct-run", token.as_str())], "{}".to_owned()),
        (vec![("traceparent", TRACE)], "{}".to_owned()),
        (vec![], in_context("c")),
    ] {
        match related(&other, &headers, &body).await {
            Some((Caller::There(remote), _)) => assert_eq!(remote.run.as_str(), "1"),
            found => panic!("{headers:?} {body}: {found:?}"),
        }
    }
    let second = anchor(&other, "2", Some(TRACE), "c").await;
    for tee in [&one, &other] {
        assert!(related(tee, &[("traceparent", TRACE)], &in_context("c")).await.is_none());
    }
    drop((root, lane));
    tokio::task::yield_now().await;
    assert!(related(&other, &[("x-aqueduct-run", &token)], "{}").await.is_none());
    assert!(Arc::ptr_eq(&here(related(&other, &[("traceparent", TRACE)], "{}").await), &second));
}
