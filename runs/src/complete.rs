//! [`Completion`]: a run to its end, as one value instead of a stream.
//!
//! ```text
//! start ──► events ──► blocks in the order of their start (a replaced one is dropped) ──► MessageMerger ──► Response
//!              └ terminal event ──► RunEnd: how it ended, as it is
//! ```
//!
//! The text of a run is in memory until its end, bounded by the limits of the log and by
//! [`MergeLimits`](aqueduct_core::merge::MergeLimits).

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::block::ToolResult;
use aqueduct_core::event::{
    BlockHead, CustomEvent, EndReason, Origin, RunFailed, RunFinished, ToolResultEvent,
};
use aqueduct_core::merge::MergeSettings;
use aqueduct_core::service::{Caller, RefusalKind, RunService as _, ServiceError};
use aqueduct_core::{
    BlockEvent, BlockId, Channel, ContentBlock, Lane, MessageMerger, Mode, Response, ResponseId, RunFailure,
    RunId, RunInput, RunOutcome, SpanKind, Update,
};
use futures_util::StreamExt as _;

use crate::runs::Runs;

/// A run that has ended, as a value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Completion {
    /// The run.
    pub run_id: RunId,
    /// What the agents of the run sent: one response id, messages grouped by agent, usage.
    pub response: Response,
    /// How the run ended.
    pub end: RunEnd,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunEnd {
    /// It finished, was cancelled, or waits for replies to its interrupts.
    Finished(Box<RunFinished>),
    /// It failed.
    Failed(Box<RunFailed>),
}

impl Completion {
    /// Returns the answer of the run.
    pub fn text(&self) -> String {
        self.response.text()
    }

    /// Returns `true` if the run succeeded.
    pub fn is_success(&self) -> bool {
        matches!(&self.end, RunEnd::Finished(end) if end.outcome == RunOutcome::Success)
    }

    /// Returns why the run failed; `None` if it did not.
    pub fn failure(&self) -> Option<&RunFailure> {
        match &self.end {
            RunEnd::Failed(end) => Some(&end.failure),
            RunEnd::Finished(_) => None,
        }
    }
}

impl Runs {
    /// Runs an agent to the end of its run, and returns all of it as one value. Dropping the future stops watching the run.
    ///
    /// # Errors
    ///
    /// The run could not be started, its log was lost, or it is too long to be merged. A run that failed is no error:
    /// [`Completion::end`] says so.
    pub async fn complete(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> Result<Completion, ServiceError> {
        let mut started = self.start(caller, agent, input).await?;
        let mut turn = TurnBlocks::default();
        while let Some(event) = started.events.next().await {
            let end = match event.event {
                BlockEvent::RunFinished(end) => RunEnd::Finished(end),
                BlockEvent::RunFailed(end) => RunEnd::Failed(end),
                event => {
                    turn.handle_event(event);
                    continue;
                }
            };
            let response = turn.merge(&started.run_id, &end)?;
            return Ok(Completion { run_id: started.run_id, response, end });
        }
        let message = format!("run {} was lost before its end: watch it again", started.run_id);
        Err(ServiceError::new(RefusalKind::Unavailable, message))
    }
}

/// The blocks of a turn, in the order of their start.
#[derive(Debug, Default)]
struct TurnBlocks {
    pieces: Vec<Piece>,
    /// Where open blocks are among the pieces.
    open: HashMap<BlockId, usize>,
}

#[derive(Debug)]
enum Piece {
    Span {
        head: Arc<BlockHead>,
        text: String,
        encrypted: Option<String>,
    },
    Result(Box<ToolResultEvent>),
    Custom(Box<CustomEvent>),
    /// A block whose text another one has taken the place of.
    Replaced,
}

impl TurnBlocks {
    fn handle_event(&mut self, event: BlockEvent) {
        match event {
            BlockEvent::BlockStarted(head) => {
                self.open.insert(head.id.clone(), self.pieces.len());
                self.pieces.push(Piece::Span { head, text: String::new(), encrypted: None });
            }
            BlockEvent::BlockDelta { block, delta } => {
                if let Some(Piece::Span { text, .. }) = self.piece(&block) {
                    text.push_str(&delta);
                }
            }
            BlockEvent::ThinkingEncrypted { block, value } => {
                if let Some(Piece::Span { encrypted, .. }) = self.piece(&block) {
                    *encrypted = Some(value.to_string());
                }
            }
            BlockEvent::BlockEnded { block, reason: EndReason::Replaced } => {
                if let Some(piece) = self.piece(&block) {
                    *piece = Piece::Replaced;
                }
            }
            BlockEvent::ToolResult(result) => self.pieces.push(Piece::Result(result)),
            BlockEvent::Custom(custom) => self.pieces.push(Piece::Custom(custom)),
            _ => {}
        }
    }

    fn piece(&mut self, block: &BlockHead) -> Option<&mut Piece> {
        let at = self.open.get(&block.id)?;
        self.pieces.get_mut(*at)
    }

    fn merge(self, run: &RunId, end: &RunEnd) -> Result<Response, ServiceError> {
        let too_long = |error: aqueduct_core::merge::MergeError| {
            ServiceError::new(RefusalKind::Internal, format!("run {run} cannot be merged: {error}"))
        };
        let mut merger = MessageMerger::new(MergeSettings::default());
        let mut id = None;
        for update in self.pieces.into_iter().filter_map(Piece::into_update) {
            id = id.or_else(|| update.response_id.clone());
            merger.handle_update(update).map_err(too_long)?;
        }
        let id = id.unwrap_or_else(|| ResponseId::new(run.as_bytes().clone()));
        let mut response = merger.finish(id);
        response.usage = match end {
            RunEnd::Finished(end) => end.usage.clone(),
            RunEnd::Failed(end) => end.usage.clone(),
        };
        Ok(response)
    }
}

impl Piece {
    /// Returns the whole block as one update.
    fn into_update(self) -> Option<Update> {
        let (block, lane, channel, origin) = match self {
            Self::Span { head, text, encrypted } => {
                let block = match head.kind {
                    SpanKind::Text => ContentBlock::text(text),
                    SpanKind::Thinking => thinking(text, encrypted),
                    SpanKind::ToolUse => {
                        ContentBlock::tool_use(head.id.as_bytes().clone(), head.tool_name.clone(), text)
                    }
                };
                let mut update = placed(block, &head.lane, head.channel, &head.origin);
                update.role = head.role;
                return Some(update);
            }
            Self::Result(result) => {
                let ToolResultEvent { lane, call_id, tool_name, output, is_error, origin, .. } = *result;
                let name = Some(tool_name).filter(|name| !name.is_empty());
                let result = ToolResult { id: Some(call_id), name, output, is_error };
                (ContentBlock::ToolResult(result), lane, Channel::Answer, origin)
            }
            Self::Custom(custom) => {
                let CustomEvent { lane, name, value, channel, origin, .. } = *custom;
                (ContentBlock::custom(name, value), lane, channel, origin)
            }
            Self::Replaced => return None,
        };
        Some(placed(block, &lane, channel, &origin))
    }
}

fn thinking(text: String, encrypted: Option<String>) -> ContentBlock {
    let mut block = ContentBlock::thinking(text);
    if let (ContentBlock::Thinking(thinking), Some(encrypted)) = (&mut block, encrypted) {
        thinking.encrypted = Some(encrypted.into());
    }
    block
}

fn placed(block: ContentBlock, lane: &Lane, channel: Channel, origin: &Origin) -> Update {
    let mut update = Update::new(block).from_source(&lane.source);
    update.channel = channel;
    update.mode = Mode::Append;
    update.message_id.clone_from(&origin.message_id);
    update.response_id.clone_from(&origin.response_id);
    update.created_at = origin.created_at;
    if let Some(metadata) = &origin.metadata {
        update.details_mut().metadata = Some(Arc::clone(metadata));
    }
    update
}
