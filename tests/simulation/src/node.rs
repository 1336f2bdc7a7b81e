//! [`Node`]: what a replica can do at a time, and how often its calls go wrong.
//!
//! ```text
//!   up ──► cut (the log cannot be reached) ──► up
//!    ├───► paused (calls wait, and reach the log late: a process that was stopped and continued) ──► up
//!    └───► crashed (no call ever returns: nothing of this replica is seen any more)
//! ```
//!
//! The engines of the simulation ([`memory`](crate::memory), [`redis`](crate::redis)) ask it before every call.

use std::sync::Mutex;
use std::time::Duration;

use crate::news::News;
use crate::random::Random;
use crate::trace::{Trace, locked};

/// What a replica can do at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It works.
    Up,
    /// The log cannot be reached from it.
    Cut,
    /// It does nothing, and will go on.
    Paused,
    /// It is gone.
    Crashed,
}

/// How often calls go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weather {
    /// The longest usual way of a call, in milliseconds.
    pub delay: u64,
    /// How many of a thousand calls take up to a second.
    pub slow: u64,
    /// How many of a thousand calls lose their acknowledgement.
    pub lost: u64,
}

/// A replica, as the world sees it.
#[derive(Debug)]
pub struct Node {
    name: String,
    trace: Trace,
    weather: Weather,
    random: Mutex<Random>,
    status: News<Status>,
}

impl Node {
    /// Returns a replica that is up.
    pub fn new(name: String, trace: Trace, weather: Weather, random: Random) -> Self {
        Self { name, trace, weather, random: Mutex::new(random), status: News::new(Status::Up) }
    }

    /// Returns the name of the replica.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time of the world, in milliseconds.
    pub fn now(&self) -> i64 {
        self.trace.now()
    }

    /// Adds a line of this replica to the trace.
    pub fn note(&self, what: impl FnOnce() -> String) {
        self.trace.note(&self.name, what);
    }

    /// Returns what the replica can do now.
    pub fn status(&self) -> Status {
        self.status.get()
    }

    /// Changes what the replica can do. A crash is final.
    pub fn set(&self, status: Status) {
        self.note(|| format!("is {status:?}"));
        self.status.change(|now| {
            if *now != Status::Crashed {
                *now = status;
            }
        });
    }

    /// Waits until the replica does something again; without end if it crashed.
    pub async fn alive(&self) {
        self.status.until(|status| matches!(status, Status::Up | Status::Cut)).await;
    }

    /// Waits until the replica is up and reaches the log; without end if it crashed.
    pub async fn up(&self) {
        self.status.until(|status| status == Status::Up).await;
    }

    /// Waits until the replica crashes.
    pub async fn crashed(&self) {
        self.status.until(|status| status == Status::Crashed).await;
    }

    /// Returns how long the next call is on its way, in one direction.
    pub fn delay(&self) -> Duration {
        let mut random = locked(&self.random);
        let Weather { delay, slow, .. } = self.weather;
        if random.chance(slow) { random.millis(delay, 1_000) } else { random.millis(0, delay) }
    }

    /// Returns `true` if the acknowledgement of the next call is lost.
    pub fn is_lost(&self) -> bool {
        locked(&self.random).chance(self.weather.lost)
    }

    /// Returns a number that no other call of this replica uses.
    pub fn nonce(&self) -> u64 {
        locked(&self.random).number()
    }
}
