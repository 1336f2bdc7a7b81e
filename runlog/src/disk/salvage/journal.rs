//! Reads a journal of the database without changing it.
//!
//! ```text
//! journal := batch* zeros            batch := start item* end        numbers: little-endian
//! start   := 1 count:u32 seqno:u64
//! item    := 2 type:u8 compression:u8 keyspace:u64 key:u16 value:u32 stored:u32 key-bytes value-bytes  |  4 keyspace:u64
//! end     := 3 checksum:u64 "FJL" 3  checksum: XXH3 of all items
//! ```
//!
//! fjall itself stops at the first entry that makes no sense and cuts the journal there, also in the middle. This reader goes
//! on behind the damage: a batch counts if its checksum is right.

use bytes::{Buf as _, Bytes};
use xxhash_rust::xxh3::xxh3_64;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: [u8; 4] = [b'F', b'J', b'L', 3];

/// Zeros are compared by pages: a journal is made with 64 MiB of them.
const PAGE: [u8; 4096] = [0; 4096];

/// One change of a key.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) keyspace: u64,
    pub(super) key: Bytes,
    /// None if the key was removed.
    pub(super) value: Option<Bytes>,
}

/// Changes that were made together.
#[derive(Debug)]
pub(super) struct JournalBatch {
    pub(super) seqno: u64,
    pub(super) changes: Vec<Change>,
}

/// The parts of a journal that are not batches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Start and end of bytes that are not a batch, with readable batches behind them.
    pub(super) damage: Vec<(usize, usize)>,
    /// Start and length of the bytes behind the last batch.
    pub(super) tail: Option<(usize, usize)>,
}

/// Calls `each` with every readable batch, in order.
pub(super) fn scan(journal: &Bytes, mut each: impl FnMut(JournalBatch)) -> Scan {
    let (mut at, mut scan, end) = (0, Scan::default(), written(journal));
    while at < end {
        if let Some((batch, length)) = read_batch(&journal.slice(at..end)) {
            each(batch);
            at += length;
            continue;
        }
        let next = (at + 1..end).find(|next| {
            journal.get(*next) == Some(&START) && read_batch(&journal.slice(*next..end)).is_some()
        });
        match next {
            Some(next) => scan.damage.push((at, next)),
            None => scan.tail = Some((at, end - at)),
        }
        at = next.unwrap_or(end);
    }
    scan
}

/// The length without the zeros at the end.
fn written(journal: &[u8]) -> usize {
    let pages = journal.chunks(PAGE.len());
    let last = pages
        .rev()
        .position(|page| PAGE.get(..page.len()) != Some(page))
        .map(|from_end| journal.len().div_ceil(PAGE.len()).saturating_sub(from_end + 1) * PAGE.len());
    let Some(last) = last else { return 0 };
    let page = journal.get(last..).unwrap_or_default();
    let page = page.get(..PAGE.len().min(page.len())).unwrap_or_default();
    // The last byte of a batch is not zero: what follows it is padding.
    last + page.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

/// A batch at the beginning of these bytes, with its length. Returns `None` if they are none.
fn read_batch(bytes: &Bytes) -> Option<(JournalBatch, usize)> {
    let mut from = bytes.clone();
    let read_tag = |from: &mut Bytes| from.try_get_u8().ok();
    if read_tag(&mut from)? != START {
        return None;
    }
    let count = from.try_get_u32_le().ok()?;
    let seqno = from.try_get_u64_le().ok()?;
    let items = from.clone();
    let mut changes = Vec::new();
    for _ in 0..count {
        match read_tag(&mut from)? {
            ITEM => changes.push(read_item(&mut from)?),
            // Keyspaces are never cleared here.
            CLEAR => drop(from.try_get_u64_le().ok()?),
            _ => return None,
        }
    }
    let summed = items.slice(..items.len() - from.len());
    if read_tag(&mut from)? != END || from.try_get_u64_le().ok()? != xxh3_64(&summed) {
        return None;
    }
    let trailer = take(&mut from, TRAILER.len())?;
    (trailer[..] == TRAILER).then(|| (JournalBatch { seqno, changes }, bytes.len() - from.len()))
}

fn read_item(from: &mut Bytes) -> Option<Change> {
    let kind = from.try_get_u8().ok()?;
    let compression = from.try_get_u8().ok()?;
    let keyspace = from.try_get_u64_le().ok()?;
    let key = from.try_get_u16_le().ok()?;
    let value = from.try_get_u32_le().ok()?;
    let stored = from.try_get_u32_le().ok()?;
    // This program writes neither compressed values nor pointers to blobs.
    if compression != 0 || kind > 2 || value != stored {
        return None;
    }
    let key = take(from, usize::from(key))?;
    let value = take(from, usize::try_from(stored).ok()?)?;
    Some(Change { keyspace, key, value: (kind == 0).then_some(value) })
}

fn take(from: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= from.len()).then(|| from.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(seqno: u64, value: &[u8]) -> Vec<u8> {
        let mut items = vec![ITEM, 0, 0];
        items.extend(2_u64.to_le_bytes());
        items.extend(3_u16.to_le_bytes());
        for _ in 0..2 {
            items.extend(u32::try_from(value.len()).unwrap().to_le_bytes());
        }
        items.extend(b"key");
        items.extend(value);
        let mut bytes = vec![START];
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(seqno.to_le_bytes());
        bytes.extend(&items);
        bytes.push(END);
        bytes.extend(xxh3_64(&items).to_le_bytes());
        bytes.extend(TRAILER);
        bytes
    }

    fn seqnos(journal: Vec<u8>) -> (Vec<u64>, Scan) {
        let mut found = Vec::new();
        let scan = scan(&Bytes::from(journal), |batch| found.push(batch.seqno));
        (found, scan)
    }

    #[test]
    fn a_damaged_batch_is_left_out_and_those_behind_it_are_read() {
        let [first, second, third] = [1, 2, 3].map(|seqno| batch(seqno, b"value"));
        for at in 0..second.len() {
            let mut damaged = second.clone();
            damaged[at] ^= 0x55;
            let (found, scan) = seqnos([first.clone(), damaged, third.clone()].concat());
            let wanted = (first.len(), first.len() + second.len());
            // The number of a batch is outside its checksum.
            if (5..13).contains(&at) {
                assert_eq!((found.len(), scan), (3, Scan::default()), "byte {at}");
            } else {
                assert_eq!(found, [1, 3], "byte {at}");
                assert_eq!(scan, Scan { damage: vec![wanted], tail: None }, "byte {at}");
            }
        }
    }

    #[test]
    fn a_batch_that_was_not_written_whole_is_a_tail_whatever_zeros_follow() {
        let (first, second) = (batch(1, b"value"), batch(2, b"\0\0"));
        for length in 1..second.len() {
            for zeros in [0, 1, 4095, 4096, 10_000] {
                let journal = [&first[..], &second[..length], &vec![0; zeros][..]].concat();
                let (found, scan) = seqnos(journal);
                assert_eq!(found, [1], "{length} bytes");
                let (at, cut) = scan.tail.unwrap();
                assert!(scan.damage.is_empty() && at == first.len() && cut <= length, "{length} bytes");
            }
        }
    }

    #[test]
    fn zeros_behind_the_last_batch_are_no_damage() {
        let journal = [batch(1, b"value"), vec![0; 70_000]].concat();
        assert_eq!(seqnos(journal), (vec![1], Scan::default()));
        assert_eq!(seqnos(vec![0; 70_000]), (vec![], Scan::default()));
        assert_eq!(seqnos(Vec::new()), (vec![], Scan::default()));
    }
}
