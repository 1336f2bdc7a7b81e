//! Artifacts: chunks of the answer, each artifact on its own track; and those that stand for something else.

use aqueduct_core::{ByteString, Channel, ContentBlock, Metadata, Mode, Track};

use super::memory::{Kind, TaskMemory};
use super::parts::{Place, part_number};
use super::print::{Print, Relation};
use super::sink::Sink;
use super::status::joined_text;
use super::{Decoder, metadata};
use crate::recognise::Sign;
use crate::wire::{Artifact, ArtifactUpdate, Part};

/// How an artifact arrived.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// It follows what came before.
    pub(super) append: bool,
    /// Nothing more follows.
    pub(super) last: bool,
    /// False if it comes out of a snapshot.
    pub(super) live: bool,
}

/// What the answer so far is to a text that claims to be the whole of it.
pub(super) enum AnswerMatch {
    /// There is no answer yet.
    None,
    /// It repeats that artifact.
    Repeats(ByteString),
    /// It repeats all of them together.
    RepeatsAll,
    /// It continues all of them together from that byte on.
    ContinuesAll(usize),
    /// It continues the only one there is.
    Continues(ByteString),
    /// It is another text than the only one there is.
    Differs(ByteString),
    /// It is another text than all of them.
    DiffersFromAll,
}

impl TaskMemory {
    pub(super) fn match_answer(&self, text: &str) -> AnswerMatch {
        let mut relations = self.answers().map(|(place, record)| (place, record.text.relation(text)));
        if let Some((place, _)) =
            self.answers().find(|(_, record)| record.text.relation(text) == Relation::Same)
        {
            return AnswerMatch::Repeats(place.clone());
        }
        match (relations.next(), relations.next()) {
            (None, _) => AnswerMatch::None,
            (Some((place, Relation::Extends(_))), None) => AnswerMatch::Continues(place.clone()),
            (Some((place, _)), None) => AnswerMatch::Differs(place.clone()),
            _ => ["", "\n", "\n\n"]
                .iter()
                .find_map(|separator| {
                    let all = Print::joined(self.answers().map(|(_, record)| &record.text), separator);
                    match all.relation(text) {
                        Relation::Same => Some(AnswerMatch::RepeatsAll),
                        Relation::Extends(at) => Some(AnswerMatch::ContinuesAll(at)),
                        Relation::Different => None,
                    }
                })
                .unwrap_or(AnswerMatch::DiffersFromAll),
        }
    }
}

impl Decoder {
    pub(super) fn artifact_update(&mut self, update: ArtifactUpdate<'_>, sink: &mut Sink<'_>) {
        self.meet(&update.task_id, &update.context_id, sink);
        let mut beside = Metadata::new();
        metadata::put_event(&mut beside, update.metadata.as_ref());
        let arrival = Arrival { append: update.append, last: update.last_chunk, live: true };
        self.artifact(update.artifact, beside, arrival, sink);
    }

    /// A chunk, a whole artifact, or one out of a snapshot.
    pub(super) fn artifact(
        &mut self,
        artifact: Artifact<'_>,
        beside: Metadata,
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) {
        let id = self.memory.place(&artifact, arrival.append, arrival.live);
        let known = self.memory.artifacts.get(&*id);
        if !arrival.live
            && known.is_some_and(|record| record.kind != Kind::Words(Channel::Answer))
            && known
                .is_some_and(|record| record.text.relation(&joined_text(&artifact.parts)) == Relation::Same)
        {
            return;
        }
        if let Some(record) = known.filter(|_| arrival.append) {
            return match record.kind.clone() {
                Kind::Words(channel) => self.append_words(artifact, beside, id, channel, arrival, sink),
                Kind::Restated(target) => {
                    self.append_words(artifact, beside, target, Channel::Answer, arrival, sink)
                }
                Kind::Sign => self.sign_artifact(artifact, beside, id, arrival, sink),
            };
        }
        self.sign_artifact(artifact, beside, id, arrival, sink);
    }

    /// A new artifact, or one that is told anew: it is asked what it stands for.
    fn sign_artifact(
        &mut self,
        artifact: Artifact<'_>,
        beside: Metadata,
        id: ByteString,
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) {
        match self.config.recognisers.artifact(&artifact) {
            None | Some(Sign::Thinking) => {
                self.whole_words(artifact, beside, id, Channel::Answer, arrival, sink)
            }
            Some(Sign::Intermediate) => {
                self.whole_words(artifact, beside, id, Channel::Intermediate, arrival, sink)
            }
            Some(Sign::Final) => self.final_words(artifact, beside, id, arrival, sink),
            Some(sign) => self.notice(sign, artifact, beside, id, arrival, sink),
        }
    }

    fn notice(
        &mut self,
        sign: Sign,
        artifact: Artifact<'_>,
        beside: Metadata,
        id: ByteString,
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) {
        let repeated_id = self.memory.artifacts.contains_key(&*id);
        let text = artifact.text();
        self.memory.record(&id, Kind::Sign, &self.config.limits).set(&text);
        let call_id =
            if repeated_id { ByteString::from(format!("{id}#{}", self.memory.next())) } else { id.clone() };
        let mut place = self.artifact_place(&artifact, beside, id, Channel::Intermediate, true, arrival.last);
        let consumes_data = matches!(sign, Sign::Plan(_) | Sign::InputForm(_));
        let own = std::mem::take(&mut place.metadata);
        self.emit_sign(sign, &text, &call_id, own, &place, sink);
        for part in artifact.parts {
            if part.as_text().is_none() && !(consumes_data && part.data_value().is_some()) {
                self.emit_other(part, &mut place, None, sink);
            }
        }
    }

    fn artifact_place(
        &self,
        artifact: &Artifact<'_>,
        beside: Metadata,
        id: ByteString,
        channel: Channel,
        first: bool,
        last: bool,
    ) -> Place {
        // The hot path: a chunk that follows and has nothing beside it.
        let plain = !first
            && artifact.metadata.is_none()
            && artifact.extensions.is_empty()
            && artifact.extra.is_empty();
        let mut own = if plain { Metadata::new() } else { metadata::of_artifact(artifact, first) };
        if !beside.is_empty() {
            own.extend(beside);
        }
        Place {
            message_id: id.clone(),
            track: Track::new(id),
            channel,
            created_at: None,
            metadata: own,
            last,
        }
    }

    fn append_words(
        &mut self,
        artifact: Artifact<'_>,
        beside: Metadata,
        id: ByteString,
        channel: Channel,
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) {
        let drop_restated = self.config.drop_restated_chunks;
        let mut place = self.artifact_place(&artifact, beside, id.clone(), channel, false, arrival.last);
        let record = self.memory.record(&id, Kind::Words(channel), &self.config.limits);
        let text = joined_text(&artifact.parts);
        if drop_restated && record.is_restated_by(&text) {
            record.begin_segment();
            self.counts.repeated += 1;
            self.emit_others(artifact.parts, &mut place, &id, sink);
            if arrival.last {
                self.emit_end(&place, sink);
            }
            return;
        }
        if !text.is_empty() {
            record.push(&text);
        }
        for part in artifact.parts.iter().filter(|part| part.as_text().is_none()) {
            record.note_other(part_number(part));
        }
        let wordless = !artifact.parts.iter().any(|part| part.as_text().is_some());
        self.emit_parts(artifact.parts, &mut place, false, sink);
        if wordless && arrival.last {
            self.emit_end(&place, sink);
        }
    }

    /// A whole artifact: new, replaced, or out of a snapshot.
    fn whole_words(
        &mut self,
        artifact: Artifact<'_>,
        beside: Metadata,
        id: ByteString,
        channel: Channel,
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) {
        let known = self.memory.artifacts.contains_key(&*id);
        if !known {
            let mut place = self.artifact_place(&artifact, beside, id.clone(), channel, true, arrival.last);
            let record = self.memory.record(&id, Kind::Words(channel), &self.config.limits);
            record.push(&joined_text(&artifact.parts));
            for part in artifact.parts.iter().filter(|part| part.as_text().is_none()) {
                record.note_other(part_number(part));
            }
            return self.emit_parts(artifact.parts, &mut place, false, sink);
        }
        let mut place =
            self.artifact_place(&artifact, beside, id.clone(), channel, arrival.live, arrival.last);
        let turn = self.memory.turn;
        let record = self.memory.record(&id, Kind::Words(channel), &self.config.limits);
        let text = joined_text(&artifact.parts);
        let same = record.text.relation(&text) == Relation::Same;
        if same && !arrival.live {
            // Its words were shown in an earlier turn, or in this one: nothing to compare.
            return self.emit_others(artifact.parts, &mut place, &id, sink);
        }
        record.kind = Kind::Words(channel);
        record.turn = turn;
        record.set(&text);
        self.emit_whole(&artifact.parts, Mode::Replace, &mut place, sink);
        self.emit_others(artifact.parts, &mut place, &id, sink);
    }

    /// The whole answer once more.
    fn final_words(
        &mut self,
        artifact: Artifact<'_>,
        beside: Metadata,
        id: ByteString,
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) {
        let text = joined_text(&artifact.parts);
        let (target, mode, from) = match self.memory.match_answer(&text) {
            AnswerMatch::None => {
                return self.whole_words(artifact, beside, id, Channel::Answer, arrival, sink);
            }
            AnswerMatch::Repeats(target) | AnswerMatch::Continues(target) => (target, Mode::Snapshot, 0),
            AnswerMatch::Differs(target) => (target, Mode::Replace, 0),
            AnswerMatch::RepeatsAll => (id.clone(), Mode::Snapshot, text.len()),
            AnswerMatch::ContinuesAll(at) => (id.clone(), Mode::Append, at),
            AnswerMatch::DiffersFromAll => (id.clone(), Mode::Append, 0),
        };
        let limits = self.config.limits.clone();
        self.memory.record(&id, Kind::Restated(target.clone()), &limits).set(&text);
        let mut place = self.artifact_place(
            &artifact,
            beside,
            target.clone(),
            Channel::Answer,
            target == id,
            arrival.last,
        );
        let rest = text.get(from..).unwrap_or_default();
        if rest.is_empty() {
            self.counts.repeated += 1;
        } else {
            if target != id {
                self.memory.record(&target, Kind::Words(Channel::Answer), &limits).set(&text);
            }
            let words = [Part::text(rest)];
            self.emit_whole(&words, mode, &mut place, sink);
        }
        self.emit_others(artifact.parts, &mut place, &id, sink);
    }

    /// The parts of a known artifact that are no words and were not shown before.
    fn emit_others(&mut self, parts: Vec<Part<'_>>, place: &mut Place, id: &ByteString, sink: &mut Sink<'_>) {
        for part in parts.into_iter().filter(|part| part.as_text().is_none()) {
            let new = self
                .memory
                .artifacts
                .get_mut(&**id)
                .is_none_or(|record| record.note_other(part_number(&part)));
            if new {
                self.emit_other(part, place, None, sink);
            }
        }
    }

    /// Nothing more follows for an artifact.
    fn emit_end(&self, place: &Place, sink: &mut Sink<'_>) {
        let mut update = self.update_at(place, ContentBlock::text(ByteString::new()));
        update.last = true;
        sink.push(update);
    }
}
