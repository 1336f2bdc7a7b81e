//! A run as one value: what `as_agent().run()` should have returned.
//!
//! The framework's own merge cuts interleaved agents into pieces and doubles what an aggregator repeats. Here the
//! events of a run go through core's [`MessageMerger`]: messages grouped by agent, each once, the answer told apart
//! from the work, with usage, outcome and whatever waits for a human.
//!
//! The whole text is held, within [`MergeLimits`](aqueduct_core::merge::MergeLimits).

use std::collections::HashMap;

use aqueduct_core::merge::{MergeError, MergeSettings};
use aqueduct_core::{
    Channel, ContentBlock, Interrupt, MessageId, MessageMerger, Response, ResponseId, RunFailure, RunOutcome,
    Source, SourceEvent, Update,
};

/// Before the names that messages without id have while they are merged. No id of a source begins with NUL.
const UNNAMED: char = '\0';

/// A run as one value.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedRun {
    /// What was said.
    pub response: Response,
    /// How the run ended.
    pub outcome: Result<RunOutcome, Box<RunFailure>>,
    /// What waits for a human.
    pub interrupts: Vec<Interrupt>,
}

/// Merges the events of one run.
#[derive(Debug)]
pub struct RunMerger {
    merger: MessageMerger,
    interrupts: Vec<Interrupt>,
    outcome: Option<Result<RunOutcome, Box<RunFailure>>>,
    /// The message without id that each agent is in, per channel.
    unnamed: HashMap<(String, Channel), u64>,
    count: u64,
}

impl RunMerger {
    /// An empty merge.
    pub fn new(settings: MergeSettings) -> Self {
        Self {
            merger: MessageMerger::new(settings),
            interrupts: Vec::new(),
            outcome: None,
            unnamed: HashMap::new(),
            count: 0,
        }
    }

    /// Takes the next event of the run.
    pub fn handle_event(&mut self, event: SourceEvent) -> Result<(), MergeError> {
        match event {
            SourceEvent::Update(update) => self.handle_update(update)?,
            SourceEvent::Usage { source, usage } => {
                let mut update = Update::text("").from_source(&source);
                update.details_mut().usage = Some(usage);
                self.merger.handle_update(update)?;
            }
            SourceEvent::InterruptRequested { interrupt, .. } => self.interrupts.push(interrupt),
            SourceEvent::Finished { outcome, .. } => self.outcome = Some(Ok(outcome)),
            SourceEvent::Failed(failure) => self.outcome = Some(Err(Box::new(failure))),
            // Lanes and steps are how it was made, not what was said.
            _ => {}
        }
        Ok(())
    }

    /// True once the run has ended: the next event belongs to the next run.
    pub fn is_ended(&self) -> bool {
        self.outcome.is_some()
    }

    /// The run as one value, under its one response id. A run that never said how it ended has failed.
    pub fn finish(self, response_id: ResponseId) -> MergedRun {
        let mut response = self.merger.finish(response_id);
        for message in &mut response.messages {
            message.id = message.id.take().filter(|id| !id.as_str().starts_with(UNNAMED));
        }
        let cut = || {
            let message = "the workflow's events ended without saying how the run ended";
            Err(Box::new(RunFailure::new(RunFailure::UPSTREAM_ENDED, message)))
        };
        MergedRun { response, outcome: self.outcome.unwrap_or_else(cut), interrupts: self.interrupts }
    }

    /// The merger joins what has no id, and cannot know where one message ends and the next begins: `last` tells.
    fn handle_update(&mut self, mut update: Update) -> Result<(), MergeError> {
        if update.message_id.is_none() && matches!(update.block, ContentBlock::Text(_)) {
            let (source, channel, last) = (update.source.clone(), update.channel, update.last);
            update.message_id = Some(self.name(&source, channel));
            self.merger.handle_update(update)?;
            if last {
                self.unnamed.remove(&(source.path().to_owned(), channel));
            }
            return Ok(());
        }
        self.merger.handle_update(update)
    }

    fn name(&mut self, source: &Source, channel: Channel) -> MessageId {
        let count = &mut self.count;
        let number = self.unnamed.entry((source.path().to_owned(), channel)).or_insert_with(|| {
            *count += 1;
            *count
        });
        MessageId::new(format!("{UNNAMED}{number}"))
    }
}

impl Default for RunMerger {
    fn default() -> Self {
        Self::new(MergeSettings::default())
    }
}
