//! What the clients and agents of a world saw and did: the history that the checker reads.

use std::collections::BTreeMap;

use aqueduct_core::RunId;

use crate::surface::Surface;

/// How a watcher's view ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// With the terminal event.
    End,
    /// The run does not exist any more.
    Gone,
    /// The world ended before the run did.
    NoEnd,
}

/// All that one watcher saw of a run, over all its connections.
#[derive(Debug, Clone)]
pub struct View {
    /// Who.
    pub watcher: String,
    /// The run.
    pub run: RunId,
    /// The surface.
    pub surface: Surface,
    /// Numbers, and events or payloads as lines of text.
    pub events: Vec<(u64, String)>,
    /// How it ended.
    pub seen: Seen,
}

/// All that one A2A client saw of a task, over all its connections.
#[derive(Debug, Clone)]
pub struct TaskView {
    /// Who.
    pub client: String,
    /// The task, which is also the id of its run.
    pub run: RunId,
    /// The text of the answer after each item, as the client has folded it.
    pub texts: Vec<String>,
    /// The last state.
    pub state: String,
    /// How it ended.
    pub seen: Seen,
}

/// A call of a supervisor to its sub-agent, through a gateway.
#[derive(Debug, Clone)]
pub struct TeamCall {
    /// The run of the supervisor.
    pub run: RunId,
    /// The prompt of the call, which names the script of the sub-agent.
    pub name: String,
    /// What the supervisor was told.
    pub text: String,
    /// Whether the sub-agent was done.
    pub is_whole: bool,
    /// Whether the call had the proof of the other principal.
    pub is_stolen: bool,
}

/// How the work of an agent on a run ended, at one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The session is open.
    Open,
    /// The agent was done.
    Done,
    /// The agent received a cancel.
    Told,
    /// The connection was dropped without a cancel to the agent.
    Dropped,
}

/// The work of an agent on a run, at one replica.
#[derive(Debug, Clone)]
pub struct Session {
    /// The run.
    pub run: RunId,
    /// The replica.
    pub replica: String,
    /// How it ended.
    pub work: Work,
}

/// What is expected of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The script of its agent.
    Script,
    /// The text that a publisher sent.
    Text(String),
    /// Nothing: it may be refused.
    Any,
}

/// The history of a world.
#[derive(Debug, Default)]
pub struct Record {
    /// Views of watchers.
    pub views: Vec<View>,
    /// Calls of supervisors.
    pub calls: Vec<TeamCall>,
    /// Views of A2A clients.
    pub tasks: Vec<TaskView>,
    /// Work of agents.
    pub sessions: Vec<Session>,
    /// Replies that workflows got: interrupt, and the run that brought it.
    pub delivered: Vec<(String, String)>,
    /// Interrupts of workflows that were there to take a reply.
    pub asked: Vec<String>,
    /// What one principal saw of another.
    pub leaks: Vec<String>,
    /// Runs that a client started, and what is expected of them.
    pub expected: BTreeMap<RunId, Expected>,
    /// Runs that a client cancelled.
    pub cancelled: Vec<RunId>,
    /// Refusals and broken calls.
    pub refusals: usize,
}
