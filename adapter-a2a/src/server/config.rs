//! Settings of a server, each with its reason.

use std::time::Duration;

use aqueduct_core::IntermediateView;

use super::push::PushPolicy;
use crate::config::Notes;

aqueduct_core::with_defaults! {
    /// How an agent is served.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ServerConfig {
        /// How intermediate text is shown. As text by default, in `working` statuses.
        pub intermediate: IntermediateView = IntermediateView::Text,
        /// Set to show thinking.
        pub thinking: bool = true,
        /// Set to send lanes, steps, state and usage, as `working` statuses.
        pub signals: bool = true,
        /// Set to show sub-agents. Otherwise only what concerns the whole task is shown of them: text on the answer
        /// channel, changes of the state, and interrupts.
        pub subagents: bool = true,
        /// When thinking and intermediate text are sent.
        pub notes: Notes = Notes::Lines,
        /// How long the first response to a message waits for the agent to declare that it responds with a message instead
        /// of a task ([`MESSAGE_REPLY`](super::MESSAGE_REPLY)). The first content decides at once, so the wait is only long
        /// for agents that are slow to start, which have nothing else to show. Zero: every response is a task.
        pub reply_window: Duration = Duration::from_millis(500),
        /// How long `CancelTask` waits for the run to end, and `GetTask` and `SubscribeToTask` wait for events that a
        /// client was already sent, before they return the task as it is. Clients wait 10 to 60 seconds for a response.
        pub cancel_wait: Duration = Duration::from_secs(8),
        /// How often the subscriber of an interrupted task checks for a turn that another replica started, if replicas
        /// share a log. An agent takes longer for its first text.
        pub turn_poll: Duration = Duration::from_millis(500),
        /// Media types that the agent accepts; `text/*` stands for all texts. A part that declares another type is refused.
        /// Empty for all.
        pub input_modes: Vec<String> = Vec::new(),
        /// Media types that the agent can respond with. A client that accepts none of them is refused. Text and data are
        /// always possible; the agent determines the types of files.
        pub output_modes: Vec<String> = vec!["text/plain".to_owned(), "application/json".to_owned()],
        /// Extensions that clients must activate.
        pub required_extensions: Vec<String> = Vec::new(),
        /// Extensions that clients may activate.
        pub extensions: Vec<String> = Vec::new(),
        /// Set if runs that a framework publishes are tasks too, for clients that know their ids.
        pub adopts_runs: bool = false,
        /// Limits of the stored tasks.
        pub limits: TaskLimits,
        /// Allowed receivers of push notifications, and retries.
        pub push: PushPolicy,
    }

    /// Limits of the tasks that a server stores.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TaskLimits {
        /// The number of tasks. Beyond it the task that ended first is dropped, then the one that has been interrupted
        /// longest; if all are working, new ones are refused. Clients read a task for minutes after its end, not for days.
        pub tasks: usize = 10_000,
        /// The number of tasks of one caller, by the same rule: one caller cannot displace all others.
        pub tasks_per_caller: usize = 5_000,
        /// How long a task is kept that has ended or is interrupted.
        pub keep: Duration = Duration::from_secs(60 * 60),
        /// Bytes of artifacts per task. Beyond it, streams still carry everything; the stored task is marked as incomplete
        /// (`aqueduct.truncated`).
        pub artifact_bytes: usize = 8 * 1024 * 1024,
        /// Artifacts per task, for the same reason.
        pub artifacts: usize = 10_000,
        /// Messages in a task's history; the oldest are dropped. Agents send a status per tool call.
        pub history: usize = 1_000,
        /// Bytes of a task's history, for the same reason; the newest message stays whatever its size.
        pub history_bytes: usize = 8 * 1024 * 1024,
        /// Bytes of all tasks that have ended or are interrupted: their artifacts and histories. Beyond it, tasks are
        /// dropped as for `tasks`, by size. This bounds messages of clients and answers of agents.
        pub bytes: usize = 256 * 1024 * 1024,
        /// Bytes of an id that a client chooses, of a request or in a message: it is part of every event. Usual ids are
        /// UUIDs, or a few words.
        pub id_bytes: usize = 1_024,
        /// Follow-ups to one task: each is a run, whose id is stored with the task.
        pub turns: usize = 1_000,
        /// Push configurations per task: each causes a request per event.
        pub push_configs: usize = 10,
    }
}
