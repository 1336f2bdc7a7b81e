//! [`RemoteBuilder`]: address and call settings of a remote A2A agent.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use aqueduct_adapter_a2a::config::{ClientConfig, DecodeConfig, Retry};
use aqueduct_adapter_a2a::version::{Binding, Version};

use super::endpoint::Directory;
use super::{RemoteAgent, Shared, THREADS};
use crate::a2a::signing::CardKey;
use crate::error::Error;
use crate::remote::{Connection, RemoteSettings, ThreadMemory};

/// The address of an A2A agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// The address of the agent; its card is read from the well-known paths.
    Agent(String),
    /// The address of the card.
    Card(String),
}

impl Address {
    /// Returns the address itself.
    pub fn url(&self) -> &str {
        match self {
            Self::Agent(url) | Self::Card(url) => url,
        }
    }
}

/// Builds a [`RemoteAgent`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), aqueduct::Error> {
/// use aqueduct::a2a::{Address, Binding, RemoteAgent, Version};
///
/// // An agent without a card.
/// let agent = RemoteAgent::builder(Address::Agent("http://127.0.0.1:9999/".into()))
///     .binding(Binding::JsonRpc)
///     .version(Version::V03)
///     .build()?;
/// assert!(agent.is_card_optional());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "`build` makes the agent"]
pub struct RemoteBuilder {
    address: Address,
    binding: Option<Binding>,
    version: Version,
    settings: RemoteSettings,
    client: ClientConfig,
    card_keys: Vec<CardKey>,
}

impl RemoteBuilder {
    /// Returns a builder with default settings: the card determines binding and version.
    pub(super) fn new(address: Address) -> Self {
        let client = ClientConfig { decode: DecodeConfig::root(), ..ClientConfig::default() };
        let settings = RemoteSettings::default();
        Self { address, binding: None, version: Version::V1, settings, client, card_keys: Vec::new() }
    }

    /// Calls the agent by this binding. With the address of the agent, no card is needed; with that of a card, the
    /// binding is preferred among those of the card.
    pub fn binding(mut self, binding: Binding) -> Self {
        self.binding = Some(binding);
        self
    }

    /// Sets the version of an agent without a card. A card declares its own.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Sets credentials, headers, timeouts, limits and TLS.
    pub fn settings(mut self, settings: RemoteSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets how the agent's stream is decoded. The agent sets source, dialect and the id of the sent message itself.
    pub fn decode(mut self, decode: DecodeConfig) -> Self {
        self.client.decode = decode;
        self
    }

    /// Sets the limits and pauses with which a lost stream is recovered.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.client.retry = retry;
        self
    }

    /// Accepts only cards that one of these keys has signed. Without keys, signatures are not checked.
    pub fn card_keys(mut self, keys: Vec<CardKey>) -> Self {
        self.card_keys = keys;
        self
    }

    /// Returns the agent. No connection is opened yet.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Address`] if the address is not an absolute HTTP address, [`Error::Client`] if the TLS settings
    /// cannot be used, and [`Error::Unsupported`] for the gRPC binding without the feature `grpc`.
    pub fn build(self) -> Result<RemoteAgent, Error> {
        if self.binding == Some(Binding::Grpc) && !cfg!(feature = "grpc") {
            return Err(Error::Unsupported { what: "A2A over gRPC", feature: "grpc" });
        }
        let connection = Connection::new(self.address.url(), &self.settings)?;
        let directory = Directory::new(self.address, self.binding, self.version, &self.settings)
            .with_keys(self.card_keys);
        let (threads, warned) = (ThreadMemory::new(THREADS), AtomicBool::new(false));
        let listing = super::find::Listing::default();
        let shared = Shared { connection, directory, client: self.client, threads, listing, warned };
        Ok(RemoteAgent { shared: Arc::new(shared) })
    }
}
