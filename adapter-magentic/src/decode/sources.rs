//! Mapping of executors and authors to [`Source`]s.
//!
//! Every event has an executor, so the executor determines the lane. An author other than the executor itself is part of a
//! nested workflow: a lane inside the executor's lane. Orchestrators have a lane of their own, whatever the name of their
//! manager.
//!
//! A whole message inside another executor's response (an aggregator's) belongs to the participant that sent it.
//!
//! Invariants: one executor or author is one `Source` value for the whole run; the number of them is bounded.

use std::collections::HashMap;

use aqueduct_core::{ByteString, Source};

type Map<V> = HashMap<String, V, foldhash::fast::FixedState>;

/// Executors that represent the workflow, under the manager's name.
const ORCHESTRATORS: [&str; 2] = ["magentic_orchestrator", "group_chat_orchestrator"];

/// The prefix of agents' executors in the older packages.
const LEGACY_PREFIX: &str = "agent_";

/// The sources of one run.
#[derive(Debug, Default)]
pub(super) struct Sources {
    executors: Map<Seat>,
    /// The executor of each author, as learned from turns.
    authors: Map<String>,
    /// The source of each message id, as learned from turns.
    messages: Map<Source>,
    count: usize,
    max: usize,
}

/// An executor with its lane and the lanes of its authors.
#[derive(Debug)]
struct Seat {
    source: Source,
    orchestrates: bool,
    inside: Map<Source>,
}

impl Sources {
    pub(super) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Returns the lane of an executor.
    pub(super) fn executor(&mut self, id: &str) -> Source {
        match self.seat(id) {
            Some(seat) => seat.source.clone(),
            None => Source::root(),
        }
    }

    /// Returns the lane of an author within an executor.
    pub(super) fn author(&mut self, executor: Option<&str>, author: Option<&str>) -> Source {
        let Some(id) = executor.filter(|id| !id.is_empty()) else {
            return author
                .filter(|name| !name.is_empty())
                .map_or_else(Source::root, |name| self.executor(name));
        };
        let room = self.count < self.max;
        let Some(seat) = self.seat(id) else { return Source::root() };
        let Some(author) = author.filter(|author| !seat.orchestrates && !author.is_empty()) else {
            return seat.source.clone();
        };
        if same_agent(id, author) {
            // The author's spelling is the display name.
            if seat.source.name() != author {
                seat.source = seat.source.clone().named(author);
            }
            return seat.source.clone();
        }
        if let Some(source) = seat.inside.get(author) {
            return source.clone();
        }
        if !room {
            return seat.source.clone();
        }
        let source = seat.source.child(ByteString::from(author));
        seat.inside.insert(author.to_owned(), source.clone());
        self.count += 1;
        source
    }

    /// Returns the lane of a whole message in a response of an executor: the participant's, if it is known to have sent it.
    pub(super) fn maker(
        &mut self,
        executor: Option<&str>,
        author: Option<&str>,
        message: Option<&str>,
    ) -> Source {
        if let Some(source) = message.and_then(|id| self.messages.get(id)) {
            return source.clone();
        }
        let participant = author.and_then(|author| {
            let known = self.authors.get(author).cloned();
            known.or_else(|| self.executors.contains_key(author).then(|| author.to_owned()))
        });
        match participant {
            Some(id) if executor != Some(&*id) => self.author(Some(&id), author),
            _ => self.author(executor, author),
        }
    }

    /// Records an invoked executor: an author of that name is a participant.
    pub(super) fn invoked(&mut self, id: &str) {
        self.seat(id);
    }

    /// Records an executor that represents the workflow.
    pub(super) fn orchestrates(&mut self, id: &str) {
        if let Some(seat) = self.seat(id) {
            seat.orchestrates = true;
        }
    }

    /// Records the source of a message, as learned from a turn.
    pub(super) fn made(&mut self, executor: &str, author: Option<&str>, message: Option<&str>) {
        let source = self.author(Some(executor), author);
        let room = self.messages.len() < self.max.saturating_mul(4);
        if let Some(id) = message.filter(|_| room) {
            self.messages.entry(id.to_owned()).or_insert(source);
        }
        if let Some(author) = author.filter(|_| self.authors.len() < self.max) {
            self.authors.entry(author.to_owned()).or_insert_with(|| executor.to_owned());
        }
    }

    /// Returns the lane of an executor whose turn is over, and the lanes inside it.
    pub(super) fn lanes_of(&self, id: &str) -> Option<(Source, Vec<Source>)> {
        let known = |id: &&str| self.executors.contains_key(*id);
        let id = [id.strip_prefix(LEGACY_PREFIX), Some(id)].into_iter().flatten().find(known)?;
        let seat = self.executors.get(id)?;
        Some((seat.source.clone(), seat.inside.values().cloned().collect()))
    }

    /// Returns the entry of an executor. The older classes prefix the ids of agents; both forms lead to one entry.
    fn seat(&mut self, id: &str) -> Option<&mut Seat> {
        let id = match id.strip_prefix(LEGACY_PREFIX) {
            Some(agent) if self.executors.contains_key(agent) => agent,
            _ => id,
        };
        if !self.executors.contains_key(id) {
            if self.count >= self.max {
                return None;
            }
            self.count += 1;
            let seat = Seat {
                source: Source::root().child(ByteString::from(id)),
                orchestrates: ORCHESTRATORS.contains(&id),
                inside: Map::default(),
            };
            self.executors.insert(id.to_owned(), seat);
        }
        self.executors.get_mut(id)
    }
}

/// Returns `true` if an executor's id is derived from the author's name, as builders do: with other punctuation or case, or
/// with the prefix of the older packages.
fn same_agent(executor: &str, author: &str) -> bool {
    /// Returns the letters and digits of a name in lower case: frameworks write one name in several ways.
    fn letters(name: &str) -> impl Iterator<Item = char> {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
    }
    executor == author
        || letters(executor).eq(letters(author))
        || executor.strip_prefix(LEGACY_PREFIX) == Some(author)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_inside_an_executor_has_a_lane_inside_its_lane() {
        let mut sources = Sources::new(10);
        let inner = sources.author(Some("team"), Some("writer"));
        assert_eq!(inner.parent().unwrap().key(), "team");
        assert_eq!(inner.name(), "writer");
        let spelled = sources.author(Some("writer_agent"), Some("Writer Agent"));
        assert_eq!((spelled.path(), spelled.name()), ("writer_agent", "Writer Agent"));
        assert_eq!(
            sources.author(Some("magentic_orchestrator"), Some("manager")).key(),
            "magentic_orchestrator"
        );
    }

    #[test]
    fn a_message_in_another_executors_response_is_its_makers() {
        let mut sources = Sources::new(10);
        sources.made("w1", Some("writer"), Some("m1"));
        assert_eq!(sources.maker(Some("aggregator"), Some("writer"), Some("m1")).path(), "w1\u{1f}writer");
        assert_eq!(sources.maker(Some("aggregator"), Some("writer"), None).path(), "w1\u{1f}writer");
        sources.invoked("reader");
        assert_eq!(sources.maker(Some("aggregator"), Some("reader"), Some("m2")).path(), "reader");
        assert_eq!(
            sources.maker(Some("aggregator"), Some("stranger"), None).path(),
            "aggregator\u{1f}stranger"
        );
    }

    #[test]
    fn the_number_of_lanes_is_bounded() {
        let mut sources = Sources::new(2);
        let lanes: Vec<_> = ["a", "b", "c"].iter().map(|id| sources.executor(id)).collect();
        assert_eq!(lanes[2], Source::root());
        assert_eq!(sources.author(Some("a"), Some("x")), lanes[0]);
    }

    #[test]
    fn a_turn_ends_the_lanes_of_its_executor() {
        let mut sources = Sources::new(10);
        sources.author(Some("writer"), None);
        let (lane, inside) = sources.lanes_of("agent_writer").unwrap();
        assert_eq!((lane.key(), inside.len()), ("writer", 0));
        assert!(sources.lanes_of("stranger").is_none());
    }
}
