//! Leases of runs: a run is opened with its first one, taken over with the next, and held by renewals.

use std::sync::atomic::Ordering;

use aqueduct_core::{RunId, Timestamp};

use super::RedisLog;
use super::controls::Received;
use super::link::Call;
use super::reply::Reply;
use super::writer::Ended;
use crate::error::LogError;
use crate::log::{Lease, RunMeta, RunState};

impl RedisLog {
    /// Creates a run: adds it to the lists, then calls the script, then creates its writer. A crash
    /// after the first step leaves a list entry without a run, which readers of lists remove.
    pub(super) async fn open_run(&self, meta: RunMeta, until: Timestamp) -> Result<Lease, LogError> {
        let run = meta.run_id.clone();
        let broken = self.shared.link.broken();
        // Listed first: the sweeper would never find a run that is open and not listed.
        self.enlist(&meta, until).await?;
        let mut call = Call::default().key(self.shared.keys.meta(&run)).arg(self.nonce()).arg(until.0);
        call = call.arg(self.shared.expiry);
        for (name, value) in [
            ("id", run.as_str()),
            ("thread", meta.thread_id.as_str()),
            ("agent", &meta.agent),
            ("owner", &meta.owner),
            ("opened", &meta.opened_at.0.to_string()),
            ("holder", &self.replica),
        ] {
            call = call.arg(name).arg(value);
        }
        let reply: Reply = self.shared.link.script(&self.shared.scripts.open, &call).await?;
        if reply.word != "ok" {
            return Err(reply.refusal(&run, 0));
        }
        if self.shared.link.broken() != broken {
            // The server may have lost the entries before it created the run.
            self.enlist(&meta, until).await?;
        }
        let lease = Lease { run_id: run, epoch: 1 };
        self.writers.insert(&lease, 0, &self.shared.keys, Received::new(self.hub.connections()));
        Ok(lease)
    }

    /// Takes a lapsed lease. The script decides atomically, so of several replicas one gets the lease.
    /// The answer contains the head, at which the writer of this process continues.
    pub(super) async fn take_over_run(
        &self,
        run: RunId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Lease, LogError> {
        let keys = &self.shared.keys;
        let call = Call::default().key(keys.meta(&run)).key(keys.events(&run));
        let call = call.arg(self.nonce()).arg(now.0).arg(until.0).arg(&self.replica).arg(self.shared.expiry);
        let mut reply: Reply = self.shared.link.script(&self.shared.scripts.take_over, &call).await?;
        match reply.word.as_str() {
            "ok" => {
                let (epoch, head) = (reply.next()?, reply.next()?);
                let lease = Lease { run_id: run, epoch };
                self.writers.insert(&lease, head, &self.shared.keys, Received::new(self.hub.connections()));
                if let Some(entry) = self.hub.known(&lease.run_id) {
                    entry.handle_takeover(epoch, Some(head));
                }
                self.list_leases(std::slice::from_ref(&lease), until).await?;
                Ok(lease)
            }
            "held" => Err(LogError::Held { run, until: Timestamp(reply.next()?) }),
            _ => Err(reply.refusal(&run, 0)),
        }
    }

    /// Extends leases, one script call each, and the expiry of the keys of a run once less than half of
    /// it is left. Returns the lost leases, and removes their writers.
    pub(super) async fn renew_runs(
        &self,
        leases: Vec<Lease>,
        until: Timestamp,
    ) -> Result<Vec<Lease>, LogError> {
        let renew = |lease: Lease| async move {
            let mut reply = self.renew_run(&lease, until).await?;
            if reply.word == "aging" {
                let (thread, owner): (String, String) = (reply.next()?, reply.next()?);
                self.renew_keys(&lease.run_id, &thread, &owner).await?;
            }
            Ok::<_, LogError>((reply.word != "lost", lease))
        };
        // All requests are sent on one connection before the first answer arrives.
        let answers = futures_util::future::try_join_all(leases.into_iter().map(renew)).await?;
        let (held, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(held, _)| *held);
        let only =
            |leases: Vec<(bool, Lease)>| leases.into_iter().map(|(_, lease)| lease).collect::<Vec<_>>();
        self.list_leases(&only(held), until).await?;
        let lost = only(lost);
        for lease in &lost {
            self.writers.lose(lease);
        }
        Ok(lost)
    }

    /// Extends one lease. First appends the events again that the server lost: if the lease is released, the next owner must
    /// find them, or its own events would get numbers that watchers have already seen.
    async fn renew_run(&self, lease: &Lease, until: Timestamp) -> Result<Reply, LogError> {
        let writer = self.writers.get(lease);
        // An append that is under way finds by itself what the log lacks.
        let acknowledged =
            writer.as_ref().and_then(|writer| writer.try_lock().ok().map(|writer| writer.head));
        let mut reply = self.renew_after(lease, until, acknowledged.unwrap_or_default()).await?;
        if let ("behind", Some(writer)) = (reply.word.as_str(), writer) {
            let (behind, deadline) = (reply.next()?, self.shared.link.deadline());
            match writer.lock().await.restore(&self.shared, behind, deadline).await {
                // The next append reports events that cannot be restored.
                Ok(()) | Err(LogError::Lost { .. }) => {}
                Err(error) => return Err(error),
            }
            reply = self.renew_after(lease, until, 0).await?;
        }
        Ok(reply)
    }

    /// Calls the script, which refuses a log that ends before `head`.
    async fn renew_after(&self, lease: &Lease, until: Timestamp, head: u64) -> Result<Reply, LogError> {
        let call = Call::default().key(self.shared.keys.meta(&lease.run_id));
        let call = call.arg(lease.epoch).arg(until.0).arg(self.shared.expiry).arg(head);
        self.shared.link.script(&self.shared.scripts.renew, &call).await
    }

    /// Removes the writer of a lease, if `error` says that the lease is lost.
    pub(super) fn note_loss(&self, lease: &Lease, error: &LogError) {
        if matches!(error, LogError::Fenced { .. } | LogError::NotFound(_)) {
            self.writers.lose(lease);
        }
    }

    /// Corrects what a failover may have undone, if a connection or a lease was lost since the last time: ends of runs, and the
    /// entries of open runs in the list of leases. A run that is open and in no list would be ended by no replica.
    pub(super) async fn restore_runs(&self) -> Result<(), LogError> {
        let losses = self.shared.link.broken() + self.writers.losses();
        if self.checked.load(Ordering::Relaxed) == losses {
            return Ok(());
        }
        self.restore_ends().await?;
        self.restore_leases().await?;
        self.checked.store(losses, Ordering::Relaxed);
        Ok(())
    }

    /// Lists the runs again that are open and whose leases this process lost: the failover that lost the takeover may have lost
    /// the entry of the run, too.
    async fn restore_leases(&self) -> Result<(), LogError> {
        let states = self.read_states(&self.writers.lost()).await?;
        let open = states.into_iter().flatten().filter(|state| state.closed_at.is_none());
        self.relist(&open.collect::<Vec<_>>()).await
    }

    /// Appends the last events of ended runs again, if the server came back without them, and lists the ends again.
    async fn restore_ends(&self) -> Result<(), LogError> {
        let ended = self.writers.ended();
        let runs: Vec<RunId> = ended.iter().map(|ended| ended.lease.run_id.clone()).collect();
        for (ended, state) in ended.iter().zip(self.read_states(&runs).await?) {
            match state {
                // The takeover was lost, or another replica has taken the run over since.
                Some(state) if state.closed_at.is_none() && state.epoch != ended.lease.epoch => {
                    self.relist(&[state]).await?;
                }
                Some(state) => self.restore_end(ended, state).await?,
                None => {}
            }
        }
        Ok(())
    }

    /// Appends the last events of one ended run again, if the server lost them, and lists its end again.
    async fn restore_end(
        &self,
        Ended { lease, writer, .. }: &Ended,
        state: RunState,
    ) -> Result<(), LogError> {
        let writer = writer.lock().await;
        if state.closed_at.is_none() {
            let deadline = self.shared.link.deadline();
            match writer.restore(&self.shared, state.head, deadline).await {
                Ok(()) => {}
                // The events are lost for good: a replica that takes the run over ends it.
                Err(LogError::Lost { .. }) => return self.relist(&[state]).await,
                Err(LogError::Fenced { .. } | LogError::Closed(_) | LogError::NotFound(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        match writer.closed_at {
            Some(at) => self.list_end(&lease.run_id, at).await,
            None => Ok(()),
        }
    }
}
