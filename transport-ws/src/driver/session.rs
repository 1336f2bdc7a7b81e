//! [`Session`]: the interface between the driver of a socket and the two modes.

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use aqueduct_core::Identity;
use aqueduct_core::protocol::Protocol;
use aqueduct_core::service::{Caller, Proof, RefusalKind, RunService, ServiceError};
use aqueduct_transport_http::Counters;
use bytes::Bytes;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::batch::Batch;
use crate::close::CloseReason;
use crate::config::Config;

/// The state that all connections of an endpoint share.
pub(crate) struct Shared {
    pub(crate) service: Arc<dyn RunService>,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) config: Config,
    pub(crate) counters: Counters,
}

impl Shared {
    /// Returns `true` if the caller must send a token before anything else: its request has neither a token nor an accepted
    /// certificate, and the service admits no anonymous caller.
    pub(crate) fn requires_token(&self, caller: &Caller, agent: Option<&str>) -> bool {
        let has_certificate = caller.certificate.is_some() && !matches!(caller.proof, Proof::Refused(_));
        let is_anonymous = caller.token.is_none() && !has_certificate;
        let is_refused = || {
            let admitted = self.service.admit(caller, agent);
            matches!(admitted, Err(ServiceError { kind: RefusalKind::Unauthenticated, .. }))
        };
        is_anonymous && (self.config.token_required || is_refused())
    }
}

/// Returns the verified identity of a caller.
pub(crate) fn identity_of(caller: &Caller) -> Option<&Arc<Identity>> {
    match &caller.proof {
        Proof::Verified(identity) => Some(identity),
        Proof::Unchecked | Proof::Refused(_) => None,
    }
}

/// Returns the close reason for a caller whose token was refused: the service would refuse all its requests.
pub(crate) fn refusal_of(caller: &Caller) -> Option<CloseReason> {
    match &caller.proof {
        Proof::Refused(error) if caller.token.is_some() => Some(CloseReason::from(error)),
        Proof::Unchecked | Proof::Verified(_) | Proof::Refused(_) => None,
    }
}

/// The state of one connection above the frames. Dropping it drops all streams and ingests.
pub(crate) trait Session: Send {
    /// Handles a text message. An error closes the connection.
    fn handle_text(&mut self, text: &Utf8Bytes) -> Result<(), CloseReason>;

    /// Handles a binary message. An error closes the connection.
    fn handle_binary(&mut self, data: &Bytes) -> Result<(), CloseReason>;

    /// Polls requests in progress. Returns `true` if one of them completed.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> bool;

    /// Appends messages until the batch is full.
    fn poll_fill(&mut self, cx: &mut Context<'_>, batch: &mut Batch);

    /// Returns `true` if no run is watched or published, and no request is in progress.
    fn is_idle(&self) -> bool;

    /// Returns `true` if no more messages should be read for now.
    fn is_backlogged(&self) -> bool;

    /// Returns the verified identity of the caller, if any. The connection closes when its proof ends.
    fn identity(&self) -> Option<&Arc<Identity>> {
        identity_of(self.caller())
    }

    /// Returns the caller: without a verified identity until its token was checked.
    fn caller(&self) -> &Caller;

    /// Returns `true` until the caller sends a token, if one is required.
    fn awaits_token(&self) -> bool;

    /// Returns why the connection must be closed as soon as all messages are sent. Returns `None` while it stays open.
    fn close_reason(&self) -> Option<CloseReason>;

    /// Returns the time after the upgrade within which the peer must send its token or first message, and the close reason if it
    /// does not. Returns `None` if the peer need not send anything.
    fn first_message_limit(&self) -> Option<(Duration, CloseReason)>;
}
