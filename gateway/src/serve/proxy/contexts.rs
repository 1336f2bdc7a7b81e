//! Maps between the context ids of callers and those of a proxied agent.
//!
//! A context id that a caller sends is forwarded only if the agent assigned it to this caller. Any other id is a
//! private name of the caller: the agent receives an id derived from the principal and the name, and the caller
//! receives its own name in the response. So the context of another principal and a context that never existed lead to
//! the same call and the same response; naming a context neither claims nor joins it.
//!
//! The derived id is a UUID, because some agents accept no other form. It cannot be converted back into the name, so
//! the record of the task stores the name ([`owners`](super::owners)).

use aqueduct_adapter_a2a::relay::{replace_contexts, replace_query_contexts};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use ring::digest::{Context, SHA256};
use serde_json::Value;

use super::answer::{Answer, AnswerBody, Chunks};

/// Returns the id that an agent receives for the context that a principal calls `name`.
///
/// The first 128 bits of SHA-256 over principal, agent and name, each followed by a zero byte, so that no two triples
/// concatenate to the same text. The result is the same at every replica and after a restart, without a stored table.
pub(super) fn agents_id(owner: &str, agent: &str, name: &str) -> String {
    let mut hash = Context::new(&SHA256);
    for part in ["aqueduct context", owner, agent, name] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    let hex = |byte: &u8| format!("{byte:02x}");
    let mut digits: String = hash.finish().as_ref().iter().take(16).map(hex).collect();
    // UUID version 8 (RFC 9562, custom derivation) and the variant of that RFC.
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "a");
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32];
    groups.map(|group| digits.get(group).unwrap_or_default().to_owned()).join("-")
}

/// The renamed contexts of one call: each name of the caller with the id for the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Renames(Vec<(String, String)>);

impl Renames {
    /// Adds a pair, unless the id has a name already: a call may name its context several times.
    pub(super) fn add(&mut self, name: String, id: String) {
        if !self.0.iter().any(|(_, known)| *known == id) {
            self.0.push((name, id));
        }
    }

    /// Returns the caller's name for an id of the agent.
    pub(super) fn name_of(&self, id: &str) -> Option<&str> {
        self.0.iter().find(|(_, known)| known == id).map(|(name, _)| name.as_str())
    }

    /// Returns the agent's id for a name of the caller.
    fn id_of(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, id)| id.clone())
    }

    /// Returns the body of the call for the agent, or `None` if it is unchanged.
    pub(super) fn body(&self, body: &str, is_rpc: bool) -> Option<String> {
        replace_contexts(body, is_rpc, |name| self.id_of(name)).filter(|_| !self.0.is_empty())
    }

    /// Returns the query of the call for the agent.
    pub(super) fn query(&self, query: &str) -> String {
        replace_query_contexts(query, |name| self.id_of(name))
    }

    /// Returns the response for the caller, with the caller's names in place of the agent's ids. A stream is rewritten
    /// chunk by chunk. A response without renames is returned as it is.
    pub(super) fn answer(self, answer: Answer) -> Answer {
        if self.0.is_empty() {
            return answer;
        }
        let mut replacer = Replacer::new(&self);
        answer.map(|body| match body {
            AnswerBody::Whole(bytes) => {
                let mut whole = BytesMut::from(&*replacer.replace(&bytes));
                whole.extend_from_slice(&replacer.rest());
                AnswerBody::Whole(whole.freeze())
            }
            AnswerBody::Stream(chunks) => AnswerBody::Stream(replacer.stream(chunks)),
        })
    }
}

/// Replaces ids in a stream of JSON wherever an id is a whole string. An id is a hash, so no other string equals it.
///
/// Works on bytes instead of parsed JSON: a stream may be cut anywhere, and all other bytes must stay unchanged.
struct Replacer {
    /// Each id in quotes, and the name as a JSON string.
    pairs: Vec<(Bytes, Bytes)>,
    /// The end of the input so far if it may be the beginning of an id; always shorter than an id in quotes.
    held: BytesMut,
}

impl Replacer {
    /// Prepares the pairs once per response. Names are escaped as JSON: a caller may use any characters.
    fn new(renames: &Renames) -> Self {
        let json = |text: &str| Bytes::from(Value::from(text).to_string());
        let pairs = renames.0.iter().map(|(name, id)| (json(id), json(name))).collect();
        Self { pairs, held: BytesMut::new() }
    }

    /// Returns the chunk with replaced ids, without an end that may be the beginning of an id. Linear in the length of
    /// the chunk times the number of renames, which is small: one per context of the call.
    ///
    /// ```text
    /// "contextId":"5f0c…-8…-a…"   ──►   "contextId":"C"
    /// "id":"5f0c…-8…-a…:1"        ──►   unchanged: the id is only a part of the string
    /// ```
    fn replace(&mut self, chunk: &[u8]) -> Bytes {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(chunk);
        let (mut out, mut rest) = (BytesMut::with_capacity(bytes.len()), &*bytes);
        while let Some(at) = rest.iter().position(|byte| *byte == b'"') {
            let (before, quoted) = rest.split_at(at);
            out.extend_from_slice(before);
            if let Some((id, name)) = self.pairs.iter().find(|(id, _)| quoted.starts_with(id)) {
                out.extend_from_slice(name);
                rest = quoted.get(id.len()..).unwrap_or_default();
            } else if self.pairs.iter().any(|(id, _)| id.starts_with(quoted)) {
                // The chunk ends inside what may be an id: the next chunk decides.
                self.held = BytesMut::from(quoted);
                return out.freeze();
            } else {
                out.extend_from_slice(b"\"");
                rest = quoted.get(1..).unwrap_or_default();
            }
        }
        out.extend_from_slice(rest);
        out.freeze()
    }

    /// Returns the held end, once the response has ended: it was not an id.
    fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }

    /// Returns the stream with replaced ids. An error is forwarded; the held end of a stream that was cut is dropped
    /// with it.
    fn stream(self, chunks: Chunks) -> Chunks {
        let next = async |(mut replacer, mut chunks): (Self, Chunks)| {
            let chunk = match chunks.next().await {
                Some(Ok(bytes)) => Ok(replacer.replace(&bytes)),
                Some(Err(error)) => Err(error),
                None => Ok(Some(replacer.rest()).filter(|rest| !rest.is_empty())?),
            };
            Some((chunk, (replacer, chunks)))
        };
        futures_util::stream::unfold((self, chunks), next).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_of_the_principal_and_the_name() {
        let id = agents_id("ann", "p", "C");
        assert_eq!(id.len(), 36);
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(id.chars().all(|c| c == '-' || c.is_ascii_hexdigit()), "{id}");
        assert_eq!(id, agents_id("ann", "p", "C"), "the same at every replica");
        let others = [agents_id("bob", "p", "C"), agents_id("ann", "q", "C"), agents_id("ann", "p", "D")];
        assert!(others.iter().all(|other| *other != id));
        assert_ne!(agents_id("a", "bc", "d"), agents_id("ab", "c", "d"));
    }

    #[test]
    fn an_answer_in_pieces_of_any_size_has_the_callers_name() {
        let mut renames = Renames::default();
        let id = agents_id("ann", "p", "my \"own\"");
        renames.add("my \"own\"".to_owned(), id.clone());
        let sent = format!(
            "data: {{\"contextId\":\"{id}\",\"id\":\"{id}:1\",\"x\":\"\\\"{id}\\\"\",\"y\":[\"{id}\"]}}\n\n: \"{}",
            id.split_once('-').unwrap().0
        );
        let expected = sent.replace(&format!("\"contextId\":\"{id}\""), "\"contextId\":\"my \\\"own\\\"\"");
        let expected = expected.replace(&format!("[\"{id}\"]"), "[\"my \\\"own\\\"\"]");
        for size in 1..sent.len() {
            let mut replacer = Replacer::new(&renames);
            let mut got = Vec::new();
            for piece in sent.as_bytes().chunks(size) {
                got.extend_from_slice(&replacer.replace(piece));
            }
            got.extend_from_slice(&replacer.rest());
            assert_eq!(String::from_utf8(got).unwrap(), expected, "{size}");
        }
    }
}
