//! The only source of chance in a world: a small generator that is a function of its seed.
//!
//! Splitmix64. Every part of a world (a replica, a client, the script of a run) has a generator of its own, made from
//! the seed of the world and the name of the part, so that a change in one part leaves the others as they were.

use std::time::Duration;

/// A generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Returns the generator of a part of a world.
    pub fn new(seed: u64, part: &str) -> Self {
        // FNV-1a: the standard library's hashes are not the same in every process.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let name = part.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ name)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number().checked_rem(limit).unwrap_or_default()
    }

    /// Returns `true` in so many of a thousand cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// Returns a time of `from` to `to` milliseconds.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to.saturating_sub(from) + 1))
    }

    /// Returns one of several values.
    pub fn pick<T: Copy + Default, const N: usize>(&mut self, values: [T; N]) -> T {
        values.get(self.place(N)).copied().unwrap_or_default()
    }

    /// Returns a place in a list of that length.
    pub fn place(&mut self, length: usize) -> usize {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        usize::try_from(self.below(length)).unwrap_or_default()
    }
}
