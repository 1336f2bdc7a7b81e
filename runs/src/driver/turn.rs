//! [`RunTurn`]: one response id for all events of a run's agent.
//!
//! The id is the agent's if its first update has one, otherwise that of the run, so that a replica that takes the run over
//! uses the same. Sub-agents have turns of their own and keep their ids. Usage is recorded under the agent's own id: reports
//! of one response replace each other, reports of two are added.

use aqueduct_core::{ConflictPolicy, Mode, ResponseId, RunFailure, RunId, SourceEvent, Turn, Update};

/// The turn of a run.
pub(super) struct RunTurn(Turn);

impl RunTurn {
    /// Returns the turn of a run. `begun` is its response id if another replica started the run.
    pub(super) fn new(run: &RunId, begun: Option<ResponseId>) -> Self {
        let assigned = begun.unwrap_or_else(|| ResponseId::new(run));
        Self(Turn::new(assigned, ConflictPolicy::Normalise))
    }

    /// Places the event under the response id of the turn. If the event reports usage under another id, returns an update
    /// that carries only the usage and must be handled first.
    pub(super) fn place(&mut self, event: &mut SourceEvent) -> Option<Update> {
        let update = match event {
            SourceEvent::Update(update) if update.source.is_root() => update,
            _ => return None,
        };
        let reports_usage = update.details.as_ref().is_some_and(|details| details.usage.is_some());
        let given = if reports_usage { update.response_id.clone() } else { None };
        if let Err(error) = self.0.assign(update) {
            *event = SourceEvent::failed(RunFailure::UPSTREAM_INVALID, error.to_string());
            return None;
        }
        let renamed = given.filter(|given| Some(given) != update.response_id.as_ref())?;
        take_usage(update, renamed)
    }
}

/// Takes the usage out of an update, into an update without content under the agent's own response id.
fn take_usage(update: &mut Update, given: ResponseId) -> Option<Update> {
    let usage = update.details.as_mut()?.usage.take()?;
    let mut report = Update::text("").from_source(&update.source);
    report.response_id = Some(given);
    // `Replace` with an empty text would remove the text.
    report.mode = if update.mode == Mode::Append { Mode::Append } else { Mode::Snapshot };
    report.details_mut().usage = Some(usage);
    Some(report)
}
