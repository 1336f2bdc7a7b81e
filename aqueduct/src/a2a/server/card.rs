//! [`Card`]: the card of an agent; [`OwnCards`]: the cards of the agents of a [`Runs`].

use aqueduct_adapter_a2a::server::{CardConfig, PushPolicy, ServerConfig, Skill};
use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_runs::Runs;

use super::Cards;

/// The content of an agent's card. Addresses are added for each request.
///
/// # Examples
///
/// ```
/// use aqueduct::a2a::Card;
///
/// let card = Card::new("oracle").described("Answers everything.").with_skill("answers", "Answers questions");
/// assert_eq!(card.name(), "oracle");
/// ```
#[derive(Debug, Clone)]
pub struct Card {
    config: CardConfig,
    push: bool,
    public_url: Option<String>,
}

impl Card {
    /// Returns the card of the agent that has this name in the [`Runs`].
    pub fn new(agent: impl Into<String>) -> Self {
        let name = agent.into();
        let modes = ServerConfig::default();
        let config = CardConfig {
            description: name.clone(),
            name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            input_modes: vec!["text/plain".to_owned(), "application/json".to_owned()],
            output_modes: modes.output_modes,
            public: true,
            ..CardConfig::default()
        };
        Self { config, push: false, public_url: None }
    }

    /// Sets the description of the agent.
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.config.description = description.into();
        self
    }

    /// Sets the version of the agent.
    pub fn versioned(mut self, version: impl Into<String>) -> Self {
        self.config.version = version.into();
        self
    }

    /// Adds a skill of the agent.
    pub fn with_skill(mut self, id: impl Into<String>, description: impl Into<String>) -> Self {
        let (id, description) = (id.into(), description.into());
        self.config.skills.push(Skill { name: id.clone(), id, description, ..Skill::default() });
        self
    }

    /// Declares that clients must send a bearer token, which the access policy of the [`Runs`] checks.
    pub fn with_bearer(mut self) -> Self {
        self.config.bearer = true;
        self.config.public = false;
        self
    }

    /// Lets clients register push notifications to public addresses.
    pub fn with_push(mut self) -> Self {
        self.push = true;
        self
    }

    /// Sets the address at which clients reach the server, if it differs from the `Host` of requests: behind a proxy or
    /// with TLS.
    pub fn at(mut self, public_url: impl Into<String>) -> Self {
        self.public_url = Some(public_url.into().trim_end_matches('/').to_owned());
        self
    }

    /// Returns the name of the agent.
    pub fn name(&self) -> &str {
        &self.config.name
    }
}

/// The cards of the agents of a [`Runs`].
#[derive(Debug)]
pub struct OwnCards {
    runs: Runs,
    cards: Vec<Card>,
}

impl OwnCards {
    /// Returns the cards of agents of `runs`.
    pub fn new(runs: &Runs, cards: Vec<Card>) -> Self {
        Self { runs: runs.clone(), cards }
    }

    /// Returns the card of an agent.
    fn find(&self, agent: &str) -> Option<&Card> {
        self.cards.iter().find(|card| card.name() == agent)
    }
}

impl Cards for OwnCards {
    fn names(&self) -> Vec<String> {
        self.cards.iter().map(|card| card.name().to_owned()).collect()
    }

    fn card(&self, agent: &str) -> Option<CardConfig> {
        let card = self.find(agent)?;
        Some(CardConfig { push: card.push, ..card.config.clone() })
    }

    fn base(&self, agent: &str, host: Option<&str>) -> String {
        let public = self.find(agent).and_then(|card| card.public_url.clone());
        public.unwrap_or_else(|| format!("http://{}", host.unwrap_or("localhost")))
    }

    fn server_config(&self, agent: &str) -> ServerConfig {
        let modes = self.find(agent).map(|card| card.config.input_modes.clone()).unwrap_or_default();
        ServerConfig { input_modes: modes, push: PushPolicy::default(), ..ServerConfig::default() }
    }

    fn authenticate(&self, caller: &Caller, agent: &str) -> Result<String, ServiceError> {
        Ok(self.runs.authenticate(caller, agent)?.to_string())
    }

    fn is_card_public(&self, agent: &str) -> bool {
        self.find(agent).is_some_and(|card| card.config.public)
    }

    fn has_push(&self) -> bool {
        self.cards.iter().any(|card| card.push)
    }
}
