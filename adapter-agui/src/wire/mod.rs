//! The protocol's own types: all 31 events of AG-UI 1.0, the run input, messages, content, outcomes.
//!
//! Invariants: what is absent is `None` and is not written (`null` is something else to every AG-UI client);
//! members and kinds that no rule knows survive reading and writing; reading is strict about what is known, and
//! an error names the event type, the member and what was expected.
//!
//! Ids, names and deltas are [`ByteString`](aqueduct_core::ByteString)s: passing one on neither copies nor
//! allocates. These types say nothing about the order of events: that is the [verifier](crate::verify)'s.

mod base;
mod capabilities;
mod content;
pub(crate) mod declare;
mod event;
mod input;
mod message;
pub(crate) mod object;
mod outcome;
mod patch;
mod run;
mod scalar;
mod text;

#[cfg(test)]
mod tests;

pub use base::{Base, Rare};
pub use capabilities::{
    AgentCapabilities, ExecutionCapabilities, HumanInTheLoopCapabilities, IdentityCapabilities,
    MultiAgentCapabilities, MultimodalCapabilities, MultimodalInputCapabilities,
    MultimodalOutputCapabilities, OutputCapabilities, ReasoningCapabilities, StateCapabilities, SubagentInfo,
    ToolsCapabilities, TransportCapabilities,
};
pub use content::{
    BinaryPart, Content, ContentPart, DataSource, FileSource, MediaPart, PartSource, TextPart, UrlSource,
};
pub use event::{Event, EventType};
pub use input::{Context, MaybeValue, ResumeEntry, ResumeStatus, RunAgentInput, Tool};
pub use message::{
    ActivityMessage, AssistantMessage, FunctionCall, InstructionMessage, Message, ReasoningMessage, ToolCall,
    ToolCallType, ToolMessage, UserMessage,
};
pub use object::Strictness;
pub use outcome::{
    CancelledOutcome, Interrupt, InterruptOutcome, OpenObject, RunFinishedOutcome, SubagentFinishedOutcome,
    SubagentSuccessOutcome, SuccessOutcome, SuspendedOutcome,
};
#[cfg(feature = "proto")]
pub(crate) use patch::OPERATIONS;
pub use patch::PatchOperation;
pub use run::{
    ActivityDelta, ActivitySnapshot, Custom, MessagesSnapshot, Raw, RunError, RunFinished, RunStarted,
    StateDelta, StateSnapshot, StepFinished, StepStarted, SubagentError, SubagentFinished, SubagentStarted,
    TokenUsage,
};
pub use scalar::MAX_SAFE_INTEGER;
pub use text::{
    EncryptedSubtype, ReasoningEncryptedValue, ReasoningEnd, ReasoningMessageChunk, ReasoningMessageContent,
    ReasoningMessageEnd, ReasoningMessageStart, ReasoningRole, ReasoningStart, TextMessageChunk,
    TextMessageContent, TextMessageEnd, TextMessageStart, TextRole, ToolCallArgs, ToolCallChunk, ToolCallEnd,
    ToolCallResult, ToolCallStart, ToolRole,
};
