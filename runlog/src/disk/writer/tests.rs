//! Groups of commands as one batch, without the thread.

use tempfile::TempDir;

use super::*;
use crate::log::RunState;
use crate::testing::{events, meta};

/// Returns a writer on a folder, without its thread: the test forms the groups.
fn writer(folder: &TempDir, limits: LogLimits) -> Writer {
    let store = Store::open(folder.path()).unwrap();
    let found = store.load().unwrap();
    let recovery = Recovery::new(folder.path());
    Writer::new(SharedStore::new(store), recovery, limits, Arc::default(), found)
}

/// Opens a run and ends it at that time.
fn end_run(writer: &mut Writer, id: &str, now: Timestamp) {
    let (answer, _) = oneshot::channel();
    let open = Command::Open { meta: meta(id), until: Timestamp(100), answer };
    let (answer, _) = oneshot::channel();
    let lease = Lease { run_id: RunId::from(id), epoch: 1 };
    let append = Command::Append { lease, events: events(3), now, answer };
    writer.handle_group(&mut vec![open, append]);
}

fn trim(id: &str, earliest: u64) -> Command {
    Command::Trim { run: RunId::from(id), earliest, answer: oneshot::channel().0 }
}

/// Returns the runs that the next process finds.
fn stored(folder: &TempDir) -> Vec<RunState> {
    writer(folder, LogLimits::default()).runs.into_values().map(|owned| owned.ledger.state).collect()
}

/// A trim and a deletion of one group: the record of the trim is committed after the deletion, and must not restore the run.
#[test]
fn a_run_that_is_trimmed_and_deleted_in_one_group_stays_deleted() {
    for earliest in [1, 2, u64::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(&folder, LogLimits::default());
        end_run(&mut writer, "a", Timestamp(5));
        let expire = || Command::Expire { before: Timestamp(50), answer: oneshot::channel().0 };
        writer.handle_group(&mut vec![trim("a", earliest), expire()]);
        writer.handle_group(&mut vec![expire()]);
        drop(writer);
        assert_eq!(stored(&folder), Vec::new(), "trimmed to {earliest}");
    }
}

/// The same for a run that makes room for another.
#[test]
fn a_run_that_is_trimmed_and_makes_room_in_one_group_stays_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(&folder, LogLimits { runs: 2, ..LogLimits::default() });
    end_run(&mut writer, "a", Timestamp(5));
    end_run(&mut writer, "b", Timestamp(6));
    let open = Command::Open { meta: meta("c"), until: Timestamp(100), answer: oneshot::channel().0 };
    writer.handle_group(&mut vec![trim("a", 2), open]);
    assert_eq!(writer.runs.len(), 2);
    drop(writer);
    assert_eq!(stored(&folder).len(), 2);
}
