//! A cache of decoded values by their bytes, for heads and lanes that repeat in a stream of events.
//!
//! The cache is a ring that replaces its oldest entry, searched from the end: events of a run mostly repeat the last head. It is not
//! a [`RecentMap`](aqueduct_core::recent::RecentMap) because hashing the bytes of a head costs more than comparing them with a few others.

use std::sync::Arc;

use bytes::Bytes;

use super::CodecError;
use super::read::Reader;

/// Cached values. A run has few open blocks and lanes at once; beyond this number decoding is slower.
const REMEMBERED: usize = 16;

/// The values that were decoded last, by their bytes.
#[derive(Debug)]
pub(super) struct Memory<T> {
    known: Vec<(Bytes, Arc<T>)>,
    next: usize,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self { known: Vec::new(), next: 0 }
    }
}

impl<T> Memory<T> {
    /// Returns the value of `bytes`: a cached one, or a new one that shares no memory with them.
    pub(super) fn get(
        &mut self,
        bytes: &Bytes,
        read: impl FnOnce(&mut Reader) -> Result<T, CodecError>,
    ) -> Result<Arc<T>, CodecError> {
        if let Some((_, value)) = self.known.iter().rev().find(|(known, _)| known == bytes) {
            return Ok(Arc::clone(value));
        }
        let own = Bytes::copy_from_slice(bytes);
        let mut reader = Reader::new(own.clone());
        let value = Arc::new(read(&mut reader)?);
        reader.end()?;
        self.remember(own, &value);
        Ok(value)
    }

    /// Replaces the oldest entry once the cache is full.
    fn remember(&mut self, bytes: Bytes, value: &Arc<T>) {
        let entry = (bytes, Arc::clone(value));
        match self.known.get_mut(self.next) {
            Some(oldest) => *oldest = entry,
            None => self.known.push(entry),
        }
        self.next = (self.next + 1) % REMEMBERED;
    }
}
