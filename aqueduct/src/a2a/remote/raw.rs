//! Undecoded frames of an agent's stream, for recorders: one message, one stream, no retry.

use aqueduct_adapter_a2a::call::{Call, SendMessage};
use aqueduct_adapter_a2a::input::{Recipient, message};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_adapter_a2a::wire::Dialect;
use aqueduct_core::agent::CallContext;
use aqueduct_core::{AgentRequest, RunFailure};
use aqueduct_transport_http::{Error as HttpError, SseStream};
use bytes::Bytes;
use http::Response;

use super::{RemoteAgent, connection};
use crate::remote::{failure_of, is_json, unsent};

/// The undecoded response to a message.
#[derive(Debug)]
pub enum RawAnswer {
    /// A stream of events.
    Stream(Box<SseStream>),
    /// One JSON text: the agent does not stream.
    Whole(Response<Bytes>),
}

impl RemoteAgent {
    /// Cancels a task of such a stream. Returns `false` if the endpoint of the agent cannot be resolved.
    pub async fn cancel_raw(&self, task: String, context: &dyn CallContext) -> bool {
        let Ok(card) = self.shared.resolve(context).await else { return false };
        self.cancel(&card.endpoint, task, context).await;
        true
    }

    /// Sends the message of a run, and returns the response with its dialect. Returns `None` for an agent over gRPC,
    /// whose frames are not text.
    ///
    /// # Errors
    ///
    /// Returns the failure that a run would have.
    pub async fn open_raw(&self, request: &AgentRequest) -> Result<Option<(Dialect, RawAnswer)>, RunFailure> {
        let (shared, context) = (&self.shared, &*request.context);
        let card = shared.resolve(context).await?;
        if card.endpoint.binding == Binding::Grpc {
            return Ok(None);
        }
        let dialect = card.endpoint.binding.dialect(card.endpoint.version);
        let id = format!("{}-input", request.input.run_id);
        let send = Box::new(SendMessage::new(message(&request.input, id, &Recipient::New)));
        let call = if card.streaming { Call::SendStreamingMessage(send) } else { Call::SendMessage(send) };
        let (request, _) =
            connection::http_request(&shared.connection, &card.endpoint, context, &call).map_err(unsent)?;
        let client = shared.connection.client();
        if !card.streaming {
            let response = client.request(request).await.map_err(|error| failure_of(&error))?;
            return Ok(Some((dialect, RawAnswer::Whole(response))));
        }
        match client.open_stream(request).await {
            Ok(stream) => Ok(Some((dialect, RawAnswer::Stream(Box::new(stream))))),
            Err(HttpError::NotAStream(response)) if is_json(&response) => {
                Ok(Some((dialect, RawAnswer::Whole(*response))))
            }
            Err(error) => Err(failure_of(&error)),
        }
    }
}
