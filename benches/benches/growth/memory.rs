//! Bytes that the log in memory holds per text: a piece of an artifact, and a text that stands for itself.

use aqueduct_core::{BlockEvent, RunInfo, StreamContext, Timestamp, Update};
use aqueduct_runlog::{MemoryLog, RunLog};
use futures_util::FutureExt as _;

use crate::{FOREVER, Failure, meta};

/// Texts of a run.
const TEXTS: usize = 20_000;
/// The text of each.
const TEXT: &str = "twenty-eight bytes of words!";

/// Prints the bytes per text beside the text itself.
pub(crate) fn report() -> Result<(), Failure> {
    println!("\nmemory log, bytes per text of {} bytes ({TEXTS} texts in one run)", TEXT.len());
    println!("{:<44} {:>12} {:>12}", "case", "all", "beside text");
    let one = "one block";
    // No two ids share more than their form, as those of a generator of random ids.
    let id = |number: usize| {
        let random = |salt: u64| (number as u64 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let (high, low) = (random(1), random(1 << 32));
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            high & 0xffff,
            low & 0xfff,
            low >> 52,
            low >> 16
        )
    };
    print_bytes("pieces of one message", move |_| Update::text(TEXT).in_message(one))?;
    print_bytes("texts, a message id each", move |number| Update::text(TEXT).in_message(id(number)).last())?;
    Ok(())
}

fn print_bytes(case: &str, update: impl Fn(usize) -> Update) -> Result<(), Failure> {
    let mut log = None;
    let info = allocation_counter::measure(|| log = fill(&update));
    let bytes = usize::try_from(info.bytes_current)? / TEXTS;
    println!("{case:<44} {bytes:>12} {:>12}", bytes.saturating_sub(TEXT.len()));
    drop(log);
    Ok(())
}

/// Fills a log as the driver of a run does: what one update yields is appended at once, and nothing else is kept.
fn fill(update: impl Fn(usize) -> Update) -> Option<MemoryLog> {
    let log = MemoryLog::default();
    let lease = log.open(meta("run".to_owned(), "thread".to_owned()), FOREVER).now_or_never()?.ok()?;
    let mut context = StreamContext::new(RunInfo::new("thread", "5f2c9d1e-8a53-4d0b-9c3f-0123456789ab"));
    for number in 0..TEXTS {
        context.handle_update(update(number)).ok()?;
        let events: Vec<BlockEvent> = std::iter::from_fn(|| context.poll_event()).collect();
        if !events.is_empty() {
            log.append(&lease, events, Timestamp(1)).now_or_never()?.ok()?;
        }
    }
    Some(log)
}
