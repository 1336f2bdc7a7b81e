//! Real folders with real damage.

use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::limits::LogLimits;
use crate::log::RunLog as _;
use crate::testing::{events, meta};
use crate::{DiskLog, Note};

const RUNS: [&str; 3] = ["first", "second", "open"];

/// Two runs that ended and one that is open, event by event in turn: each batch holds one event of each.
async fn written() -> (TempDir, Vec<BlockEvent>) {
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(folder.path(), LogLimits::default()).unwrap();
    let all = events(12);
    let mut leases = Vec::new();
    for run in RUNS {
        let lease = log.open(meta(run), Timestamp(1_000)).await.unwrap();
        log.annotate(&lease, Note::Checkpoint(Arc::new(run.into()))).await.unwrap();
        leases.push(lease);
    }
    for event in &all {
        for lease in &leases {
            if lease.run_id.as_str() != "open" || !event.is_terminal() {
                log.append(lease, vec![event.clone()], Timestamp(2)).await.unwrap();
            }
        }
    }
    (folder, all)
}

/// Moves everything from the journal to tables.
fn flush(folder: &Path) {
    let database = Database::builder(folder).open().unwrap();
    for name in ["runs", "events", "controls", "notes"] {
        let keyspace = database.keyspace(name, crate::disk::store::options).unwrap();
        keyspace.rotate_memtable_and_wait().unwrap();
    }
}

fn copy(from: &Path) -> TempDir {
    fn all(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap().flatten() {
            let to = to.join(entry.file_name());
            if entry.path().is_dir() {
                std::fs::create_dir(&to).unwrap();
                all(&entry.path(), &to);
            } else {
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let to = tempfile::tempdir().unwrap();
    all(from, to.path());
    to
}

/// Cuts the zeros at the end of the journal, as opening it does.
fn trimmed(folder: &Path) -> Vec<u8> {
    drop(DiskLog::open(folder, LogLimits::default()).unwrap());
    std::fs::read(folder.join("0.jnl")).unwrap()
}

/// How many events of each run a folder holds. What there is, is what was written.
async fn heads(folder: &Path, all: &[BlockEvent]) -> Vec<Option<usize>> {
    let log = DiskLog::open(folder, LogLimits::default()).unwrap();
    let mut heads = Vec::new();
    for run in RUNS {
        let Ok(page) = log.read(&RunId::from(run), 0, usize::MAX).await else {
            heads.push(None);
            continue;
        };
        for (index, event) in page.events.iter().enumerate() {
            assert_eq!(event.number, index as u64 + 1, "{run}");
            assert_eq!(&event.event, &all[index], "{run}");
        }
        assert_eq!(page.closed, page.events.last().is_some_and(|last| last.event.is_terminal()), "{run}");
        heads.push(Some(page.events.len()));
    }
    heads
}

#[tokio::test]
async fn a_journal_that_ends_anywhere_is_cut_and_counted() {
    let (folder, all) = written().await;
    let journal = trimmed(folder.path());
    let mut torn = 0;
    for length in (0..journal.len()).step_by(journal.len() / 20) {
        let folder = copy(folder.path());
        std::fs::write(folder.path().join("0.jnl"), &journal[..length]).unwrap();
        let report = check(folder.path()).unwrap();
        assert!(report.is_sound(), "{length} bytes: {report:?}");
        let log = DiskLog::open(folder.path(), LogLimits::default()).unwrap();
        let cut = log.torn_tail().cloned();
        drop(log);
        assert_eq!(cut, report.torn, "{length} bytes");
        if let Some(cut) = cut {
            // Zeros at the end of the bytes are not told from padding.
            assert!(cut.at + cut.bytes <= length, "{length} bytes: {cut:?}");
            assert_eq!(cut.file, folder.path().join("0.jnl"));
            torn += 1;
        }
        heads(folder.path(), &all).await;
    }
    assert!(torn > 8, "{torn} tails were cut");
}

#[tokio::test]
async fn a_journal_damaged_anywhere_is_refused_and_repaired() {
    let (folder, all) = written().await;
    let journal = trimmed(folder.path());
    let mut refused = 0;
    for at in (0..journal.len()).step_by(journal.len() / 12) {
        let folder = copy(folder.path());
        let mut damaged = journal.clone();
        for byte in damaged.iter_mut().skip(at).take(8) {
            *byte ^= 0xff;
        }
        std::fs::write(folder.path().join("0.jnl"), &damaged).unwrap();
        let report = check(folder.path()).unwrap();
        assert_eq!(std::fs::read(folder.path().join("0.jnl")).unwrap(), damaged, "checking changes nothing");
        if report.torn.is_some() {
            continue;
        }
        let open = DiskLog::open(folder.path(), LogLimits::default()).map(drop);
        if open.is_ok() {
            // The number of a batch has no checksum: what counts is then what is newer.
            assert!(report.is_sound(), "byte {at}: {report:?}");
            continue;
        }
        let said = open.unwrap_err().to_string();
        let repairs = format!("`aqueduct log repair {}`", folder.path().display());
        assert!(said.contains("0.jnl") && said.contains(&repairs), "byte {at}: {said}");
        let (repaired, aside) = repair(folder.path()).unwrap();
        assert_eq!(repaired, report, "byte {at}");
        assert_eq!(std::fs::read(aside.unwrap().join("0.jnl")).unwrap(), damaged, "nothing is removed");
        let kept = heads(folder.path(), &all).await;
        let reported = |run: &str| {
            let of_run = |report: &&RunReport| report.run_id.as_ref().is_some_and(|id| id.as_str() == run);
            report.runs.iter().find(of_run).map(|report| usize::try_from(report.events).unwrap())
        };
        assert_eq!(kept, RUNS.map(reported), "byte {at}");
        let whole = RUNS
            .iter()
            .zip(&kept)
            .filter(|(run, kept)| **kept == Some(all.len() - usize::from(**run == "open")));
        assert!(whole.count() >= 1, "byte {at}: eight bytes damage two batches at most: {kept:?}");
        assert!(check(folder.path()).unwrap().is_sound(), "byte {at}");
        refused += 1;
    }
    assert!(refused > 5, "{refused} were refused");
}

#[tokio::test]
async fn damaged_and_missing_tables_are_named_and_their_other_blocks_are_kept() {
    let (folder, all) = written().await;
    flush(folder.path());
    assert!(check(folder.path()).unwrap().is_sound());
    let tables: Vec<PathBuf> = (1..=4)
        .flat_map(|id| std::fs::read_dir(folder.path().join(format!("keyspaces/{id}/tables"))).unwrap())
        .map(|table| table.unwrap().path())
        .collect();
    assert!(tables.len() >= 3, "{tables:?}");
    let whole = vec![Some(all.len()), Some(all.len()), Some(all.len() - 1)];
    assert_eq!(heads(copy(folder.path()).path(), &all).await, whole);
    for table in &tables {
        let inside = table.strip_prefix(folder.path()).unwrap();
        let length = std::fs::metadata(table).unwrap().len();
        let gone = copy(folder.path());
        std::fs::remove_file(gone.path().join(inside)).unwrap();
        let open = DiskLog::open(gone.path(), LogLimits::default()).map(drop);
        let said = open.unwrap_err().to_string();
        assert!(said.contains(&inside.display().to_string()) && said.contains("log repair"), "{said}");
        let (_, aside) = repair(gone.path()).unwrap();
        assert!(aside.unwrap().join("keyspaces").is_dir());
        heads(gone.path(), &all).await;
        for at in [0, length / 3, length - 30] {
            let folder = copy(folder.path());
            let file = folder.path().join(inside);
            let mut bytes = std::fs::read(&file).unwrap();
            bytes[usize::try_from(at).unwrap()] ^= 0xff;
            std::fs::write(&file, bytes).unwrap();
            let report = check(folder.path()).unwrap();
            let (repaired, _) = repair(folder.path()).unwrap();
            assert_eq!(repaired, report);
            heads(folder.path(), &all).await;
            assert!(check(folder.path()).unwrap().is_sound());
        }
    }
}

#[tokio::test]
async fn missing_files_are_named() {
    let (folder, _) = written().await;
    flush(folder.path());
    for name in ["version", "0.jnl", "keyspaces/2/current", "keyspaces/0/current"] {
        let folder = copy(folder.path());
        for journal in std::fs::read_dir(folder.path()).unwrap().flatten() {
            if name == "0.jnl" && journal.file_name().to_string_lossy().ends_with(".jnl") {
                std::fs::remove_file(journal.path()).unwrap();
            }
        }
        std::fs::remove_file(folder.path().join(name)).ok();
        let report = check(folder.path()).unwrap();
        assert!(!report.is_sound(), "{name}");
        let said = DiskLog::open(folder.path(), LogLimits::default()).map(drop).unwrap_err().to_string();
        assert!(said.contains(name) && said.contains("aqueduct log repair"), "{name}: {said}");
        repair(folder.path()).unwrap();
        assert!(check(folder.path()).unwrap().is_sound(), "{name}");
        drop(DiskLog::open(folder.path(), LogLimits::default()).unwrap());
    }
}

/// A process that was killed before it had made all keyspaces.
#[test]
fn a_first_start_that_was_stopped_is_no_damage() {
    for made in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::builder(folder.path()).open().unwrap();
        for name in ["runs", "events", "controls"].into_iter().take(made) {
            database.keyspace(name, crate::disk::store::options).unwrap();
        }
        drop(database);
        assert!(check(folder.path()).unwrap().is_sound(), "{made} keyspaces");
        drop(DiskLog::open(folder.path(), LogLimits::default()).unwrap());
    }
}

#[tokio::test]
async fn a_repair_that_was_stopped_is_finished_by_the_next() {
    let (folder, all) = written().await;
    let mut journal = trimmed(folder.path());
    let middle = journal.len() / 2;
    journal[middle] ^= 0xff;
    std::fs::write(folder.path().join("0.jnl"), &journal).unwrap();
    let files = Files::find(folder.path());
    let (report, plan) = examine(folder.path(), &files);
    write(&swap::new_folder(folder.path()).unwrap(), &files, &plan).unwrap();
    swap::seal(folder.path()).unwrap();
    // Stopped here.
    let said = DiskLog::open(folder.path(), LogLimits::default()).map(drop).unwrap_err().to_string();
    assert!(said.contains("aqueduct log repair"), "{said}");
    assert!(check(folder.path()).unwrap().unfinished);
    let (_, aside) = repair(folder.path()).unwrap();
    assert_eq!(std::fs::read(aside.unwrap().join("0.jnl")).unwrap(), journal);
    let kept = heads(folder.path(), &all).await;
    let reported = report.runs.iter().map(|run| Some(usize::try_from(run.events).unwrap()));
    assert_eq!(kept, reported.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_folder_in_use_and_one_without_a_log_are_refused() {
    let (folder, _) = written().await;
    let log = DiskLog::open(folder.path(), LogLimits::default()).unwrap();
    let said = check(folder.path()).unwrap_err().to_string();
    assert!(said.contains("another process uses the folder"), "{said}");
    assert!(repair(folder.path()).is_err());
    drop(log);
    let empty = tempfile::tempdir().unwrap();
    assert!(check(empty.path()).unwrap_err().to_string().contains("holds no run log"));
    assert!(check(&empty.path().join("gone")).unwrap_err().to_string().contains("no such folder"));
}
