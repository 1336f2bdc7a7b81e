//! Reads every change in the files of a database, skipping damaged parts, without changing the
//! files.
//!
//! ```text
//! N.jnl                    journals: the newest changes
//! version, lock            the format; locked by the process that uses the folder
//! keyspaces/0              names of keyspaces
//! keyspaces/N/current, vM  the list of tables that count
//! keyspaces/N/tables/T     changes, sorted and in blocks with checksums
//! ```
//!
//! A table is read by the database's own code on a thread of its own, because that code panics on
//! some damage.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use bytes::Bytes;

use super::journal::{self, Scan};

/// The names of keyspaces by their ids, as this program creates them: for a folder whose own list is unreadable.
const NAMES: [(u64, &str); 4] = [(1, "runs"), (2, "events"), (3, "controls"), (4, "notes")];

/// Changes of a table that wait to be handled.
const WAITING: usize = 1024;

/// Damaged blocks of one table after which the rest of the table is not read: a reader that does
/// not advance would not end.
const DAMAGED_BLOCKS: usize = 100_000;

/// A file that cannot be read, or only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedFile {
    /// The path of the file.
    pub file: PathBuf,
    /// The damage, for the operator.
    pub what: String,
}

/// The age of a value: of several values of a key the highest rank counts. Sequence number of the
/// batch, then the position inside it.
pub(super) type Rank = (u64, u32);

/// A change of one key, read from a file.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) keyspace: u64,
    pub(super) key: Bytes,
    /// The value, or `None` if the key was removed.
    pub(super) value: Option<Bytes>,
    pub(super) rank: Rank,
}

/// The files of a database.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) folder: PathBuf,
    /// By number: the last one is written to.
    pub(super) journals: BTreeMap<u64, PathBuf>,
    pub(super) names: BTreeMap<u64, String>,
    /// Keyspaces without a name in the list of names. A first start that was stopped leaves such
    /// keyspaces, without content.
    pub(super) unnamed: BTreeSet<u64>,
    tables: Vec<(u64, PathBuf)>,
    /// The damage that is found without reading journals and tables.
    pub(super) damaged: Vec<DamagedFile>,
}

/// Returns a report of a damaged file.
fn damaged(file: PathBuf, what: impl Into<String>) -> DamagedFile {
    DamagedFile { file, what: what.into() }
}

/// Returns the entries of a folder whose names are numbers, followed by `extension`. Returns none
/// if the folder does not exist.
fn numbered(folder: &Path, extension: &str) -> BTreeMap<u64, PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name.strip_suffix(extension)?.parse().ok()?, entry.path()))
    });
    numbered.collect()
}

impl Files {
    /// Finds the files of a database, and the damage that their absence shows.
    pub(super) fn find(folder: &Path) -> Self {
        let journals = numbered(folder, ".jnl");
        let mut files = Self {
            folder: folder.to_owned(),
            journals,
            names: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            tables: Vec::new(),
            damaged: Vec::new(),
        };
        if !folder.join("version").is_file() {
            files.damaged.push(damaged(folder.join("version"), "the file is missing"));
        }
        files.find_gaps();
        let keyspaces = folder.join("keyspaces");
        for (keyspace, folder) in numbered(&keyspaces, "") {
            files.find_tables(keyspace, &folder);
        }
        files.names = files.read_names();
        for (keyspace, name) in NAMES {
            if !files.names.values().any(|found| found == name) {
                files.unnamed.insert(keyspace);
                files.names.entry(keyspace).or_insert_with(|| name.to_owned());
            }
        }
        if files.tables.iter().any(|(keyspace, _)| files.unnamed.contains(keyspace)) {
            files.damaged.push(files.nameless());
        }
        files
    }

    /// Returns the damage of keyspaces that have content and no name.
    pub(super) fn nameless(&self) -> DamagedFile {
        damaged(self.folder.join("keyspaces").join("0"), "it does not name every keyspace")
    }

    /// Reports missing journals. Journals are removed from the oldest on, so a number that is absent
    /// between two others is missing.
    fn find_gaps(&mut self) {
        let Some((first, last)) = self.journals.keys().next().zip(self.journals.keys().next_back()) else {
            self.damaged.push(damaged(self.folder.join("0.jnl"), "there is no journal"));
            return;
        };
        let missing = (*first..*last).filter(|number| !self.journals.contains_key(number)).take(10);
        let missing = missing.map(|number| self.folder.join(format!("{number}.jnl")));
        let missing: Vec<_> = missing.map(|file| damaged(file, "the file is missing")).collect();
        self.damaged.extend(missing);
    }

    /// Finds the tables that the newest list of a keyspace contains, and reports missing ones. If the
    /// list cannot be read, all tables in the folder are used: the ranks of their values decide.
    fn find_tables(&mut self, keyspace: u64, folder: &Path) {
        let mut there = numbered(&folder.join("tables"), "");
        match listed_tables(folder) {
            Ok(listed) => {
                there.retain(|table, _| listed.contains(table));
                let missing = listed.iter().filter(|table| !there.contains_key(table));
                let missing = missing.map(|table| folder.join("tables").join(table.to_string()));
                self.damaged.extend(missing.map(|file| damaged(file, "the file is missing")));
            }
            Err(error) => self.damaged.push(damaged(
                folder.join("current"),
                format!("it does not tell which tables count, so all do: {error}"),
            )),
        }
        self.tables.extend(there.into_values().map(|table| (keyspace, table)));
    }

    /// Reads the names of keyspaces from keyspace 0.
    fn read_names(&self) -> BTreeMap<u64, String> {
        let mut names = BTreeMap::new();
        for (_, table) in self.tables.iter().filter(|(keyspace, _)| *keyspace == 0) {
            // Damage of these tables is reported when everything is read.
            read_table(0, table, &mut |found: Found| {
                let id =
                    found.key.strip_prefix(b"n").and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
                if let Some((id, name)) = id.zip(found.value) {
                    names.insert(id, String::from_utf8_lossy(&name).into_owned());
                }
            });
        }
        names
    }

    /// Scans the journals alone.
    pub(super) fn scan_journals(&self, mut each: impl FnMut(Found)) -> Vec<(PathBuf, Result<Scan, String>)> {
        let mut scans = Vec::new();
        for path in self.journals.values() {
            let scanned = std::fs::read(path).map_err(|error| error.to_string()).map(|bytes| {
                journal::scan(&Bytes::from(bytes), |batch| {
                    for (index, change) in (0..).zip(batch.changes) {
                        let journal::Change { keyspace, key, value } = change;
                        each(Found { keyspace, key, value, rank: (batch.seqno, index) });
                    }
                })
            });
            scans.push((path.clone(), scanned));
        }
        scans
    }

    /// Calls `each` with every change that can be read. Returns the files that cannot be read
    /// completely, and the incomplete end of the last journal.
    pub(super) fn read(&self, mut each: impl FnMut(Found)) -> (Vec<DamagedFile>, Option<TornTail>) {
        let (mut damage, mut torn) = (Vec::new(), None);
        for (keyspace, table) in &self.tables {
            damage.extend(read_table(*keyspace, table, &mut each));
        }
        for (file, scanned) in self.scan_journals(each) {
            match scanned {
                Ok(scan) => {
                    damage.extend(journal_damage(&file, &scan));
                    torn = self.torn_tail(&file, &scan, &mut damage).or(torn);
                }
                Err(error) => damage.push(DamagedFile { file, what: error }),
            }
        }
        (damage, torn)
    }

    /// Returns the tail of the journal that is written to. The tail of any other journal is damage.
    pub(super) fn torn_tail(
        &self,
        file: &Path,
        scan: &Scan,
        damage: &mut Vec<DamagedFile>,
    ) -> Option<TornTail> {
        let (at, bytes) = scan.tail?;
        let is_last = self.journals.values().next_back().is_some_and(|last| last == file);
        if !is_last {
            damage.push(damaged(file.to_owned(), format!("{bytes} bytes from {at} on cannot be read")));
        }
        is_last.then(|| TornTail { file: file.to_owned(), at, bytes })
    }
}

/// The end of the journal that is not a complete batch: the last write of a process that was
/// stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The journal.
    pub file: PathBuf,
    /// The offset at which the tail begins.
    pub at: usize,
    /// The length of the tail.
    pub bytes: usize,
}

/// Returns the damage in the middle of a journal, if there is any.
pub(super) fn journal_damage(file: &Path, scan: &Scan) -> Option<DamagedFile> {
    let (first, _) = scan.damage.first()?;
    let bytes: usize = scan.damage.iter().map(|(from, to)| to - from).sum();
    Some(damaged(
        file.to_owned(),
        format!("{bytes} bytes in {} places, the first at {first}, cannot be read", scan.damage.len()),
    ))
}

/// Returns the tables that count, from the newest list of a keyspace.
fn listed_tables(folder: &Path) -> Result<BTreeSet<u64>, sfa::Error> {
    let mut current = [0; 8];
    std::fs::File::open(folder.join("current"))?.read_exact(&mut current)?;
    let path = folder.join(format!("v{}", u64::from_le_bytes(current)));
    let reader = sfa::Reader::new(&path)?;
    let section = reader.toc().section(b"tables").ok_or(sfa::Error::InvalidHeader)?;
    let mut bytes = Vec::new();
    section.buf_reader(&path)?.read_to_end(&mut bytes)?;
    listed(Bytes::from(bytes)).ok_or(sfa::Error::InvalidHeader)
}

/// Decodes a list of tables. Returns `None` if the bytes end too early.
fn listed(mut from: Bytes) -> Option<BTreeSet<u64>> {
    use bytes::Buf as _;
    let mut tables = BTreeSet::new();
    for _ in 0..from.try_get_u8().ok()? {
        for _ in 0..from.try_get_u8().ok()? {
            for _ in 0..from.try_get_u32_le().ok()? {
                tables.insert(from.try_get_u64_le().ok()?);
                // The kind of checksum, the checksum, and a number of the table.
                (from.len() >= 25).then(|| from.advance(25))?;
            }
        }
    }
    Some(tables)
}

/// Reads a table on a thread of its own, and calls `each` with its changes. Returns the damage, if
/// there is any: a panic of the thread counts as damage of the table.
fn read_table(keyspace: u64, path: &Path, each: &mut dyn FnMut(Found)) -> Option<DamagedFile> {
    let (sender, receiver) = mpsc::sync_channel(WAITING);
    let file = path.to_owned();
    let thread = std::thread::Builder::new().name("salvage".to_owned());
    let reading = thread.spawn(move || send_table(keyspace, file, &sender));
    receiver.into_iter().for_each(each);
    let what = match reading.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(0))) => return None,
        Ok(Ok(Ok(blocks))) => format!("{blocks} of its blocks cannot be read"),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => "it makes no sense".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(damaged(path.to_owned(), what))
}

/// Sends the changes of a table. Returns the number of blocks that cannot be read.
fn send_table(keyspace: u64, file: PathBuf, to: &mpsc::SyncSender<Found>) -> lsm_tree::Result<usize> {
    let cache = Arc::new(lsm_tree::Cache::with_capacity_bytes(0));
    let checksum = lsm_tree::Checksum::from_raw(0);
    let table = lsm_tree::Table::recover(file, checksum, 0, 0, cache, None, false, false)?;
    let mut blocks = 0;
    for entry in table.iter() {
        let Ok(entry) = entry else {
            blocks += 1;
            if blocks < DAMAGED_BLOCKS {
                continue;
            }
            break;
        };
        let value = (!entry.key.value_type.is_tombstone()).then(|| Bytes::copy_from_slice(&entry.value));
        let key = Bytes::copy_from_slice(&entry.key.user_key);
        let found = Found { keyspace, key, value, rank: (entry.key.seqno, u32::MAX) };
        if to.send(found).is_err() {
            break;
        }
    }
    Ok(blocks)
}
