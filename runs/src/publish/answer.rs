//! A run that delivers replies to a waiting workflow, and carries the events that the workflow
//! sends then.
//!
//! ```text
//! published run:  events … RUN interrupted            (the publisher stays connected, its source waits)
//! reply run:      opened by a caller's input ──► replies to the publisher ──► its further events go here
//! ```
//!
//! A reply is matched by agent, principal and thread, then by the ids of its interrupts. This
//! replica is searched first, then the others (`mailbox.rs`). A reply that matches no waiting run
//! is refused: starting a new run would have no source.

use std::sync::Arc;

use aqueduct_core::agent::AgentRequest;
use aqueduct_core::service::{RefusalKind, ServiceError, StartedRun};
use aqueduct_core::{ContentBlock, InterruptId, InterruptReply, Message, Principal, Role, RunId, RunInput};
use aqueduct_runlog::Lease;
use serde_json::Value;

use super::{Driver, LineDecoder, Published, State};
use crate::agents::AgentEntry;
use crate::driver::Drive;
use crate::extension::RunOrigin;
use crate::feed::Feed;
use crate::reply::ReplyRun;
use crate::runs::Runs;

impl Published {
    /// Removes the replies that a line proves as received by the workflow.
    ///
    /// Until then they are kept, so that a publisher that reconnects gets them again: its connection
    /// may have broken before it passed them on.
    pub(super) fn note_taken(&self, decoder: &dyn LineDecoder, line: &str) {
        if self.replies.borrow().is_empty() {
            return;
        }
        let taken = decoder.replies_taken(line);
        self.replies.send_if_modified(|replies| {
            let before = replies.len();
            replies.retain(|reply| !taken.contains(&reply.id));
            replies.len() != before
        });
    }
}

impl Runs {
    /// Starts a run that replies to a published one.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::Unsupported`] for an input without replies while no run waits, and
    /// [`RefusalKind::Conflict`] if the interrupts were already answered, or their publisher is gone.
    pub(crate) async fn answer_published(
        self,
        agent: Arc<AgentEntry>,
        principal: Principal,
        input: RunInput,
        run: ReplyRun,
    ) -> Result<StartedRun, ServiceError> {
        if let Some(started) = self.answer_here(&agent, &principal, &input, &run).await? {
            return Ok(started);
        }
        match self.answer_remotely(&agent, &principal, &input, &run).await? {
            Some(started) => Ok(started),
            None => Err(nothing_to_answer(agent.name(), &input)),
        }
    }

    /// Starts a run that replies to one whose source is at this replica. Returns `None` if no such run waits for the
    /// input.
    pub(crate) async fn answer_here(
        &self,
        agent: &AgentEntry,
        principal: &Principal,
        input: &RunInput,
        run: &ReplyRun,
    ) -> Result<Option<StartedRun>, ServiceError> {
        // The lock of the map is released before the state of a publication is locked, which may wait.
        let waiting: Vec<Arc<Published>> = {
            let all = self.published();
            let fits = |one: &&Arc<Published>| {
                one.agent.name() == agent.name()
                    && one.principal == *principal
                    && one.thread == input.thread_id
            };
            all.values().filter(fits).cloned().collect()
        };
        for published in waiting {
            let mut state = published.state.lock().await;
            if let Some(replies) = replies(&state, input) {
                let input = (input.clone(), run.clone());
                return self.open_answer(&published, &mut state, input, replies).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Opens the run that replies in the log, and starts its driver.
    async fn open_answer(
        &self,
        published: &Arc<Published>,
        state: &mut State,
        (input, run): (RunInput, ReplyRun),
        replies: Vec<InterruptReply>,
    ) -> Result<StartedRun, ServiceError> {
        let (owner, agent) = (published.principal.to_string(), published.agent.name());
        let lease = self.open_log(&owner, agent, &input.thread_id, &run.id).await?;
        self.note_record(&lease, &input).await?;
        self.note_publication(published, &lease, &replies).await;
        Ok(self.begin_answer(published, state, (lease, run.shown), input, replies))
    }

    /// Drives a run that replies. The caller has opened it and holds its lease.
    pub(super) fn begin_answer(
        &self,
        published: &Arc<Published>,
        state: &mut State,
        (lease, shown): (Lease, Option<RunId>),
        mut input: RunInput,
        replies: Vec<InterruptReply>,
    ) -> StartedRun {
        let run_id = input.run_id.detached();
        let origin = RunOrigin::new(published.agent.name(), &input.thread_id, published.surface);
        let (handle, extension) = self.attach(&lease.run_id, &origin);
        let events = self.watched(&lease.run_id, Some(&handle), 0);
        // Declares the calls that waited for the reply, so that their results need no call in this run.
        let mut earlier = Message::new(Role::Assistant);
        let calls = state.decoder.waiting_calls();
        earlier
            .contents
            .extend(calls.into_iter().map(|id| ContentBlock::tool_arguments(id.as_bytes().clone(), "")));
        input.messages.push(earlier);
        let (sender, feed) = Feed::published();
        state.driver = published.format.as_ref().map(|_| Driver::new(&handle));
        if let Some(publication) = published.publication(&replies) {
            // The channel is empty.
            sender.try_send(publication.begin()).ok();
        }
        // From here on the lines of the publisher are events of this run.
        state.out = Some(sender);
        state.is_waiting = false;
        state.mailbox = None;
        state.answered_by = Some(Arc::clone(&handle));
        state.asked.retain(|id| !replies.iter().any(|reply| reply.id == *id));
        let agent = Arc::clone(&published.agent);
        let mut request = AgentRequest::new(input);
        request.principal = published.principal.clone();
        let drive = Drive {
            // The run continues work that was admitted before.
            place: self.keep_place(&published.principal.to_string()),
            runs: self.clone(),
            agent,
            lease,
            handle,
            extension,
            request,
            kept_ids: None,
            shown,
            lanes_of: state.lanes_of.clone(),
        };
        drive.spawn(feed);
        published.replies.send_modify(|waiting| waiting.extend(replies));
        StartedRun::new(run_id, events)
    }
}

/// Returns the replies of an input to the interrupts of a waiting run. Returns `None` if they belong to another run.
fn replies(state: &State, input: &RunInput) -> Option<Vec<InterruptReply>> {
    let waits = state.is_waiting && state.out.is_some();
    waits.then(|| replies_to(&state.asked, input)).flatten()
}

/// Returns the replies of an input to the interrupts `asked`. Returns `None` if they belong to other interrupts. A plain user
/// message is the reply to the only open interrupt.
pub(super) fn replies_to(asked: &[InterruptId], input: &RunInput) -> Option<Vec<InterruptReply>> {
    if !input.resume.is_empty() {
        let is_asked = |reply: &InterruptReply| asked.contains(&reply.id);
        return input.resume.iter().all(is_asked).then(|| input.resume.clone());
    }
    let [id] = asked else { return None };
    let words = input.latest_user_message()?.text();
    Some(vec![InterruptReply { id: id.clone(), resolved: true, payload: Some(Value::from(words)) }])
}

/// Returns the refusal for an input whose replies match no waiting run.
fn nothing_to_answer(agent: &str, input: &RunInput) -> ServiceError {
    let thread = &input.thread_id;
    if input.resume.is_empty() {
        let message = format!(
            "agent {agent} is fed by its framework, and none of its runs in thread {thread} waits for an answer: \
             watch the runs that it publishes"
        );
        return ServiceError::new(RefusalKind::Unsupported, message);
    }
    let asked: Vec<&str> = input.resume.iter().map(|reply| reply.id.as_str()).collect();
    let message = format!(
        "no run that agent {agent} published in thread {thread} waits for an answer to {}: it was answered, or its \
         publisher has gone",
        asked.join(", ")
    );
    ServiceError::new(RefusalKind::Conflict, message)
}
