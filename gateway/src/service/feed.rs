//! Where the events of a run come from, and how it begins.

use std::sync::Arc;

use aqueduct_core::{SourceEvent, StreamContext, Timestamp};
use tokio::task::JoinHandle;

use super::AgentEntry;
use crate::source::{Ask, EventSender, Events, Left};

/// Where the events of a run come from.
#[derive(Debug)]
pub(super) enum Feed {
    /// The agent's source is asked; what it is asked stands first in the log.
    Source(Option<Box<SourceEvent>>),
    /// A framework publishes them.
    Published(Events),
    /// Another gateway began the run: its agent is taken up where the log ends.
    Left(Box<TakenUp>),
}

/// A run that another gateway began, as far as it came.
#[derive(Debug)]
pub(super) struct TakenUp {
    pub(super) context: StreamContext,
    pub(super) left: Left,
    pub(super) opened_at: Timestamp,
}

/// How a run begins here.
pub(super) enum Begin {
    /// With its first event, and what it was asked.
    New(Option<Box<SourceEvent>>),
    /// Where another gateway stopped.
    Left { context: Box<StreamContext>, opened_at: Timestamp },
}

impl Feed {
    /// Connects to it.
    pub(super) fn connect(self, agent: &Arc<AgentEntry>, ask: &Ask) -> (Events, JoinHandle<()>, Begin) {
        let (sender, events) = EventSender::channel();
        let (agent, ask) = (Arc::clone(agent), ask.clone());
        match self {
            Self::Published(events) => (events, tokio::spawn(std::future::ready(())), Begin::New(None)),
            Self::Source(asked) => {
                let source = tokio::spawn(async move {
                    if let Some(source) = &agent.source {
                        source.run(ask, sender).await;
                    }
                });
                (events, source, Begin::New(asked))
            }
            Self::Left(taken) => {
                let TakenUp { context, left, opened_at } = *taken;
                let source = tokio::spawn(async move {
                    if let Some(source) = &agent.source {
                        source.go_on(ask, left, sender).await;
                    }
                });
                (events, source, Begin::Left { context: Box::new(context), opened_at })
            }
        }
    }
}
