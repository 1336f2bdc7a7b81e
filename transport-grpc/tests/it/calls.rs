//! Run, watch, cancel, list: what goes through, from where, and what is refused.

use std::sync::{Arc, Mutex};

use aqueduct_core::block::{ToolOutput, ToolResult};
use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, NumberedEvent, PublishRequest, RefusalKind,
    RunService, ServiceError, StartedRun,
};
use aqueduct_core::testing::{InvariantChecker, run_to_end};
use aqueduct_core::{
    BlockEvent, ContentBlock, Interrupt, LaneOutcome, RunFailure, RunId, RunInput, RunOutcome, Source,
    SourceEvent, Update, Usage,
};
use aqueduct_transport_grpc::client::Token;
use aqueduct_transport_grpc::{Client, ClientConfig, Config, Error};
use aqueduct_transport_http::{Gauge, Total};
use futures_util::StreamExt as _;
use serde_json::json;
use tonic_types::StatusExt as _;

use crate::service::MemoryService;
use crate::support::{Running, assert_cut, collect, example, prompt, raw_call, reason, run_id, until};

/// Something of every kind, ended so or so.
fn every_kind(ending: SourceEvent) -> Vec<SourceEvent> {
    let research = Source::root().child("research").named("Research");
    let search = research.child("search").described("searches");
    let from = |source: &Source, block| SourceEvent::from(Update::new(block).from_source(source));
    let result =
        |output| ContentBlock::from(ToolResult { id: Some("c1".into()), output, ..ToolResult::default() });
    vec![
        Update::text("Let me see. ").in_message("m1").at(5).into(),
        from(&research, ContentBlock::thinking("where?")),
        from(
            &research,
            ContentBlock::Thinking(aqueduct_core::block::Thinking {
                text: "".into(),
                encrypted: Some(Box::new("seal".into())),
            }),
        ),
        from(&research, ContentBlock::tool_use("c1", "look", r#"{"q":1}"#)),
        from(&search, ContentBlock::text("searching")),
        from(&research, result(ToolOutput::Progress("half".into()))),
        from(&research, result(ToolOutput::Json(json!({"found": 9_007_199_254_740_993_u64})))),
        from(&search, ContentBlock::custom("chart", json!({"z": 0.1, "a": [null, true]}))),
        SourceEvent::StepStarted { source: research.clone(), name: "step".into() },
        SourceEvent::StepFinished { source: research.clone(), name: "step".into() },
        SourceEvent::StateSnapshot { source: Source::root(), state: json!({"n": 1}) },
        SourceEvent::StateDelta {
            source: Source::root(),
            patch: vec![json!({"op": "remove", "path": "/n"})],
        },
        SourceEvent::Usage {
            source: search.clone(),
            usage: Box::new(Usage { input: Some(3), ..Usage::default() }),
        },
        SourceEvent::LaneClosed { source: search, outcome: LaneOutcome::Failed(RunFailure::new("x", "y")) },
        SourceEvent::LaneClosed { source: research, outcome: LaneOutcome::Success(Some(json!(1))) },
        SourceEvent::InterruptRequested {
            source: Source::root(),
            interrupt: Box::new(Interrupt::new("i1", "confirm")),
        },
        Update::text("Done.").intermediate().into(),
        ending,
    ]
}

#[tokio::test]
async fn every_kind_of_event_goes_through() {
    let endings = [
        SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None },
        SourceEvent::Finished { outcome: RunOutcome::Success, result: Some(json!({"answer": 42})) },
        SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None },
        SourceEvent::Failed(RunFailure::new("agent_failed", "it broke")),
    ];
    let mut seen = std::collections::HashSet::new();
    for (index, ending) in endings.into_iter().enumerate() {
        let script = every_kind(ending);
        let expected = run_to_end(script.clone());
        let service = MemoryService::default().with_agent("all", move |_, run| {
            for event in &script {
                run.say(event.clone());
            }
            Ok(())
        });
        let server = Running::serve(service, Config::default()).await;
        let run = server.client().await.run("all", &prompt("run")).await.unwrap();
        assert_eq!(run.run_id(), &run_id("run"));
        let events: Vec<BlockEvent> = collect(run).await.into_iter().map(|event| event.event).collect();
        assert_eq!(events, expected, "ending {index}");
        InvariantChecker::check_all(&events).unwrap();
        seen.extend(events.iter().map(std::mem::discriminant));
        server.is_empty().await;
    }
    assert_eq!(seen.len(), 17, "every variant of BlockEvent was sent");
}

#[tokio::test]
async fn the_input_arrives_whole_and_numbers_are_contiguous() {
    let inputs = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&inputs);
    let service = MemoryService::default().with_agent("keep", move |input, run| {
        log.lock().unwrap().push(input.clone());
        run.say(Update::text("hi"));
        run.succeed();
        Ok(())
    });
    let server = Running::serve(service, Config::default()).await;
    let mut input = prompt("run");
    input.state = json!({"deep": [[[1.5]]]});
    input.context = vec![("who".into(), "me".into())];
    input.forwarded = json!({"b": 1, "a": 2});
    let events = collect(server.client().await.run("keep", &input).await.unwrap()).await;
    assert_eq!(*inputs.lock().unwrap(), [input]);
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_run_can_be_had_as_one_value() {
    let service = MemoryService::default()
        .with_agent("works", |_, run| {
            let helper = Source::root().child("helper");
            run.say(Update::text("looking").from_source(&helper).intermediate());
            run.say(Update::text("It is ").in_message("m"));
            run.say(Update::text("42.").in_message("m").finishing("stop"));
            run.succeed();
            Ok(())
        })
        .with_agent("fails", |_, run| {
            run.say(Update::text("half"));
            run.say(SourceEvent::failed("agent_failed", "no luck"));
            Ok(())
        });
    let server = Running::serve(service, Config::default()).await;
    let client = server.client().await;
    let run = client.complete("works", &prompt("one")).await.unwrap();
    assert_eq!((run.text(), run.is_success()), ("It is 42.".to_owned(), true));
    assert_eq!(run.response.finish_reason.as_deref(), Some("stop"));
    let texts: Vec<_> =
        run.response.messages.iter().map(|message| (message.source.name(), message.text())).collect();
    assert_eq!(texts, [("helper", "looking".to_owned()), ("", "It is 42.".to_owned())]);
    assert_eq!(run.run.unwrap().run_id, run_id("one"));
    // A run that failed is an answer, with what there is of it.
    let run = client.complete("fails", &prompt("two")).await.unwrap();
    assert_eq!(
        (run.text(), run.failure().map(|failure| &*failure.code)),
        ("half".to_owned(), Some("agent_failed"))
    );
    drop(client);
    server.is_empty().await;
}

#[tokio::test]
async fn ready_events_share_messages() {
    let server = example().await;
    let run = server.client().await.run("echo", &prompt("run")).await.unwrap();
    let events = collect(run).await.len() as u64;
    assert_eq!(server.counters.total(Total::Events), events);
    assert_eq!(server.counters.total(Total::MessagesOut), 1, "{events} events were ready at once");
}

#[tokio::test]
async fn a_run_can_be_watched_from_every_number() {
    let server = example().await;
    let client = server.client().await;
    let all = collect(client.run("echo", &prompt("run")).await.unwrap()).await;
    for after in 0..=all.len() {
        let watched = client.watch(&run_id("run"), after as u64).await.unwrap();
        assert_eq!(watched.last(), after as u64);
        assert_eq!(collect(watched).await, all[after..], "after {after}");
    }
    drop(client);
    server.is_empty().await;
}

#[tokio::test]
async fn watchers_of_one_run_see_it_live_and_do_not_know_of_each_other() {
    let service = Arc::new(MemoryService::with_examples());
    let server = Running::share(&service, Config::default()).await;
    let client = server.client().await;
    let mut first = client.run("wait", &prompt("run")).await.unwrap();
    let started = first.next().await.unwrap().unwrap();
    assert!(matches!(started.event, BlockEvent::RunStarted(_)));
    let second = client.watch(&run_id("run"), 0).await.unwrap();
    let run = service.run(&run_id("run")).unwrap();
    until("both watch", || run.watchers() == 2).await;
    drop(first);
    until("one watches", || run.watchers() == 1).await;
    run.say(Update::text(" more"));
    run.succeed();
    assert_eq!(collect(second).await, run.events());
    until("nobody watches", || run.watchers() == 0).await;
}

#[tokio::test]
async fn cancel_stops_a_run_and_may_be_repeated() {
    let server = example().await;
    let client = server.client().await;
    let mut run = client.run("wait", &prompt("run")).await.unwrap();
    run.next().await.unwrap().unwrap();
    assert!(client.cancel(&run_id("run")).await.unwrap());
    assert!(!client.cancel(&run_id("run")).await.unwrap());
    let last = collect(run).await.pop().unwrap();
    let BlockEvent::RunFinished(finished) = last.event else { panic!("{last:?}") };
    assert_eq!(finished.outcome, RunOutcome::Cancelled);
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed_at_once() {
    let service = Arc::new(MemoryService::with_examples());
    let server = Running::share(&service, Config::default()).await;
    let client = server.client().await;
    let stream = client.run("wait", &prompt("run")).await.unwrap();
    let run = service.run(&run_id("run")).unwrap();
    assert_eq!((run.watchers(), server.counters.gauge(Gauge::Streams)), (1, 1));
    drop(stream);
    until("the service knows", || run.watchers() == 0 && server.counters.gauge(Gauge::Streams) == 0).await;
    assert_eq!(run.events().len(), 3, "the run itself goes on");
    // The same for a connection that breaks.
    let again = client.watch(&run_id("run"), 0).await.unwrap();
    until("it is watched", || run.watchers() == 1).await;
    drop((client, again));
    until("the service knows", || run.watchers() == 0).await;
    server.is_empty().await;
}

#[tokio::test]
async fn an_interrupt_is_answered_in_the_next_run() {
    let server = example().await;
    let client = server.client().await;
    let last = collect(client.run("ask", &prompt("run-1")).await.unwrap()).await.pop().unwrap();
    let BlockEvent::RunFinished(finished) = last.event else { panic!("{last:?}") };
    let interrupt = &finished.interrupts[0].interrupt;
    let mut next = prompt("run-2");
    next.resume.push(aqueduct_core::InterruptReply {
        id: interrupt.id.clone(),
        resolved: true,
        payload: Some(json!("Ada")),
    });
    let events = collect(client.run("ask", &next).await.unwrap()).await;
    let said = events.iter().find_map(|event| match &event.event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta.to_string()),
        _ => None,
    });
    assert_eq!(said.as_deref(), Some("hello Ada"));
}

#[tokio::test]
async fn agents_are_listed() {
    let names: Vec<String> = example()
        .await
        .client()
        .await
        .list_agents()
        .await
        .unwrap()
        .into_iter()
        .map(|agent| agent.name)
        .collect();
    assert_eq!(names, ["echo", "wait", "ask"]);
}

/// Refuses everything, and keeps who asked.
struct Refusing {
    kind: RefusalKind,
    callers: Arc<Mutex<Vec<Caller>>>,
}

impl Refusing {
    fn refuse<T>(&self, caller: &Caller) -> BoxFuture<'_, Result<T, ServiceError>> {
        self.callers.lock().unwrap().push(caller.clone());
        let refusal = ServiceError::new(self.kind, "not so");
        Box::pin(async { Err(refusal) })
    }
}

impl RunService for Refusing {
    fn list_agents(&self, caller: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        self.refuse(caller)
    }

    fn start(
        &self,
        caller: &Caller,
        _: &str,
        _: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        self.refuse(caller)
    }

    fn watch(&self, caller: &Caller, _: &RunId, _: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        self.refuse(caller)
    }

    fn cancel(&self, caller: &Caller, _: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        self.refuse(caller)
    }

    fn publish(
        &self,
        caller: &Caller,
        _: PublishRequest,
    ) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        self.refuse(caller)
    }
}

#[tokio::test]
async fn refusals_keep_their_kind_and_say_when_to_come_back() {
    use tonic::Code;
    let table = [
        (RefusalKind::NotFound, Code::NotFound, "NOT_FOUND", false),
        (RefusalKind::Unauthenticated, Code::Unauthenticated, "UNAUTHENTICATED", false),
        (RefusalKind::Invalid, Code::InvalidArgument, "INVALID", false),
        (RefusalKind::Conflict, Code::FailedPrecondition, "CONFLICT", false),
        (RefusalKind::Gone { earliest: 17 }, Code::OutOfRange, "GONE", false),
        (RefusalKind::Busy, Code::ResourceExhausted, "BUSY", true),
        (RefusalKind::Unavailable, Code::Unavailable, "UNAVAILABLE", true),
        (RefusalKind::Unsupported, Code::Unimplemented, "UNSUPPORTED", false),
        (RefusalKind::Internal, Code::Internal, "INTERNAL", false),
    ];
    for (kind, code, word, may_pass) in table {
        let callers = Arc::default();
        let server = Running::serve(Refusing { kind, callers }, Config::default()).await;
        let client = server.client().await;
        let run = run_id("run");
        let publish = PublishRequest { agent: "a".into(), thread_id: None, run_id: None, format: "f".into() };
        let errors = [
            client.run("a", &prompt("run")).await.unwrap_err(),
            client.complete("a", &prompt("run")).await.unwrap_err(),
            client.watch(&run, 3).await.unwrap_err(),
            client.cancel(&run).await.unwrap_err(),
            client.list_agents().await.unwrap_err(),
            client.publish(publish).await.unwrap_err(),
        ];
        for error in errors {
            let Error::Refused(refusal) = error else { panic!("{kind:?}: {error:?}") };
            assert_eq!(refusal, ServiceError::new(kind, "not so"));
        }
        let status =
            raw_call(server.channel().await, "/aqueduct.v1.AgentStream/ListAgents", b"").await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_deref()), (code, Some(word)));
        assert_eq!(status.get_details_retry_info().is_some(), may_pass, "{kind:?}");
        assert_eq!(server.counters.total(Total::Refusals), 7);
    }
}

#[tokio::test]
async fn the_service_learns_who_asks() {
    let callers: Arc<Mutex<Vec<Caller>>> = Arc::default();
    let service = Refusing { kind: RefusalKind::Invalid, callers: Arc::clone(&callers) };
    let server = Running::serve(service, Config::default()).await;
    let config = ClientConfig { token: Some(Token::new("secret").unwrap()), ..ClientConfig::default() };
    assert!(!format!("{config:?}").contains("secret"));
    let client = Client::connect(&server.url(), config).await.unwrap();
    client.list_agents().await.unwrap_err();
    let caller = callers.lock().unwrap().pop().unwrap();
    assert_eq!(caller.token.as_deref(), Some("secret"));
    assert!(caller.peer.as_deref().unwrap().starts_with("127.0.0.1:"), "{:?}", caller.peer);
    assert!(caller.header("user-agent").unwrap().contains("tonic"), "{caller:?}");
    assert!(Token::new("line\nbreak").is_err());
}

#[tokio::test]
async fn unknown_agents_and_runs_are_not_found_and_run_ids_are_taken_once() {
    let server = example().await;
    let client = server.client().await;
    let kind = |error| match error {
        Error::Refused(refusal) => refusal.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(client.run("nobody", &prompt("run")).await.unwrap_err()), RefusalKind::NotFound);
    assert_eq!(kind(client.watch(&run_id("nothing"), 0).await.unwrap_err()), RefusalKind::NotFound);
    assert_eq!(kind(client.cancel(&run_id("nothing")).await.unwrap_err()), RefusalKind::NotFound);
    assert_eq!(kind(client.watch(&run_id(""), 0).await.unwrap_err()), RefusalKind::Invalid);
    collect(client.run("echo", &prompt("run")).await.unwrap()).await;
    assert_eq!(kind(client.run("echo", &prompt("run")).await.unwrap_err()), RefusalKind::Conflict);
}

/// A service whose streams end too soon.
struct Losing;

impl RunService for Losing {
    fn list_agents(&self, _: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn start(&self, _: &Caller, _: &str, input: RunInput) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        let events = run_to_end([Update::text("x").into()]).into_iter().take(3).zip(1..);
        let events = events.map(|(event, number)| NumberedEvent { number, event });
        let events: EventStream = Box::pin(futures_util::stream::iter(events.collect::<Vec<_>>()));
        Box::pin(async { Ok(StartedRun::new(input.run_id, events)) })
    }

    fn watch(&self, _: &Caller, _: &RunId, _: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        Box::pin(async { Ok(Box::pin(futures_util::stream::empty()) as EventStream) })
    }

    fn cancel(&self, _: &Caller, _: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        Box::pin(async { Ok(false) })
    }

    fn publish(&self, _: &Caller, _: PublishRequest) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        Box::pin(async { Err(ServiceError::new(RefusalKind::Unsupported, "no")) })
    }
}

#[tokio::test]
async fn a_run_that_the_service_lost_is_no_success() {
    let server = Running::serve(Losing, Config::default()).await;
    let client = server.client().await;
    let mut run = client.run("a", &prompt("run")).await.unwrap();
    for number in 1..=3 {
        assert_eq!(run.next().await.unwrap().unwrap().number, number);
    }
    assert_cut(&run.next().await.unwrap().unwrap_err(), tonic::Code::Unavailable);
    assert!(run.next().await.is_none());
    assert_eq!(run.last(), 3);
    // A stream that is empty after a number is one after the terminal event, and has ended well.
    assert!(client.watch(&run_id("run"), 3).await.unwrap().next().await.is_none());
}
