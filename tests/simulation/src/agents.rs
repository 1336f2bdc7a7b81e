//! The agents of a world: scripts that a replica plays, and that go on without it.
//!
//! The work of an agent is remote: it began when the run did, and a replica that takes the run over finds it as far as
//! it would have come by then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aqueduct_core::agent::{AgentRequest, Checkpoint, Takeover};
use aqueduct_core::{Agent, CancelToken, RunId, SourceEvent, SourceStream};
use async_stream::stream;
use serde_json::json;
use tokio::time::Instant;

use crate::node::Node;
use crate::record::{Record, Session, Work};
use crate::script::{Ending, Script, stopped};
use crate::trace::locked;

/// The remote side of all agents.
#[derive(Debug, Clone, Default)]
pub struct Remote(Arc<Mutex<BTreeMap<RunId, Instant>>>);

impl Remote {
    /// Returns when the work on a run began.
    fn begun(&self, run: &RunId) -> Instant {
        *locked(&self.0).entry(run.clone()).or_insert_with(Instant::now)
    }
}

/// An agent, as one replica has it.
#[derive(Debug, Clone)]
pub struct Scripted {
    /// The seed of the world.
    pub seed: u64,
    /// The replica.
    pub node: Arc<Node>,
    /// The remote side.
    pub remote: Remote,
    /// What the agent notes.
    pub record: Arc<Mutex<Record>>,
    /// Whether a run can go on elsewhere.
    pub is_resumable: bool,
    /// Whether the agent hears that it is to stop.
    pub is_told: bool,
    /// Whether the prompt names the run whose script is played: the run has another id at the host of the agent.
    pub is_remote: bool,
}

/// The end of the work is noted, also if its stream is dropped.
struct Noted {
    record: Arc<Mutex<Record>>,
    place: usize,
    node: Arc<Node>,
}

impl Noted {
    fn end(&self, work: Work) {
        if let Some(session) = locked(&self.record).sessions.get_mut(self.place)
            && session.work == Work::Open
        {
            session.work = work;
            self.node.note(|| format!("the work on {} is {work:?}", session.run));
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.end(Work::Dropped);
    }
}

impl Scripted {
    /// Returns the run of the world that a request is for.
    fn run_of(&self, request: &AgentRequest) -> RunId {
        if self.is_remote { RunId::from(request.input.text()) } else { request.input.run_id.clone() }
    }

    fn session(&self, run: &RunId) -> Noted {
        let mut record = locked(&self.record);
        let session = Session { run: run.clone(), replica: self.node.name().to_owned(), work: Work::Open };
        record.sessions.push(session);
        Noted {
            record: Arc::clone(&self.record),
            place: record.sessions.len() - 1,
            node: Arc::clone(&self.node),
        }
    }

    /// Plays the script from the events that were not sent yet.
    fn play(&self, request: AgentRequest, first: Vec<SourceEvent>, done: usize) -> SourceStream {
        let run = self.run_of(&request);
        let (node, noted) = (Arc::clone(&self.node), self.session(&run));
        let (script, begun) = (Script::of(self.seed, run.as_str()), self.remote.begun(&run));
        let cancel = if self.is_told { request.cancel } else { CancelToken::new() };
        Box::pin(stream! {
            for event in first {
                node.alive().await;
                yield event;
            }
            let rest = script.steps.iter().skip(done).cloned();
            for step in rest {
                if until(&cancel, Some(begun + step.at)).await {
                    noted.end(Work::Told);
                    tokio::time::sleep(script.leaves_in).await;
                    node.alive().await;
                    yield stopped();
                    return;
                }
                node.alive().await;
                yield step.event;
            }
            if script.ending == Ending::Endless {
                until(&cancel, None).await;
                noted.end(Work::Told);
                tokio::time::sleep(script.leaves_in).await;
                node.alive().await;
                yield stopped();
                return;
            }
            noted.end(Work::Done);
            if let Some(last) = script.last() {
                yield last;
            }
        })
    }
}

/// Waits for a time, or for the wish to stop. Returns `true` for the latter.
async fn until(cancel: &CancelToken, when: Option<Instant>) -> bool {
    let clock = async {
        match when {
            Some(when) => tokio::time::sleep_until(when).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => true,
        () = clock => false,
    }
}

impl Agent for Scripted {
    fn run(&self, request: AgentRequest) -> SourceStream {
        let checkpoint = Checkpoint(json!({ "run": request.input.run_id.as_str() }));
        let first = self.is_resumable.then_some(SourceEvent::Checkpoint(checkpoint));
        self.remote.begun(&self.run_of(&request));
        self.play(request, first.into_iter().collect(), 0)
    }

    fn can_resume(&self, checkpoint: &Checkpoint) -> bool {
        self.is_resumable && checkpoint.0.get("run").is_some()
    }

    fn resume(&self, request: AgentRequest, takeover: Takeover) -> SourceStream {
        let run = self.run_of(&request);
        let (script, begun) = (Script::of(self.seed, run.as_str()), self.remote.begun(&run));
        let done = script.steps.iter().take_while(|step| begun + step.at <= Instant::now()).count();
        let known = script.steps.iter().take(done).map(|step| step.event.clone()).collect();
        let (rest, _) = takeover.history.deduplicate(known, |_| false);
        self.play(request, rest, done)
    }
}
