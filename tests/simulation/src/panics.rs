//! Panics in a world: of one of its tasks, which tokio catches and clients may survive, or of the world itself.
//!
//! A world is lived on one thread, so its panics are those of that thread. Panics of other threads are reported as before.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::trace::Trace;

thread_local! {
    /// The trace of the world that is lived on this thread, and its panics.
    static LIVED: RefCell<Option<(Trace, Vec<String>)>> = const { RefCell::new(None) };
}

/// Calls `live`. Returns its result, or `None` if it panicked, and all panics on this thread until then, which are also lines of the
/// trace.
pub fn watch<T>(trace: &Trace, live: impl FnOnce() -> T) -> (Option<T>, Vec<String>) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !is_noted(panic) {
                before(panic);
            }
        }));
    });
    LIVED.set(Some((trace.clone(), Vec::new())));
    let lived = catch_unwind(AssertUnwindSafe(live)).ok();
    (lived, LIVED.take().map(|(_, panics)| panics).unwrap_or_default())
}

/// Adds a panic to those of the world on this thread. Returns `false` if there is none.
fn is_noted(panic: &PanicHookInfo<'_>) -> bool {
    let note = |lived: &RefCell<Option<(Trace, Vec<String>)>>| {
        let mut lived = lived.try_borrow_mut().ok()?;
        let (trace, panics) = lived.as_mut()?;
        let backtrace = Backtrace::capture();
        let what = panic.to_string().replace('\n', " ");
        let is_captured = backtrace.status() == BacktraceStatus::Captured;
        let what = if is_captured { format!("{what}\n{backtrace}") } else { what };
        trace.note("panic", || what.clone());
        panics.push(what);
        Some(())
    };
    LIVED.try_with(note).ok().flatten().is_some()
}
