//! `ListTasks`: filters, order and pages.
//!
//! Newest status first. A page token names the last task of its page by time and id, so a page continues right after it
//! whatever happened in between; tasks that changed meanwhile are on the first page again. Tokens are opaque to clients.

use std::sync::Arc;

use aqueduct_core::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::store::TaskStore;
use super::task::TaskEntry;
use super::{Answer, ServerError, TaskPage};
use crate::call::ListTasks;
use crate::wire::{TaskState, time};

/// Tasks on a page if the client does not say (spec 3.1.4).
const DEFAULT_PAGE: u32 = 50;
/// Tasks on a page at most (spec 3.1.4).
const LARGEST_PAGE: u32 = 100;

/// Where a task stands in the list: later statuses first, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    before: std::cmp::Reverse<i64>,
    id: String,
}

/// Answers a list call.
pub(super) fn list(store: &TaskStore, owner: &str, list: &ListTasks) -> Result<Answer, ServerError> {
    let filter = Filter::read(list)?;
    let mut found: Vec<(Place, Arc<TaskEntry>)> = store
        .of_owner(owner)
        .into_iter()
        .filter_map(|entry| filter.place(&entry).map(|place| (place, entry)))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let total = found.len();
    let start = filter.after.as_ref().map_or(0, |after| found.partition_point(|(place, _)| place <= after));
    let page_size = usize::try_from(filter.page_size).unwrap_or(usize::MAX);
    let page: Vec<_> = found.iter().skip(start).take(page_size).collect();
    let is_last = start + page.len() >= total;
    let next_page_token = match page.last() {
        Some((place, _)) if !is_last => token(place),
        _ => String::new(),
    };
    let with_artifacts = list.include_artifacts.unwrap_or(false);
    let tasks =
        page.iter().map(|(_, entry)| entry.lock().folded.snapshot(list.history_length, with_artifacts));
    Ok(Answer::Tasks(Box::new(TaskPage {
        tasks: tasks.collect(),
        next_page_token,
        page_size: filter.page_size,
        total_size: u32::try_from(total).unwrap_or(u32::MAX),
    })))
}

/// What a list is cut down by, checked.
struct Filter<'l> {
    context_id: Option<&'l str>,
    state: Option<TaskState<'l>>,
    after_time: Option<Timestamp>,
    after: Option<Place>,
    page_size: u32,
}

impl<'l> Filter<'l> {
    fn read(list: &'l ListTasks) -> Result<Self, ServerError> {
        let set = |text: &'l Option<String>| text.as_deref().filter(|text| !text.is_empty());
        let state = set(&list.status).map(|name| TaskState::parse(name.into()));
        if let Some(TaskState::Other(name)) = &state {
            return Err(ServerError::invalid_field("status", format!("{name:?} is no task state")));
        }
        let after_time = set(&list.status_timestamp_after).map(|text| {
            time::parse(text).ok_or_else(|| {
                ServerError::invalid_field("statusTimestampAfter", "must be a time as RFC 3339 has it")
            })
        });
        let page_size = list.page_size.unwrap_or(DEFAULT_PAGE);
        if !(1..=LARGEST_PAGE).contains(&page_size) {
            let words = format!("must be from 1 to {LARGEST_PAGE}");
            return Err(ServerError::invalid_field("pageSize", words));
        }
        let after = set(&list.page_token).map(|token| {
            place(token).ok_or_else(|| {
                ServerError::invalid_field("pageToken", "is none of ours: send nextPageToken back as it was")
            })
        });
        Ok(Self {
            context_id: set(&list.context_id),
            state: state.filter(|state| *state != TaskState::Unspecified),
            after_time: after_time.transpose()?,
            after: after.transpose()?,
            page_size,
        })
    }

    /// The place of a task that fits.
    fn place(&self, entry: &TaskEntry) -> Option<Place> {
        let state = entry.lock();
        let fits = state.is_visible()
            && self.context_id.is_none_or(|context| context == entry.context_id)
            && self.state.as_ref().is_none_or(|wanted| *wanted == state.folded.task.status.state)
            // The proto file says "greater than or equal", whatever the member is called.
            && self.after_time.is_none_or(|after| state.updated_at >= after);
        fits.then(|| Place { before: std::cmp::Reverse(state.updated_at.0), id: entry.id.clone() })
    }
}

fn token(place: &Place) -> String {
    URL_SAFE_NO_PAD.encode(format!("{} {}", place.before.0, place.id))
}

fn place(token: &str) -> Option<Place> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (at, id) = text.split_once(' ')?;
    Some(Place { before: std::cmp::Reverse(at.parse().ok()?), id: id.to_owned() })
}
