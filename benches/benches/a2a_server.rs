//! An agent behind A2A: the cost per event in tasks of 10 to 100,000 events, and for 1 to 1,000 watchers.
//!
//! Runs are in memory; measured are the folding of the task, the items of every watcher and their JSON. Flat means: the cost
//! per event does not grow with the length of the task, nor the cost per event and watcher with the number of watchers.

use aqueduct_benches::{measure, print_figure, print_head};
use aqueduct_benches_counts::Failure;
use aqueduct_benches_counts::task::Task;
use aqueduct_core::{BlockEvent, RunInfo, RunOutcome, SourceEvent, StreamContext, Update};

/// Chunks that all watchers read together in one case.
const CHUNKS: usize = 200_000;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut failed = None;
    let mut case = |name: String, chunks: usize, watchers: usize| {
        let rounds = (CHUNKS / chunks / watchers).max(1);
        let prepare = || (0..rounds).map(|_| events(chunks)).collect::<Vec<_>>();
        let figure = measure(chunks * watchers * rounds, prepare, |runs| {
            for events in runs {
                if let Err(error) = runtime.block_on(play(events, chunks, watchers)) {
                    failed = Some(error);
                }
            }
        });
        print_figure(&name, &figure);
    };
    print_head("A2A server, per chunk and watcher, in CPU time");
    for chunks in [10, 100, 1_000, 10_000, 100_000] {
        case(format!("a task of {chunks} chunks, one watcher"), chunks, 1);
    }
    for watchers in [1, 10, 100, 1_000] {
        case(format!("a task of 1000 chunks, {watchers} watchers"), 1_000, watchers);
    }
    failed.map_or(Ok(()), Err)
}

/// Runs one task for all its watchers.
async fn play(events: Vec<BlockEvent>, chunks: usize, watchers: usize) -> Result<(), Failure> {
    let read = Task::start(events.into(), watchers).await?.play().await;
    if read.iter().any(|payloads| *payloads < chunks) {
        return Err(format!("{chunks} chunks, payloads of the watchers: {read:?}").into());
    }
    Ok(())
}

fn events(chunks: usize) -> Vec<BlockEvent> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    for _ in 0..chunks {
        context.handle_update(Update::text("some twenty bytes, ok").in_message("message-1")).ok();
    }
    context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None }).ok();
    std::iter::from_fn(|| context.poll_event()).collect()
}
