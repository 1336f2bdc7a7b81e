//! Artifacts: chunks of the answer, each artifact on its own track; and artifacts that are recognised as something
//! else.
//!
//! ```text
//!                            ┌─ marked ───────────────────────────────► `marked`
//!   artifact ──► known? ─────┼─ new, or sent again: recognised as ─────► text, restated answer, or a notice
//!                            └─ appended, by the kind of its record:
//!                                 Words ────────────────► append, unless the chunk repeats the artifact
//!                                 Echo ─────────────────► compared with status texts, emitted if it differs
//!                                 Restated(other) ──────► append to the other artifact
//!                                 Sign ─────────────────► recognised again
//! ```
//!
//! The first chunk decides the kind of an artifact (`memory::Kind`). `append: false` on a known artifact replaces its
//! text, and the stream machine shows the difference; `append: true` on an unknown one creates it.

use std::borrow::Cow;

use aqueduct_core::fingerprint::Relation;
use aqueduct_core::{ByteString, Channel, ContentBlock, Metadata, Mode, Source, Track};

use super::matching::AnswerMatch;
use super::memory::Kind;
use super::parts::{UpdateTarget, part_number};
use super::sink::Sink;
use super::speech::Echoed;
use super::status::joined_text;
use super::{Decoder, metadata};
use crate::config::SubAgents;
use crate::recognise::Sign;
use crate::wire::{Artifact, ArtifactUpdate, Content, Part, Text};

/// How an artifact arrived.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// Set if the chunk is appended to the earlier ones.
    pub(super) append: bool,
    /// Set if this is the last chunk.
    pub(super) last: bool,
    /// Unset if the artifact is part of a snapshot.
    pub(super) live: bool,
}

/// An artifact that is being decoded, with its place in memory.
struct Incoming<'a> {
    artifact: Artifact<'a>,
    /// Metadata of the event around it.
    beside: Metadata,
    /// The key in memory, which is also the track.
    id: ByteString,
    /// The sub-agent that it belongs to, if any.
    agent: Option<Source>,
    arrival: Arrival,
}

impl Incoming<'_> {
    /// Returns the place of its content, and takes the metadata of the event. `first` is set if its name and
    /// description were not emitted yet.
    fn place(&mut self, own_agent: &Source, channel: Channel, first: bool) -> UpdateTarget {
        let artifact = &self.artifact;
        // The hot path: a chunk that is appended and has no metadata.
        let plain = !first
            && artifact.metadata.is_none()
            && artifact.extensions.is_empty()
            && artifact.extra.is_empty();
        let mut own = if plain { Metadata::new() } else { metadata::of_artifact(artifact, first) };
        own.append(&mut self.beside);
        UpdateTarget {
            source: self.agent.as_ref().unwrap_or(own_agent).clone(),
            message_id: self.id.clone(),
            track: Track::new(self.id.clone()),
            channel,
            created_at: None,
            metadata: own,
            last: self.arrival.last,
        }
    }
}

impl Decoder {
    /// Decodes a live chunk of an artifact. After an interrupt it means that the agent continues.
    pub(super) fn artifact_update(&mut self, update: ArtifactUpdate<'_>, sink: &mut Sink<'_>) {
        self.record_task(&update.task_id, &update.context_id, sink);
        self.go_on();
        let mut beside = Metadata::new();
        metadata::put_event(&mut beside, update.metadata.as_ref());
        self.book_usage(update.metadata.as_ref(), sink);
        let arrival = Arrival { append: update.append, last: update.last_chunk, live: true };
        self.artifact(update.artifact, beside, arrival, sink);
    }

    /// Decodes a chunk, a complete artifact, or one of a snapshot, and dispatches by the kind of its record (chart of
    /// the module).
    pub(super) fn artifact(
        &mut self,
        mut artifact: Artifact<'_>,
        beside: Metadata,
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) {
        if self.reads_marks() && self.marked_artifact(&mut artifact, arrival, sink) {
            return;
        }
        self.book_usage(artifact.metadata.as_ref(), sink);
        let id = self.memory.place(&artifact, arrival.append, arrival.live);
        let agent = match self.memory.artifacts.get(&*id) {
            Some(record) => record.agent.clone(),
            None => self.sub_agent(&artifact, &beside),
        };
        let mut incoming = Incoming { artifact, beside, id, agent, arrival };
        let Some(record) = self.memory.artifacts.get(&*incoming.id) else {
            return self.whole_artifact(incoming, sink);
        };
        // A snapshot repeats notices and restated answers: they were emitted when they arrived.
        let was_emitted =
            || record.text.relation_of_whole(&joined_text(&incoming.artifact.parts)) == Relation::Same;
        if !arrival.live && !matches!(record.kind, Kind::Words(_)) && was_emitted() {
            return;
        }
        match record.kind.clone() {
            // An artifact may begin without text; whether it restates a status text shows with the first chunk that
            // has some.
            Kind::Words(Channel::Answer) if arrival.append && record.text.is_blank() => {
                self.append_first(incoming, sink);
            }
            Kind::Words(channel) if arrival.append => self.append_words(incoming, channel, sink),
            Kind::Echo if arrival.append => self.append_echo(incoming, sink),
            Kind::Restated(target) if arrival.append => {
                incoming.agent = Some(self.agent_of(&target));
                incoming.id = target;
                self.append_words(incoming, Channel::Answer, sink);
            }
            _ => self.whole_artifact(incoming, sink),
        }
    }

    /// Returns the sub-agent of a new artifact; later chunks need not name it again.
    fn sub_agent(&mut self, artifact: &Artifact<'_>, beside: &Metadata) -> Option<Source> {
        if self.config.sub_agents == SubAgents::Inline {
            return None;
        }
        let named = self.config.recognisers.sub_agent(artifact).map(|name| self.source.child(name));
        named.or_else(|| self.speaker(artifact.metadata.as_ref(), beside))
    }

    /// Returns the source of a known artifact.
    pub(super) fn agent_of(&self, id: &ByteString) -> Source {
        let record = self.memory.artifacts.get(&**id);
        record.and_then(|record| record.agent.as_ref()).unwrap_or(&self.source).clone()
    }

    /// Decodes a new artifact, or one that is sent again: recognisers are applied.
    fn whole_artifact(&mut self, incoming: Incoming<'_>, sink: &mut Sink<'_>) {
        match self.config.recognisers.artifact(&incoming.artifact) {
            None | Some(Sign::Thinking) => self.whole_words(incoming, Channel::Answer, sink),
            Some(Sign::Intermediate) => self.whole_words(incoming, Channel::Intermediate, sink),
            Some(Sign::Final) => self.final_words(incoming, sink),
            Some(sign) => self.notice(sign, incoming, sink),
        }
    }

    /// Emits an artifact that is recognised as a notice, a plan, a failure or a form.
    fn notice(&mut self, sign: Sign, mut incoming: Incoming<'_>, sink: &mut Sink<'_>) {
        let id = incoming.id.clone();
        let id_was_used = self.memory.artifacts.contains_key(&*id);
        let text = incoming.artifact.text();
        self.memory.record(&id, Kind::Sign, &self.config.limits).set(&text);
        let call_id = if id_was_used { ByteString::from(format!("{id}#{}", self.memory.next())) } else { id };
        let mut place = incoming.place(&self.source, Channel::Intermediate, true);
        let own = std::mem::take(&mut place.metadata);
        let is_data = matches!(sign, Sign::Plan(_) | Sign::InputForm(_));
        self.emit_sign(sign, &text, &call_id, own, &place, sink);
        let others = incoming.artifact.parts.into_iter().filter(|part| part.as_text().is_none());
        for part in others.filter(|part| !(is_data && matches!(part.content, Content::Data(_)))) {
            self.emit_other(&part, &mut place, sink);
        }
    }

    /// Emits the text of a chunk that continues its artifact. A chunk that repeats the whole artifact is suppressed,
    /// except for its end: Microsoft Agent Framework sends the complete message once more as its last chunk.
    fn append_words(&mut self, mut incoming: Incoming<'_>, channel: Channel, sink: &mut Sink<'_>) {
        let mut place = incoming.place(&self.source, channel, false);
        let Incoming { artifact, id, arrival, .. } = incoming;
        let text = joined_text(&artifact.parts);
        if self.holds_text() {
            self.settle_streamed(&id, &artifact.parts, sink);
        }
        let turn = self.memory.turn;
        let record = self.memory.record(&id, Kind::Words(channel), &self.config.limits);
        if self.config.drop_restated_chunks && record.is_restated_by(&text) {
            record.begin_segment();
            self.counts.repeated += 1;
            self.emit_others(artifact.parts, &mut place, &id, sink);
            if arrival.last {
                self.emit_end(&place, sink);
            }
            return;
        }
        record.touched = turn;
        record.note(&text, &artifact.parts);
        self.memory.tail.push(&id, &text, self.config.limits.compared_text);
        self.hold_open(&place, sink);
        let is_wordless = artifact.parts.iter().all(|part| part.as_text().is_none());
        self.emit_parts(artifact.parts, &mut place, false, sink);
        if is_wordless && arrival.last {
            self.emit_end(&place, sink);
        }
    }

    /// Decodes the first text of an artifact that began without any.
    fn append_first(&mut self, incoming: Incoming<'_>, sink: &mut Sink<'_>) {
        let is_whole = incoming.arrival.last || !incoming.arrival.live;
        let parts = &incoming.artifact.parts;
        if matches!(self.echoes(&incoming.id, parts, false, is_whole, sink), Echoed::No(_)) {
            return self.append_words(incoming, Channel::Answer, sink);
        }
        self.note_echo(incoming, sink);
    }

    /// Decodes more of an artifact that has restated status texts so far. If it differs with this chunk, it was an
    /// answer of its own, and all of its text is emitted.
    fn append_echo(&mut self, mut incoming: Incoming<'_>, sink: &mut Sink<'_>) {
        let words = self.words(&incoming.artifact.parts);
        let is_whole = incoming.arrival.last || !incoming.arrival.live;
        if let Echoed::No(held_back) =
            self.echoes(&incoming.id, &incoming.artifact.parts, true, is_whole, sink)
            && !words.is_empty()
        {
            incoming.artifact.parts.retain(|part| part.as_text().is_none());
            incoming.artifact.parts.insert(0, Part::text(Text(held_back.map_or(words, Cow::Owned))));
            self.memory.artifacts.shift_remove(&*incoming.id);
            return self.whole_words_apart(incoming, Channel::Answer, sink);
        }
        self.note_echo(incoming, sink);
    }

    /// Records a chunk whose text was shown, and emits its other parts.
    fn note_echo(&mut self, mut incoming: Incoming<'_>, sink: &mut Sink<'_>) {
        let mut place = incoming.place(&self.source, Channel::Answer, false);
        let text = joined_text(&incoming.artifact.parts);
        let record = self.memory.record(&incoming.id, Kind::Echo, &self.config.limits);
        record.push(&text);
        record.kind = Kind::Echo;
        self.emit_others(incoming.artifact.parts, &mut place, &incoming.id, sink);
    }

    /// Decodes a complete artifact: new, replaced, or of a snapshot. Text that statuses have shown is not emitted
    /// again.
    fn whole_words(&mut self, mut incoming: Incoming<'_>, channel: Channel, sink: &mut Sink<'_>) {
        let known = self.memory.artifacts.get(&*incoming.id).map(|record| &record.kind);
        let is_whole = incoming.arrival.last || !incoming.arrival.live;
        let may_echo = channel == Channel::Answer && matches!(known, None | Some(Kind::Echo));
        let parts = &incoming.artifact.parts;
        if !may_echo || matches!(self.echoes(&incoming.id, parts, false, is_whole, sink), Echoed::No(_)) {
            return self.whole_words_apart(incoming, channel, sink);
        }
        let mut place = incoming.place(&self.source, Channel::Answer, true);
        let turn = self.memory.turn;
        let record = self.memory.record(&incoming.id, Kind::Echo, &self.config.limits);
        record.set(&joined_text(&incoming.artifact.parts));
        record.kind = Kind::Echo;
        record.begin_turn(turn);
        incoming.artifact.parts.retain(|part| !self.was_emitted(part));
        for part in incoming.artifact.parts {
            if part.as_text().is_some() {
                self.emit_parts(vec![part], &mut place, false, sink);
            } else {
                self.emit_others(vec![part], &mut place, &incoming.id, sink);
            }
        }
    }

    /// As [`whole_words`](Self::whole_words), for text that restates nothing but its artifact: emits a new artifact,
    /// or the difference to the known one.
    fn whole_words_apart(&mut self, mut incoming: Incoming<'_>, channel: Channel, sink: &mut Sink<'_>) {
        let is_known = self.memory.artifacts.contains_key(&*incoming.id);
        let mut place = incoming.place(&self.source, channel, !is_known || incoming.arrival.live);
        let Incoming { mut artifact, id, agent, arrival, .. } = incoming;
        let turn = self.memory.turn;
        // An artifact that is replaced by the end of its own text adds nothing.
        let is_cut = arrival.live && self.memory.tail.ends_with(&id, &joined_text(&artifact.parts));
        let record = self.memory.record(&id, Kind::Words(channel), &self.config.limits);
        record.agent = agent;
        let earlier = std::mem::take(&mut record.text);
        record.replay(&mut artifact.parts, self.config.drop_restated_chunks);
        if !is_known {
            record.note("", &artifact.parts);
            let text = joined_text(&artifact.parts);
            self.memory.tail.push(&id, &text, self.config.limits.compared_text);
            self.hold_open(&place, sink);
            return self.emit_parts(artifact.parts, &mut place, false, sink);
        }
        // A snapshot that repeats what this or an earlier turn has shown.
        let text = joined_text(&artifact.parts);
        let is_repeated = !arrival.live && earlier.relation_of_whole(&text) == Relation::Same;
        if is_cut {
            self.counts.repeated += 1;
        } else if !is_repeated {
            record.kind = Kind::Words(channel);
            record.begin_turn(turn);
            self.memory.tail.push(&id, &text, self.config.limits.compared_text);
            self.hold_open(&place, sink);
            self.emit_whole(&artifact.parts, Mode::Replace, &mut place, sink);
        }
        self.emit_others(artifact.parts, &mut place, &id, sink);
    }

    /// Decodes the complete answer once more (CAIPE: `complete_result`, `final_result`), by its relation to the
    /// artifacts of the turn:
    ///
    /// | relation | effect |
    /// |---|---|
    /// | no answer yet | it is the answer |
    /// | repeats or extends one | snapshot of that artifact: the rest is shown |
    /// | differs from the only one | replaces it |
    /// | repeats or extends all together | nothing, or the rest as a block of its own |
    /// | differs from several | a block of its own |
    fn final_words(&mut self, mut incoming: Incoming<'_>, sink: &mut Sink<'_>) {
        let text = incoming.artifact.text();
        let own_id = incoming.id.clone();
        let (target, mode, from) = match self.memory.match_answer(&text) {
            AnswerMatch::None => return self.whole_words(incoming, Channel::Answer, sink),
            AnswerMatch::Repeats(target) | AnswerMatch::Continues(target) => (target, Mode::Snapshot, 0),
            AnswerMatch::Differs(target) => (target, Mode::Replace, 0),
            AnswerMatch::RepeatsAll => (own_id.clone(), Mode::Snapshot, text.len()),
            AnswerMatch::ContinuesAll(at) => (own_id.clone(), Mode::Append, at),
            AnswerMatch::DiffersFromAll => (own_id.clone(), Mode::Append, 0),
        };
        let is_own = target == own_id;
        incoming.id = target.clone();
        incoming.agent = Some(self.agent_of(&target)).filter(|_| !is_own).or(incoming.agent);
        let mut place = incoming.place(&self.source, Channel::Answer, is_own);
        self.memory.record(&own_id, Kind::Restated(target.clone()), &self.config.limits).set(&text);
        if !is_own {
            self.memory.record(&target, Kind::Words(Channel::Answer), &self.config.limits).set(&text);
        }
        match text.get(from..).filter(|rest| !rest.is_empty()) {
            Some(rest) => {
                self.hold_open(&place, sink);
                self.emit_whole(&[Part::text(rest)], mode, &mut place, sink);
            }
            None => self.counts.repeated += 1,
        }
        self.emit_others(incoming.artifact.parts, &mut place, &own_id, sink);
    }

    /// Emits the parts of a known artifact that are not text and were not shown before.
    fn emit_others(
        &mut self,
        parts: Vec<Part<'_>>,
        place: &mut UpdateTarget,
        id: &ByteString,
        sink: &mut Sink<'_>,
    ) {
        for part in parts.into_iter().filter(|part| part.as_text().is_none()) {
            let record = self.memory.artifacts.get_mut(&**id);
            if record.is_none_or(|record| record.note_other(part_number(&part))) {
                self.emit_other(&part, place, sink);
            }
        }
    }

    /// Records that an artifact has new text, and ends the least recently used one if too many are open.
    fn hold_open(&mut self, place: &UpdateTarget, sink: &mut Sink<'_>) {
        self.keep_open(&place.message_id, place.channel, &place.source, place.last, sink);
    }

    /// As [`hold_open`](Self::hold_open), by the id alone.
    pub(super) fn keep_open(
        &mut self,
        id: &ByteString,
        channel: Channel,
        source: &Source,
        last: bool,
        sink: &mut Sink<'_>,
    ) {
        let is_it = |open: &(ByteString, Channel, Source)| open.0 == *id && open.1 == channel;
        if !self.open.back().is_some_and(is_it) {
            if let Some(at) = self.open.iter().position(is_it) {
                self.open.remove(at);
            }
            self.open.push_back((id.clone(), channel, source.clone()));
        }
        if last {
            self.open.pop_back();
        }
        if self.open.len() > self.config.limits.open_artifacts.max(1)
            && let Some((id, channel, source)) = self.open.pop_front()
        {
            let track = Track::new(id.clone());
            let (created_at, metadata) = (None, Metadata::new());
            self.emit_end(
                &UpdateTarget { source, message_id: id, track, channel, created_at, metadata, last: true },
                sink,
            );
        }
    }

    /// Emits the end of an artifact's text.
    fn emit_end(&self, place: &UpdateTarget, sink: &mut Sink<'_>) {
        let mut update = self.update_at(place, ContentBlock::text(ByteString::new()));
        update.last = true;
        sink.push(update);
    }
}
