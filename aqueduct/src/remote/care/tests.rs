//! Limits, retries and the circuit, with paused time.

use super::*;

fn head() -> Parts {
    http::Request::new(()).into_parts().0
}

fn absent() -> HttpError {
    HttpError::Connect { upstream: "http://a".to_owned(), reason: "refused".to_owned() }
}

async fn begin(watch: &CareWatch) -> Result<Box<dyn CallGuard>, CallRefused> {
    watch.begin(&mut head()).await
}

#[tokio::test(start_paused = true)]
async fn a_circuit_opens_tries_one_call_and_closes() {
    let settings = CareSettings::default().with_circuit(2, Duration::from_secs(10));
    let watch = CareWatch(Arc::new(Care::new(settings, None)));
    for _ in 0..2 {
        begin(&watch).await.unwrap().handle_failure(&absent());
    }
    let refused = begin(&watch).await.unwrap_err();
    assert_eq!(refused.code, CIRCUIT_OPEN);
    assert!(refused.reason.contains("2 calls in a row") && refused.reason.contains("refused"), "{refused:?}");
    tokio::time::advance(Duration::from_secs(10)).await;
    let mut trial = begin(&watch).await.unwrap();
    assert_eq!(begin(&watch).await.unwrap_err().code, CIRCUIT_OPEN, "one call tries");
    trial.handle_failure(&absent());
    drop(trial);
    assert!(begin(&watch).await.is_err(), "it failed: the pause begins again");
    tokio::time::advance(Duration::from_secs(10)).await;
    drop(begin(&watch).await.unwrap());
    let mut trial = begin(&watch).await.expect("a trial that its caller gave up leaves room for another");
    trial.handle_head(StatusCode::BAD_REQUEST);
    drop(trial);
    let health = watch.0.health();
    assert!(health.is_available && health.failures == 0 && health.in_flight == 0, "{health:?}");
    assert_eq!(health.circuit_opened, 1);
    assert!(begin(&watch).await.is_ok(), "an agent that answers with an error is there");
}

#[tokio::test(start_paused = true)]
async fn calls_that_one_cut_broke_are_one_failure() {
    let watch = CareWatch(Arc::new(Care::new(CareSettings::default(), None)));
    let cut =
        || HttpError::Request { upstream: "http://a".to_owned(), reason: "connection closed".to_owned() };
    let mut under_way = Vec::new();
    for _ in 0..38 {
        under_way.push(begin(&watch).await.unwrap());
    }
    tokio::time::advance(Duration::from_millis(1)).await;
    for call in &mut under_way {
        call.handle_failure(&cut());
    }
    let health = watch.0.health();
    assert!(health.is_available && health.failures == 1, "{health:?}");
    for _ in 0..4 {
        tokio::time::advance(Duration::from_millis(1)).await;
        begin(&watch).await.unwrap().handle_failure(&cut());
    }
    assert_eq!(begin(&watch).await.unwrap_err().code, CIRCUIT_OPEN, "calls that begin and break do count");
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_their_turn_and_not_for_ever() {
    let settings = CareSettings::default().with_concurrency(Some(1)).with_patience(Duration::from_secs(1));
    let watch = CareWatch(Arc::new(Care::new(settings, None)));
    let first = begin(&watch).await.unwrap();
    let refused = begin(&watch).await.unwrap_err();
    assert_eq!((refused.code, refused.reason.contains("`limits.concurrency` = 1")), (BUSY, true));
    drop(first);
    assert!(begin(&watch).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_given_up_while_it_waits_is_no_trial() {
    let settings = CareSettings::default().with_circuit(1, Duration::from_secs(1)).with_concurrency(Some(1));
    let watch = CareWatch(Arc::new(Care::new(settings, None)));
    let mut held = begin(&watch).await.unwrap();
    held.handle_failure(&absent());
    tokio::time::advance(Duration::from_secs(1)).await;
    // It waits for the place of the first call, and its caller goes.
    assert!(tokio::time::timeout(Duration::from_secs(1), begin(&watch)).await.is_err());
    drop(held);
    assert!(begin(&watch).await.is_ok());
    assert_eq!(watch.0.health().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_rate_lets_bursts_pass_and_then_paces() {
    let settings = CareSettings::default().with_rate(Some(2)).with_patience(Duration::from_secs(1));
    let watch = CareWatch(Arc::new(Care::new(settings, None)));
    let begun_at = Instant::now();
    for _ in 0..4 {
        drop(begin(&watch).await.unwrap());
    }
    assert_eq!(begun_at.elapsed().as_millis() / 100, 10, "two at once, then two in a second");
}

#[test]
fn connects_are_tried_again_within_a_budget() {
    let watch = CareWatch(Arc::new(Care::new(CareSettings::default(), None)));
    let first = watch.retry_connect(1).unwrap();
    assert!((100..=150).contains(&first.as_millis()), "{first:?}");
    assert!(watch.retry_connect(2).unwrap() >= Duration::from_millis(200));
    assert_eq!(watch.retry_connect(3), None, "as often as is configured");
    let paid = (0..100).filter(|_| watch.retry_connect(1).is_some()).count();
    assert_eq!(paid, 8, "the budget is spent");
}

/// A call from before the circuit opened says nothing about the probe.
#[tokio::test(start_paused = true)]
async fn only_the_trial_ends_the_trial() {
    let settings = CareSettings::default().with_circuit(1, Duration::from_secs(10));
    let watch = CareWatch(Arc::new(Care::new(settings, None)));
    let (dropped, mut failing) = (begin(&watch).await.unwrap(), begin(&watch).await.unwrap());
    begin(&watch).await.unwrap().handle_failure(&absent());
    tokio::time::advance(Duration::from_secs(10)).await;
    let trial = begin(&watch).await.unwrap();
    drop(dropped);
    assert_eq!(begin(&watch).await.unwrap_err().code, CIRCUIT_OPEN, "the trial is in progress");
    failing.handle_failure(&absent());
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(begin(&watch).await.unwrap_err().code, CIRCUIT_OPEN, "the trial is still in progress");
    drop(trial);
    assert!(begin(&watch).await.is_ok());
}
