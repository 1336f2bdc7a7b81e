//! The limits of incoming data on one connection: frames per second, and bytes of incomplete
//! messages.
//!
//! Frames above their rate wait in the socket, which the peer notices as back-pressure. Bytes above
//! a limit close the connection with the name of the limit.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_core::service::{Caller, RunService, ServiceError};
use aqueduct_transport_http::{BodyCharge, Quotas};
use tokio::time::{Instant, Sleep};

/// Bytes of an incomplete message below which the ledger of quotas is not consulted: most messages
/// are smaller.
const SMALL: u64 = 4 * 1024;

/// The incoming data of one connection so far.
pub(crate) struct Intake {
    /// The time that one frame uses at the highest rate.
    each: Duration,
    /// The time at which all frames so far are within the rate. A burst may be one second ahead.
    paid_until: Instant,
    pause: Option<Pin<Box<Sleep>>>,
    charge: BodyCharge,
    is_charged: bool,
    /// Bytes read from the socket at the end of the last complete message.
    whole: u64,
}

impl Intake {
    /// Returns an intake that accepts `frames` messages per second, with bursts of as many.
    pub(crate) fn new(quotas: &Quotas, frames: usize) -> Self {
        let each = Duration::from_secs(1) / u32::try_from(frames.max(1)).unwrap_or(u32::MAX);
        Self {
            each,
            paid_until: Instant::now(),
            pause: None,
            charge: quotas.charge(),
            is_charged: false,
            whole: 0,
        }
    }

    /// Charges unfinished messages to the account of the caller from now on.
    pub(crate) fn assign(&self, service: &dyn RunService, caller: &Caller) {
        if let Some(account) = caller.account() {
            self.charge.assign(&account, &service.quota(&account));
        }
    }

    /// Returns `Ready` if another frame may be read; `true` if it had to wait.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(pause) = &mut self.pause else { return Poll::Ready(false) };
        std::task::ready!(pause.as_mut().poll(cx));
        self.pause = None;
        Poll::Ready(true)
    }

    /// Counts a complete message. `received` is the number of bytes read from the socket so far.
    pub(crate) fn handle_frame(&mut self, received: u64) {
        self.whole = received;
        let now = Instant::now();
        self.paid_until = self.paid_until.max(now) + self.each;
        let ahead = self.paid_until.duration_since(now).saturating_sub(Duration::from_secs(1));
        if !ahead.is_zero() {
            self.pause = Some(Box::pin(tokio::time::sleep(ahead)));
        }
    }

    /// Charges the bytes since the last complete message to the account of the caller. `received` is the number of bytes read
    /// from the socket so far.
    ///
    /// # Errors
    ///
    /// Returns a refusal if the limit of unfinished bytes is reached, of all callers or of this one.
    pub(crate) fn charge_partial(&mut self, received: u64) -> Result<(), ServiceError> {
        let unfinished = received.saturating_sub(self.whole);
        if unfinished <= SMALL && !self.is_charged {
            return Ok(());
        }
        self.is_charged = unfinished > SMALL;
        let bytes = if self.is_charged { usize::try_from(unfinished).unwrap_or(usize::MAX) } else { 0 };
        self.charge.set(bytes)
    }
}
