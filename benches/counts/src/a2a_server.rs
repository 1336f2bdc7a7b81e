//! An agent behind A2A: the folding of a task, the items of every watcher and their JSON, per chunk and watcher.

use aqueduct_benches_counts::Failure;
use aqueduct_benches_counts::task::Task;

use crate::stream::deltas;
use crate::{case, is_wanted};

/// Chunks of a task.
const CHUNKS: usize = 1_000;

pub(crate) fn run() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut failed = None;
    for watchers in [1, 10] {
        if !is_wanted(&format!("A2A server, {watchers} watcher(s), per chunk and watcher")) {
            continue;
        }
        let mut task = Some(runtime.block_on(Task::start(deltas(CHUNKS).into(), watchers))?);
        case(CHUNKS * watchers, || {
            let Some(task) = task.take() else { return };
            let read = runtime.block_on(task.play());
            if read.iter().any(|payloads| *payloads < CHUNKS) {
                failed = Some(format!("{CHUNKS} chunks, payloads of the watchers: {read:?}"));
            }
        });
    }
    failed.map_or(Ok(()), |failed| Err(failed.into()))
}
