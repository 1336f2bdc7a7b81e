//! The names of custom blocks that are the framework's own. What has a well-known name
//! ([`aqueduct_core::wellknown`]) travels under that: plans, files, citations, notices.
//!
//! | name | value |
//! |---|---|
//! | [`LEDGER`] | `{"is_request_satisfied", "is_in_loop", "is_progress_being_made", "next_speaker", "instruction_or_question"}`, each `{"reason", "answer"}` |
//! | [`TASK`] | `{"text"}`: what the manager was asked (older classes) |
//! | [`INSTRUCTION`] | `{"text"}`: what the manager told the next speaker (older classes) |
//! | [`TURN_REQUESTED`], [`TURN_RECEIVED`] | `{"round_index", "participant_name"}` |
//! | [`HANDOFF`] | `{"source", "target"}` |
//! | `magentic.<content type>` | the content, for types without a kind of their own (`hosted_file`, …) |

/// The manager's view of where the work stands.
pub const LEDGER: &str = "magentic.ledger";
/// What the manager was asked.
pub const TASK: &str = "magentic.task";
/// What the manager told the next speaker.
pub const INSTRUCTION: &str = "magentic.instruction";
/// A participant of a group chat was asked to speak.
pub const TURN_REQUESTED: &str = "magentic.turn_requested";
/// A participant of a group chat has spoken.
pub const TURN_RECEIVED: &str = "magentic.turn_received";
/// One agent handed over to another.
pub const HANDOFF: &str = "magentic.handoff";
/// What comes before the type of a content that has no kind of its own.
pub const CONTENT_PREFIX: &str = "magentic.";
/// Before the class of a request that no rule knows, in the reason of an interrupt.
pub const REASON_PREFIX: &str = "magentic:";
/// The reason of an interrupt that asks for a review of a plan.
pub const PLAN_REVIEW: &str = "magentic:plan_review";
