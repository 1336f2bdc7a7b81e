//! The index of anchors by relation key. The lock around it is held only for the length of a look-up.
//!
//! References are weak: an anchor lives as long as the call of its agent. No reference is dropped inside the index:
//! dropping the last one removes the anchor from the index, which needs the lock.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use aqueduct_core::RunId;

use super::relate::Anchor;
use super::relation::RelationKey;
use super::token::RunToken;

/// Anchors by token, trace and context. Look-ups are by hash; lists are as long as runs share a trace or
/// context.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// A token belongs to one anchor.
    tokens: HashMap<RunToken, Weak<Anchor>>,
    traces: AnchorRefs,
    contexts: AnchorRefs,
}

/// Several anchors may share one trace or context.
type AnchorRefs = HashMap<String, Vec<AnchorRef>>;

/// A reference, with the run of its anchor: that is needed after the anchor is gone.
#[derive(Debug)]
struct AnchorRef {
    anchor: Weak<Anchor>,
    run: RunId,
}

impl Index {
    /// Adds an anchor by its token and by its trace. A trace does not distinguish the agents of a run: it identifies
    /// the anchor of the run's own agent.
    pub(super) fn add(&mut self, anchor: &Arc<Anchor>) {
        if let Some(token) = &anchor.token {
            self.tokens.insert(token.clone(), Arc::downgrade(anchor));
        }
        if let Some(trace) = anchor.trace.as_ref().filter(|_| anchor.source.is_root()) {
            self.traces.entry(trace.clone()).or_default().push(AnchorRef::of(anchor));
        }
    }

    /// Adds an anchor by a context.
    pub(super) fn add_context(&mut self, anchor: &Arc<Anchor>, context: &str) {
        self.contexts.entry(context.to_owned()).or_default().push(AnchorRef::of(anchor));
    }

    /// Returns all anchors with that relation key. The caller decides whether the result is unique; references
    /// must be dropped after the lock is released.
    pub(super) fn find(&self, relation: &RelationKey) -> Vec<Arc<Anchor>> {
        // References whose anchor is gone are skipped; `clear` removes them.
        let alive = |places: Option<&Vec<AnchorRef>>| {
            places.into_iter().flatten().filter_map(|place| place.anchor.upgrade()).collect()
        };
        match relation {
            RelationKey::Token(token) => {
                let anchor = self.tokens.get(&RunToken::read(token)).and_then(Weak::upgrade);
                anchor.into_iter().collect()
            }
            RelationKey::Trace(trace) => alive(self.traces.get(trace)),
            RelationKey::Context(context) => alive(self.contexts.get(context)),
        }
    }

    /// Removes the anchor of an agent that has ended. Returns the contexts that no other agent of its run has,
    /// which the caller unpublishes.
    pub(super) fn forget(&mut self, anchor: &Anchor, contexts: &[String]) -> Vec<String> {
        if let Some(token) = &anchor.token {
            self.tokens.remove(token);
        }
        if let Some(trace) = &anchor.trace {
            clear(&mut self.traces, trace, &anchor.run_id);
        }
        let mut left = contexts.to_vec();
        left.retain(|context| !clear(&mut self.contexts, context, &anchor.run_id));
        left
    }

    #[cfg(test)]
    pub(super) fn has_run(&self, run: &RunId) -> bool {
        let places = self.traces.values().chain(self.contexts.values()).flatten();
        places.into_iter().any(|place| place.run == *run)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.traces.is_empty() && self.contexts.is_empty()
    }
}

impl AnchorRef {
    fn of(anchor: &Arc<Anchor>) -> Self {
        Self { anchor: Arc::downgrade(anchor), run: anchor.run_id.clone() }
    }
}

/// Removes entries whose run has ended. Returns `true` if an entry of the run remains. Entries of other anchors
/// that are gone are removed on the way.
fn clear(places: &mut AnchorRefs, key: &str, run: &RunId) -> bool {
    let Some(list) = places.get_mut(key) else { return false };
    list.retain(|place| place.anchor.strong_count() > 0);
    let is_there = list.iter().any(|place| place.run == *run);
    if list.is_empty() {
        places.remove(key);
    }
    is_there
}
