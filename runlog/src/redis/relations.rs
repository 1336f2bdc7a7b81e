//! Relations of keys to runs: one set per key, which expires if its writer dies.

use ::redis::Cmd;
use aqueduct_core::{RunId, Timestamp};

use super::RedisLog;
use super::link::read;
use crate::error::LogError;

impl RedisLog {
    pub(super) async fn add_relations(
        &self,
        run: RunId,
        keys: Vec<String>,
        until: Timestamp,
    ) -> Result<(), LogError> {
        let add = |key: &String| {
            let key = self.desk.keys.relation(key);
            let mut expire = ::redis::cmd("PEXPIREAT");
            expire.arg(&key).arg(until.0);
            [Cmd::sadd(&key, run.as_str()), expire]
        };
        self.do_all(&keys.iter().flat_map(add).collect::<Vec<_>>()).await
    }

    pub(super) async fn remove_relations(&self, run: RunId, keys: Vec<String>) -> Result<(), LogError> {
        let remove = |key: &String| Cmd::srem(self.desk.keys.relation(key), run.as_str());
        self.do_all(&keys.iter().map(remove).collect::<Vec<_>>()).await
    }

    pub(super) async fn read_relations(&self, keys: Vec<String>) -> Result<Vec<Vec<RunId>>, LogError> {
        let ask = |key: &String| Cmd::smembers(self.desk.keys.relation(key));
        let answers = self.desk.link.batch(&keys.iter().map(ask).collect::<Vec<_>>()).await?;
        let runs = |answer| Ok(read::<Vec<String>>(answer)?.into_iter().map(RunId::from).collect());
        answers.into_iter().map(runs).collect()
    }
}
