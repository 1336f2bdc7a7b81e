//! Errands: work beside runs that another engine on the same log goes on with.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::Timestamp;
use aqueduct_core::service::{BoxFuture, Caller};
use aqueduct_runlog::{MemoryLog, RunLog};
use aqueduct_runs::Runs;
use aqueduct_runs::errands::{Errand, ErrandHandler, ErrandRecord, Subject};
use serde_json::{Value, json};
use tokio::sync::mpsc;

const KIND: &str = "count";

/// Adds one to what was saved, and tells it; then it is over, or works on without end.
struct Counter {
    told: mpsc::Sender<Value>,
    ends: bool,
}

impl ErrandHandler for Counter {
    fn work(&self, mut errand: Errand) -> BoxFuture<'static, ()> {
        let (told, ends) = (self.told.clone(), self.ends);
        Box::pin(async move {
            let count = errand.value()["count"].as_u64().unwrap() + 1;
            errand.save(json!({ "count": count })).await.unwrap();
            told.send(json!([errand.owner(), count])).await.unwrap();
            if !ends {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// An engine whose clock is so far ahead.
fn engine(log: &Arc<MemoryLog>, ahead: Duration) -> Runs {
    let ahead = i64::try_from(ahead.as_millis()).unwrap();
    let clock = move || Timestamp(1_000_000_000 + ahead);
    Runs::builder().shared_log(Arc::clone(log) as Arc<dyn RunLog>).clock(Arc::new(clock)).build()
}

fn counting(runs: &Runs, ends: bool) -> mpsc::Receiver<Value> {
    let (told, tells) = mpsc::channel(16);
    runs.handle_errands(KIND, Arc::new(Counter { told, ends }));
    tells
}

fn subject() -> Subject {
    Subject { owner: "acme:ann".to_owned(), kind: KIND, name: "x".to_owned() }
}

/// Waits until the last record is over, and returns all.
async fn over(runs: &Runs) -> Vec<ErrandRecord> {
    loop {
        let records = runs.errands(&subject()).await.unwrap();
        if records.last().is_some_and(|record| record.is_over) {
            return records;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_errand_goes_on_at_another_engine_from_what_was_saved() {
    let log = Arc::new(MemoryLog::default());
    let (one, other) = (engine(&log, Duration::ZERO), engine(&log, Duration::from_secs(60)));
    let (mut first, mut second) = (counting(&one, false), counting(&other, true));
    one.begin_errand(&subject(), json!({ "count": 0 }), true).await.unwrap();
    assert_eq!(first.recv().await.unwrap(), json!(["acme:ann", 1]));
    other.sweep_once().await.unwrap();
    assert_eq!(second.recv().await.unwrap(), json!(["acme:ann", 2]));
    let records = over(&other).await;
    assert_eq!((records.len(), &*records[0].value), (1, &json!({ "count": 2 })), "kept as a record");
    assert!(other.list_runs(&Caller::default(), 10).await.unwrap().is_empty(), "no client sees it");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_errand_is_over_and_records_keep_their_order() {
    let log = Arc::new(MemoryLog::default());
    let (one, other) = (engine(&log, Duration::ZERO), engine(&log, Duration::ZERO));
    let mut tells = counting(&one, false);
    one.begin_errand(&subject(), json!({ "count": 0 }), true).await.unwrap();
    tells.recv().await.unwrap();
    let records = other.errands(&subject()).await.unwrap();
    other.cancel_errand(&records[0].key).await.unwrap();
    over(&one).await;
    assert!(tells.try_recv().is_err());
    for count in 10..20 {
        let engine = if count % 2 == 0 { &one } else { &other };
        engine.begin_errand(&subject(), json!({ "count": count }), false).await.unwrap();
    }
    let counts: Vec<u64> =
        over(&one).await.iter().map(|record| record.value["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [&[1][..], &(10..20).collect::<Vec<_>>()[..]].concat());
    let others = Subject { owner: "acme:bob".to_owned(), ..subject() };
    assert!(one.errands(&others).await.unwrap().is_empty());
    one.cancel_errand(&"nothing".into()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_errand_that_nobody_knows_is_left_until_it_is_old() {
    let log = Arc::new(MemoryLog::default());
    let one = engine(&log, Duration::ZERO);
    one.begin_errand(&subject(), json!({ "count": 0 }), true).await.unwrap();
    engine(&log, Duration::from_secs(60)).sweep_once().await.unwrap();
    assert!(!one.errands(&subject()).await.unwrap()[0].is_over);
    engine(&log, Duration::from_secs(2 * 60 * 60)).sweep_once().await.unwrap();
    assert_eq!(over(&one).await.len(), 1);
}

/// A new record must not precede an older one whose predecessors have expired.
#[tokio::test(start_paused = true)]
async fn records_keep_their_order_after_older_ones_expired() {
    let log = Arc::new(MemoryLog::default());
    let one = engine(&log, Duration::ZERO);
    for count in 0..3 {
        one.begin_errand(&subject(), json!({ "count": count }), false).await.unwrap();
    }
    let mut tells = counting(&one, false);
    one.begin_errand(&subject(), json!({ "count": 3 }), true).await.unwrap();
    tells.recv().await.unwrap();
    let later = engine(&log, Duration::from_secs(2 * 60 * 60));
    later.expire().await;
    assert_eq!(later.errands(&subject()).await.unwrap().len(), 1, "only the errand in progress is left");
    later.begin_errand(&subject(), json!({ "count": 9 }), false).await.unwrap();
    let counts = later.errands(&subject()).await.unwrap();
    let counts: Vec<_> = counts.iter().map(|record| record.value["count"].clone()).collect();
    assert_eq!(counts, [json!(4), json!(9)]);
}
