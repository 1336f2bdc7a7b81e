//! From names to addresses: the system's resolver, or the one address that a caller has fixed. The time of each look-up is
//! reported to the watch of the calls.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

use super::watch::CallWatch;

/// Finds addresses.
#[derive(Debug, Clone)]
pub(super) enum Resolver {
    System(GaiResolver, Option<Arc<dyn CallWatch>>),
    Fixed(IpAddr),
}

impl Resolver {
    /// Returns a resolver that answers every name with `pinned`, or asks the system.
    pub(super) fn new(pinned: Option<IpAddr>, watch: Option<Arc<dyn CallWatch>>) -> Self {
        pinned.map_or_else(|| Self::System(GaiResolver::new(), watch), Self::Fixed)
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        match self {
            Self::System(system, _) => system.poll_ready(cx),
            Self::Fixed(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, name: Name) -> Self::Future {
        match self {
            Self::System(system, watch) => {
                let (looking_up, watch, begun_at) = (system.call(name), watch.clone(), Instant::now());
                Box::pin(async move {
                    let found = looking_up.await;
                    if let Some(watch) = watch {
                        watch.handle_lookup(begun_at.elapsed(), found.is_ok());
                    }
                    Ok(found?.collect::<Vec<_>>().into_iter())
                })
            }
            // The connector sets the port.
            Self::Fixed(address) => {
                let found = vec![SocketAddr::new(*address, 0)].into_iter();
                Box::pin(std::future::ready(Ok(found)))
            }
        }
    }
}
