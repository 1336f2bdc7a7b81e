//! Conversion of a [`CompletedRun`], both ways.

use aqueduct_core::{CompletedRun, Response, ResponseId, Timestamp};

use super::ConvertError;
use super::input::{message_from_proto, message_to_proto};
use super::kinds::{outcome_from_proto, outcome_to_proto};
use super::run::{
    failure_from_proto, failure_to_proto, interrupt_from_proto, interrupt_to_proto, run_from_proto,
    run_to_proto, usage_to_proto, usages_from_proto,
};
use super::values::{
    JsonDepth, json_to_bytes, metadata_to_bytes, optional_bytes, optional_json, optional_metadata,
    optional_text, text,
};
use crate::proto;
use proto::completed_run::End;

/// Converts a completed run to its message.
///
/// # Errors
///
/// Returns an error if an outcome or a role has no form in this version of the protocol.
pub fn completed_to_proto(run: &CompletedRun) -> Result<proto::CompletedRun, ConvertError> {
    let response = &run.response;
    let end = match &run.outcome {
        Ok(outcome) => End::Outcome(outcome_to_proto(*outcome)?.into()),
        Err(failure) => End::Failure(failure_to_proto(failure)),
    };
    let metadata = (!response.metadata.is_empty()).then(|| metadata_to_bytes(&response.metadata));
    Ok(proto::CompletedRun {
        run: run.run.as_deref().map(run_to_proto),
        response_id: response.id.as_str().to_owned().into(),
        end: Some(end),
        text: run.text().into(),
        messages: response.messages.iter().map(message_to_proto).collect::<Result<_, _>>()?,
        created_at_ms: response.created_at.map(|time| time.0),
        finish_reason: optional_bytes(response.finish_reason.as_ref()),
        result_json: run.result.as_ref().map(json_to_bytes),
        interrupts: run.interrupts.iter().map(|interrupt| interrupt_to_proto(0, interrupt)).collect(),
        usage: response.usage.iter().map(usage_to_proto).collect(),
        metadata_json: metadata,
    })
}

/// Converts a message to a completed run.
///
/// # Errors
///
/// Returns an error that names the field that is missing or invalid.
pub fn completed_from_proto(run: proto::CompletedRun) -> Result<CompletedRun, ConvertError> {
    let depth = JsonDepth::MOST;
    let messages = run.messages.into_iter().map(|message| message_from_proto(message, depth));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let metadata = optional_metadata("completed.metadata_json", run.metadata_json.as_ref(), depth)?;
    let mut response = Response::new(ResponseId::new(text("completed.response_id", run.response_id)?));
    response.messages = messages;
    response.agent = response.only_agent();
    response.created_at = run.created_at_ms.map(Timestamp);
    response.finish_reason = optional_text("completed.finish_reason", run.finish_reason)?;
    response.usage = usages_from_proto(run.usage)?;
    response.metadata = metadata.map(|metadata| (*metadata).clone()).unwrap_or_default();
    let outcome = match run.end {
        None => return Err(ConvertError::Missing { field: "completed.end" }),
        Some(End::Outcome(outcome)) => Ok(outcome_from_proto(outcome)?),
        Some(End::Failure(failure)) => Err(Box::new(failure_from_proto(failure)?)),
    };
    let info = run.run.map(|run| run_from_proto(Some(run))).transpose()?;
    let mut completed = CompletedRun::new(info, response, outcome);
    completed.result = optional_json("completed.result_json", run.result_json.as_ref(), depth)?;
    completed.interrupts = run.interrupts.into_iter().map(interrupt_from_proto).collect::<Result<_, _>>()?;
    Ok(completed)
}
