//! The names of keys. All keys of a run have one hash tag, so that a cluster stores them on one node and scripts may use
//! them together; lists of runs have keys of their own.

use aqueduct_core::RunId;

use crate::log::RunMeta;

/// The names of all keys, under a prefix.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

/// A list of runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum List<'a> {
    All,
    Thread(&'a str),
    Owner(&'a str),
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Escapes the id in the hash tag: an id may contain any character, but a tag no brace, and two ids must not have the same
    /// escaped form.
    fn tagged(&self, run: &RunId, what: &str) -> String {
        let mut key = format!("{}:{{", self.prefix);
        for byte in run.as_str().bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => key.push(byte.into()),
                other => key.extend(['%', hex(other >> 4), hex(other & 0xf)]),
            }
        }
        key.push('}');
        key.push_str(what);
        key
    }

    /// Returns the key of the hash with the state of the run.
    pub(super) fn meta(&self, run: &RunId) -> String {
        self.tagged(run, ":meta")
    }

    /// Returns the key of the stream of its events.
    pub(super) fn events(&self, run: &RunId) -> String {
        self.tagged(run, ":events")
    }

    /// Returns the key of the list of messages to its owner.
    pub(super) fn controls(&self, run: &RunId) -> String {
        self.tagged(run, ":controls")
    }

    /// Returns the channel of notifications; scripts derive it from [`Self::meta`].
    pub(super) fn channel(&self, run: &RunId) -> String {
        self.tagged(run, "")
    }

    /// Returns the key of a list of runs, sorted by the time of opening.
    pub(super) fn list(&self, list: List<'_>) -> String {
        match list {
            List::All => format!("{}:runs", self.prefix),
            List::Thread(thread) => format!("{}:thread:{thread}", self.prefix),
            List::Owner(owner) => format!("{}:owner:{owner}", self.prefix),
        }
    }

    /// Returns the keys of all lists that contain a run.
    pub(super) fn lists(&self, meta: &RunMeta) -> [String; 3] {
        [List::All, List::Thread(meta.thread_id.as_str()), List::Owner(&meta.owner)]
            .map(|list| self.list(list))
    }

    /// Returns the key of the set of runs that `key` relates to.
    pub(super) fn relation(&self, key: &str) -> String {
        format!("{}:relation:{key}", self.prefix)
    }

    /// Returns the key of the value that holds a claim.
    pub(super) fn claim(&self, key: &str) -> String {
        format!("{}:claim:{key}", self.prefix)
    }

    /// Returns the key of the open runs by the end of their lease. A run moves from here to [`Self::ended`] by two
    /// commands in order, so both keys are on one node, under a tag that no run has.
    pub(super) fn leases(&self) -> String {
        format!("{}:{{open and ended}}:leases", self.prefix)
    }

    /// Returns the key of the replicas by the time of their last heartbeat, in milliseconds of the server's clock.
    pub(super) fn replicas(&self) -> String {
        format!("{}:replicas", self.prefix)
    }

    /// Returns the key of test writes.
    pub(super) fn probe(&self) -> String {
        format!("{}:probe", self.prefix)
    }

    /// Returns the channel on which released leases are announced.
    pub(super) fn released(&self) -> String {
        format!("{}:released", self.prefix)
    }

    /// Returns the key of the ended runs by the time of their end.
    pub(super) fn ended(&self) -> String {
        format!("{}:{{open and ended}}:ended", self.prefix)
    }
}

/// Returns a hexadecimal digit.
fn hex(half: u8) -> char {
    char::from_digit(half.into(), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_holds_no_brace_and_is_nobody_elses() {
        let keys = Keys::new("aq");
        let channel = |id: &str| keys.channel(&RunId::from(id));
        assert_eq!(channel("run-1/2"), "aq:{run-1/2}");
        assert_eq!(channel("a}b%"), "aq:{a%7db%25}");
        assert_ne!(channel("%7d"), channel("}"));
    }
}
