//! Keys that lead to runs: one set per key, which ends by itself should its writer die.

use ::redis::Pipeline;
use aqueduct_core::{RunId, Timestamp};

use super::RedisLog;
use crate::error::LogError;

impl RedisLog {
    pub(super) async fn add_relations(
        &self,
        run: RunId,
        keys: Vec<String>,
        until: Timestamp,
    ) -> Result<(), LogError> {
        self.for_each_key(&keys, |commands, key| {
            commands.sadd(&key, run.as_str()).ignore();
            commands.cmd("PEXPIREAT").arg(key).arg(until.0).ignore();
        })
        .await
    }

    pub(super) async fn remove_relations(&self, run: RunId, keys: Vec<String>) -> Result<(), LogError> {
        self.for_each_key(&keys, |commands, key| {
            commands.srem(key, run.as_str()).ignore();
        })
        .await
    }

    async fn for_each_key(
        &self,
        keys: &[String],
        command: impl Fn(&mut Pipeline, String),
    ) -> Result<(), LogError> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut commands = ::redis::pipe();
        for key in keys {
            command(&mut commands, self.desk.keys.relation(key));
        }
        self.desk.link.pipe(&commands).await
    }

    pub(super) async fn read_relations(&self, keys: Vec<String>) -> Result<Vec<Vec<RunId>>, LogError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut commands = ::redis::pipe();
        for key in &keys {
            commands.smembers(self.desk.keys.relation(key));
        }
        let found: Vec<Vec<String>> = self.desk.link.pipe(&commands).await?;
        Ok(found.into_iter().map(|runs| runs.into_iter().map(RunId::from).collect()).collect())
    }
}
