//! Settings of a server, each with its reason.

use std::time::Duration;

use aqueduct_core::IntermediateView;

use super::push::PushPolicy;
use crate::config::Notes;

/// How an agent is served.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one thing is shown or done")]
pub struct ServerConfig {
    /// How intermediate text is shown. As text by default, in `working` statuses.
    pub intermediate: IntermediateView,
    /// True to show thoughts.
    pub thinking: bool,
    /// True to tell lanes, steps, state and usage, as `working` statuses.
    pub signals: bool,
    /// True to show sub-agents. Without, only what concerns the whole task is shown of them: text on the answer channel,
    /// changes of the state, and questions.
    pub subagents: bool,
    /// When thoughts and intermediate text leave.
    pub notes: Notes,
    /// How long the first answer to a message waits for the agent to say that it answers with a message instead of
    /// a task ([`MESSAGE_REPLY`](super::MESSAGE_REPLY)). The first content decides at once; so the wait is only long
    /// for agents that are slow to begin, and they have nothing else to show. Zero: every reply is a task.
    pub reply_window: Duration,
    /// How long `CancelTask` waits for the run to end before it answers with the task as it is. Clients wait 10 to
    /// 60 seconds for an answer.
    pub cancel_wait: Duration,
    /// How often the subscriber of a task that waits looks for a turn that another replica began, where replicas share a log.
    /// A reader waits for the first words of an agent for longer.
    pub turn_poll: Duration,
    /// Media types that the agent reads; `text/*` stands for all texts. A part that says to be of another is refused.
    /// Empty: it reads all.
    pub input_modes: Vec<String>,
    /// Media types that the agent can answer in. A client that accepts none of them is refused. Text and data are
    /// always possible; files are what the agent makes them.
    pub output_modes: Vec<String>,
    /// Extensions that clients must ask for.
    pub required_extensions: Vec<String>,
    /// Extensions that clients may ask for.
    pub extensions: Vec<String>,
    /// True if runs that others begin are tasks too, for clients that know their ids: those that a framework publishes.
    pub adopts_runs: bool,
    /// How much is kept.
    pub limits: TaskLimits,
    /// Whom to call back, and how often.
    pub push: PushPolicy,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            intermediate: IntermediateView::Text,
            thinking: true,
            signals: true,
            subagents: true,
            notes: Notes::Lines,
            reply_window: Duration::from_millis(500),
            cancel_wait: Duration::from_secs(8),
            turn_poll: Duration::from_millis(500),
            input_modes: Vec::new(),
            output_modes: vec!["text/plain".to_owned(), "application/json".to_owned()],
            required_extensions: Vec::new(),
            extensions: Vec::new(),
            adopts_runs: false,
            limits: TaskLimits::default(),
            push: PushPolicy::default(),
        }
    }
}

/// How much a server keeps of its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLimits {
    /// Tasks kept. Past it, the task that ended first is forgotten, then the one that has waited longest for its
    /// user; if all are at work, new ones are refused. Clients look at a task for minutes after its end, not for days.
    pub tasks: usize,
    /// Tasks of one caller, for the same reason and by the same rule: one caller cannot push out all others.
    pub tasks_per_caller: usize,
    /// How long a task is kept that has ended or waits for its user.
    pub keep: Duration,
    /// Bytes of artifacts kept per task. Past it, streams still carry everything; what is kept of the task says that
    /// it is not whole (`aqueduct.truncated`).
    pub artifact_bytes: usize,
    /// Artifacts kept per task, for the same reason.
    pub artifacts: usize,
    /// Messages kept in a task's history; the oldest are forgotten. Agents say a status per tool call.
    pub history: usize,
    /// Bytes of a task's history, for the same reason; the newest message stays whatever its size.
    pub history_bytes: usize,
    /// Bytes of all tasks that have ended or wait for their users: their artifacts and histories. Past it, room is made as
    /// for `tasks`, by size. Messages of clients and answers of agents are then bounded.
    pub bytes: usize,
    /// Bytes of an id that a client chooses, of a request or in a message: it comes back in every event. Those in use are
    /// UUIDs, or a few words.
    pub id_bytes: usize,
    /// Follow-ups to one task: each is a run, and its id is kept with the task.
    pub turns: usize,
    /// Wishes to be called back per task: each is a request per event.
    pub push_configs: usize,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            tasks: 10_000,
            tasks_per_caller: 5_000,
            keep: Duration::from_secs(60 * 60),
            artifact_bytes: 8 * 1024 * 1024,
            artifacts: 10_000,
            history: 1_000,
            history_bytes: 8 * 1024 * 1024,
            bytes: 256 * 1024 * 1024,
            id_bytes: 1_024,
            turns: 1_000,
            push_configs: 10,
        }
    }
}
