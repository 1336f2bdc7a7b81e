//! Recovery of a failed disk: opens the database again and restores the acknowledged state.
//!
//! ```text
//! usable ── a commit fails ──► broken: every command is refused ── at most every `PAUSE`: open again ──► usable
//!                                                                   └ unacknowledged writes are removed
//! ```
//!
//! The state of the disk after a failed commit is unknown, and the database accepts no more writes. The state that readers
//! saw is known: views contain only acknowledged changes. So the disk is made equal to the views.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::store::Store;
use super::view::Views;
use crate::error::LogError;

/// The minimum time between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// The database for readers; `None` while it is being reopened.
#[derive(Debug, Clone)]
pub(super) struct SharedStore(Arc<RwLock<Option<Store>>>);

impl SharedStore {
    pub(super) fn new(store: Store) -> Self {
        Self(Arc::new(RwLock::new(Some(store))))
    }

    /// Returns the database, or [`LogError::Unavailable`] while it is being reopened.
    pub(super) fn get(&self) -> Result<Store, LogError> {
        let store = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        store.ok_or_else(|| LogError::Unavailable("the disk: the log is not open".to_owned()))
    }

    pub(super) fn set(&self, store: Option<Store>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = store;
    }
}

/// The reason why the disk is not writable, and the means to reopen it.
#[derive(Debug)]
pub(super) struct Recovery {
    folder: PathBuf,
    pub(super) broken: Option<LogError>,
    tried_at: Option<Instant>,
}

impl Recovery {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), broken: None, tried_at: None }
    }

    /// Takes files that the database made meanwhile from other users.
    pub(super) fn tighten(&self) {
        super::modes::tighten(&self.folder);
    }

    /// Opens the database again. Returns `false` if it is not usable, or was not tried.
    pub(super) fn recover(&mut self, shared: &SharedStore, views: &Views) -> bool {
        if self.tried_at.is_some_and(|at| at.elapsed() < PAUSE) {
            return false;
        }
        self.tried_at = Some(Instant::now());
        // Readers release it shortly; until then the folder is locked.
        shared.set(None);
        match self.reopen(views) {
            Ok(store) => {
                shared.set(Some(store));
                self.broken = None;
                true
            }
            Err(error) => {
                self.broken = Some(error);
                false
            }
        }
    }

    /// Opens the database and makes every run equal to its view.
    fn reopen(&self, views: &Views) -> Result<Store, LogError> {
        let store = Store::open(&self.folder)?;
        for (place, last) in store.places()? {
            match views.at(place) {
                Some(view) => store.restore(place, &view.ledger(), last)?,
                None => store.remove(place, 1, last)?,
            }
        }
        Ok(store)
    }
}
