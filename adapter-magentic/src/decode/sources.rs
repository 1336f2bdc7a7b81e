//! Who speaks: executors and authors to [`Source`]s.
//!
//! The executor is the only key that is always there, so it makes the lane. An author that is not the executor
//! itself speaks from inside it (a nested workflow): a lane in the executor's lane. Orchestrators speak in their
//! own lane whatever name their manager has.
//!
//! A whole message inside another executor's response (an aggregator's) belongs to the participant that made it.
//!
//! Invariants: one executor or author is one `Source` value for the whole run; the number of them is bounded.

use std::collections::HashMap;

use aqueduct_core::{ByteString, Source};

type Map<V> = HashMap<String, V, foldhash::fast::FixedState>;

/// Executors that speak for the workflow, under the manager's name.
const ORCHESTRATORS: [&str; 2] = ["magentic_orchestrator", "group_chat_orchestrator"];

/// The prefix of agents' executors in the older packages.
const LEGACY_PREFIX: &str = "agent_";

#[derive(Debug, Default)]
pub(super) struct Sources {
    executors: Map<Seat>,
    /// The executor whose messages an author signs, as far as turns have shown it.
    authors: Map<String>,
    /// Who made a message, by its id, as far as turns have shown it.
    messages: Map<Source>,
    count: usize,
    max: usize,
}

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

    /// The lane of an executor.
    pub(super) fn executor(&mut self, id: &str) -> Source {
        match self.seat(id) {
            Some(seat) => seat.source.clone(),
            None => Source::root(),
        }
    }

    /// The lane of an author who speaks through an executor.
    pub(super) fn voice(&mut self, executor: Option<&str>, author: Option<&str>) -> Source {
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
            // The author's spelling is the one for readers.
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

    /// The lane of a whole message in a response of an executor: the participant's, if it is known to have made it.
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
            Some(id) if executor != Some(&*id) => self.voice(Some(&id), author),
            _ => self.voice(executor, author),
        }
    }

    /// An executor was invoked: an author of that name is a participant.
    pub(super) fn invoked(&mut self, id: &str) {
        self.seat(id);
    }

    /// An executor speaks for the workflow.
    pub(super) fn orchestrates(&mut self, id: &str) {
        if let Some(seat) = self.seat(id) {
            seat.orchestrates = true;
        }
    }

    /// A turn has shown who made a message.
    pub(super) fn made(&mut self, executor: &str, author: Option<&str>, message: Option<&str>) {
        let source = self.voice(Some(executor), author);
        let room = self.messages.len() < self.max.saturating_mul(4);
        if let Some(id) = message.filter(|_| room) {
            self.messages.entry(id.to_owned()).or_insert(source);
        }
        if let Some(author) = author.filter(|_| self.authors.len() < self.max) {
            self.authors.entry(author.to_owned()).or_insert_with(|| executor.to_owned());
        }
    }

    /// The lane of an executor whose turn is over, and those inside it.
    pub(super) fn turn_over(&self, id: &str) -> Option<(Source, Vec<Source>)> {
        let known = |id: &&str| self.executors.contains_key(*id);
        let id = [id.strip_prefix(LEGACY_PREFIX), Some(id)].into_iter().flatten().find(known)?;
        let seat = self.executors.get(id)?;
        Some((seat.source.clone(), seat.inside.values().cloned().collect()))
    }

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

/// True if an executor's id is the author's name, as builders make it: spelled with other marks or in other case,
/// or with the prefix of the older packages.
fn same_agent(executor: &str, author: &str) -> bool {
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
        let inner = sources.voice(Some("team"), Some("writer"));
        assert_eq!(inner.parent().unwrap().key(), "team");
        assert_eq!(inner.name(), "writer");
        let spelled = sources.voice(Some("writer_agent"), Some("Writer Agent"));
        assert_eq!((spelled.path(), spelled.name()), ("writer_agent", "Writer Agent"));
        assert_eq!(
            sources.voice(Some("magentic_orchestrator"), Some("manager")).key(),
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
        assert_eq!(sources.voice(Some("a"), Some("x")), lanes[0]);
    }

    #[test]
    fn a_turn_ends_the_lanes_of_its_executor() {
        let mut sources = Sources::new(10);
        sources.voice(Some("writer"), None);
        let (lane, inside) = sources.turn_over("agent_writer").unwrap();
        assert_eq!((lane.key(), inside.len()), ("writer", 0));
        assert!(sources.turn_over("stranger").is_none());
    }
}
