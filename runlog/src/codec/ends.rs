//! The encoding of runs, their ends, usage and interrupts.
//!
//! Fields are written in the order of the tables, without names. `?` marks a field behind a flag for its presence, `*` a list behind
//! its length; `value` is a JSON value ([`value`]).
//!
//! ```text
//! run       := thread_id run_id parent_run_id? agent?
//! failure   := code message details:value?
//! outcome   := 0 result:value? | 1 (suspended) | 2 (cancelled) | 3 failure
//! usage     := provider? model? input? output? total? reasoning? cached_input? cache_write_input?
//! pending   := lane id reason message? tool_call_id? response_schema:value? expires_at? metadata?
//! finished  := run outcome:code result:value? pending* pending_call* usage*      version 2: finish reason
//! failed    := run failure usage*
//! ```
//!
//! The numbers are part of the format: a changed number needs a new version of the encoding.

use std::sync::Arc;

use aqueduct_core::event::{PendingInterrupt, RunFailed, RunFinished};
use aqueduct_core::{
    Interrupt, InterruptId, Lane, LaneOutcome, RunFailure, RunId, RunInfo, RunOutcome, ThreadId, ToolCallId,
    Usage,
};

use super::head::{read_code, read_metadata, write_code, write_lane, write_metadata};
use super::read::Reader;
use super::write::Writer;
use super::{CodecError, value};

/// The outcomes of a run by their code. New ones are appended.
const OUTCOMES: [RunOutcome; 3] = [RunOutcome::Success, RunOutcome::Interrupted, RunOutcome::Cancelled];

/// The codes of the outcomes of a lane.
const SUCCESS: u8 = 0;
const SUSPENDED: u8 = 1;
const CANCELLED: u8 = 2;
const FAILED: u8 = 3;

/// Writes the identity of a run.
pub(super) fn write_run(to: &mut Writer, run: &RunInfo) {
    to.text(run.thread_id.as_str());
    to.text(run.run_id.as_str());
    to.optional_text(run.parent_run_id.as_ref().map(RunId::as_str));
    to.optional_text(run.agent.as_deref());
}

/// Reads the identity of a run.
pub(super) fn read_run(from: &mut Reader) -> Result<RunInfo, CodecError> {
    Ok(RunInfo {
        thread_id: ThreadId::new(from.text("a thread id")?),
        run_id: RunId::new(from.text("a run id")?),
        parent_run_id: from.optional_text("a run id")?.map(RunId::new),
        agent: from.optional_text("the name of an agent")?,
    })
}

/// Writes code, message and details of a failure.
fn write_failure(to: &mut Writer, failure: &RunFailure) -> Result<(), CodecError> {
    to.text(&failure.code);
    to.text(&failure.message);
    to.try_optional(failure.details.as_ref(), value::write)
}

/// Reads a failure.
fn read_failure(from: &mut Reader) -> Result<RunFailure, CodecError> {
    Ok(RunFailure {
        code: from.text("the code of a failure")?,
        message: from.text("the message of a failure")?,
        details: from.optional("the details of a failure", value::read)?,
    })
}

/// Writes how a lane ended.
///
/// # Errors
///
/// Returns [`CodecError::NoForm`] for an outcome that this version cannot represent.
pub(super) fn write_lane_outcome(to: &mut Writer, outcome: &LaneOutcome) -> Result<(), CodecError> {
    match outcome {
        LaneOutcome::Success(result) => {
            to.byte(SUCCESS);
            to.try_optional(result.as_ref(), value::write)?;
        }
        LaneOutcome::Suspended => to.byte(SUSPENDED),
        LaneOutcome::Cancelled => to.byte(CANCELLED),
        LaneOutcome::Failed(failure) => {
            to.byte(FAILED);
            write_failure(to, failure)?;
        }
        _ => return Err(CodecError::NoForm("the outcome of a lane")),
    }
    Ok(())
}

/// Reads how a lane ended.
pub(super) fn read_lane_outcome(from: &mut Reader) -> Result<LaneOutcome, CodecError> {
    Ok(match from.byte("the outcome of a lane")? {
        SUCCESS => LaneOutcome::Success(from.optional("a result", value::read)?),
        SUSPENDED => LaneOutcome::Suspended,
        CANCELLED => LaneOutcome::Cancelled,
        FAILED => LaneOutcome::Failed(read_failure(from)?),
        found => return Err(CodecError::Invalid { what: "the outcome of a lane", found: found.into() }),
    })
}

/// Writes the token counts of one model. A count that the provider did not report is absent, not 0.
pub(super) fn write_usage(to: &mut Writer, usage: &Usage) {
    to.optional_text(usage.provider.as_deref());
    to.optional_text(usage.model.as_deref());
    for count in
        [usage.input, usage.output, usage.total, usage.reasoning, usage.cached_input, usage.cache_write_input]
    {
        to.optional(count, Writer::number);
    }
}

/// Reads the token counts of one model.
pub(super) fn read_usage(from: &mut Reader) -> Result<Usage, CodecError> {
    let (provider, model) = (from.optional_text("a provider")?, from.optional_text("a model")?);
    let mut count = || from.optional("a count", |from| from.number("a count"));
    Ok(Usage {
        provider,
        model,
        input: count()?,
        output: count()?,
        total: count()?,
        reasoning: count()?,
        cached_input: count()?,
        cache_write_input: count()?,
    })
}

fn write_usages(to: &mut Writer, usages: &[Usage]) {
    to.length(usages.len());
    for usage in usages {
        write_usage(to, usage);
    }
}

/// Reads a list of token counts. The length is bounded by the bytes that are left.
fn read_usages(from: &mut Reader) -> Result<Vec<Usage>, CodecError> {
    let length = from.length("what it cost")?;
    (0..length).map(|_| read_usage(from)).collect()
}

/// Writes an interrupt that a run waits for, with its lane.
pub(super) fn write_pending(to: &mut Writer, pending: &PendingInterrupt) -> Result<(), CodecError> {
    to.nested(|to| write_lane(to, &pending.lane))?;
    let interrupt = &pending.interrupt;
    to.text(interrupt.id.as_str());
    to.text(&interrupt.reason);
    to.optional_text(interrupt.message.as_deref());
    to.optional_text(interrupt.tool_call_id.as_ref().map(ToolCallId::as_str));
    to.try_optional(interrupt.response_schema.as_ref(), value::write)?;
    to.optional_text(interrupt.expires_at.as_deref());
    write_metadata(to, interrupt.metadata.as_ref())
}

/// Reads an interrupt. `lane` decodes its lane, so that lanes are shared with the heads of blocks.
pub(super) fn read_pending(
    from: &mut Reader,
    lane: &mut impl FnMut(&mut Reader) -> Result<Arc<Lane>, CodecError>,
) -> Result<PendingInterrupt, CodecError> {
    let lane = lane(from)?;
    let interrupt = Interrupt {
        id: InterruptId::new(from.text("the id of an interrupt")?),
        reason: from.text("a reason")?,
        message: from.optional_text("a question")?,
        tool_call_id: from.optional_text("a tool call id")?.map(ToolCallId::new),
        response_schema: from.optional("a schema", value::read)?,
        expires_at: from.optional_text("a time")?,
        metadata: read_metadata(from)?,
    };
    Ok(PendingInterrupt { lane, interrupt })
}

/// Writes the end of a run that did not fail. The finish reason follows in version 2 alone.
pub(super) fn write_finished(to: &mut Writer, end: &RunFinished) -> Result<(), CodecError> {
    write_run(to, &end.run);
    write_code(to, &OUTCOMES, &end.outcome, "the outcome of a run")?;
    to.try_optional(end.result.as_ref(), value::write)?;
    to.length(end.interrupts.len());
    end.interrupts.iter().try_for_each(|pending| write_pending(to, pending))?;
    to.length(end.pending_calls.len());
    for call in &end.pending_calls {
        to.text(call.as_str());
    }
    write_usages(to, &end.usage);
    Ok(())
}

/// Reads the end of a run that did not fail.
pub(super) fn read_finished(
    from: &mut Reader,
    mut lane: impl FnMut(&mut Reader) -> Result<Arc<Lane>, CodecError>,
) -> Result<RunFinished, CodecError> {
    let run = Arc::new(read_run(from)?);
    let outcome = read_code(from, &OUTCOMES, "the outcome of a run")?;
    let result = from.optional("a result", value::read)?;
    let length = from.length("interrupts")?;
    let interrupts = (0..length).map(|_| read_pending(from, &mut lane)).collect::<Result<_, _>>()?;
    let length = from.length("pending calls")?;
    let call = |_| from.text("a tool call id").map(ToolCallId::new);
    let pending_calls = (0..length).map(call).collect::<Result<_, _>>()?;
    let mut finished = RunFinished::new(run, outcome);
    finished.result = result;
    finished.interrupts = interrupts;
    finished.pending_calls = pending_calls;
    finished.usage = read_usages(from)?;
    Ok(finished)
}

/// Writes the end of a failed run.
pub(super) fn write_failed(to: &mut Writer, end: &RunFailed) -> Result<(), CodecError> {
    write_run(to, &end.run);
    write_failure(to, &end.failure)?;
    write_usages(to, &end.usage);
    Ok(())
}

/// Reads the end of a failed run.
pub(super) fn read_failed(from: &mut Reader) -> Result<RunFailed, CodecError> {
    let run = Arc::new(read_run(from)?);
    let mut failed = RunFailed::new(run, read_failure(from)?);
    failed.usage = read_usages(from)?;
    Ok(failed)
}
