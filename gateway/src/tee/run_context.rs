//! The run context: values that an agent receives so that its own calls can be related to the run.
//!
//! | where | what |
//! |---|---|
//! | header `x-aqueduct-run` | the token |
//! | header `baggage` | the token as member `aqueduct-run`; other members stay |
//! | header `traceparent` | that of the caller, or a new one |
//! | A2A: metadata of the message | the token as `aqueduct/run` |
//! | AG-UI: `forwardedProps.aqueduct.run` | the token |
//!
//! An empty run context (a run at the terminal, one that a framework publishes) adds nothing.

use std::sync::Arc;

use aqueduct_core::service::Caller;
use aqueduct_core::{Principal, RunInput, Source};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::relate::{Anchor, Tee};
use super::relation::{LANE_HEADER, TOKEN_BAGGAGE, TOKEN_HEADER, baggage_members, trace_id};
use super::run::TeeRun;
use super::token::{RunToken, random_hex};
use crate::config::RelateBy;

/// The relation of an agent to its run.
#[derive(Debug, Clone, Default)]
pub(crate) enum RunContext {
    /// No relation.
    #[default]
    None,
    /// To a run that this replica drives.
    Here(Arc<Anchor>),
    /// To a run that another replica drives.
    There {
        /// The token that the owner of the run issued.
        token: Option<RunToken>,
        /// The trace id of the run.
        trace: Option<String>,
    },
}

impl RunContext {
    /// Returns the run context for the agent of a run that this caller starts.
    pub(crate) fn begin(
        tee: &Arc<Tee>,
        run: &Arc<TeeRun>,
        input: &RunInput,
        (caller, principal): (&Caller, &Principal),
    ) -> Self {
        let owner = principal.to_string();
        let is_lane = caller.header(LANE_HEADER).is_some();
        let given = caller.header("traceparent").and_then(trace_id);
        // A call that the gateway marks as a lane of another run must not get that run's trace: two runs would
        // share it.
        let trace = given.or_else(random_hex::<16>).filter(|_| tee.has(RelateBy::Trace) && !is_lane);
        let anchor = tee.root((Arc::clone(run), run.handle.id().clone(), owner), trace);
        if !is_lane {
            anchor.add_context(input.thread_id.as_str());
        }
        Self::Here(anchor)
    }

    /// Publishes the relation keys of the run to all replicas that share the log. Await it before the request is sent.
    pub(crate) async fn publish(&self) {
        if let Self::Here(anchor) = self {
            anchor.publish().await;
        }
    }

    /// Returns the run context for a sub-agent, in a lane of its own.
    pub(crate) fn child(&self, source: &Source) -> Self {
        let anchor = if let Self::Here(anchor) = self { anchor.child(source.clone()) } else { None };
        anchor.map_or(Self::None, Self::Here)
    }

    /// Adds a context id of the agent.
    pub(crate) fn learn_context(&self, context: &str) {
        if let Self::Here(anchor) = self {
            anchor.learn_context(context);
        }
    }

    /// Returns the token, if there is one.
    pub(crate) fn token(&self) -> Option<&str> {
        let token = match self {
            Self::None => None,
            Self::Here(anchor) => anchor.token.as_ref(),
            Self::There { token, .. } => token.as_ref(),
        };
        token.map(RunToken::as_str)
    }

    /// Returns the trace id of the run, if calls are related by it.
    pub(super) fn trace(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Here(anchor) => anchor.trace.as_deref(),
            Self::There { trace, .. } => trace.as_deref(),
        }
    }

    /// Adds the run context to the headers of a request.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        if let Some(trace) = self.trace().filter(|_| !headers.contains_key("traceparent"))
            && let Some(span) = random_hex::<8>()
        {
            insert(headers, "traceparent", &format!("00-{trace}-{span}-01"));
        }
        if let Some(token) = self.token() {
            let others = others_in_baggage(headers);
            insert(headers, TOKEN_HEADER, token);
            insert(headers, "baggage", &format!("{others}{TOKEN_BAGGAGE}={token}"));
        }
    }
}

/// Returns the members of the baggage other than tokens, ready to append one more.
fn others_in_baggage(headers: &HeaderMap) -> String {
    let own: Vec<&str> = baggage_members(headers).map(|(member, _)| member).collect();
    let lists = headers.get_all("baggage").iter().filter_map(|list| list.to_str().ok());
    let others = lists.flat_map(|list| list.split(',')).filter(|member| !own.contains(member));
    others
        .map(str::trim)
        .filter(|member| !member.is_empty())
        .fold(String::new(), |all, member| all + member + ",")
}

/// Sets a header. A value that is not valid in a header is left out; the token is marked as sensitive, so that
/// no debug output prints it.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(mut value) = HeaderValue::from_str(value) {
        value.set_sensitive(name == TOKEN_HEADER);
        headers.insert(HeaderName::from_static(name), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_context(traceparent: Option<&str>) -> RunContext {
        let log = Arc::new(aqueduct_runlog::MemoryLog::default());
        let kinds = vec![RelateBy::Token, RelateBy::Trace, RelateBy::Context];
        let tee = Tee::new(kinds, log, Arc::new(crate::service::now), Arc::default());
        let headers = traceparent.map(|given| ("traceparent".to_owned(), given.to_owned()));
        let caller = Caller { headers: headers.into_iter().collect(), ..Caller::default() };
        let input = RunInput::prompt("t", "r", "hi");
        let handle = Arc::new(aqueduct_runs::RunHandle::new("r".into()));
        let run_context = RunContext::begin(
            &tee,
            &Arc::new(TeeRun::new(&tee, &handle)),
            &input,
            (&caller, &Principal::anonymous()),
        );
        drop(tee);
        run_context
    }

    #[test]
    fn the_baggage_of_others_stays_and_an_older_token_goes() {
        let run_context = run_context(None);
        let mut headers = HeaderMap::new();
        headers.append("baggage", HeaderValue::from_static("a=1;p, aqueduct-run=old"));
        headers.append("baggage", HeaderValue::from_static("b=2"));
        run_context.mark(&mut headers);
        let token = run_context.token().unwrap();
        assert_eq!(headers["baggage"], format!("a=1;p,b=2,aqueduct-run={token}"));
        assert_eq!(headers[TOKEN_HEADER], token);
        assert!(trace_id(headers["traceparent"].to_str().unwrap()).is_some());
        assert!(!format!("{headers:?}{run_context:?}").contains(&format!("RunToken({token}")));
    }

    #[test]
    fn a_trace_of_the_caller_is_kept() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", HeaderValue::from_static(given));
        let run_context = run_context(Some(given));
        run_context.mark(&mut headers);
        assert_eq!(headers["traceparent"], given);
        let mut others = HeaderMap::new();
        run_context.mark(&mut others);
        assert!(others["traceparent"].to_str().unwrap().contains("0af7651916cd43dd8448eb211c80319c"));
    }
}
