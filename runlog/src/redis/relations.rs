//! Relations of keys to runs: one set per key, which expires if its writer dies.
//!
//! The sets have no hash tag in common with the runs: on a cluster they are on other nodes. A
//! related run may therefore have ended or been deleted, and callers check it.

use ::redis::Cmd;
use aqueduct_core::{RunId, Timestamp};

use super::RedisLog;
use super::link::read;
use crate::error::LogError;

impl RedisLog {
    /// Adds the run to the set of each key and sets the expiry of the set. The last call determines the
    /// expiry of the whole set.
    pub(super) async fn add_relations(
        &self,
        run: RunId,
        keys: Vec<String>,
        until: Timestamp,
    ) -> Result<(), LogError> {
        let add = |key: &String| {
            let key = self.shared.keys.relation(key);
            let mut expire = ::redis::cmd("PEXPIREAT");
            expire.arg(&key).arg(until.0);
            [Cmd::sadd(&key, run.as_str()), expire]
        };
        self.do_all(&keys.iter().flat_map(add).collect::<Vec<_>>()).await
    }

    /// Removes the run from the set of each key. Redis deletes a set with its last member.
    pub(super) async fn remove_relations(&self, run: RunId, keys: Vec<String>) -> Result<(), LogError> {
        let remove = |key: &String| Cmd::srem(self.shared.keys.relation(key), run.as_str());
        self.do_all(&keys.iter().map(remove).collect::<Vec<_>>()).await
    }

    /// Returns the runs of each key, in the order of the keys, in one round trip per node.
    pub(super) async fn read_relations(&self, keys: Vec<String>) -> Result<Vec<Vec<RunId>>, LogError> {
        let ask = |key: &String| Cmd::smembers(self.shared.keys.relation(key));
        let answers = self.shared.link.batch(&keys.iter().map(ask).collect::<Vec<_>>()).await?;
        let runs = |answer| Ok(read::<Vec<String>>(answer)?.into_iter().map(RunId::from).collect());
        answers.into_iter().map(runs).collect()
    }
}
