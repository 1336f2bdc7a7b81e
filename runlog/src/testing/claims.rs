//! Rules of claims: of several callers that claim a key at once, exactly one gets it.

use aqueduct_core::Timestamp;

use crate::log::RunLog;

/// Far in the future: engines may measure claims by a clock of their own.
const LATER: Timestamp = Timestamp(1 << 52);
/// The time of all claims of this module, long before the end of those that are to be held.
const NOW: Timestamp = Timestamp(1 << 51);

/// Checks a claim from its start to its release, and sixteen callers at once: all of them must get
/// the same holder as the answer.
pub(super) async fn check(log: &dyn RunLog) {
    let claim = async |key: &str, value: &str, until: Timestamp| {
        log.claim(key.to_owned(), value.to_owned(), NOW, until).await.unwrap()
    };
    assert_eq!(claim("key {x}", "one", LATER).await, "one", "a free key is taken");
    assert_eq!(claim("key {x}", "two", LATER).await, "one", "a taken key stays with its holder");
    assert_eq!(claim("key {x}", "one", LATER).await, "one", "its holder may ask again");
    assert_eq!(claim("other", "two", LATER).await, "two", "keys are independent");
    assert_eq!(claim("key {x}", "", NOW).await, "one", "a question takes nothing");
    assert_eq!(claim("key {x}", "one", NOW).await, "one", "its holder gives it back");
    assert_eq!(claim("key {x}", "", NOW).await, "", "a free key is held by none");
    assert_eq!(claim("key {x}", "two", LATER).await, "two", "a key that was given back is free");
    let values: Vec<String> = (0..16).map(|n| format!("racer {n}")).collect();
    let won = futures_util::future::join_all(values.iter().map(|value| claim("race", value, LATER))).await;
    assert!(won.iter().all(|holder| *holder == won[0]), "of several one succeeds: {won:?}");
}
