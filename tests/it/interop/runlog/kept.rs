//! The run log at rest on a real Redis: every key has an expiry, which holds while a run lives; a server that wants a
//! certificate of its clients; a user that may do no more than the log needs.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::testing::{conform, conform_shared, meta};
use aqueduct_runlog::{Control, LogLimits, Note, RedisConfig, RedisLog, RunLog};
use serde_json::json;

use super::cluster::ask;
use super::server::Server;
use super::{HELD, LAPSED, end, say};

/// The keys of a server, and the milliseconds until each expires; -1 for no expiry.
fn left(server: &Server) -> Vec<(String, i64)> {
    let left = |key: &str| ask(server, &format!("PTTL \"{key}\"")).parse().unwrap();
    keys(server).into_iter().map(|key| (key.clone(), left(&key))).collect()
}

/// The keys of a server, which may hold spaces.
fn keys(server: &Server) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(b"KEYS *\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let count: usize = lines.next().unwrap().trim_start_matches('*').parse().unwrap();
    // Each is a line with its length, and a line with its name.
    (0..count).map(|_| lines.nth(1).unwrap()).collect()
}

fn short_lived(server: &Server, expiry: Duration) -> RedisLog {
    RedisLog::new(&RedisConfig { expiry, ..RedisConfig::new(server.url()) }).unwrap()
}

#[tokio::test]
async fn every_key_has_an_expiry_that_is_renewed_while_its_run_lives() {
    let server = Server::start();
    let expiry = Duration::from_secs(600);
    let (log, other) = (short_lived(&server, expiry), short_lived(&server, expiry));
    log.check().await.unwrap();
    log.beat(Duration::from_secs(1)).await.unwrap();
    // One run that is open, one that is taken over before its first event, one that has ended, one that is trimmed.
    let open = log.open(meta("open"), HELD).await.unwrap();
    log.annotate(&open, Note::Input(Arc::new(json!({ "x": 1 })))).await.unwrap();
    log.append(&open, vec![say("a", 1)], Timestamp(5)).await.unwrap();
    other.control(&RunId::from("open"), Control::Cancel).await.unwrap();
    other.watched(&RunId::from("open"), HELD).await.unwrap();
    log.open(meta("lapsed"), LAPSED).await.unwrap();
    other.take_over(&RunId::from("lapsed"), Timestamp(9), HELD).await.unwrap();
    let ended = log.open(meta("ended"), HELD).await.unwrap();
    log.append(&ended, vec![say("a", 1), say("a", 2), end()], Timestamp(5)).await.unwrap();
    let trimmed = log.open(meta("trimmed"), HELD).await.unwrap();
    log.append(&trimmed, vec![say("a", 1), say("a", 2)], Timestamp(5)).await.unwrap();
    log.trim(&RunId::from("trimmed"), 2).await.unwrap();
    let soon =
        Timestamp(i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap() + 60_000);
    log.relate(&RunId::from("open"), vec!["token/x".to_owned()], soon).await.unwrap();
    log.claim("reply".to_owned(), "mine".to_owned(), Timestamp(5), soon).await.unwrap();
    let found = left(&server);
    assert!(found.len() >= 15, "{found:?}");
    for (key, left) in &found {
        assert!((1..=600_000).contains(left), "{key} lives for {left} ms");
    }
    // Renewals leave keys alone that are young, and let old ones live on, with the lists that lead to them.
    assert_eq!(log.renew(vec![open.clone()], HELD).await, Ok(Vec::new()));
    let of_open = |key: &str| {
        ["{open}", ":runs", ":thread:", ":owner:", ":leases"].iter().any(|part| key.contains(part))
    };
    for (key, _) in &found {
        ask(&server, &format!("PEXPIRE \"{key}\" 200000"));
    }
    assert_eq!(log.renew(vec![open], HELD).await, Ok(Vec::new()));
    let renewed = left(&server);
    for (key, left) in &renewed {
        assert_eq!(*left > 300_000, of_open(key), "{key} lives for {left} ms");
    }
    assert!(renewed.iter().filter(|(key, _)| of_open(key)).count() >= 6, "{renewed:?}");
}

/// What an earlier version wrote without an expiry gets one with the first renewal.
#[tokio::test]
async fn keys_of_an_earlier_version_get_an_expiry() {
    let server = Server::start();
    let log = short_lived(&server, Duration::from_secs(600));
    let lease = log.open(meta("old"), HELD).await.unwrap();
    log.append(&lease, vec![say("a", 1)], Timestamp(5)).await.unwrap();
    for (key, _) in left(&server) {
        ask(&server, &format!("PERSIST \"{key}\""));
    }
    log.renew(vec![lease], HELD).await.unwrap();
    for (key, left) in left(&server) {
        assert!(left > 0, "{key}");
    }
}

/// A server that lets in clients with a certificate alone.
#[tokio::test]
async fn the_log_shows_its_certificate() {
    let server = Server::start_mutual_tls();
    let log = server.log("mutual", LogLimits::default());
    log.check().await.unwrap();
    let lease = log.open(meta("a"), HELD).await.unwrap();
    log.append(&lease, vec![end()], Timestamp(5)).await.unwrap();
    let authorities = server.certificate.clone().map(String::into_bytes);
    let without = RedisConfig { authorities, patience: Duration::ZERO, ..RedisConfig::new(server.url()) };
    let refused = RedisLog::new(&without).unwrap().check().await.unwrap_err();
    assert!(refused.is_temporary(), "{refused}");
}

/// The commands that the log needs, as `docs/scale-out.md` lists them.
fn documented_rules() -> String {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scale-out.md")).unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("ACL SETUSER")).unwrap();
    line.trim().to_owned()
}

/// The conformance suite, as a user that may do no more than the documentation grants.
#[tokio::test]
async fn a_user_with_the_documented_rights_is_enough() {
    let server = Server::start();
    let rules = documented_rules().replace("~aqueduct:*", "~log*").replace("&aqueduct:*", "&log*");
    assert!(rules.contains("-@all") && !rules.contains("allcommands"), "{rules}");
    server.tell(&rules.replace(">PASSWORD", ">sesame"));
    server.tell("ACL SETUSER default off");
    let url = server.url().replace("redis://", "redis://aqueduct:sesame@");
    let count = Cell::new(0);
    let make = async |limits| {
        count.set(count.get() + 1);
        let (prefix, own) = (format!("log{}", count.get()), RedisConfig::new(url.clone()));
        Arc::new(RedisLog::new(&RedisConfig { prefix, limits, ..own }).unwrap()) as Arc<dyn RunLog>
    };
    conform(make).await;
    conform_shared(make).await;
    let elsewhere = RedisConfig { prefix: "other".to_owned(), ..RedisConfig::new(url.clone()) };
    assert!(RedisLog::new(&elsewhere).unwrap().check().await.is_err(), "keys of others are not its own");
}
