//! [`FanOut`]: runs several agents at once. Each has a lane of its own, and a failure affects only its lane.
//!
//! The run ends when all agents have ended. The first row that applies determines its outcome:
//!
//! | the agents | the run |
//! |---|---|
//! | the run was cancelled | cancelled |
//! | at least one is interrupted | interrupted |
//! | all failed | failed, with the failure of the first agent in the list |
//! | otherwise | succeeded; each failure is in its lane |
//!
//! The streams are polled in turn, in the task of the run's driver; nothing is spawned.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aqueduct_core::{
    Agent, AgentRequest, CancelToken, LaneOutcome, RunFailure, RunOutcome, Source, SourceEvent, SourceStream,
    Update,
};
use futures_core::Stream;

/// An agent that runs several agents at once, each in a lane of its own.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use aqueduct::FanOut;
/// use aqueduct::prelude::*;
///
/// let one = |input: RunInput| stream! { yield Update::text(input.text()) };
/// let other = |_: RunInput| stream! { yield Update::text("Hello.") };
/// let both = FanOut::new(vec![
///     ("one".to_owned(), Arc::new(one) as Arc<dyn Agent>),
///     ("other".to_owned(), Arc::new(other)),
/// ]);
/// let runs = Runs::new().agent("both", both);
/// # drop(runs);
/// ```
#[derive(Clone)]
pub struct FanOut {
    agents: Vec<(String, Arc<dyn Agent>)>,
}

impl FanOut {
    /// Returns an agent that runs all of `agents`; the names are those of the lanes.
    pub fn new(agents: Vec<(String, Arc<dyn Agent>)>) -> Self {
        Self { agents }
    }
}

impl fmt::Debug for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.agents.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("FanOut").field("agents", &names).finish()
    }
}

impl Agent for FanOut {
    fn run(&self, request: AgentRequest) -> SourceStream {
        let branch = |(name, agent): &(String, Arc<dyn Agent>)| {
            let lane = Lane::new(name);
            let mut request = request.clone();
            // Lanes of sub-agents that this agent calls are attached below its lane.
            if let Some(context) = request.context.for_lane(&lane.root) {
                request.context = context;
            }
            // A checkpoint or a previous run belongs to a single agent, so the agents of a fan-out have neither.
            request.previous = None;
            request.keeps_checkpoints = false;
            Branch { lane, events: agent.run(request), state: State::New }
        };
        let branches = self.agents.iter().map(branch).collect();
        Box::pin(Merged { branches, next: 0, cancel: request.cancel, is_ended: false })
    }
}

/// The events of all agents.
struct Merged {
    branches: Vec<Branch>,
    /// The index of the branch that is polled first. It rotates, so that an agent with many events does not delay the others.
    next: usize,
    cancel: CancelToken,
    is_ended: bool,
}

/// The events of one agent.
struct Branch {
    lane: Lane,
    events: SourceStream,
    state: State,
}

/// The state of a branch.
enum State {
    /// The lane is not open yet.
    New,
    Running,
    Ended(LaneOutcome),
}

impl Stream for Merged {
    type Item = SourceEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SourceEvent>> {
        let this = &mut *self;
        if this.is_ended {
            return Poll::Ready(None);
        }
        let count = this.branches.len();
        let (before, from) = this.branches.split_at_mut(this.next.min(count));
        for (at, branch) in from.iter_mut().chain(before).enumerate() {
            if let Poll::Ready(event) = branch.poll_event(cx) {
                this.next = (this.next + at + 1) % count;
                return Poll::Ready(Some(event));
            }
        }
        let outcomes: Vec<&LaneOutcome> = this.branches.iter().filter_map(Branch::outcome).collect();
        if outcomes.len() < count {
            return Poll::Pending;
        }
        this.is_ended = true;
        Poll::Ready(Some(end(&outcomes, this.cancel.is_cancelled())))
    }
}

/// Returns the end of a run whose lanes have these outcomes.
fn end(outcomes: &[&LaneOutcome], is_cancelled: bool) -> SourceEvent {
    let finished = |outcome| SourceEvent::Finished { outcome, result: None };
    if is_cancelled {
        return finished(RunOutcome::Cancelled);
    }
    if outcomes.iter().any(|outcome| matches!(outcome, LaneOutcome::Suspended)) {
        return finished(RunOutcome::Interrupted);
    }
    let all_failed = outcomes.iter().all(|outcome| matches!(outcome, LaneOutcome::Failed(_)));
    match outcomes.first() {
        Some(LaneOutcome::Failed(failure)) if all_failed => SourceEvent::Failed(failure.clone()),
        _ => finished(RunOutcome::Success),
    }
}

impl Branch {
    /// Returns the outcome of the lane. Returns `None` until the agent has ended.
    fn outcome(&self) -> Option<&LaneOutcome> {
        match &self.state {
            State::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Returns the next event of the lane, its opening and closing included. Pending without a wake-up once the lane is closed.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<SourceEvent> {
        match self.state {
            State::New => {
                self.state = State::Running;
                return Poll::Ready(SourceEvent::LaneOpened(self.lane.root.clone()));
            }
            State::Running => {}
            State::Ended(_) => return Poll::Pending,
        }
        let Poll::Ready(event) = self.events.as_mut().poll_next(cx) else { return Poll::Pending };
        let outcome = match event {
            Some(SourceEvent::Finished { outcome, result }) => match outcome {
                RunOutcome::Interrupted => LaneOutcome::Suspended,
                RunOutcome::Cancelled => LaneOutcome::Cancelled,
                _ => LaneOutcome::Success(result),
            },
            Some(SourceEvent::Failed(failure)) => LaneOutcome::Failed(failure),
            Some(event) => return Poll::Ready(self.lane.move_event(event)),
            None => {
                let name = self.lane.root.key();
                let message = format!("the stream of agent {name} ended without a terminal event");
                LaneOutcome::Failed(RunFailure::new(RunFailure::UPSTREAM_ENDED, message))
            }
        };
        self.state = State::Ended(outcome.clone());
        Poll::Ready(SourceEvent::LaneClosed { source: self.lane.root.clone(), outcome })
    }
}

/// The lane of an agent, which moves the agent's sources below its own.
struct Lane {
    /// The source of the lane: the agent's root source becomes this one.
    root: Source,
    /// The moved sources by the path of the original.
    moved: HashMap<String, Source>,
}

impl Lane {
    /// Returns the lane of the agent `name`, directly below the root.
    fn new(name: &str) -> Self {
        Self { root: Source::root().child(name.to_owned()), moved: HashMap::new() }
    }

    /// Returns a source of the agent, moved below the lane. Name, description, parent call and metadata are kept.
    fn move_source(&mut self, source: &Source) -> Source {
        let Some(parent) = source.parent() else { return self.root.clone() };
        if let Some(known) = self.moved.get(source.path()) {
            return known.clone();
        }
        let mut moved =
            self.move_source(parent).child(source.key().to_owned()).named(source.name().to_owned());
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

    /// Returns an event with its source moved below the lane.
    fn move_event(&mut self, event: SourceEvent) -> SourceEvent {
        match event {
            SourceEvent::Update(update) => {
                let source = self.move_source(&update.source);
                SourceEvent::Update(Update { source, ..update })
            }
            SourceEvent::LaneOpened(source) => SourceEvent::LaneOpened(self.move_source(&source)),
            SourceEvent::LaneClosed { source, outcome } => {
                SourceEvent::LaneClosed { source: self.move_source(&source), outcome }
            }
            SourceEvent::StepStarted { source, name } => {
                SourceEvent::StepStarted { source: self.move_source(&source), name }
            }
            SourceEvent::StepFinished { source, name } => {
                SourceEvent::StepFinished { source: self.move_source(&source), name }
            }
            SourceEvent::StateSnapshot { source, state } => {
                SourceEvent::StateSnapshot { source: self.move_source(&source), state }
            }
            SourceEvent::StateDelta { source, patch } => {
                SourceEvent::StateDelta { source: self.move_source(&source), patch }
            }
            SourceEvent::Usage { source, usage } => {
                SourceEvent::Usage { source: self.move_source(&source), usage }
            }
            SourceEvent::InterruptRequested { source, interrupt } => {
                SourceEvent::InterruptRequested { source: self.move_source(&source), interrupt }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::RunInput;
    use futures_util::{FutureExt as _, StreamExt as _, stream};

    use super::*;

    fn events(agents: Vec<(&str, Arc<dyn Agent>)>) -> Vec<SourceEvent> {
        let agents = agents.into_iter().map(|(name, agent)| (name.to_owned(), agent)).collect();
        let events = FanOut::new(agents).run(AgentRequest::new(RunInput::prompt("t", "r", "hi")));
        events.collect::<Vec<_>>().now_or_never().unwrap()
    }

    fn says(words: &'static [&'static str]) -> Arc<dyn Agent> {
        Arc::new(move |_: RunInput| stream::iter(words.iter().map(|word| Update::text(*word))))
    }

    fn fails() -> Arc<dyn Agent> {
        Arc::new(|_: RunInput| stream::iter([SourceEvent::failed("broken", "out of words")]))
    }

    #[test]
    fn agents_take_turns_and_one_failure_stands_in_its_lane() {
        let events = events(vec![("a", says(&["1", "2"])), ("b", fails())]);
        let lanes: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                SourceEvent::Update(update) => Some(update.source.key()),
                SourceEvent::LaneOpened(source) | SourceEvent::LaneClosed { source, .. } => {
                    Some(source.key())
                }
                _ => None,
            })
            .collect();
        assert_eq!(lanes, ["a", "b", "a", "b", "a", "a"]);
        assert_eq!(events.last(), Some(&SourceEvent::finished()));
    }

    #[test]
    fn a_run_whose_agents_all_failed_failed() {
        let events = events(vec![("a", fails()), ("b", fails())]);
        assert!(matches!(events.last(), Some(SourceEvent::Failed(failure)) if &*failure.code == "broken"));
    }

    #[test]
    fn no_agents_are_no_work() {
        assert_eq!(events(Vec::new()), [SourceEvent::finished()]);
    }
}
