//! The names of custom blocks that are the framework's own. Plans, files, citations and notices have well-known names
//! ([`aqueduct_core::wellknown`]).
//!
//! | name | value |
//! |---|---|
//! | [`LEDGER`] | `{"is_request_satisfied", "is_in_loop", "is_progress_being_made", "next_speaker", "instruction_or_question"}`, each `{"reason", "answer"}` |
//! | [`TASK`] | `{"text"}`: the manager's task (older classes) |
//! | [`INSTRUCTION`] | `{"text"}`: the manager's instruction to the next participant (older classes) |
//! | [`TURN_REQUESTED`], [`TURN_RECEIVED`] | `{"round_index", "participant_name"}` |
//! | [`HANDOFF`] | `{"source", "target"}` |
//! | `magentic.<content type>` | the content, for types without a kind of their own (`hosted_file`, …) |

/// The manager's progress ledger.
pub const LEDGER: &str = "magentic.ledger";
/// The manager's task.
pub const TASK: &str = "magentic.task";
/// The manager's instruction to the next participant.
pub const INSTRUCTION: &str = "magentic.instruction";
/// A participant of a group chat was given a turn.
pub const TURN_REQUESTED: &str = "magentic.turn_requested";
/// A participant of a group chat has finished its turn.
pub const TURN_RECEIVED: &str = "magentic.turn_received";
/// One agent handed over to another.
pub const HANDOFF: &str = "magentic.handoff";
/// The prefix of the types of content without a kind of its own.
pub const CONTENT_PREFIX: &str = "magentic.";
/// The prefix of the class of an unknown request, in the reason of an interrupt.
pub const REASON_PREFIX: &str = "magentic:";
/// The reason of an interrupt that requests a review of a plan.
pub const PLAN_REVIEW: &str = "magentic:plan_review";
