//! The invariants of a balanced stream, checked event by event.
//!
//! | invariant | rule name |
//! |---|---|
//! | the first event is `RunStarted`, and there is one | `starts-once` |
//! | exactly one terminal event, nothing after it, nothing open before it | `ends-once` |
//! | starts and ends are paired; deltas lie between them and are not empty | `balanced` |
//! | at most one text or thinking is open per lane and track | `one-voice` |
//! | no id is used for two things | `unique-ids` |
//! | a result follows the end of its call (or its call is of an earlier run) | `result-after-call` |
//! | lanes are nested: a lane opens in an open parent, and closes after its children | `lanes-nested` |
//! | an event's lane is open | `lane-open` |
//! | steps are paired by name in their lane | `balanced` |
//! | interrupts are listed if and only if the outcome is `Interrupted` | `interrupts` |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::event::{BlockEvent, BlockHead, EndReason, Lane, SpanKind};
use crate::id::ToolCallId;
use crate::run::RunOutcome;
use crate::update::Track;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {index} breaks `{rule}`: {what}")]
pub struct Violation {
    /// The position of the event, from 0; the number of events if something is missing at the end.
    pub index: usize,
    /// The name of the rule, from the table of this module.
    pub rule: &'static str,
    /// A description of the violation.
    pub what: String,
}

/// Checks the invariants of a stream event by event.
#[derive(Debug, Default)]
pub struct InvariantChecker {
    index: usize,
    started: bool,
    ended: bool,
    ids: HashSet<String>,
    open_blocks: HashMap<String, Arc<BlockHead>>,
    voices: HashMap<(String, Track), String>,
    open_lanes: HashMap<String, Arc<Lane>>,
    steps: HashSet<(String, String)>,
    ended_calls: HashSet<ToolCallId>,
    known_calls: HashSet<ToolCallId>,
}

type Checked = Result<(), (&'static str, String)>;

impl InvariantChecker {
    /// Returns a checker for one run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares tool calls of earlier runs, whose results need no call in this run.
    pub fn with_known_calls(mut self, calls: impl IntoIterator<Item = ToolCallId>) -> Self {
        self.known_calls.extend(calls);
        self
    }

    /// Checks a whole stream.
    pub fn check_all<'a>(events: impl IntoIterator<Item = &'a BlockEvent>) -> Result<(), Violation> {
        let mut checker = Self::new();
        for event in events {
            checker.check(event)?;
        }
        checker.finish()
    }

    /// Checks the next event.
    pub fn check(&mut self, event: &BlockEvent) -> Result<(), Violation> {
        let checked = self.check_event(event);
        let index = self.index;
        self.index += 1;
        checked.map_err(|(rule, what)| Violation { index, rule, what })
    }

    /// Checks that the stream is complete.
    pub fn finish(&self) -> Result<(), Violation> {
        if self.ended {
            return Ok(());
        }
        let what = "the stream has no terminal event".to_owned();
        Err(Violation { index: self.index, rule: "ends-once", what })
    }

    fn check_event(&mut self, event: &BlockEvent) -> Checked {
        if self.ended {
            return Err(("ends-once", format!("{event:?} follows the terminal event")));
        }
        if self.started == matches!(event, BlockEvent::RunStarted(_)) {
            return Err(("starts-once", "the run must start once, and first".to_owned()));
        }
        self.started = true;
        if let Some(lane) = event.lane()
            && !matches!(event, BlockEvent::LaneOpened(_))
        {
            self.check_lane(lane)?;
        }
        match event {
            BlockEvent::LaneOpened(lane) => self.lane_opened(lane),
            BlockEvent::LaneClosed { lane, .. } => self.lane_closed(lane),
            BlockEvent::BlockStarted(block) => self.block_started(block),
            BlockEvent::BlockDelta { block, delta } if delta.is_empty() => {
                Err(("balanced", format!("an empty delta for {:?}", block.id)))
            }
            BlockEvent::BlockDelta { block, .. } | BlockEvent::ThinkingEncrypted { block, .. } => {
                self.block_open(block)
            }
            BlockEvent::BlockEnded { block, reason } => self.block_ended(block, *reason),
            BlockEvent::ToolResult(result) => {
                self.new_id(result.id.as_str())?;
                let known =
                    self.ended_calls.contains(&result.call_id) || self.known_calls.contains(&result.call_id);
                require(known, "result-after-call", || format!("no ended call {:?}", result.call_id))
            }
            BlockEvent::StepStarted { lane, name } => {
                let fresh = self.steps.insert((lane.id.to_string(), name.to_string()));
                require(fresh, "balanced", || format!("step {name:?} is open already"))
            }
            BlockEvent::StepFinished { lane, name } => {
                let open = self.steps.remove(&(lane.id.to_string(), name.to_string()));
                require(open, "balanced", || format!("step {name:?} is not open"))
            }
            BlockEvent::RunFinished(finished) => {
                let listed = !finished.interrupts.is_empty();
                let agrees = listed == (finished.outcome == RunOutcome::Interrupted);
                require(agrees, "interrupts", || format!("{:?} with {listed}", finished.outcome))?;
                self.run_ended()
            }
            BlockEvent::RunFailed(_) => self.run_ended(),
            _ => Ok(()),
        }
    }

    fn check_lane(&self, lane: &Lane) -> Checked {
        let open = lane.is_root() || self.open_lanes.contains_key(lane.id.as_str());
        require(open, "lane-open", || format!("lane {:?} is not open", lane.id))
    }

    fn lane_opened(&mut self, lane: &Arc<Lane>) -> Checked {
        self.new_id(lane.id.as_str())?;
        match &lane.parent {
            Some(parent) => self.check_lane(parent).map_err(|(_, what)| ("lanes-nested", what))?,
            None => return Err(("lanes-nested", "the root lane has no opening".to_owned())),
        }
        self.open_lanes.insert(lane.id.to_string(), Arc::clone(lane));
        Ok(())
    }

    fn lane_closed(&mut self, lane: &Arc<Lane>) -> Checked {
        let child = self.open_lanes.values().find(|l| l.parent.as_ref().is_some_and(|p| p.id == lane.id));
        require(child.is_none(), "lanes-nested", || format!("{child:?} is still open"))?;
        let block = self.open_blocks.values().find(|b| b.lane.id == lane.id);
        require(block.is_none(), "balanced", || format!("{block:?} is still open"))?;
        let step = self.steps.iter().find(|(id, _)| *id == lane.id.as_str());
        require(step.is_none(), "balanced", || format!("step {step:?} is still open"))?;
        self.open_lanes.remove(lane.id.as_str());
        Ok(())
    }

    fn block_started(&mut self, block: &Arc<BlockHead>) -> Checked {
        self.new_id(block.id.as_str())?;
        if block.kind != SpanKind::ToolUse {
            let voice = (block.lane.id.to_string(), block.origin.track.clone());
            if let Some(other) = self.voices.insert(voice, block.id.to_string()) {
                return Err(("one-voice", format!("{:?} starts while {other:?} is open", block.id)));
            }
        }
        self.open_blocks.insert(block.id.to_string(), Arc::clone(block));
        Ok(())
    }

    fn block_open(&self, block: &BlockHead) -> Checked {
        let open = self.open_blocks.contains_key(block.id.as_str());
        require(open, "balanced", || format!("block {:?} is not open", block.id))
    }

    fn block_ended(&mut self, block: &Arc<BlockHead>, reason: EndReason) -> Checked {
        self.block_open(block)?;
        self.open_blocks.remove(block.id.as_str());
        match block.kind {
            SpanKind::ToolUse if reason != EndReason::Replaced => {
                self.ended_calls.insert(block.tool_call_id());
            }
            SpanKind::ToolUse => {}
            _ => {
                self.voices.remove(&(block.lane.id.to_string(), block.origin.track.clone()));
            }
        }
        Ok(())
    }

    fn run_ended(&mut self) -> Checked {
        let open = self.open_blocks.len() + self.open_lanes.len() + self.steps.len();
        require(open == 0, "ends-once", || {
            format!("{:?}, {:?}, {:?} are open", self.open_blocks, self.open_lanes, self.steps)
        })?;
        self.ended = true;
        Ok(())
    }

    fn new_id(&mut self, id: &str) -> Checked {
        require(!id.is_empty(), "unique-ids", || "an empty id".to_owned())?;
        let fresh = self.ids.insert(id.to_owned());
        require(fresh, "unique-ids", || format!("{id:?} is used twice"))
    }
}

fn require(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err((rule, what())) }
}
