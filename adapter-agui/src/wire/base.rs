//! [`Base`]: the members that all events share.

use std::sync::Arc;

use aqueduct_core::Metadata;
use serde::ser::SerializeMap;
use serde_json::Value;

use super::object::{At, Members, member, put};
use crate::error::WireError;

/// The members that every event may have. The rare ones are boxed, so that a delta stays small.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Base {
    /// The time of the event, by convention in milliseconds since the Unix epoch.
    pub timestamp: Option<i64>,
    /// The rare members.
    pub rare: Option<Box<Rare>>,
}

/// The members of [`Base`] that most events do not have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rare {
    /// The original event of the framework. Never null.
    pub raw_event: Option<Value>,
    /// Free-form metadata. The key `ag-ui` is reserved. Shared with the canonical event.
    pub metadata: Option<Arc<Metadata>>,
    /// Undeclared members, written back unchanged.
    pub extra: Metadata,
}

impl Base {
    /// Returns the metadata of the event.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.rare.as_ref()?.metadata.as_deref()
    }

    /// Returns the metadata of the event for changes, created on first use.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        Arc::make_mut(self.rare_mut().metadata.get_or_insert_default())
    }

    /// Returns the original event of the framework.
    pub fn raw_event(&self) -> Option<&Value> {
        self.rare.as_ref()?.raw_event.as_ref()
    }

    /// Returns the undeclared members.
    pub fn extra(&self) -> Option<&Metadata> {
        self.rare.as_ref().map(|rare| &rare.extra).filter(|extra| !extra.is_empty())
    }

    /// Returns the rare members, created on first use.
    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(crate) fn take(members: &mut Members, at: &At<'_>) -> Result<Self, WireError> {
        let timestamp = member(members, "timestamp", at)?;
        let raw_event: Option<Value> = member(members, "rawEvent", at)?;
        let metadata: Option<Metadata> = member(members, "metadata", at)?;
        let mut base = Self { timestamp, rare: None };
        if raw_event.is_some() || metadata.is_some() {
            base.rare =
                Some(Box::new(Rare { raw_event, metadata: metadata.map(Arc::new), extra: Metadata::new() }));
        }
        Ok(base)
    }

    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        put(map, "timestamp", &self.timestamp)?;
        if let Some(rare) = &self.rare {
            put(map, "rawEvent", &rare.raw_event)?;
        }
        if let Some(metadata) = self.metadata() {
            map.serialize_entry("metadata", metadata)?;
        }
        Ok(())
    }

    pub(crate) fn write_extra<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for (name, value) in self.rare.iter().flat_map(|rare| rare.extra.iter()) {
            map.serialize_entry(name, value)?;
        }
        Ok(())
    }
}
