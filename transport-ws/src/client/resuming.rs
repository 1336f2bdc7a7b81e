//! A publisher that survives cuts: what was not acknowledged is sent again over the next connection, in order.
//!
//! ```text
//! send ──► kept until acknowledged ──► Publisher ──► server
//!             ▲                            │ cut
//!             └── connect, publish the same run, drop what is safe, send the rest ◄┘
//! ```
//!
//! Exactly once: numbers are this side's, start at 1 and never change; the server takes a number once.

use std::collections::VecDeque;
use std::time::Duration;

use aqueduct_core::RunId;
use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::PublishRequest;
use bytestring::ByteString;
use tokio::time;

use super::{Client, ConnectOptions, Publisher};
use crate::error::Error;

/// How often to try again, and how long to wait in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in a row without progress. Then the error is given to the caller, who may go on later.
    pub attempts: u32,
    /// The wait after the first failure; doubled each time.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 8, first_wait: Duration::from_millis(100), longest_wait: Duration::from_secs(10) }
    }
}

/// How far a publisher must come before a call returns.
#[derive(Debug, Clone, Copy)]
enum Goal {
    /// All payloads were given to a connection.
    Given,
    /// The server has acknowledged them.
    Safe,
    /// The server has ended the feed.
    Finished,
}

/// A [`Publisher`] that connects again.
#[derive(Debug)]
pub struct ResumingPublisher {
    options: ConnectOptions,
    request: PublishRequest,
    retry: RetryPolicy,
    current: Option<Publisher>,
    /// Payloads that are not acknowledged, and the number of the first of them.
    kept: VecDeque<ByteString>,
    first_kept: u64,
    /// How many of them the current connection has been given.
    given: usize,
}

impl ResumingPublisher {
    /// Opens the run, trying as often as `retry` says.
    ///
    /// # Errors
    ///
    /// An error if the service refuses, or cannot be reached as often as the policy tries.
    pub async fn open(
        options: ConnectOptions,
        request: PublishRequest,
        retry: RetryPolicy,
    ) -> Result<Self, Error> {
        let mut publisher =
            Self { options, request, retry, current: None, kept: VecDeque::new(), first_kept: 1, given: 0 };
        publisher.settle(Goal::Given).await?;
        Ok(publisher)
    }

    /// The run, once it is open.
    pub fn run(&self) -> Option<&str> {
        self.request.run_id.as_ref().map(RunId::as_str)
    }

    /// The highest number that is safe with the server.
    pub fn acknowledged(&self) -> u64 {
        self.current.as_ref().map_or(self.first_kept - 1, Publisher::acknowledged)
    }

    /// Sends a payload of JSON text and gives its number. Connects again if need be; an error means that the payload is
    /// kept and that the next call tries again.
    ///
    /// # Errors
    ///
    /// An error if the service refuses, or cannot be reached as often as the policy tries.
    pub async fn send(&mut self, data: impl Into<ByteString>) -> Result<u64, Error> {
        let data = data.into();
        super::raw(&data)?;
        self.forget_safe();
        let number = self.first_kept + self.kept.len() as u64;
        self.kept.push_back(data);
        self.settle(Goal::Given).await?;
        Ok(number)
    }

    /// The next answer of a human; none if the connection was cut while waiting, in which case the next call of
    /// [`send`](Self::send) connects again.
    pub async fn reply(&mut self) -> Option<InterruptReply> {
        self.current.as_mut()?.reply().await
    }

    /// Sends what is left, waits until all is safe, and ends the feed.
    ///
    /// # Errors
    ///
    /// An error if the service refuses, or cannot be reached as often as the policy tries.
    pub async fn finish(mut self) -> Result<(), Error> {
        self.settle(Goal::Safe).await?;
        self.settle(Goal::Finished).await
    }

    /// Reaches the goal, over as many connections as it takes.
    async fn settle(&mut self, goal: Goal) -> Result<(), Error> {
        let mut wait = self.retry.first_wait;
        let mut failures = 0;
        loop {
            let before = self.first_kept;
            let Err(error) = self.attempt(goal).await else { return Ok(()) };
            // What was acknowledged meanwhile must not be sent again to a server that would count it as new.
            self.forget_safe();
            self.current = None;
            self.given = 0;
            failures = if self.first_kept > before { 1 } else { failures + 1 };
            if !error.can_retry() || failures >= self.retry.attempts {
                return Err(error);
            }
            time::sleep(wait).await;
            wait = wait.saturating_mul(2).min(self.retry.longest_wait);
        }
    }

    async fn attempt(&mut self, goal: Goal) -> Result<(), Error> {
        if self.current.is_none() {
            self.reopen().await?;
        }
        let Some(publisher) = self.current.as_mut() else { return Err(Error::Cut) };
        while let Some(data) = self.kept.get(self.given) {
            publisher.send(data).await?;
            self.given += 1;
        }
        match goal {
            Goal::Given => Ok(()),
            Goal::Safe => publisher.drain().await,
            Goal::Finished => publisher.end().await,
        }
    }

    async fn reopen(&mut self) -> Result<(), Error> {
        let client = Client::connect(&self.options).await?;
        let publisher = client.publish(&self.request).await?;
        self.request.run_id = Some(RunId::from(publisher.run()));
        let safe = publisher.acknowledged();
        if safe + 1 < self.first_kept {
            let last = self.first_kept - 1;
            return Err(Error::Protocol(format!(
                "the server acknowledged {last} payloads and now has {safe}"
            )));
        }
        self.current = Some(publisher);
        self.forget_safe();
        if self.kept.is_empty() {
            self.first_kept = safe + 1;
        }
        self.given = 0;
        Ok(())
    }

    /// Drops the payloads that the server has.
    fn forget_safe(&mut self) {
        let acknowledged = self.acknowledged();
        while self.first_kept <= acknowledged && self.kept.pop_front().is_some() {
            self.first_kept += 1;
            self.given = self.given.saturating_sub(1);
        }
    }
}
