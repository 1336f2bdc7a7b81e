//! The run engine: many agents, many threads.

use std::sync::Arc;

use aqueduct_benches::{measure, print_figure, print_head};
use aqueduct_core::service::Caller;
use aqueduct_core::{
    BlockEvent, RunInfo, RunInput, RunOutcome, SourceEvent, StreamContext, Timestamp, Update,
};
use aqueduct_runlog::{LogLimits, MemoryLog, RunLog};
use aqueduct_runs::{Runs, Settings};
use futures_util::{FutureExt as _, stream};

use crate::{FOREVER, Failure, meta};

/// Runs of one case.
const RUNS: usize = 5_000;
/// Texts of a run.
const TEXTS: usize = 10;

fn agent(_: RunInput) -> impl futures_util::Stream<Item = Update> + Send + 'static {
    stream::iter((0..TEXTS).map(|_| Update::text("some twenty bytes, ok").in_message("message-1")))
}

fn log() -> MemoryLog {
    MemoryLog::new(LogLimits { runs: usize::MAX, bytes: usize::MAX, ..LogLimits::default() })
}

/// Plays [`RUNS`] runs, one after the other.
async fn play(runs: &Runs, agents: usize, threads: usize) -> Result<(), Failure> {
    let caller = Caller::default();
    for run in 0..RUNS {
        // The runs are spread over all threads.
        let thread = run.wrapping_mul(7_919) % threads;
        let input = RunInput::prompt(format!("thread-{thread}"), format!("new-{run}"), "go");
        runs.complete(&caller, &format!("agent-{}", run % agents), input).await?;
    }
    Ok(())
}

/// Prints the cost of a run while the number of agents grows.
pub(crate) fn report_agents() -> Result<(), Failure> {
    print_head("run engine, per run of ten texts");
    report("agents", &[1, 10, 100, 1_000], |count| (count, 1_000_000, 0))
}

/// Prints the cost of a run while the number of threads in the log grows.
pub(crate) fn report_threads() -> Result<(), Failure> {
    print_head("run engine, per run of ten texts in a thread that the log knows");
    report("threads", &[1_000, 10_000, 100_000, 1_000_000], |count| (1, count, count))
}

/// Prints one row per count. `shape` returns the numbers of agents, threads, and runs that the log has before.
fn report(
    what: &str,
    counts: &[usize],
    shape: impl Fn(usize) -> (usize, usize, usize),
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut failed = None;
    for &count in counts {
        let (agents, threads, held) = shape(count);
        let prepare = || {
            // The engine spawns its tasks on the runtime.
            let _entered = runtime.enter();
            engine(agents, held)
        };
        let figure = measure(RUNS, prepare, |runs| {
            if let Err(error) = runtime.block_on(play(&runs, agents, threads)) {
                failed = Some(error);
            }
            runs
        });
        print_figure(&format!("{count} {what}"), &figure);
    }
    failed.map_or(Ok(()), Err)
}

/// Returns an engine whose log holds that many ended runs, each in its own thread.
fn engine(agents: usize, held: usize) -> Runs {
    let (log, events) = (Arc::new(log()), ended());
    for run in 0..held {
        let meta = meta(format!("run-{run}"), format!("thread-{run}"));
        if let Some(Ok(lease)) = log.open(meta, FOREVER).now_or_never() {
            log.append(&lease, events.clone(), Timestamp(1)).now_or_never();
        }
    }
    let shared: Arc<dyn RunLog> = log;
    let builder = Runs::builder().shared_log(shared).settings(Settings::default().with_limit(usize::MAX));
    (0..agents).fold(builder, |builder, index| builder.agent(format!("agent-{index}"), agent)).build()
}

fn ended() -> Vec<BlockEvent> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None }).ok();
    std::iter::from_fn(|| context.poll_event()).collect()
}
