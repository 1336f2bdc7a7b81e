//! A2A: a subscription to a task after a cut. A2A has no numbers: what it gives is the task as it is now (the snapshot),
//! then the rest of the stream. So what must hold, after every event, is:
//!
//! * what follows the snapshot is the rest of the uncut stream, byte by byte;
//! * the snapshot, folded, is what the part of the uncut stream before that rest comes to. So snapshot and rest come to
//!   what the uncut stream comes to;
//! * after the last event, `GetTask` gives all of it, and a subscription is refused if the task has ended.
//!
//! Bindings differ above the log and engines below it: every cut is made once on each engine, each time in another
//! binding.
//!
//! The gateway opens the run and a test writes it, one event at a time; the server has folded event k before anybody
//! subscribes, so each k is met exactly.

mod client;
mod fold;
mod prompted;

use std::sync::Arc;

use aqueduct_adapter_a2a::call::Call;
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_core::BlockEvent;
use aqueduct_runlog::RunLog;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::stage::{Stage, disk, memory};
use super::traces;
use client::{BINDINGS, Payloads, TaskReader, item};
use fold::Content;
use prompted::{LIVE, Prompted};

/// Traces at once: each has a stream for each of its events in the end.
const AT_ONCE: usize = 12;

/// A stream that was begun, by its first item.
struct Begun {
    binding: Binding,
    first: Value,
    rest: Payloads,
}

impl Begun {
    async fn new(binding: Binding, mut rest: Payloads) -> Self {
        let first = item(&rest.next().await.unwrap(), binding);
        assert!(first["task"].is_object(), "{binding:?}: {first}");
        Self { binding, first, rest }
    }
}

/// An uncut stream.
struct Whole {
    payloads: Vec<Bytes>,
    /// What is known after so many payloads.
    contents: Vec<Content>,
}

impl Whole {
    /// Reads up to the state that ends the turn: over a question a subscription stays open.
    async fn read(mut stream: Begun) -> Self {
        let (mut payloads, mut contents) = (Vec::new(), vec![Content::of(&stream.first)]);
        while let Some(payload) = stream.rest.next().await {
            let mut content = contents[payloads.len()].clone();
            content.apply(&item(&payload, stream.binding));
            let is_settled = content.is_settled();
            contents.push(content);
            payloads.push(payload);
            if is_settled {
                return Self { payloads, contents };
            }
        }
        panic!("a stream ended without a state: {:?}", contents.last());
    }

    /// Reads the rest of a stream that was cut, and compares.
    async fn check(&self, mut cut: Begun, place: &str) {
        let mut rest = Vec::new();
        while rest.last() != self.payloads.last() {
            rest.push(cut.rest.next().await.unwrap_or_else(|| panic!("{place}: a state is missing")));
        }
        let before = self.payloads.len().checked_sub(rest.len());
        let before = before.unwrap_or_else(|| panic!("{place}: more than there is"));
        assert_eq!(rest, self.payloads[before..], "{place}: the rest");
        assert_eq!(Content::of(&cut.first), self.contents[before], "{place}: the snapshot");
    }
}

/// A run on the stage.
struct Play {
    stage: Arc<Stage>,
    log: Arc<Prompted>,
    busy: Arc<Semaphore>,
    /// The binding of the first cut; the others follow in turn.
    first: usize,
    name: String,
    events: Vec<BlockEvent>,
}

impl Play {
    /// Gives the number of cuts.
    async fn cut_everywhere(self) -> usize {
        let reader = TaskReader::new(&self.stage);
        let sent = Begun::new(Binding::JsonRpc, reader.send(&self.name).await).await;
        let task = sent.first["task"]["id"].as_str().unwrap().to_owned();
        let _turn = self.busy.acquire().await.unwrap();
        // Idle connections are closed after a while.
        let reader = reader.connected(&self.stage).await;
        let sent = tokio::spawn(Whole::read(sent));
        let lease = self.log.lease(&self.name).await;
        let subscribe = async |binding| Begun::new(binding, reader.subscribe(&task, binding).await).await;
        let (mut uncut, mut cuts) = (Vec::new(), Vec::new());
        let in_turn = BINDINGS.into_iter().cycle().skip(self.first);
        for ((number, event), binding) in (0..).zip(&self.events).zip(in_turn) {
            self.log.taken(&lease.run_id, number, LIVE).await;
            for binding in BINDINGS.into_iter().filter(|_| number == 0) {
                uncut.push(subscribe(binding).await);
            }
            cuts.push(subscribe(binding).await);
            // A watcher that is not held yet would receive the event before the recorder, and be taken for it.
            let held = if number == 0 { uncut.len() + 1 } else { 1 };
            self.log.taken(&lease.run_id, number, LIVE + held).await;
            self.log.prompt(&lease, event).await;
        }
        let sent = sent.await.unwrap();
        let uncut = join_all(uncut.into_iter().map(Whole::read)).await;
        self.check(&sent, &uncut, cuts).await;
        self.check_end(&reader, task, sent.contents.last().unwrap()).await;
        self.events.len()
    }

    async fn check(&self, sent: &Whole, uncut: &[Whole], cuts: Vec<Begun>) {
        assert_eq!(uncut[0].payloads, sent.payloads, "{}: a subscription from the beginning", self.name);
        assert_eq!(uncut[1].contents, sent.contents, "{}: bindings over HTTP", self.name);
        join_all(cuts.into_iter().enumerate().map(async |(number, cut)| {
            let place = format!("{}: {:?} after event {number}", self.name, cut.binding);
            // Each binding is compared with itself: protobuf has other numbers.
            let whole = BINDINGS.iter().position(|binding| *binding == cut.binding).unwrap();
            uncut[whole].check(cut, &place).await;
        }))
        .await;
    }

    async fn check_end(&self, reader: &TaskReader, id: String, whole: &Content) {
        let now = reader.ask(&Call::GetTask { id: id.clone(), history_length: None }).await;
        let now = Content::of(&json!({ "task": now["result"] }));
        assert_eq!(&now, whole, "{}: the task afterwards", self.name);
        if whole.is_waiting() {
            let stream = Begun::new(Binding::JsonRpc, reader.subscribe(&id, Binding::JsonRpc).await).await;
            assert_eq!(&Content::of(&stream.first), whole, "{}: a task that waits", self.name);
        } else {
            let refused = reader.ask(&Call::SubscribeToTask { id }).await;
            assert_eq!(refused["error"]["code"], -32004, "{}: {refused}", self.name);
        }
    }
}

/// Every trace, on that engine; gives the number of cuts. Each engine begins with another binding, so that all engines
/// together make every cut in every binding.
pub(crate) async fn every_trace(log: Arc<dyn RunLog>, first: usize) -> usize {
    let log = Arc::new(Prompted::new(log));
    let stage = Stage::silent(Arc::clone(&log) as Arc<dyn RunLog>).await;
    let busy = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for (index, (name, events)) in traces::all().into_iter().enumerate() {
        let (stage, log, busy) = (Arc::clone(&stage), Arc::clone(&log), Arc::clone(&busy));
        let play = Play { stage, log, busy, first, name: format!("{index} {name}"), events };
        tasks.spawn(play.cut_everywhere());
    }
    let cuts: usize = tasks.join_all().await.into_iter().sum();
    assert!(cuts > 4_500, "only {cuts} cuts");
    cuts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_log() {
    every_trace(memory(), 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_log() {
    let (log, _folder) = disk();
    every_trace(log, 1).await;
}
