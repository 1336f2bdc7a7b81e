//! The log in memory: many runs, many watchers.

use std::sync::Arc;

use aqueduct_benches::{measure, print_figure, print_head};
use aqueduct_core::{BlockEvent, RunInfo, StreamContext, Timestamp, Update};
use aqueduct_runlog::{Follow, Lease, LogLimits, MemoryLog, RunLog};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::{FOREVER, meta};

/// Events that are appended in one case, and reads of watchers.
const EVENTS: usize = 200_000;

/// Runs that are appended to in turn.
struct Stage {
    log: Arc<MemoryLog>,
    runs: Vec<(Lease, Vec<Follow>)>,
    event: BlockEvent,
}

impl Stage {
    fn new(runs: usize, watchers: usize) -> Self {
        let log = Arc::new(MemoryLog::new(LogLimits { runs: usize::MAX, ..LogLimits::default() }));
        let open = |run: usize| {
            let meta = meta(format!("run-{run}"), format!("thread-{run}"));
            let lease = log.open(meta, FOREVER).now_or_never()?.ok()?;
            let shared = || Arc::clone(&log) as Arc<dyn RunLog>;
            let watchers = (0..watchers).map(|_| Follow::new(shared(), lease.run_id.clone(), 0)).collect();
            Some((lease, watchers))
        };
        let runs = (0..runs).filter_map(open).collect();
        Self { log, runs, event: delta() }
    }

    /// Appends an event to one run after the other, and reads it by every watcher. Returns the number of events read.
    fn play(&mut self, appends: usize) -> usize {
        let (mut read, count) = (0, self.runs.len());
        for turn in 0..appends {
            let Some((lease, watchers)) = self.runs.get_mut(turn % count) else { break };
            self.log.append(lease, vec![self.event.clone()], Timestamp(1)).now_or_never();
            for watcher in watchers {
                while let Some(Some(Ok(_))) = watcher.next().now_or_never() {
                    read += 1;
                }
            }
        }
        read
    }
}

fn delta() -> BlockEvent {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    context.handle_update(Update::text("some twenty bytes, ok").in_message("message-1")).ok();
    std::iter::from_fn(|| context.poll_event())
        .last()
        .unwrap_or_else(|| BlockEvent::RunStarted(RunInfo::new("t", "r").into()))
}

/// Prints the cost per event while the number of open runs grows.
pub(crate) fn report_runs() {
    print_head("memory log, append and follow, per event");
    for runs in [1, 100, 1_000, 20_000] {
        let figure = measure(EVENTS, || Stage::new(runs, 1), |mut stage| (stage.play(EVENTS), stage));
        print_figure(&format!("{runs} runs"), &figure);
    }
}

/// Prints the cost per event and watcher while the number of watchers grows.
pub(crate) fn report_watchers() {
    print_head("memory log, append and follow, per event and watcher");
    for watchers in [1, 10, 100, 1_000] {
        let appends = EVENTS / watchers;
        let figure = measure(EVENTS, || Stage::new(1, watchers), |mut stage| (stage.play(appends), stage));
        print_figure(&format!("1 run, {watchers} watchers"), &figure);
    }
}
