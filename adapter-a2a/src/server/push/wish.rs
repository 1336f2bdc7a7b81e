//! [`Wish`]: a push configuration in the log, with the position up to which its receiver was notified.
//!
//! ```text
//! {"id":"c","task":"t","url":"https://…","token":null,"authentication":["Bearer","key"],
//!  "version":"1.0","plain":true,"turn":0,"number":17}          stored; the courier saves `turn` and `number`
//! {"id":"c","deleted":true}                                    deleted
//! ```
//!
//! Records are never removed from the log, so the last record of an id counts ([`standing`]).

use aqueduct_core::RunId;
use serde_json::{Value, json};

use crate::call::PushConfig;
use crate::server::log::LoggedWish;
use crate::version::Version;

/// A stored push configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) config: PushConfig,
    /// The version of the client, which determines the form of notifications.
    pub(super) version: Version,
    /// Set if the client that registered it did not activate the extension.
    pub(super) is_plain: bool,
    /// The last event that was delivered or dropped: its turn, and its number.
    pub(super) told: (usize, u64),
}

impl Wish {
    /// Encodes the record.
    pub(super) fn to_value(&self) -> Value {
        let PushConfig { task_id, id, url, token, authentication } = &self.config;
        json!({
            "id": id, "task": task_id, "url": url, "token": token, "authentication": authentication,
            "version": self.version.as_str(), "plain": self.is_plain, "turn": self.told.0, "number": self.told.1,
        })
    }

    /// Decodes a record. Returns `None` for a deletion, and for a record that this version of the server did not
    /// write.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let authentication = value.get("authentication").and_then(Value::as_array).and_then(|both| {
            let [scheme, credentials] = both.as_slice() else { return None };
            Some((scheme.as_str()?.to_owned(), credentials.as_str()?.to_owned()))
        });
        let (task_id, id, url) = (text("task")?, text("id")?, text("url")?);
        let turn = usize::try_from(value.get("turn")?.as_u64()?).ok()?;
        Some(Self {
            config: PushConfig { task_id, id, url, token: text("token"), authentication },
            version: Version::parse(Some(&text("version")?))?,
            is_plain: value.get("plain")?.as_bool()?,
            told: (turn, value.get("number")?.as_u64()?),
        })
    }
}

/// Returns the record that a configuration was deleted.
pub(super) fn taken_back(id: &str) -> Value {
    json!({ "id": id, "deleted": true })
}

/// Returns the configurations that were not deleted, in the order of their records. The last record of an id counts.
pub(super) fn standing(records: &[LoggedWish]) -> Vec<(RunId, Wish)> {
    let mut found: Vec<(RunId, Wish)> = Vec::new();
    for record in records {
        let Some(id) = record.value.get("id").and_then(Value::as_str) else { continue };
        found.retain(|(_, wish)| wish.config.id != id);
        found.extend(Wish::from_value(&record.value).map(|wish| (record.key.clone(), wish)));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn wish(id: &str, url: &str) -> Wish {
        let config = PushConfig {
            task_id: "t".to_owned(),
            id: id.to_owned(),
            url: url.to_owned(),
            token: Some("sesame".to_owned()),
            authentication: Some(("Bearer".to_owned(), "key".to_owned())),
        };
        Wish { config, version: Version::V03, is_plain: true, told: (1, 7) }
    }

    #[test]
    fn a_wish_comes_back_from_its_record() {
        let whole = wish("a", "https://a.test");
        assert_eq!(Wish::from_value(&whole.to_value()), Some(whole.clone()));
        let config = PushConfig { token: None, authentication: None, ..whole.config.clone() };
        let bare = Wish { config, version: Version::V1, ..whole };
        assert_eq!(Wish::from_value(&bare.to_value()), Some(bare));
        assert_eq!(Wish::from_value(&json!({"id": "a"})), None);
    }

    #[test]
    fn the_last_record_of_a_wish_counts() {
        let records = [
            wish("a", "https://first.test").to_value(),
            wish("b", "https://b.test").to_value(),
            taken_back("b"),
            wish("a", "https://second.test").to_value(),
            taken_back("never"),
        ];
        let records: Vec<LoggedWish> = records
            .into_iter()
            .enumerate()
            .map(|(nth, value)| LoggedWish { key: RunId::from(format!("{nth}")), value: Arc::new(value) })
            .collect();
        let standing = standing(&records);
        assert_eq!(standing.len(), 1);
        assert_eq!((standing[0].0.as_str(), standing[0].1.config.url.as_str()), ("3", "https://second.test"));
    }
}
