//! Servers that Sentinel watches: which of them leads is asked, and asked again when the leader is lost.
//!
//! ```text
//! leader unknown ──► the sentinels, one after the other: GET-MASTER-ADDR-BY-NAME ──► leader known
//!       ▲ the connection broke, or the server takes no writes any more ──────────────────┘
//! ```
//!
//! A sentinel is asked with the user and password of the servers, then without: many have none of their own.

use std::time::Duration;

use ::redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError};

/// The time limit for one sentinel, to connect and to answer. The next sentinel is asked after it.
const ANSWER: Duration = Duration::from_secs(1);

/// The sentinels of one service.
#[derive(Debug)]
pub(super) struct Sentinels {
    /// Each with the credentials of the servers, and without.
    clients: Vec<Client>,
    service: String,
}

impl Sentinels {
    /// The sentinels at these addresses. Fails if an address cannot be used without its credentials.
    pub(super) fn new(clients: &[Client], service: &str) -> Result<Self, RedisError> {
        let mut all = Vec::with_capacity(clients.len() * 2);
        for client in clients {
            // Sentinels have no databases.
            let info = client.get_connection_info().clone();
            let settings = info.redis_settings().clone().set_db(0);
            let with = info.clone().set_redis_settings(settings);
            let without = info.set_redis_settings(::redis::RedisConnectionInfo::default());
            all.extend([Client::open(with)?, Client::open(without)?]);
        }
        Ok(Self { clients: all, service: service.to_owned() })
    }

    /// Returns `host:port` of the server that leads.
    pub(super) async fn leader(&self) -> Result<String, RedisError> {
        let mut last = RedisError::from((ErrorKind::Io, "no sentinel answers"));
        for client in &self.clients {
            match self.ask(client).await {
                Ok(Some((host, port))) => return Ok(format!("{host}:{port}")),
                Ok(None) => {
                    let what = format!("the sentinels know no service `{}`", self.service);
                    last = RedisError::from((ErrorKind::Io, "no leader", what));
                }
                Err(error) => {
                    last = RedisError::from((ErrorKind::Io, "no sentinel answers", error.to_string()));
                }
            }
        }
        Err(last)
    }

    async fn ask(&self, client: &Client) -> Result<Option<(String, u16)>, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER))
            .set_response_timeout(Some(ANSWER));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut command = ::redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        command.query_async(&mut connection).await
    }
}
