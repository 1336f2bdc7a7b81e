//! Mutation of inputs: the operations that proved effective in libFuzzer and AFL, without feedback.

use fastrand::Rng;

/// Bytes with a meaning for parsers.
const BYTES: &[u8] = b"\0\t\n\r \"#%',-.0:=?[]{}\\\x7f\x80\xc3\xe2\xef\xf0\xff";

/// Mutates the inputs of one target.
#[derive(Debug)]
pub struct Mutator {
    random: Rng,
    words: Vec<Vec<u8>>,
    largest: usize,
}

impl Mutator {
    /// Returns a mutator that also inserts `words`. Its output is a function of the seed.
    pub fn new(seed: u64, words: &[&str], largest: usize) -> Self {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Self { random: Rng::with_seed(seed), words, largest }
    }

    /// Writes a mutated copy of one of the seeds to `out`.
    pub fn mutate(&mut self, seeds: &[Vec<u8>], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.one(seeds));
        for _ in 0..=self.random.usize(0..6) {
            self.change(seeds, out);
        }
        out.truncate(self.largest);
    }

    fn one<'s>(&mut self, seeds: &'s [Vec<u8>]) -> &'s [u8] {
        if seeds.is_empty() {
            &[]
        } else {
            seeds.get(self.random.usize(0..seeds.len())).map_or(&[], Vec::as_slice)
        }
    }

    fn place(&mut self, bytes: &[u8]) -> usize {
        self.random.usize(0..=bytes.len())
    }

    /// Returns a range of the bytes, mostly a short one.
    fn range(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let start = self.place(bytes);
        let most = if self.random.u8(0..4) == 0 { bytes.len() } else { 32 };
        start..(start + self.random.usize(0..=most)).min(bytes.len())
    }

    fn change(&mut self, seeds: &[Vec<u8>], out: &mut Vec<u8>) {
        match self.random.u8(0..9) {
            0 => {
                let place = self.place(out);
                let bit = 1 << self.random.u8(0..8);
                if let Some(byte) = out.get_mut(place) {
                    *byte ^= bit;
                }
            }
            1 => {
                let (place, byte) = (self.place(out), self.random.u8(..));
                out.insert(place, byte);
            }
            2 => {
                let (place, byte) = (self.place(out), self.random.choice(BYTES).copied().unwrap_or_default());
                out.insert(place, byte);
            }
            3 => drop(out.drain(self.range(out))),
            4 => {
                let range = self.range(out);
                let copy: Vec<u8> = out.get(range).unwrap_or_default().to_vec();
                self.insert(&copy, out);
            }
            5 => {
                let other = self.one(seeds);
                let part = other.get(self.range(other)).unwrap_or_default();
                self.insert(part, out);
            }
            6 => {
                let word = self.random.choice(&self.words).cloned().unwrap_or_default();
                self.insert(&word, out);
            }
            7 => out.truncate(self.place(out)),
            _ => self.change_lines(out),
        }
    }

    fn insert(&mut self, part: &[u8], out: &mut Vec<u8>) {
        let place = self.place(out);
        drop(out.splice(place..place, part.iter().copied()));
    }

    /// Moves, repeats or removes a line.
    fn change_lines(&mut self, out: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> = out.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let (from, to) = (self.random.usize(0..lines.len()), self.random.usize(0..lines.len()));
        match self.random.u8(0..3) {
            0 => lines.swap(from, to),
            1 => {
                let line = lines.get(from).cloned().unwrap_or_default();
                lines.insert(to, line);
            }
            _ => drop(lines.remove(from)),
        }
        *out = lines.join(&b'\n');
    }
}
