//! The protocol's own types: all 31 events of AG-UI 1.0, the run input, messages, content, outcomes.
//!
//! Invariants: an absent member is `None` and is not written (`null` has another meaning for every AG-UI client); undeclared
//! members and unknown kinds survive reading and writing; reading is strict about declared ones, and an error contains the
//! event type, the member and the expected value.
//!
//! Ids, names and deltas are [`ByteString`](aqueduct_core::ByteString)s: cloning one neither copies nor allocates. These types
//! do not define the order of events: the [verifier](crate::verify) does.

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
