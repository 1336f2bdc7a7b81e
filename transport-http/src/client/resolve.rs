//! Name resolution: by the system's resolver, or to one address fixed by the caller.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

/// Resolves names.
#[derive(Debug, Clone)]
pub(super) enum Resolver {
    System(GaiResolver),
    Fixed(IpAddr),
}

impl Resolver {
    pub(super) fn new(pinned: Option<IpAddr>) -> Self {
        pinned.map_or_else(|| Self::System(GaiResolver::new()), Self::Fixed)
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        match self {
            Self::System(system) => system.poll_ready(cx),
            Self::Fixed(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, name: Name) -> Self::Future {
        match self {
            Self::System(system) => {
                let found = system.call(name);
                Box::pin(async move { Ok(found.await?.collect::<Vec<_>>().into_iter()) })
            }
            // The connector sets the port.
            Self::Fixed(address) => {
                let found = vec![SocketAddr::new(*address, 0)].into_iter();
                Box::pin(std::future::ready(Ok(found)))
            }
        }
    }
}
