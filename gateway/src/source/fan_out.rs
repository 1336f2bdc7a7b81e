//! Several agents asked at once: each speaks in a lane of its own, and fails alone.
//!
//! | the agents | the run |
//! |---|---|
//! | one waits for a human | is interrupted |
//! | all failed | failed, with the first reason |
//! | else | succeeded; who failed is told in its lane |

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{LaneOutcome, RunFailure, RunOutcome, Source, SourceEvent, Update};
use futures_util::future::join_all;

use super::{Ask, EventSender, RunSource};

pub(crate) struct FanOutSource {
    pub(crate) agents: Vec<(String, Arc<dyn RunSource>)>,
}

impl RunSource for FanOutSource {
    fn run(&self, ask: Ask, out: EventSender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let asked = self.agents.iter().map(|(name, agent)| ask_one(name, &**agent, ask.clone(), &out));
            let outcomes = join_all(asked).await;
            if ask.stop.is_cancelled() {
                return out.finish(RunOutcome::Cancelled).await;
            }
            if outcomes.iter().any(|outcome| matches!(outcome, LaneOutcome::Suspended)) {
                return out.finish(RunOutcome::Interrupted).await;
            }
            let all_failed = outcomes.iter().all(|outcome| matches!(outcome, LaneOutcome::Failed(_)));
            match outcomes.into_iter().next() {
                Some(LaneOutcome::Failed(failure)) if all_failed => out.fail(failure).await,
                _ => out.finish(RunOutcome::Success).await,
            }
        })
    }
}

/// Asks one agent and moves what it says into its lane.
async fn ask_one(name: &str, agent: &dyn RunSource, ask: Ask, out: &EventSender) -> LaneOutcome {
    let mut lane = Lane::new(name);
    let (sender, mut events) = EventSender::channel();
    // The agents that this one calls belong below its lane.
    let trail = ask.trail.child(&lane.root);
    let ask = Ask { forwarded: ask.forwarded.marked(&trail), trail, ..ask };
    let talk = agent.run(ask, sender);
    let listen = async {
        out.send(SourceEvent::LaneOpened(lane.root.clone())).await;
        while let Some(said) = events.recv().await {
            let (moved, end) = lane.hear(said);
            out.send_all(moved).await;
            if let Some(end) = end {
                return end;
            }
        }
        let message = format!("the stream of agent {name} ended without saying how its run ended");
        LaneOutcome::Failed(RunFailure::new(RunFailure::UPSTREAM_ENDED, message))
    };
    let ((), outcome) = tokio::join!(talk, listen);
    let closed = SourceEvent::LaneClosed { source: lane.root.clone(), outcome: outcome.clone() };
    out.send(closed).await;
    outcome
}

/// Puts an agent's sources below a source of its own.
struct Lane {
    root: Source,
    moved: HashMap<String, Source>,
}

impl Lane {
    fn new(name: &str) -> Self {
        Self { root: Source::root().child(name.to_owned()), moved: HashMap::new() }
    }

    /// What an agent said, moved into the lane; and how it ended, if it did. What it says after that is nobody's.
    fn hear(&mut self, said: Vec<SourceEvent>) -> (Vec<SourceEvent>, Option<LaneOutcome>) {
        let mut moved = Vec::with_capacity(said.len());
        for event in said {
            let end = match event {
                SourceEvent::Finished { outcome, result } => match outcome {
                    RunOutcome::Interrupted => LaneOutcome::Suspended,
                    RunOutcome::Cancelled => LaneOutcome::Cancelled,
                    _ => LaneOutcome::Success(result),
                },
                SourceEvent::Failed(failure) => LaneOutcome::Failed(failure),
                event => {
                    moved.push(self.moved(event));
                    continue;
                }
            };
            return (moved, Some(end));
        }
        (moved, None)
    }

    fn source(&mut self, source: &Source) -> Source {
        let Some(parent) = source.parent() else { return self.root.clone() };
        if let Some(known) = self.moved.get(source.path()) {
            return known.clone();
        }
        let mut moved = self.source(parent).child(source.key().to_owned()).named(source.name().to_owned());
        if let Some(description) = source.description() {
            moved = moved.described(description.clone());
        }
        if let Some(call) = source.parent_call() {
            moved = moved.called_by(call.clone());
        }
        if let Some(metadata) = source.metadata() {
            moved = moved.with_metadata((**metadata).clone());
        }
        self.moved.insert(source.path().to_owned(), moved.clone());
        moved
    }

    fn moved(&mut self, event: SourceEvent) -> SourceEvent {
        match event {
            SourceEvent::Update(update) => {
                let source = self.source(&update.source);
                SourceEvent::Update(Update { source, ..update })
            }
            SourceEvent::LaneOpened(source) => SourceEvent::LaneOpened(self.source(&source)),
            SourceEvent::LaneClosed { source, outcome } => {
                SourceEvent::LaneClosed { source: self.source(&source), outcome }
            }
            SourceEvent::StepStarted { source, name } => {
                SourceEvent::StepStarted { source: self.source(&source), name }
            }
            SourceEvent::StepFinished { source, name } => {
                SourceEvent::StepFinished { source: self.source(&source), name }
            }
            SourceEvent::StateSnapshot { source, state } => {
                SourceEvent::StateSnapshot { source: self.source(&source), state }
            }
            SourceEvent::StateDelta { source, patch } => {
                SourceEvent::StateDelta { source: self.source(&source), patch }
            }
            SourceEvent::Usage { source, usage } => {
                SourceEvent::Usage { source: self.source(&source), usage }
            }
            SourceEvent::InterruptRequested { source, interrupt } => {
                SourceEvent::InterruptRequested { source: self.source(&source), interrupt }
            }
            other => other,
        }
    }
}
