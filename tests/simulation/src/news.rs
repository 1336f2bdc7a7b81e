//! [`News`]: a value that tasks wait for, woken in the order in which they began to wait.
//!
//! tokio's `watch` wakes in an order of chance, which no seed decides.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::trace::locked;

/// A value, and the tasks that wait for it to change.
#[derive(Debug)]
pub struct News<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> News<T> {
    /// Returns a value that nothing waits for.
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    /// Returns the value.
    pub fn get(&self) -> T {
        *locked(&self.value)
    }

    /// Changes the value.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut locked(&self.value));
        self.changed.notify_waiters();
    }

    /// Waits until the value is as it should be. Returns it.
    pub async fn until(&self, is_met: impl Fn(T) -> bool) -> T {
        loop {
            let changed = self.changed.notified();
            let value = self.get();
            if is_met(value) {
                return value;
            }
            changed.await;
        }
    }
}
