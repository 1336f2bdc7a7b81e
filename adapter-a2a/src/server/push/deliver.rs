//! Delivers push notifications: one at a time per configuration, with retries, to a checked address.
//!
//! ```text
//! deliver ─► screened: resolve the name, check every address ─► call: first address that responds ─► status
//!               ▲ pause, doubled each time ◄── no response, 408, 425, 429, 5xx ──────────────────────┘
//! 2xx: delivered         other 3xx and 4xx, or `attempts` used up: dropped
//! ```
//!
//! [`Deliverer`] empties the queue of a configuration that is held in memory; a [`courier`](super::courier)
//! delivers from the log. Both deliver by [`deliver`].

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;

use super::request::request;
use super::screen::{Target, is_local_name, is_public, target};
use super::{PushPolicy, PushSender};
use crate::call::PushConfig;
use crate::server::TaskLimits;
use crate::server::agent::Shared;
use crate::server::fold::Folded;
use crate::server::plain::PlainView;
use crate::server::task::TaskEntry;
use crate::version::Version;
use crate::wire::{Dialect, StreamItem};

/// Returns a complete task as a notification, in the form of its receiver: of a version, and without marks if
/// `is_plain` is set.
pub(super) fn whole(folded: &Folded, is_plain: bool, version: Version, limits: &TaskLimits) -> Value {
    let mut whole = folded.snapshot(None, true);
    if is_plain {
        whole = PlainView::new(limits.artifact_bytes).into_task(whole);
    }
    match version {
        Version::V1 => StreamItem::Task(whole).to_json(Dialect::V1),
        Version::V03 => whole.to_json(Dialect::V03JsonRpc),
    }
}

/// Delivers until the queue of a configuration is empty. At most one exists per configuration
/// (`PushEntry::is_busy`), so events arrive in order.
pub(super) struct Deliverer {
    pub(super) shared: Arc<Shared>,
    pub(super) entry: Arc<TaskEntry>,
    pub(super) sender: Arc<dyn PushSender>,
    pub(super) config: Arc<PushConfig>,
    pub(super) version: Version,
}

impl Deliverer {
    /// Delivers until the queue is empty or a notification is not accepted.
    pub(super) async fn run(self) {
        while let Some(body) = self.take() {
            let delivery = Delivery {
                shared: &self.shared,
                sender: &*self.sender,
                config: &self.config,
                version: self.version,
                id: None,
            };
            if !deliver(&delivery, &body).await {
                self.give_up();
                return;
            }
        }
    }

    /// Returns the next item to deliver; the complete task first, if it is due. `None` ends the deliverer;
    /// another one starts with the next item. The body is encoded under the lock, and sent without it.
    fn take(&self) -> Option<Value> {
        let mut state = self.entry.lock();
        let push = state.pushes.iter_mut().find(|push| Arc::ptr_eq(&push.config, &self.config))?;
        if std::mem::take(&mut push.needs_task) {
            let is_plain = push.view.is_some();
            return Some(whole(&state.folded, is_plain, self.version, &self.shared.config.limits));
        }
        let item = push.queue.pop_front();
        push.is_busy = item.is_some();
        Some(item?.to_json(Dialect::V1))
    }

    /// Drops the queue; the next event contains the complete task.
    fn give_up(&self) {
        let mut state = self.entry.lock();
        if let Some(push) = state.pushes.iter_mut().find(|push| Arc::ptr_eq(&push.config, &self.config)) {
            push.is_busy = false;
            push.queue.clear();
            // The next event is delivered again from its first attempt: a receiver that is gone is not called
            // without end.
            push.missed = true;
        }
    }
}

/// One notification and its receiver.
pub(super) struct Delivery<'d> {
    pub(super) shared: &'d Shared,
    pub(super) sender: &'d dyn PushSender,
    pub(super) config: &'d PushConfig,
    pub(super) version: Version,
    /// The same for every attempt, also by another replica; `None` without a log.
    pub(super) id: Option<String>,
}

/// Delivers a notification with retries. Returns `true` if the receiver accepted it.
///
/// A receiver that refuses permanently is not called again for this notification. With the defaults, the attempts
/// take about a minute and a half.
pub(super) async fn deliver(delivery: &Delivery<'_>, body: &Value) -> bool {
    let policy = &delivery.shared.config.push;
    for attempt in 0..policy.attempts.max(1) {
        if attempt > 0 {
            delivery.shared.host.sleep(policy.pause(attempt)).await;
        }
        // Checked each time: a name may resolve to another address by now.
        let Ok(addresses) = screened(delivery.sender, &delivery.config.url, policy).await else { continue };
        match call(delivery, &addresses, body).await {
            Some(200..=299) => return true,
            // The receiver refuses permanently. Redirects are not followed.
            Some(status) if (300..500).contains(&status) && !matches!(status, 408 | 425 | 429) => {
                return false;
            }
            _ => {}
        }
    }
    false
}

/// Sends the request to the first address that responds. `localhost` has two addresses, and receivers listen on one of
/// them.
async fn call(delivery: &Delivery<'_>, addresses: &[SocketAddr], body: &Value) -> Option<u16> {
    for address in addresses.iter().take(delivery.shared.config.push.addresses.max(1)) {
        let id = delivery.id.as_deref();
        let request = request(delivery.config, delivery.version, *address, id, body);
        if let Ok(status) = delivery.sender.deliver(request).await {
            return Some(status);
        }
    }
    None
}

/// Returns the addresses to connect to, if all addresses of the URL may be called: a name with one private
/// address among public ones is refused, because the choice among them is not ours.
///
/// # Errors
///
/// Returns the words for the refusal of the configuration, which complete the sentence "`url` …".
pub(super) async fn screened(
    sender: &dyn PushSender,
    url: &str,
    policy: &PushPolicy,
) -> Result<Vec<SocketAddr>, String> {
    let Target { host, port, address } = target(url)?;
    if is_local_name(&host) && !policy.any_address {
        return Err("leads to this machine, and only public addresses are called back".to_owned());
    }
    let addresses = match address {
        Some(address) => vec![address],
        None => {
            sender.resolve(&host, port).await.map_err(|_| "names a host that cannot be found".to_owned())?
        }
    };
    if !policy.any_address && addresses.iter().any(|address| !is_public(*address)) {
        return Err("leads to an address that is not public, and only public ones are called back".to_owned());
    }
    if addresses.is_empty() {
        return Err("names a host that has no address".to_owned());
    }
    Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}
