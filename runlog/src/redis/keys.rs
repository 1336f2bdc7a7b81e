//! The names of keys. All keys of a run have one hash tag, so a cluster keeps them on one node and scripts may use them
//! together; lists of runs are keys of their own, written beside.

use aqueduct_core::RunId;

use crate::log::RunMeta;

/// The names, under a prefix.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

/// Where a run is listed.
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

    /// An id may hold any character; a tag may hold no brace, and one that looks like the form of another id would be
    /// another run's.
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

    /// The hash of what is known of the run.
    pub(super) fn meta(&self, run: &RunId) -> String {
        self.tagged(run, ":meta")
    }

    /// The stream of its events.
    pub(super) fn events(&self, run: &RunId) -> String {
        self.tagged(run, ":events")
    }

    /// The list of messages to its owner.
    pub(super) fn controls(&self, run: &RunId) -> String {
        self.tagged(run, ":controls")
    }

    /// The channel on which changes are told; scripts make it from the name of [`Self::meta`].
    pub(super) fn channel(&self, run: &RunId) -> String {
        self.tagged(run, "")
    }

    /// A list of runs by the time of their opening.
    pub(super) fn list(&self, list: List<'_>) -> String {
        match list {
            List::All => format!("{}:runs", self.prefix),
            List::Thread(thread) => format!("{}:thread:{thread}", self.prefix),
            List::Owner(owner) => format!("{}:owner:{owner}", self.prefix),
        }
    }

    /// All lists that a run is in.
    pub(super) fn lists(&self, meta: &RunMeta) -> [String; 3] {
        [List::All, List::Thread(meta.thread_id.as_str()), List::Owner(&meta.owner)]
            .map(|list| self.list(list))
    }

    /// The runs that a key leads to.
    pub(super) fn relation(&self, key: &str) -> String {
        format!("{}:relation:{key}", self.prefix)
    }

    /// The value that holds a claimed key.
    pub(super) fn claim(&self, key: &str) -> String {
        format!("{}:claim:{key}", self.prefix)
    }

    /// Open runs by the end of their lease. A run goes from here to [`Self::ended`], in this order: so both are on one
    /// node, under a tag that no run has.
    pub(super) fn leases(&self) -> String {
        format!("{}:{{open and ended}}:leases", self.prefix)
    }

    /// The replicas by the time of their last sign of life, in milliseconds of the server's clock.
    pub(super) fn replicas(&self) -> String {
        format!("{}:replicas", self.prefix)
    }

    /// What is written to see whether the server takes writes.
    pub(super) fn probe(&self) -> String {
        format!("{}:probe", self.prefix)
    }

    /// The channel on which released leases are announced.
    pub(super) fn released(&self) -> String {
        format!("{}:released", self.prefix)
    }

    /// Ended runs by their end.
    pub(super) fn ended(&self) -> String {
        format!("{}:{{open and ended}}:ended", self.prefix)
    }
}

/// Half a byte as a digit.
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
