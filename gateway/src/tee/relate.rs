//! Which run a call belongs to.
//!
//! Every agent at work in a run has an [`Anchor`]: the run's own agent, and each sub-agent that is called through the
//! gateway. A call is related to the anchor of whoever made it, by what it carries, in the configured order:
//!
//! | way | what | finds |
//! |---|---|---|
//! | token | header `x-aqueduct-run`, metadata `aqueduct/run`, baggage `aqueduct-run` | the very agent that was given the token |
//! | trace | the trace id of `traceparent` | the run, if one alone has that trace |
//! | context | the A2A context id | the run, if one alone has that thread or context; else a lane, likewise |
//!
//! Tokens are 128 random bits: who knows one was given it. Traces and contexts can be guessed by those who may call the
//! agent at all, which is why each way can be switched off.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use aqueduct_adapter_a2a::relay::PassingCall;
use aqueduct_core::Source;
use http::HeaderMap;

use crate::config::RelateBy;
use crate::service::ActiveRun;

/// The header of a token.
pub(crate) const TOKEN_HEADER: &str = "x-aqueduct-run";
/// The metadata key of a token in A2A messages.
pub(crate) const TOKEN_METADATA: &str = "aqueduct/run";
/// The metadata key by which a supervisor can name the tool call that a message belongs to.
pub(crate) const CALL_METADATA: &str = "aqueduct/call";
/// The member of W3C baggage that holds a token.
pub(crate) const TOKEN_BAGGAGE: &str = "aqueduct-run";

/// The longest context id that is remembered. Those of agents are UUIDs; a longer one relates nothing.
const CONTEXT_BYTES: usize = 1024;

/// Proof of belonging to a run.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct RunToken(String);

impl RunToken {
    /// A new one; none if the system has no randomness, which a run survives.
    pub(crate) fn mint() -> Option<Self> {
        random_hex::<16>().map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Never printed: it opens a run to whoever has it.
impl fmt::Debug for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunToken(…)")
    }
}

/// So many random bytes of the system, as hexadecimal text.
pub(super) fn random_hex<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0; BYTES];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::error!(%error, "the system has no randomness: calls of sub-agents cannot be related by token");
        return None;
    }
    Some(bytes.iter().fold(String::with_capacity(2 * BYTES), |mut text, byte| {
        // Writing to a `String` cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    }))
}

/// An agent at work in a run, to which the lanes of the agents that it calls are attached.
#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) run: Arc<ActiveRun>,
    /// The agent in its run.
    pub(crate) source: Source,
    pub(super) token: Option<RunToken>,
    pub(super) trace: Option<String>,
    contexts: Mutex<Vec<String>>,
    tee: Weak<Tee>,
}

impl Anchor {
    /// The agent speaks in that conversation.
    pub(crate) fn learn_context(self: &Arc<Self>, context: &str) {
        let Some(tee) = self.tee.upgrade() else { return };
        let mut own = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = own.iter().any(|known| known == context);
        if !context.is_empty() && context.len() <= CONTEXT_BYTES && !known {
            own.push(context.to_owned());
            tee.index().contexts.entry(context.to_owned()).or_default().push(Arc::downgrade(self));
        }
    }

    /// An anchor for an agent that this one works with.
    pub(crate) fn child(self: &Arc<Self>, source: Source) -> Option<Arc<Self>> {
        let tee = self.tee.upgrade()?;
        Some(tee.anchor(Arc::clone(&self.run), source, self.trace.clone()))
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        if let Some(tee) = self.tee.upgrade() {
            tee.forget(self);
        }
    }
}

/// Weak: an anchor lives as long as its agent's call.
#[derive(Debug, Default)]
struct Index {
    tokens: HashMap<RunToken, Weak<Anchor>>,
    traces: HashMap<String, Vec<Weak<Anchor>>>,
    contexts: HashMap<String, Vec<Weak<Anchor>>>,
}

/// All anchors of a gateway.
#[derive(Debug)]
pub(crate) struct Tee {
    ways: Vec<RelateBy>,
    index: Mutex<Index>,
}

impl Tee {
    pub(crate) fn new(ways: Vec<RelateBy>) -> Arc<Self> {
        Arc::new(Self { ways, index: Mutex::default() })
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, way: RelateBy) -> bool {
        self.ways.contains(&way)
    }

    /// An anchor, found by what is switched on, until it is dropped.
    pub(crate) fn anchor(
        self: &Arc<Self>,
        run: Arc<ActiveRun>,
        source: Source,
        trace: Option<String>,
    ) -> Arc<Anchor> {
        let token = if self.has(RelateBy::Token) { RunToken::mint() } else { None };
        let tee = Arc::downgrade(self);
        let anchor = Arc::new(Anchor { run, source, token, trace, contexts: Mutex::default(), tee });
        let mut index = self.index();
        if let Some(token) = &anchor.token {
            index.tokens.insert(token.clone(), Arc::downgrade(&anchor));
        }
        // A trace cannot tell the agents of a run apart: it leads to the run's own.
        if let Some(trace) = anchor.trace.as_ref().filter(|_| anchor.source.is_root()) {
            index.traces.entry(trace.clone()).or_default().push(Arc::downgrade(&anchor));
        }
        drop(index);
        anchor
    }

    /// The anchor of whoever made a call, and how it was found.
    pub(crate) fn relate(
        &self,
        headers: &HeaderMap,
        call: &PassingCall<'_>,
    ) -> Option<(Arc<Anchor>, RelateBy)> {
        self.ways.iter().find_map(|way| {
            let anchor = match way {
                RelateBy::Token => self.by_token(headers, call),
                RelateBy::Trace => self.by_trace(headers),
                RelateBy::Context => self.by_context(&call.context_id),
            };
            Some((anchor?, *way))
        })
    }

    fn by_token(&self, headers: &HeaderMap, call: &PassingCall<'_>) -> Option<Arc<Anchor>> {
        let header = text(headers, TOKEN_HEADER).map(str::to_owned);
        let index = self.index();
        let found = |token: String| index.tokens.get(&RunToken(token.trim().to_owned()))?.upgrade();
        header
            .and_then(found)
            .or_else(|| call.metadata(TOKEN_METADATA).and_then(found))
            .or_else(|| baggage_members(headers).find_map(|(_, token)| found(token.to_owned())))
    }

    fn by_trace(&self, headers: &HeaderMap) -> Option<Arc<Anchor>> {
        let trace = trace_id(text(headers, "traceparent")?)?;
        let all = alive(self.index().traces.get(&trace));
        only(all)
    }

    /// The run's own agent before its sub-agents: a supervisor often hands its own context on.
    fn by_context(&self, context: &str) -> Option<Arc<Anchor>> {
        let all = alive(self.index().contexts.get(context).filter(|_| !context.is_empty()));
        let (roots, lanes): (Vec<_>, Vec<_>) = all.into_iter().partition(|anchor| anchor.source.is_root());
        only(if roots.is_empty() { lanes } else { roots })
    }

    fn forget(&self, anchor: &Anchor) {
        let mut index = self.index();
        if let Some(token) = &anchor.token {
            index.tokens.remove(token);
        }
        // This one cannot be upgraded any more, so nobody who is at work is forgotten.
        let mut clear = |map: fn(&mut Index) -> &mut HashMap<String, Vec<Weak<Anchor>>>, key: &str| {
            let map = map(&mut index);
            if let Some(list) = map.get_mut(key) {
                list.retain(|anchor| anchor.strong_count() > 0);
                if list.is_empty() {
                    map.remove(key);
                }
            }
        };
        if let Some(trace) = &anchor.trace {
            clear(|index| &mut index.traces, trace);
        }
        for context in &*anchor.contexts.lock().unwrap_or_else(PoisonError::into_inner) {
            clear(|index| &mut index.contexts, context);
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let index = self.index();
        index.tokens.is_empty() && index.traces.is_empty() && index.contexts.is_empty()
    }
}

/// Those who are at work. They are let go after the index is: the last to let one go forgets it there.
fn alive(anchors: Option<&Vec<Weak<Anchor>>>) -> Vec<Arc<Anchor>> {
    anchors.into_iter().flatten().filter_map(Weak::upgrade).collect()
}

/// The one that is there, if it is alone.
fn only(anchors: Vec<Arc<Anchor>>) -> Option<Arc<Anchor>> {
    let mut anchors = anchors.into_iter();
    let found = anchors.next()?;
    anchors.next().is_none().then_some(found)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The tokens in the baggage, each with its member as it stands there.
pub(super) fn baggage_members(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lists = headers.get_all("baggage").iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).filter_map(|member| {
        let (name, value) = member.split(';').next()?.split_once('=')?;
        (name.trim() == TOKEN_BAGGAGE).then(|| (member, value.trim()))
    })
}

/// The trace id of a `traceparent`, if it is one (W3C Trace Context §3.2).
pub(super) fn trace_id(traceparent: &str) -> Option<String> {
    let mut fields = traceparent.trim().split('-');
    let (version, trace, span) = (fields.next()?, fields.next()?, fields.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = trace.bytes().all(|byte| byte == b'0');
    let is_good = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(span, 16) && !is_zero;
    is_good.then(|| trace.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn tee() -> Arc<Tee> {
        Tee::new(vec![RelateBy::Token, RelateBy::Trace, RelateBy::Context])
    }

    fn anchor(tee: &Arc<Tee>, trace: Option<&str>, context: &str) -> Arc<Anchor> {
        let run = Arc::new(ActiveRun::new());
        let anchor = tee.anchor(run, Source::root(), trace.and_then(trace_id));
        anchor.learn_context(context);
        anchor
    }

    fn related(tee: &Tee, headers: &[(&'static str, &str)], body: &str) -> Option<(Arc<Anchor>, RelateBy)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        tee.relate(&map, &PassingCall::of_rest("POST", "message:send", body))
    }

    #[test]
    fn every_place_of_a_token_counts() {
        let tee = tee();
        let (one, _other) = (anchor(&tee, None, "a"), anchor(&tee, None, "b"));
        let token = one.token.clone().unwrap().0;
        assert_eq!(token.len(), 32);
        let baggage = format!("x=1, aqueduct-run = {token} ;p=1,y=2");
        let message =
            format!("{{\"message\":{{\"contextId\":\"b\",\"metadata\":{{\"aqueduct/run\":\"{token}\"}}}}}}");
        let call = format!("{{\"message\":{{}},\"metadata\":{{\"aqueduct/run\":\"{token}\"}}}}");
        for (headers, body) in [
            (vec![("x-aqueduct-run", token.as_str())], "{}"),
            (vec![("baggage", baggage.as_str())], "{}"),
            (vec![], message.as_str()),
            (vec![], call.as_str()),
        ] {
            let (found, way) = related(&tee, &headers, body).unwrap();
            assert!(Arc::ptr_eq(&found, &one) && way == RelateBy::Token, "{headers:?} {body}");
        }
        for token in ["", "0000", &"0".repeat(32)] {
            assert!(related(&tee, &[("x-aqueduct-run", token)], "{}").is_none());
        }
    }

    #[test]
    fn a_trace_or_context_of_two_runs_relates_nothing() {
        let tee = tee();
        let one = anchor(&tee, Some(TRACE), "c");
        let body = "{\"message\":{\"contextId\":\"c\"}}";
        assert_eq!(related(&tee, &[("traceparent", TRACE)], body).unwrap().1, RelateBy::Trace);
        assert_eq!(related(&tee, &[], body).unwrap().1, RelateBy::Context);
        let two = anchor(&tee, Some(TRACE), "c");
        assert!(related(&tee, &[("traceparent", TRACE)], body).is_none());
        drop(one);
        assert!(Arc::ptr_eq(&related(&tee, &[("traceparent", TRACE)], "{}").unwrap().0, &two));
        drop(two);
        assert!(tee.is_empty(), "nothing is left of runs that ended");
    }

    #[test]
    fn a_context_leads_to_the_run_before_its_lanes() {
        let tee = tee();
        let root = anchor(&tee, None, "c");
        let lane = root.child(Source::root().child("x")).unwrap();
        lane.learn_context("c");
        lane.learn_context("own");
        let with =
            |context: &str| related(&tee, &[], &format!("{{\"message\":{{\"contextId\":\"{context}\"}}}}"));
        assert!(Arc::ptr_eq(&with("c").unwrap().0, &root));
        assert!(Arc::ptr_eq(&with("own").unwrap().0, &lane));
        assert!(with("").is_none());
    }

    #[test]
    fn what_is_switched_off_relates_nothing() {
        let tee = Tee::new(vec![RelateBy::Context]);
        let one = anchor(&tee, Some(TRACE), "c");
        assert!(one.token.is_none());
        assert!(related(&tee, &[("traceparent", TRACE)], "{}").is_none());
        assert!(related(&tee, &[], "{\"message\":{\"contextId\":\"c\"}}").is_some());
    }

    #[test]
    fn only_what_is_a_traceparent_has_a_trace() {
        assert_eq!(trace_id(TRACE).as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        ] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }
}
