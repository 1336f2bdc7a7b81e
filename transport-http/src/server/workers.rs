//! [`Workers`]: threads with a runtime each, over which a server spreads its connections.
//!
//! Why: the task of a connection and the tasks that it spawns wake each other for every event. On a runtime whose threads
//! steal tasks from each other, an idle thread is woken to take one of them, and the event changes threads: that costs more
//! than the event (`docs/performance.md`). A runtime of one thread keeps the tasks of a connection together.
//!
//! ```text
//! accept ──► the worker with the fewest open connections ──► serve: all tasks that are spawned there stay on its thread
//! ```
//!
//! A connection stays with its worker, so one thread carries all streams of an HTTP/2 connection.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use aqueduct_core::CancelToken;
use tokio::runtime::{Builder, Handle};

/// Threads that carry the connections of servers. Dropping them drops all tasks that are still there.
#[derive(Debug)]
pub struct Workers {
    handles: WorkerHandles,
    threads: Vec<JoinHandle<()>>,
    stopped: CancelToken,
}

/// The runtimes of the threads, for a server.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerHandles(Arc<[Worker]>);

#[derive(Debug)]
struct Worker {
    handle: Handle,
    open: Arc<()>,
}

/// The permit of a connection among those of its worker, returned when dropped.
#[derive(Debug)]
pub(super) struct WorkerPermit {
    _open: Arc<()>,
}

impl Workers {
    /// Starts that many threads.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses a thread, or what a runtime needs.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut this =
            Self { handles: WorkerHandles::default(), threads: Vec::new(), stopped: CancelToken::new() };
        let mut workers = Vec::new();
        for number in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            workers.push(Worker { handle: runtime.handle().clone(), open: Arc::new(()) });
            let (stopped, thread) = (this.stopped.clone(), std::thread::Builder::new());
            let thread = thread.name(format!("worker-{number}"));
            this.threads.push(thread.spawn(move || runtime.block_on(stopped.cancelled()))?);
        }
        this.handles = WorkerHandles(workers.into());
        Ok(this)
    }

    /// Starts a thread per processor that this process may use.
    ///
    /// # Errors
    ///
    /// See [`start`](Self::start).
    pub fn per_core() -> io::Result<Self> {
        Self::start(std::thread::available_parallelism().map_or(1, usize::from))
    }

    pub(super) fn handles(&self) -> WorkerHandles {
        self.handles.clone()
    }
}

impl WorkerHandles {
    /// Returns the worker with the fewest open connections, and a permit there. Returns `None` without workers.
    pub(super) fn pick(&self) -> Option<(&Handle, WorkerPermit)> {
        let fewest = self.0.iter().min_by_key(|worker| Arc::strong_count(&worker.open))?;
        Some((&fewest.handle, WorkerPermit { _open: Arc::clone(&fewest.open) }))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stopped.cancel();
        for thread in self.threads.drain(..) {
            // A thread that panicked has stopped too.
            thread.join().ok();
        }
    }
}
