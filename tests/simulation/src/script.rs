//! What the agents of a world do: a script per run, a function of the world's seed and the run's id.

use std::time::Duration;

use aqueduct_core::{RunOutcome, Source, SourceEvent, Update};
use serde_json::json;

use crate::random::Random;

/// How a script ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With success.
    Success,
    /// With a failure that the agent reports.
    Failure,
    /// Its stream ends without a word.
    Cut,
    /// The agent works until it receives a cancel.
    Endless,
}

/// One event, and when it is sent after the start of the work.
#[derive(Debug, Clone)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// What.
    pub event: SourceEvent,
}

/// The work of an agent on one run.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its events, in order.
    pub steps: Vec<Step>,
    /// How it ends.
    pub ending: Ending,
    /// How long the agent takes to stop after a cancel.
    pub leaves_in: Duration,
}

impl Script {
    /// Returns the script of a run.
    pub fn of(seed: u64, run: &str) -> Self {
        let mut random = Random::new(seed, &format!("script {run}"));
        let steps = 2 + random.below(24);
        let pace = random.pick([20, 200, 900]);
        let mut at = Duration::ZERO;
        let mut made = Vec::new();
        for n in 0..steps {
            at += random.millis(0, pace);
            made.extend(events(run, n, &mut random).into_iter().map(|event| Step { at, event }));
        }
        let ending = match random.below(10) {
            0 => Ending::Failure,
            1 => Ending::Cut,
            2 => Ending::Endless,
            _ => Ending::Success,
        };
        Self { steps: made, ending, leaves_in: random.millis(0, 3_000) }
    }

    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        self.steps.iter().filter_map(|step| answer(&step.event)).collect()
    }

    /// Returns the last event; `None` for a stream that is cut.
    pub fn last(&self) -> Option<SourceEvent> {
        match self.ending {
            Ending::Success => Some(SourceEvent::finished()),
            Ending::Failure => Some(SourceEvent::failed("scripted", "the script ends so")),
            Ending::Cut | Ending::Endless => None,
        }
    }
}

fn answer(event: &SourceEvent) -> Option<String> {
    match event {
        SourceEvent::Update(update) if update.source.is_root() => match &update.block {
            aqueduct_core::ContentBlock::Text(text) => Some(text.text.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// The end that an agent reports after a cancel.
pub fn stopped() -> SourceEvent {
    SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None }
}

fn events(run: &str, n: u64, random: &mut Random) -> Vec<SourceEvent> {
    let message = format!("{run}-m{}", n / 5);
    let helper = Source::root().child("helper");
    match random.below(12) {
        0 => vec![Update::thinking(format!("think {n} ")).in_message(format!("{message}-t")).into()],
        1 => {
            let call = format!("{run}-c{n}");
            let used = Update::tool_use(call.clone(), "search", json!({ "n": n })).last();
            vec![used.into(), Update::tool_result(call, format!("found {n}")).into()]
        }
        2 => {
            let text = Update::text(format!("help {n} ")).from_source(&helper).intermediate();
            vec![text.in_message(format!("{run}-h{n}")).into()]
        }
        3 => vec![SourceEvent::StateSnapshot { source: Source::root(), state: json!({ "step": n }) }],
        _ => vec![Update::text(format!("{run}.{n} ")).in_message(message).into()],
    }
}
