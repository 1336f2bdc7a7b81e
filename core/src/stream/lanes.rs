//! The lanes of a run: open lanes, their nesting, and the state of each.
//!
//! A lane opens with its first content, after its ancestors; it closes after everything inside it. The state of a closed
//! lane is kept up to a limit, so that a late aggregate adds no content. New content of the same agent opens another
//! lane, because an invocation that ended stays ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytestring::ByteString;

use super::outlet::Outlet;
use super::steps::Steps;
use super::text::TextSpans;
use super::tools::{CallKey, ToolCalls};
use crate::block::ToolResult;
use crate::error::Error;
use crate::event::{BlockEvent, Lane};
use crate::id::{BlockId, LaneId, MessageId, ToolCallId};
use crate::recent::RecentMap;
use crate::run::LaneOutcome;
use crate::source::Source;

/// The state of one lane, kept up to a limit after it has closed.
#[derive(Debug)]
pub(super) struct LaneState {
    /// Set while the lane is open.
    lane: Option<Arc<Lane>>,
    opened: u64,
    /// Open sub-lanes in the order of opening.
    children: BTreeMap<u64, ByteString>,
    pub(super) texts: TextSpans,
    pub(super) tools: ToolCalls,
    pub(super) steps: Steps,
    /// Block ids of progress cards, for later changes of the cards.
    pub(super) activities: RecentMap<MessageId, BlockId>,
}

impl LaneState {
    fn new(lane: Option<Arc<Lane>>) -> Self {
        Self {
            lane,
            opened: 0,
            children: BTreeMap::new(),
            texts: TextSpans::default(),
            tools: ToolCalls::default(),
            steps: Steps::default(),
            activities: RecentMap::default(),
        }
    }

    /// Ends everything open in the lane: blocks in the order of opening, then steps from the inside out.
    fn drain(&mut self, lane: &Arc<Lane>, out: &mut Outlet) {
        let mut ends = self.texts.drain(out);
        ends.extend(self.tools.drain(lane, out));
        ends.sort_by_key(|(opened, _)| *opened);
        for (_, end) in ends {
            out.emit(end);
        }
        self.steps.drain(lane, out);
    }
}

/// All lanes of a run, by the path of their source.
#[derive(Debug)]
pub(super) struct LaneTable {
    root: LaneState,
    root_lane: Arc<Lane>,
    open: HashMap<ByteString, LaneState, foldhash::fast::RandomState>,
    closed: RecentMap<ByteString, LaneState>,
}

impl LaneTable {
    pub(super) fn new(root_id: LaneId) -> Self {
        let lane = Lane { id: root_id, source: Source::root(), parent: None, parent_call: None };
        let root_lane = Arc::new(lane);
        Self {
            root: LaneState::new(Some(Arc::clone(&root_lane))),
            root_lane,
            open: HashMap::default(),
            closed: RecentMap::default(),
        }
    }

    pub(super) fn root_lane(&self) -> &Arc<Lane> {
        &self.root_lane
    }

    /// Returns the state of a source's lane if it is open.
    pub(super) fn open_state(&mut self, source: &Source) -> Option<&mut LaneState> {
        let state = if source.is_root() { &mut self.root } else { self.open.get_mut(source.path())? };
        state.lane.is_some().then_some(state)
    }

    /// Returns the lane of a source and its state if it is open.
    pub(super) fn open_mut(&mut self, source: &Source) -> Option<(Arc<Lane>, &mut LaneState)> {
        let state = self.open_state(source)?;
        let lane = state.lane.clone()?;
        Some((lane, state))
    }

    /// Returns the state of a source's lane, open or closed. Returns `None` if the source has no lane or it was forgotten.
    pub(super) fn known(&self, source: &Source) -> Option<&LaneState> {
        if source.is_root() {
            return Some(&self.root);
        }
        self.open.get(source.path()).or_else(|| self.closed.get(&ByteString::from(source.path())))
    }

    /// Returns the state of a source's lane for changes, as [`known`](Self::known).
    pub(super) fn known_mut(&mut self, source: &Source) -> Option<&mut LaneState> {
        if source.is_root() {
            return Some(&mut self.root);
        }
        let closed = &mut self.closed;
        self.open.get_mut(source.path()).or_else(|| closed.get_mut(&ByteString::from(source.path())))
    }

    /// Opens the lane of a source after its ancestors. Does nothing if it is open.
    pub(super) fn open(
        &mut self,
        source: &Source,
        out: &mut Outlet,
    ) -> Result<(Arc<Lane>, &mut LaneState), Error> {
        self.check_limits(source, out)?;
        self.ensure_open(source, out)?;
        let root_lane = Arc::clone(&self.root_lane);
        let state = if source.is_root() { None } else { self.open.get_mut(source.path()) };
        // `ensure_open` has inserted the state; the root is always open.
        let state = state.unwrap_or(&mut self.root);
        let lane = state.lane.clone().unwrap_or(root_lane);
        Ok((lane, state))
    }

    /// Checks whether `source` and its missing ancestors can open within the limits of depth and number. Does nothing if
    /// the lane of `source` is open.
    fn check_limits(&self, source: &Source, out: &Outlet) -> Result<(), Error> {
        let path = source.path();
        if source.is_root() || self.open.contains_key(path) {
            return Ok(());
        }
        let (mut depth, mut open, mut at) = (0, self.open.len(), source);
        while let Some(parent) = at.parent() {
            depth += 1;
            Outlet::check(depth, out.limits.lane_depth, "lane_depth", "levels of sub-agents", path)?;
            open += usize::from(!self.open.contains_key(at.path()));
            at = parent;
        }
        Outlet::check(open, out.limits.open_lanes, "open_lanes", "open lanes", path)
    }

    /// Opens the missing lanes from the outermost to `source`, whose limits are checked.
    fn ensure_open(&mut self, source: &Source, out: &mut Outlet) -> Result<(), Error> {
        let Some(parent) = source.parent() else { return Ok(()) };
        if self.open.contains_key(source.path()) {
            return Ok(());
        }
        self.ensure_open(parent, out)?;

        let (parent_lane, parent_state) = self.open(parent, out)?;
        let parent_call = source.parent_call().and_then(|call| parent_state.tools.outgoing(call));
        let lane = Arc::new(Lane {
            id: LaneId::new(out.mint()),
            source: source.clone(),
            parent: Some(parent_lane),
            parent_call,
        });
        out.emit(BlockEvent::LaneOpened(Arc::clone(&lane)));
        self.enter(lane, out);
        Ok(())
    }

    /// Inserts an open lane below its parent, which is open.
    pub(super) fn enter(&mut self, lane: Arc<Lane>, out: &mut Outlet) {
        let opened = out.next_opened();
        let key = ByteString::from(lane.source.path());
        if let Some(parent) = lane.source.parent()
            && let Some((_, parent)) = self.open_mut(parent)
        {
            parent.children.insert(opened, key.clone());
        }
        let mut state = self.closed.remove(&key).unwrap_or_else(|| LaneState::new(None));
        state.lane = Some(lane);
        state.opened = opened;
        state.texts.reopen();
        state.tools.reopen();
        state.activities = RecentMap::default();
        self.open.insert(key, state);
    }

    /// Closes the lane of a source after its sub-lanes. Does nothing if it is not open.
    pub(super) fn close(&mut self, source: &Source, outcome: LaneOutcome, out: &mut Outlet) {
        if let Some(parent) = source.parent()
            && let Some(opened) = self.open.get(source.path()).map(|state| state.opened)
        {
            if let Some((_, parent)) = self.open_mut(parent) {
                parent.children.remove(&opened);
            }
            self.close_path(source.path(), outcome, out);
        }
    }

    /// Closes all lanes; the blocks of the root end last.
    pub(super) fn close_all(&mut self, outcome: &LaneOutcome, out: &mut Outlet) {
        for (_, path) in std::mem::take(&mut self.root.children) {
            self.close_path(&path, outcome.clone(), out);
        }
        self.root.drain(&Arc::clone(&self.root_lane), out);
    }

    /// Closes a lane after its sub-lanes, and keeps its state.
    fn close_path(&mut self, path: &str, outcome: LaneOutcome, out: &mut Outlet) {
        let Some((key, mut state)) = self.open.remove_entry(path) else { return };
        for (_, child) in std::mem::take(&mut state.children) {
            self.close_path(&child, inherited(&outcome), out);
        }
        if let Some(lane) = state.lane.take() {
            state.drain(&lane, out);
            out.emit(BlockEvent::LaneClosed { lane, outcome: Box::new(outcome) });
        }
        self.closed.insert(key, state, out.limits.remembered_lanes);
    }

    /// Returns the source, among `source` and its ancestors, that made the call of a result.
    pub(super) fn call_of_result(&self, source: &Source, result: &ToolResult) -> Option<(Source, CallKey)> {
        let mut at = Some(source);
        while let Some(source) = at {
            if let Some(key) = self.known(source).and_then(|state| state.tools.key_of_result(result)) {
                return Some((source.clone(), key));
            }
            // A result without id is matched in its own lane only: in another lane the oldest call would be a guess.
            result.id.as_ref()?;
            at = source.parent();
        }
        None
    }

    /// Returns the emitted id of a call that `source` or one of its ancestors made.
    pub(super) fn outgoing_call(&self, source: &Source, call: &ToolCallId) -> Option<ToolCallId> {
        let mut at = Some(source);
        while let Some(source) = at {
            if let Some(id) = self.known(source).and_then(|state| state.tools.outgoing(call)) {
                return Some(id);
            }
            at = source.parent();
        }
        None
    }

    /// Returns the emitted id of a message, call or result of `source` or one of its ancestors, and that source.
    pub(super) fn emitted_id(&self, source: &Source, id: &str) -> Option<(Source, String)> {
        let mut at = Some(source);
        while let Some(source) = at {
            if let Some(state) = self.known(source)
                && let Some(lane) = &state.lane
                && let Some(emitted) = state.texts.emitted(id).or_else(|| state.tools.emitted(id, lane))
            {
                return Some((source.clone(), emitted.to_string()));
            }
            at = source.parent();
        }
        None
    }

    /// Returns the calls of the root agent without result.
    pub(super) fn pending_calls(&self) -> Vec<ToolCallId> {
        self.root.tools.pending().collect()
    }
}

/// Returns the outcome of a lane that closes because its parent closes.
fn inherited(parent: &LaneOutcome) -> LaneOutcome {
    match parent {
        LaneOutcome::Success(_) => LaneOutcome::Success(None),
        other => other.clone(),
    }
}
