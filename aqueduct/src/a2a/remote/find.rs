//! Finds the task of a message whose response was lost: lists the tasks of the agent, and searches their histories for
//! the message. A message is never sent twice.
//!
//! A replica that dies leaves many such messages at once. A replica that takes them over requests one list for all of them
//! ([`Listing`]): a list is expensive for an agent with many tasks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_adapter_a2a::client::{SentMessage, SentPage, TasksPage};
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_core::agent::CallContext;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connection::http_request;
use super::endpoint::ResolvedCard;
use crate::remote::{Connection, describe_refusal};

/// The largest number of pages that are searched. Newer tasks come first.
const PAGES: usize = 50;

/// Attempts of a search: the agent may be away, or about to start the task, and what cut a response may cut the list, too.
const TRIES: u32 = 5;

/// How long one page may take: a frontend waits.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the search for a task may take, with all its pages and attempts.
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

/// Returns the task, or the reason why it was not found. `listing` is the list that takeovers share.
pub(super) async fn find(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    sent: &SentMessage,
    listing: Option<&Listing>,
) -> Result<TaskRef, String> {
    if !can_find(card) {
        return Err("the agent does not list its tasks".to_owned());
    }
    let mut reason = "the agent did not answer".to_owned();
    let search = search(connection, card, context, sent, listing, &mut reason);
    let found = tokio::time::timeout(FIND_TIMEOUT, search).await;
    found.unwrap_or_else(|_| Err(format!("the task was not found within {FIND_TIMEOUT:?}: {reason}")))
}

/// Searches up to [`TRIES`] times. Keeps the reason of the last attempt in `reason`.
async fn search(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    sent: &SentMessage,
    listing: Option<&Listing>,
    reason: &mut String,
) -> Result<TaskRef, String> {
    // A conversation has few tasks.
    let listing = listing.filter(|_| sent.context_id.is_empty());
    for attempt in 0..TRIES {
        if attempt > 0 {
            tokio::time::sleep(PAUSE * 2_u32.saturating_pow(attempt - 1)).await;
        }
        let looked = match listing {
            Some(listing) => listing.look(connection, card, context, sent).await,
            None => look(connection, card, context, sent).await,
        };
        match looked {
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
        let body = page(connection, card, context, sent, token.take()).await?;
        match sent.read_page(&body) {
            Some(SentPage::Found(task)) => return Ok(Some(task)),
            Some(SentPage::Next(next)) => token = Some(next),
            Some(SentPage::Unknown) => return Ok(None),
            None => return Err(unsupported()),
        }
    }
    Ok(None)
}

fn unsupported() -> Missed {
    Missed::Unsupported("the agent does not list its tasks".to_owned())
}

/// Requests one page.
async fn page(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    sent: &SentMessage,
    token: Option<String>,
) -> Result<Value, Missed> {
    let call = sent.list_call(token);
    let (request, _) =
        http_request(connection, &card.endpoint, context, &call).map_err(Missed::Unsupported)?;
    let response = tokio::time::timeout(PAGE_TIMEOUT, connection.client().request(request)).await;
    let late = |_| Missed::Passing(format!("the agent did not list its tasks within {PAGE_TIMEOUT:?}"));
    let response = response.map_err(late)?.map_err(|error| Missed::Passing(error.to_string()))?;
    if response.status().is_server_error() {
        return Err(Missed::Passing(describe_refusal(&response)));
    }
    Ok(serde_json::from_slice(response.body()).unwrap_or_default())
}

/// The tasks of an agent as far as they are listed, for takeovers. Calls of takeovers carry no headers of callers, so the list is
/// the same for all of them. Holds the messages of [`PAGES`] pages at most, and none if no takeover needs them.
///
/// A takeover that finds its message stops reading; the next one continues with the following page:
///
/// ```text
/// takeover 1: page 1, page 2 (found) ─► takeover 2: already listed ─► takeover 3: page 3, page 4 (found) ─► …
/// ```
#[derive(Debug, Default)]
pub(super) struct Listing {
    pass: Mutex<Option<Pass>>,
    /// The number of takeovers that search, or wait for the list.
    searches: AtomicUsize,
}

/// One pass over the pages of an agent.
#[derive(Debug)]
struct Pass {
    begun_at: Instant,
    messages: HashMap<String, TaskRef>,
    next: NextPage,
    pages: usize,
}

/// The page that follows those that are read.
#[derive(Debug, Clone)]
enum NextPage {
    First,
    At(String),
    End,
}

impl Listing {
    /// Looks for the message in the pages that are listed, then in further ones. Returns `Ok(None)` if a pass that began after this
    /// call has no such message.
    async fn look(
        &self,
        connection: &Connection,
        card: &ResolvedCard,
        context: &dyn CallContext,
        sent: &SentMessage,
    ) -> Result<Option<TaskRef>, Missed> {
        let asked_at = Instant::now();
        let _counted = Counted::new(&self.searches);
        let mut kept = self.pass.lock().await;
        let found = loop {
            // A listed task stays a task, however old the pass is.
            let listed = kept.as_ref().and_then(|pass| pass.messages.get(&sent.message_id));
            if listed.is_some() {
                break listed.cloned();
            }
            let pass = kept.take_if(|pass| pass.begun_at >= asked_at).unwrap_or_else(Pass::new);
            let pass = kept.insert(pass);
            let token = match pass.next.clone() {
                NextPage::First => None,
                NextPage::At(token) => Some(token),
                NextPage::End => break None,
            };
            // A takeover that is dropped here leaves the pass as it was before this page.
            let body = page(connection, card, context, sent, token).await?;
            pass.add(TasksPage::read(&body).ok_or_else(unsupported)?);
        };
        // A takeover that is not counted yet needs a newer list.
        if self.searches.load(Ordering::SeqCst) == 1 {
            *kept = None;
        }
        Ok(found)
    }
}

impl Pass {
    fn new() -> Self {
        Self { begun_at: Instant::now(), messages: HashMap::new(), next: NextPage::First, pages: 0 }
    }

    fn add(&mut self, page: TasksPage) {
        self.messages.extend(page.messages);
        self.pages += 1;
        self.next = page.next.filter(|_| self.pages < PAGES).map_or(NextPage::End, NextPage::At);
    }
}

/// Counts a search until it is dropped, also by a timeout.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(searches: &'a AtomicUsize) -> Self {
        searches.fetch_add(1, Ordering::SeqCst);
        Self(searches)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
