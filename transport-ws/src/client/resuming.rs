//! [`ResumingPublisher`]: a publisher that reconnects and sends unacknowledged payloads again, in order.
//!
//! ```text
//! send ──► kept until acknowledged ──► Publisher ──► server
//!             ▲                            │ cut
//!             └── connect, publish the same run, drop acknowledged payloads, send the rest ◄┘
//! ```
//!
//! Exactly once: the client assigns the numbers, which start at 1 and never change; the server stores a number once.

use std::collections::VecDeque;
use std::time::Duration;

use aqueduct_core::RunId;
use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::PublishRequest;
use bytestring::ByteString;
use tokio::time;

use super::{Client, ConnectOptions, Publisher};
use crate::error::Error;

aqueduct_core::with_defaults! {
    /// The number of attempts, and the waits between them.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RetryPolicy {
        /// Attempts in a row without progress. After them the error is returned, and the caller may continue later.
        pub attempts: u32 = 8,
        /// The wait after the first failure; doubled after each further one.
        pub first_wait: Duration = Duration::from_millis(100),
        /// The longest wait.
        pub longest_wait: Duration = Duration::from_secs(10),
    }
}

/// The state that a publisher must reach before a call returns.
#[derive(Debug, Clone, Copy)]
enum Goal {
    /// All payloads were sent on a connection.
    Given,
    /// The server has acknowledged all payloads.
    Safe,
    /// The server has finished the run.
    Finished,
}

/// A [`Publisher`] that reconnects.
#[derive(Debug)]
pub struct ResumingPublisher {
    options: ConnectOptions,
    request: PublishRequest,
    retry: RetryPolicy,
    current: Option<Publisher>,
    /// The unacknowledged payloads.
    kept: VecDeque<ByteString>,
    first_kept: u64,
    /// The number of them that were sent on the present connection.
    given: usize,
}

impl ResumingPublisher {
    /// Opens the run, with retries according to `retry`.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or all attempts fail.
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

    /// Returns the id of the run, once it is open.
    pub fn run(&self) -> Option<&str> {
        self.request.run_id.as_ref().map(RunId::as_str)
    }

    /// Returns the highest number that the server has stored.
    pub fn acknowledged(&self) -> u64 {
        self.current.as_ref().map_or(self.first_kept - 1, Publisher::acknowledged)
    }

    /// Sends a payload of JSON text and returns its number. Reconnects if needed. After an error the payload is kept, and the
    /// next call tries again.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or all attempts fail.
    pub async fn send(&mut self, data: impl Into<ByteString>) -> Result<u64, Error> {
        let data = data.into();
        super::raw(&data)?;
        self.forget_safe();
        let number = self.first_kept + self.kept.len() as u64;
        self.kept.push_back(data);
        self.settle(Goal::Given).await?;
        Ok(number)
    }

    /// Returns the next reply to an interrupt. Returns `None` if the connection was lost while waiting; the next
    /// [`send`](Self::send) reconnects.
    pub async fn reply(&mut self) -> Option<InterruptReply> {
        self.current.as_mut()?.reply().await
    }

    /// Sends the remaining payloads, waits until all are stored, and finishes the run.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or all attempts fail.
    pub async fn finish(mut self) -> Result<(), Error> {
        self.settle(Goal::Safe).await?;
        self.settle(Goal::Finished).await
    }

    /// Reaches the goal, over as many connections as needed.
    async fn settle(&mut self, goal: Goal) -> Result<(), Error> {
        let mut wait = self.retry.first_wait;
        let mut failures = 0;
        loop {
            let before = self.first_kept;
            let Err(error) = self.attempt(goal).await else { return Ok(()) };
            // Acknowledged payloads must not be sent again to a server that would store them as new.
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

    /// Tries to reach the goal over the present connection, reopened if needed.
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

    /// Connects, publishes the same run, and drops the payloads that the server has.
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

    /// Drops the acknowledged payloads.
    fn forget_safe(&mut self) {
        let acknowledged = self.acknowledged();
        while self.first_kept <= acknowledged && self.kept.pop_front().is_some() {
            self.first_kept += 1;
            self.given = self.given.saturating_sub(1);
        }
    }
}
