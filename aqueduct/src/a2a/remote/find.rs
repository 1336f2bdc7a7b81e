//! Finds the task of a message whose response was lost: lists the tasks of the agent, and searches their histories for
//! the message. A message is never sent twice.

use std::time::Duration;

use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_adapter_a2a::client::{SentMessage, SentPage};
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_core::agent::CallContext;
use serde_json::Value;

use super::connection::http_request;
use super::endpoint::ResolvedCard;
use crate::remote::{Connection, describe_refusal};

/// The largest number of pages that are searched. Newer tasks come first.
const PAGES: usize = 50;

/// Attempts at a takeover: the agent may be away, or about to start the task. After a cut connection there is one
/// attempt: the agent that received the message is up.
pub(super) const TRIES: u32 = 5;

/// How long one page may take, and all of them: a frontend waits.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
const FIND_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause before the second attempt; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(250);

/// Why a page could not be read.
enum Missed {
    /// Another attempt may succeed.
    Passing(String),
    /// The agent does not list its tasks.
    Unsupported(String),
}

/// Returns `true` if the agent supports listing its tasks.
pub(super) fn can_find(card: &ResolvedCard) -> bool {
    card.endpoint.version == Version::V1 && card.endpoint.binding != Binding::Grpc
}

/// Returns the task, or the reason why it was not found.
pub(super) async fn find(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    sent: &SentMessage,
    tries: u32,
) -> Result<TaskRef, String> {
    if !can_find(card) {
        return Err("the agent does not list its tasks".to_owned());
    }
    let mut reason = "the agent did not answer".to_owned();
    let found =
        tokio::time::timeout(FIND_TIMEOUT, search(connection, card, context, sent, tries, &mut reason)).await;
    found.unwrap_or_else(|_| Err(format!("the task was not found within {FIND_TIMEOUT:?}: {reason}")))
}

/// Asks the agent up to `tries` times. Keeps the reason of the last attempt in `reason`.
async fn search(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    sent: &SentMessage,
    tries: u32,
    reason: &mut String,
) -> Result<TaskRef, String> {
    for attempt in 0..tries {
        if attempt > 0 {
            tokio::time::sleep(PAUSE * 2_u32.saturating_pow(attempt - 1)).await;
        }
        match look(connection, card, context, sent).await {
            Ok(Some(task)) => return Ok(task),
            Ok(None) => "the agent has no task for the message".clone_into(reason),
            Err(Missed::Passing(missed)) => *reason = missed,
            Err(Missed::Unsupported(missed)) => return Err(missed),
        }
    }
    Err(std::mem::take(reason))
}

/// Searches the pages once. Returns `Ok(None)` if no task contains the message.
async fn look(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    sent: &SentMessage,
) -> Result<Option<TaskRef>, Missed> {
    let mut token = None;
    for _ in 0..PAGES {
        let call = sent.list_call(token.take());
        let (request, _) =
            http_request(connection, &card.endpoint, context, &call).map_err(Missed::Unsupported)?;
        let response = tokio::time::timeout(PAGE_TIMEOUT, connection.client().request(request)).await;
        let late = |_| Missed::Passing(format!("the agent did not list its tasks within {PAGE_TIMEOUT:?}"));
        let response = response.map_err(late)?.map_err(|error| Missed::Passing(error.to_string()))?;
        let status = response.status();
        if status.is_server_error() {
            return Err(Missed::Passing(describe_refusal(&response)));
        }
        let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        match sent.read_page(&body) {
            Some(SentPage::Found(task)) => return Ok(Some(task)),
            Some(SentPage::Next(next)) => token = Some(next),
            Some(SentPage::Unknown) => return Ok(None),
            None => return Err(Missed::Unsupported("the agent does not list its tasks".to_owned())),
        }
    }
    Ok(None)
}
