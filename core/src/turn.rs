//! [`Turn`]: one response id per turn, on the streaming path.
//!
//! Agents send no response id, one, or several, sometimes only on the first and last update. The host of a turn guarantees
//! its reader one id from the first update on. So the id is decided once: the agent's if the first update has one, otherwise
//! the one that the host assigned. Later ids of the agent are kept as metadata ([`META_RESPONSE_ID`]); two different ids *of
//! the agent* are a conflict, resolved by [`ConflictPolicy`].

use std::sync::Arc;

use crate::error::Error;
use crate::id::ResponseId;
use crate::update::Update;
use crate::wellknown::META_RESPONSE_ID;

/// The handling of a second response id in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConflictPolicy {
    /// Keep the first id; later ones become metadata.
    #[default]
    Normalise,
    /// Reject the update.
    Reject,
}

/// The response id of one turn.
///
/// # Examples
///
/// ```
/// use aqueduct_core::{ConflictPolicy, ResponseId, Turn, Update};
///
/// let mut turn = Turn::new(ResponseId::from("assigned"), ConflictPolicy::Normalise);
/// let update = turn.handle_update(Update::text("Hello"))?;
/// assert_eq!(update.response_id, Some(ResponseId::from("assigned")));
/// # Ok::<(), aqueduct_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Turn {
    assigned: ResponseId,
    policy: ConflictPolicy,
    decided: Option<ResponseId>,
    given: Option<ResponseId>,
}

impl Turn {
    /// Returns a turn. `assigned` is its response id if the agent sends none.
    pub fn new(assigned: ResponseId, policy: ConflictPolicy) -> Self {
        Self { assigned, policy, decided: None, given: None }
    }

    /// Returns the turn's response id.
    pub fn response_id(&self) -> &ResponseId {
        self.decided.as_ref().unwrap_or(&self.assigned)
    }

    /// Sets the response id of an update to that of the turn.
    ///
    /// # Errors
    ///
    /// Returns [`Error::ConflictingResponseIds`] if the agent sends a second id and the policy is to reject it. The turn is
    /// unchanged.
    pub fn handle_update(&mut self, mut update: Update) -> Result<Update, Error> {
        self.assign(&mut update)?;
        Ok(update)
    }

    /// Sets the response id of an update to that of the turn, in place.
    ///
    /// # Errors
    ///
    /// As [`handle_update`](Self::handle_update). The update has lost its response id.
    pub fn assign(&mut self, update: &mut Update) -> Result<(), Error> {
        if self.given.is_some() && self.given == self.decided && self.given == update.response_id {
            return Ok(());
        }
        let given = update.response_id.take().filter(|id| !id.as_str().is_empty());
        if let Some(second) = &given {
            let first = self.given.get_or_insert_with(|| second.clone());
            if first != second && self.policy == ConflictPolicy::Reject {
                return Err(Error::ConflictingResponseIds { first: first.clone(), second: second.clone() });
            }
        }
        let decided = self.decided.get_or_insert_with(|| given.as_ref().unwrap_or(&self.assigned).clone());
        if let Some(given) = given.filter(|given| given != decided) {
            let details = update.details.get_or_insert_default();
            let metadata = Arc::make_mut(details.metadata.get_or_insert_default());
            metadata.insert(META_RESPONSE_ID.to_owned(), given.as_str().into());
        }
        update.response_id = Some(decided.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids_after(policy: ConflictPolicy, given: &[Option<&str>]) -> Result<Vec<String>, Error> {
        let mut turn = Turn::new("assigned".into(), policy);
        given
            .iter()
            .map(|id| {
                let mut update = Update::text("x");
                update.response_id = id.map(ResponseId::from);
                turn.handle_update(update).map(|u| u.response_id.unwrap().to_string())
            })
            .collect()
    }

    #[test]
    fn single_response_id_none_given_is_assigned() {
        assert_eq!(ids_after(ConflictPolicy::Reject, &[None, None]).unwrap(), ["assigned", "assigned"]);
    }

    #[test]
    fn single_response_id_given_is_kept_also_where_it_is_missing() {
        let ids = ids_after(ConflictPolicy::Reject, &[Some("r1"), None, Some("r1"), Some("")]).unwrap();
        assert_eq!(ids, ["r1", "r1", "r1", "r1"]);
    }

    #[test]
    fn single_response_id_given_late_does_not_change_what_was_promised() {
        let ids = ids_after(ConflictPolicy::Reject, &[None, Some("r1"), Some("r1")]).unwrap();
        assert_eq!(ids, ["assigned", "assigned", "assigned"]);
    }

    #[test]
    fn single_response_id_conflicting_is_normalised_to_the_first_and_kept_as_metadata() {
        let mut turn = Turn::new("assigned".into(), ConflictPolicy::Normalise);
        turn.handle_update(Update::text("x").in_response("r1")).unwrap();
        let second = turn.handle_update(Update::text("y").in_response("r2")).unwrap();
        assert_eq!(second.response_id, Some("r1".into()));
        assert_eq!(second.metadata().unwrap()[META_RESPONSE_ID], "r2");
        assert_eq!(turn.response_id().as_str(), "r1");
    }

    #[test]
    fn single_response_id_conflicting_is_rejected_by_policy() {
        let error = ids_after(ConflictPolicy::Reject, &[None, Some("r1"), Some("r2")]).unwrap_err();
        let expected = Error::ConflictingResponseIds { first: "r1".into(), second: "r2".into() };
        assert_eq!(error, expected);
    }

    #[test]
    fn shared_metadata_is_not_changed() {
        let shared = Arc::new(crate::Metadata::new());
        let mut turn = Turn::new("assigned".into(), ConflictPolicy::Normalise);
        turn.handle_update(Update::text("x").in_response("r1")).unwrap();
        let mut update = Update::text("y").in_response("r2");
        update.details_mut().metadata = Some(Arc::clone(&shared));
        turn.handle_update(update).unwrap();
        assert!(shared.is_empty());
    }
}
