//! The frames of an agent's stream as they come, for recorders: one message, one stream, no second attempt.

use aqueduct_adapter_a2a::call::{Call, SendMessage};
use aqueduct_adapter_a2a::input::{Recipient, message};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_adapter_a2a::wire::Dialect;
use aqueduct_core::RunFailure;
use aqueduct_transport_http::{ClientError, SseStream};
use bytes::Bytes;
use http::Response;

use super::super::upstream::{failure_of, is_json, unsent};
use super::super::{Ask, Forwarded};
use super::A2aSource;

/// What an agent answers to a message.
pub(crate) enum RawAnswer {
    /// A stream.
    Stream(Box<SseStream>),
    /// One JSON text: the agent does not stream.
    Whole(Response<Bytes>),
}

impl A2aSource {
    /// Asks the agent to stop a task of such a stream; false if it cannot be asked.
    pub(crate) async fn cancel_raw(&self, task: String, forwarded: &Forwarded) -> bool {
        let Ok(known) = self.directory.endpoint(&self.upstream, forwarded).await else { return false };
        self.cancel(&known.endpoint, task, forwarded).await;
        true
    }

    /// Sends the message of a run, and gives what comes back with the dialect it is in. None for an agent that speaks
    /// gRPC, whose frames are no text.
    pub(crate) async fn open_raw(&self, ask: &Ask) -> Result<Option<(Dialect, RawAnswer)>, RunFailure> {
        let known = self.directory.endpoint(&self.upstream, &ask.forwarded).await?;
        if known.endpoint.binding == Binding::Grpc {
            return Ok(None);
        }
        let dialect = known.endpoint.binding.dialect(known.endpoint.version);
        let id = format!("{}-input", ask.input.run_id);
        let send = Box::new(SendMessage::new(message(&ask.input, id, &Recipient::New)));
        let call = if known.streaming { Call::SendStreamingMessage(send) } else { Call::SendMessage(send) };
        let wanted = known.endpoint.http_request(&call, 1).map_err(|error| unsent(error.to_string()))?;
        let headers: Vec<(&str, &str)> = wanted.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let request =
            self.upstream.request(wanted.method, &wanted.url, &headers, &ask.forwarded, wanted.body.into());
        let request = request.map_err(unsent)?;
        if !known.streaming {
            let response = self.upstream.client.request(request).await;
            let response = response.map_err(|error| failure_of(&error))?;
            return Ok(Some((dialect, RawAnswer::Whole(response))));
        }
        match self.upstream.client.open_stream(request).await {
            Ok(stream) => Ok(Some((dialect, RawAnswer::Stream(Box::new(stream))))),
            Err(ClientError::NotAStream(response)) if is_json(&response) => {
                Ok(Some((dialect, RawAnswer::Whole(*response))))
            }
            Err(error) => Err(failure_of(&error)),
        }
    }
}
