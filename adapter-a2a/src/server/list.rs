//! `ListTasks`: filters, order and pages.
//!
//! Newest status first. A page token contains the time and id of the last task of its page, so a page continues right
//! after it whatever changed in between; tasks that changed meanwhile are on the first page again. Tokens are opaque to
//! clients.
//!
//! Order and filters need only the last run of a task; only the tasks of the page are read completely.

use std::collections::{HashMap, HashSet};

use aqueduct_core::Timestamp;
use aqueduct_core::service::Caller;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::agent::AgentServer;
use super::config::ServerConfig;
use super::items::Items;
use super::log::{LoggedRun, turn_of};
use super::task::TaskEntry;
use super::{Answer, ServerError, TaskPage};
use crate::call::ListTasks;
use crate::wire::{ErrorKind, StreamItem, TaskState, time};

/// Tasks per page by default (spec 3.1.4).
const DEFAULT_PAGE: u32 = 50;
/// The largest number of tasks per page (spec 3.1.4).
const LARGEST_PAGE: u32 = 100;

/// The position of a task in the list: later statuses first, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The time of the status, in milliseconds; reversed, so that later ones sort first.
    before: std::cmp::Reverse<i64>,
    id: String,
}

impl AgentServer {
    /// Handles a list call.
    ///
    /// # Errors
    ///
    /// Returns `InvalidParams` for an invalid filter, size or token, and the error of the log. A task that was
    /// dropped since the list was made is left out, and the page is shorter.
    pub(super) async fn list(
        &self,
        caller: &Caller,
        owner: &str,
        list: &ListTasks,
    ) -> Result<Answer, ServerError> {
        let filter = Filter::read(list)?;
        let mut found = self.places(owner, &filter).await?;
        found.sort();
        let total = found.len();
        // The task of the token itself need not exist any more.
        let start = filter.after.as_ref().map_or(0, |after| found.partition_point(|place| place <= after));
        let page_size = usize::try_from(filter.page_size).unwrap_or(usize::MAX);
        let page: Vec<&Place> = found.iter().skip(start).take(page_size).collect();
        let is_last = start + page.len() >= total;
        let next_page_token = match page.last() {
            Some(place) if !is_last => token(place),
            _ => String::new(),
        };
        let with_artifacts = list.include_artifacts.unwrap_or(false);
        let mut tasks = Vec::new();
        for place in page {
            match self.find(caller, owner, &place.id).await {
                Ok(entry) => tasks.push(entry.lock().folded.snapshot(list.history_length, with_artifacts)),
                // Dropped by now, or a response that was not a task.
                Err(error) if error.kind == ErrorKind::TaskNotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Answer::Tasks(Box::new(TaskPage {
            tasks,
            next_page_token,
            page_size: filter.page_size,
            total_size: u32::try_from(total).unwrap_or(u32::MAX),
        })))
    }

    /// Returns the positions of the matching tasks: of those in the log, and of those that are held and not in
    /// it. At most `tasks_per_caller` runs of the log are considered, the newest.
    async fn places(&self, owner: &str, filter: &Filter<'_>) -> Result<Vec<Place>, ServerError> {
        let shared = &self.shared;
        let runs = match shared.host.task_log() {
            Some(log) => {
                let most = shared.config.limits.tasks_per_caller;
                log.runs(owner, &shared.agent, filter.context_id, most).await?
            }
            None => Vec::new(),
        };
        let logged = logged_tasks(&runs);
        let mut places = Vec::new();
        // Responses that are messages, or not yet decided, have runs in the log too; they are not tasks.
        let mut hidden = HashSet::new();
        for entry in shared.store.of_owner(owner) {
            if !entry.lock().is_visible() {
                hidden.insert(entry.id.clone());
            } else if !logged.contains_key(entry.id.as_str()) {
                places.extend(filter.place(&entry));
            }
        }
        let shown = logged.into_iter().filter(|(id, _)| !hidden.contains(*id));
        places.extend(shown.filter_map(|(id, run)| filter.logged_place(id, run, &shared.config)));
        Ok(places)
    }
}

/// Returns the last run of each task whose first run is in the list. A task whose first run has expired cannot be
/// read.
fn logged_tasks(runs: &[LoggedRun]) -> HashMap<&str, &LoggedRun> {
    let mut tasks: HashMap<&str, (usize, &LoggedRun)> = HashMap::new();
    let mut begun = HashSet::new();
    for run in runs {
        let Some((task, turn)) = run.task().and_then(|task| Some((task, turn_of(task, &run.id)?))) else {
            continue;
        };
        if turn == 0 {
            begun.insert(task);
        }
        let last = tasks.entry(task).or_insert((turn, run));
        if turn > last.0 {
            *last = (turn, run);
        }
    }
    tasks.into_iter().filter(|(task, _)| begun.contains(task)).map(|(task, (_, run))| (task, run)).collect()
}

/// Returns the state of a task from its last run: from the last event if it has ended, else from whether it has
/// any.
fn state_of(task: &str, run: &LoggedRun, config: &ServerConfig) -> TaskState<'static> {
    let Some(end) = &run.end else {
        return if run.head == 0 { TaskState::Submitted } else { TaskState::Working };
    };
    let mut items = Vec::new();
    Items::new(config, task, &run.context_id).convert(end, &mut items);
    let state = items.into_iter().rev().find_map(|item| match item {
        StreamItem::Status(update) if update.is_final => Some(update.status.state),
        _ => None,
    });
    state.unwrap_or(TaskState::Working)
}

/// The validated filters of a list.
struct Filter<'l> {
    context_id: Option<&'l str>,
    state: Option<TaskState<'l>>,
    /// Only tasks whose status is not older.
    after_time: Option<Timestamp>,
    /// The last task of the page before.
    after: Option<Place>,
    page_size: u32,
}

impl<'l> Filter<'l> {
    /// Validates the filters. Empty texts are absent, and the state "unspecified" is no filter.
    ///
    /// # Errors
    ///
    /// Returns `InvalidParams` that names the first invalid filter.
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
                ServerError::invalid_field(
                    "pageToken",
                    "is not a token of this server: send `nextPageToken` unchanged",
                )
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

    /// Returns the position of a task that matches.
    fn place(&self, entry: &TaskEntry) -> Option<Place> {
        let state = entry.lock();
        let fits = state.is_visible()
            && self.context_id.is_none_or(|context| context == entry.context_id)
            && self.state.as_ref().is_none_or(|wanted| *wanted == state.folded.task.status.state)
            // The proto file says "greater than or equal", whatever the member is called.
            && self.after_time.is_none_or(|after| state.updated_at >= after);
        fits.then(|| Place { before: std::cmp::Reverse(state.updated_at.0), id: entry.id.clone() })
    }

    /// Returns the position of a task in the log that matches. Its time is that of the log, so that pages of several
    /// replicas are consistent.
    fn logged_place(&self, id: &str, run: &LoggedRun, config: &ServerConfig) -> Option<Place> {
        let at = run.closed_at.unwrap_or(run.opened_at);
        let fits = self.context_id.is_none_or(|context| context == run.context_id)
            && self.after_time.is_none_or(|after| at >= after)
            && self.state.as_ref().is_none_or(|wanted| *wanted == state_of(id, run, config));
        fits.then(|| Place { before: std::cmp::Reverse(at.0), id: id.to_owned() })
    }
}

/// Returns the token of a position: `base64url("{time} {id}")`.
fn token(place: &Place) -> String {
    URL_SAFE_NO_PAD.encode(format!("{} {}", place.before.0, place.id))
}

/// Parses a token. Returns `None` for anything that [`token`] does not return.
fn place(token: &str) -> Option<Place> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (at, id) = text.split_once(' ')?;
    Some(Place { before: std::cmp::Reverse(at.parse().ok()?), id: id.to_owned() })
}
