//! Plays modes against the agent at a URL, and prints what it ended up with.
//!
//! `ask` and `auth` answer with "prod"; `wait` cancels; `hold` has a second watcher.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use a2a::{A2AError, CancelTaskRequest, Message, Part, Role, SendMessageRequest, SubscribeToTaskRequest};
use a2a_client::agent_card::AgentCardResolver;
use a2a_client::{A2AClient, A2AClientFactory, Transport};
use a2a_grpc::GrpcTransportFactory;
use futures::StreamExt as _;
use tokio::task::JoinHandle;

use crate::seen::Seen;

type Client = Arc<A2AClient<Box<dyn Transport>>>;

fn request(text: &str, asked: Option<&Seen>) -> SendMessageRequest {
    let mut message = Message::new(Role::User, vec![Part::text(text)]);
    message.task_id = asked.map(|asked| asked.task_id.clone());
    message.context_id = asked.map(|asked| asked.context_id.clone());
    SendMessageRequest { message, configuration: None, metadata: None, tenant: None }
}

pub(crate) async fn run(url: &str, binding: &str, modes: &str) -> Result<(), Box<dyn Error>> {
    let card = AgentCardResolver::new(None).resolve(url).await?;
    let factory = A2AClientFactory::builder()
        .register(Arc::new(GrpcTransportFactory::new()))
        .preferred_bindings(vec![binding.to_owned()])
        .build();
    let (client, interface) = factory.create_from_card_with_interface(&card).await?;
    if interface.protocol_binding != binding {
        return Err(format!("{} was chosen instead of {binding}", interface.protocol_binding).into());
    }
    let client = Arc::new(client);
    for mode in modes.split(',') {
        play(&client, mode).await?;
    }
    Ok(())
}

async fn play(client: &Client, mode: &str) -> Result<(), A2AError> {
    let mut seen = Seen::default();
    let mut other: Option<JoinHandle<Result<Option<Seen>, A2AError>>> = None;
    let mut stream = client.send_streaming_message(&request(mode, None)).await?;
    while let Some(event) = stream.next().await {
        seen.take(event?);
        if mode == "many" && seen.events % 500 == 0 {
            tokio::time::sleep(Duration::from_millis(200)).await; // A slow reader.
        }
        if other.is_none() && mode == "wait" && seen.text() == "so far" {
            other = Some(tokio::spawn(cancel(client.clone(), seen.task_id.clone())));
        }
        if other.is_none() && mode == "hold" && seen.text() == "before " {
            other = Some(tokio::spawn(watch(client.clone(), seen.task_id.clone())));
        }
    }
    seen.report();
    if let Some(other) = other
        && let Some(watched) = other.await.map_err(|error| A2AError::internal(error.to_string()))??
    {
        watched.report();
    }
    if matches!(mode, "ask" | "auth") {
        read(client.send_streaming_message(&request("prod", Some(&seen))).await?).await?.report();
    }
    Ok(())
}

async fn read(
    mut stream: impl futures::Stream<Item = Result<a2a::StreamResponse, A2AError>> + Unpin,
) -> Result<Seen, A2AError> {
    let mut seen = Seen::default();
    while let Some(event) = stream.next().await {
        seen.take(event?);
    }
    Ok(seen)
}

async fn watch(client: Client, id: String) -> Result<Option<Seen>, A2AError> {
    read(client.subscribe_to_task(&SubscribeToTaskRequest { id, tenant: None }).await?).await.map(Some)
}

async fn cancel(client: Client, id: String) -> Result<Option<Seen>, A2AError> {
    client.cancel_task(&CancelTaskRequest { id, metadata: None, tenant: None }).await.map(|_| None)
}
