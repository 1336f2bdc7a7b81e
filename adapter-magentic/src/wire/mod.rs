//! The framework's own types in the JSON-lines form: one object per event.
//!
//! The framework has no JSON form of a workflow event; the form of a line is ours and documented in `docs/magentic.md`. The
//! payloads inside it are the framework's (`to_dict()` of its classes, or the fields of a dataclass with its name under
//! `__class__`).
//!
//! Invariants: unknown fields are kept; a `null` equals an absent field; strings are slices of the line where JSON allows it.
//! The module does not interpret the objects.

mod content;
mod line;
mod message;
pub(crate) mod object;
mod payload;

pub use content::{Annotation, Content, ContentType, MergeMode};
pub use line::{ErrorDetails, Line};
pub use message::{AgentResponse, AgentResponseUpdate, Message};
pub use object::{Json, RoleName, Text, Unknown};
pub use payload::{
    AgentExecutorRequest, AgentExecutorResponse, GroupChatEvent, HandoffAgentUserRequest, HandoffSentEvent,
    LegacyPlanReviewRequest, MagenticOrchestratorEvent, MagenticProperties, PlanReviewRequest,
    ProgressLedger, Tagged,
};
