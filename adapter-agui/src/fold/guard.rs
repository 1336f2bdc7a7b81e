//! A guard over the state of a run: a JSON Patch that passes a limit ends the run that sent it.
//!
//! [`apply`](super::patch::apply) refuses such a patch wherever it is applied, so that no memory is lost to it; the guard
//! makes a named failure of it before watchers see a patch that they could not apply. Patches are applied when one of
//! them copies or moves, or when some have gathered: others make a state no larger than what was sent.

use aqueduct_core::{RunFailure, RunInput, SourceEvent};
use serde_json::Value;

use super::patch::apply;
use crate::error::Error;
use crate::wire::PatchOperation;

/// The code of the failure.
pub const STATE_LIMIT: &str = "state_limit";

/// Patches that wait to be applied together.
const GATHERED: usize = 64;

/// Returns a function that takes every source event of a run, and fails at the one that passes a limit.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_agui::fold::state_guard;
/// use aqueduct_core::{RunInput, Source, SourceEvent};
/// use serde_json::json;
///
/// let mut guard = state_guard(&RunInput::prompt("t", "r", "hi"));
/// let double = json!({ "op": "copy", "from": "", "path": "/a" });
/// let patch = (0..40).map(|n| json!({ "op": "copy", "from": "", "path": format!("/{n}") }));
/// let snapshot = SourceEvent::StateSnapshot { source: Source::root(), state: json!({ "a": 1 }) };
/// assert!(guard(&snapshot).is_ok());
/// assert!(guard(&SourceEvent::StateDelta { source: Source::root(), patch: vec![double] }).is_ok());
/// let bomb = SourceEvent::StateDelta { source: Source::root(), patch: patch.collect() };
/// assert_eq!(guard(&bomb).unwrap_err().code, "state_limit");
/// ```
///
/// # Errors
///
/// The function returns the failure to end the run with, [`RunFailure`] with the code `state_limit`.
pub fn state_guard(
    input: &RunInput,
) -> impl FnMut(&SourceEvent) -> Result<(), Box<RunFailure>> + Send + Sync + use<> {
    let mut guard = Guard { state: input.state.clone(), waiting: Vec::new() };
    move |event| guard.check(event)
}

/// The state of a run, and patches that arrived before it.
struct Guard {
    state: Value,
    waiting: Vec<Vec<PatchOperation>>,
}

impl Guard {
    /// Applies the change of an event. Returns the failure of the run if a limit is exceeded.
    fn check(&mut self, event: &SourceEvent) -> Result<(), Box<RunFailure>> {
        match event {
            SourceEvent::StateSnapshot { state, .. } => {
                self.waiting.clear();
                self.state.clone_from(state);
                Ok(())
            }
            SourceEvent::StateDelta { patch, .. } => self.patch(patch),
            _ => Ok(()),
        }
    }

    fn patch(&mut self, patch: &[Value]) -> Result<(), Box<RunFailure>> {
        let operations: Vec<PatchOperation> =
            patch.iter().filter_map(|operation| operation.as_object().cloned().map(PatchOperation)).collect();
        let may_grow = |operation: &PatchOperation| {
            matches!(operation.0.get("op").and_then(Value::as_str), Some("copy" | "move"))
        };
        let is_due = operations.iter().any(may_grow) || self.waiting.len() >= GATHERED;
        self.waiting.push(operations);
        if !is_due {
            return Ok(());
        }
        for operations in std::mem::take(&mut self.waiting) {
            // A patch that does not fit changes nothing, here as in the client.
            if let Err(error @ Error::PatchLimit { .. }) = apply(&mut self.state, &operations) {
                let failure = RunFailure::new(STATE_LIMIT, format!("the agent's state: {error}"));
                return Err(Box::new(failure));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::Source;
    use serde_json::json;

    use super::*;

    fn delta(patch: Vec<Value>) -> SourceEvent {
        SourceEvent::StateDelta { source: Source::root(), patch }
    }

    /// Patches of one operation each, until one fails: how many passed, and why the next did not.
    fn passed(patches: impl Iterator<Item = Vec<Value>>) -> (usize, Option<Box<RunFailure>>) {
        let mut guard = state_guard(&RunInput::prompt("t", "r", ""));
        guard(&SourceEvent::StateSnapshot { source: Source::root(), state: json!({ "s": {}, "t": {} }) })
            .unwrap();
        for (count, patch) in patches.enumerate() {
            if let Err(failure) = guard(&delta(patch)) {
                return (count, Some(failure));
            }
        }
        (0, None)
    }

    #[test]
    fn states_that_double_or_nest_over_several_patches_end_the_run() {
        let doubling = |n: i32| vec![json!({ "op": "copy", "from": "", "path": format!("/{n}") })];
        let (count, failure) = passed((0..100).map(doubling));
        assert!((5..30).contains(&count), "{count}");
        assert!(failure.unwrap().message.contains("`nodes`"));
        let deeper = |_| {
            vec![
                json!({ "op": "move", "from": "/s", "path": "/t/s" }),
                json!({ "op": "move", "from": "/t", "path": "/s" }),
                json!({ "op": "add", "path": "/t", "value": {} }),
            ]
        };
        let (count, failure) = passed((0..1000).map(deeper));
        assert!((50..100).contains(&count), "{count}");
        assert!(failure.unwrap().message.contains("`depth`"));
    }

    #[test]
    fn patches_that_do_not_fit_end_nothing() {
        let wrong = |_| vec![json!({ "op": "move", "from": "/nowhere", "path": "/x" }), json!("nonsense")];
        assert_eq!(passed((0..100).map(wrong)).1, None);
        let plain = |n| vec![json!({ "op": "add", "path": format!("/{n}"), "value": n })];
        assert_eq!(passed((0..1000).map(plain)).1, None);
    }
}
