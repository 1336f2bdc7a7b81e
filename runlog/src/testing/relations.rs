//! Rules of relations: keys that lead from any replica to the runs that they belong to.

use aqueduct_core::{RunId, Timestamp};

use crate::log::RunLog;

/// Far in the future: engines may expire a key by a clock of their own.
const NEVER: Timestamp = Timestamp(1 << 52);

/// Checks that a key may relate to several runs, to each once; that the answer has one list per key
/// in their order, also for unknown keys; and that removal affects only the given run.
pub(super) async fn check(log: &dyn RunLog) {
    let (one, two) = (RunId::from("one"), RunId::from("two {x}"));
    let found = async |key: &str| {
        let mut runs = log.related(vec![key.to_owned()]).await.unwrap().concat();
        runs.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        runs
    };
    assert_eq!(found("k").await, []);
    log.relate(&one, vec!["k".to_owned(), "own {:}".to_owned()], NEVER).await.unwrap();
    log.relate(&two, vec!["k".to_owned()], NEVER).await.unwrap();
    log.relate(&two, vec!["k".to_owned()], NEVER).await.unwrap();
    assert_eq!(found("k").await, [one.clone(), two.clone()], "a key may lead to several, to each once");
    let all = log.related(["own {:}", "none", "k"].map(str::to_owned).to_vec()).await.unwrap();
    assert_eq!((&all[0], all[1].len(), all[2].len()), (&vec![one.clone()], 0, 2), "in the order of the keys");
    log.unrelate(&one, vec!["k".to_owned(), "none".to_owned()]).await.unwrap();
    assert_eq!(found("k").await, [two]);
    assert_eq!(found("own {:}").await, [one]);
    assert_eq!(log.related(Vec::new()).await, Ok(Vec::new()));
}
