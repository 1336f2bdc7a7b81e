//! A recorded stream as a source: the frames are replayed at their recorded times and decoded like frames from the
//! wire.
//!
//! ```text
//! recording (JSON lines: head, frames with their times, end) ──► sleep ──► decoder of its dialect ──► source events
//! ```
//!
//! So a run of a replayed agent passes the same decoders and the same stream machine as the recorded run did: a defect
//! that was recorded at a user's agent can be reproduced without the agent. The prompt of the run is ignored.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_adapter_a2a::wire::Frame as A2aFrame;
use aqueduct_adapter_a2a::{DecodeConfig, Decoder as A2aDecoder};
use aqueduct_adapter_agui::decode::Decoder as AguiDecoder;
use aqueduct_core::agent::AgentRequest;
use aqueduct_core::{Agent, RunFailure, RunOutcome, SourceEvent, SourceStream};
use tokio::time::Instant;

use super::{EventSender, emit};
use crate::recording::{Frame, Recording};

/// The speed of a replay, as a factor: 2 is twice as fast as recorded, infinity is without pauses. Always positive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed(f64);

/// Speeds compare by value; no speed is NaN.
impl Eq for Speed {}

impl Speed {
    /// The recorded speed.
    pub const RECORDED: Self = Self(1.0);

    /// Parses `2`, `0.5` or `max`. Returns `None` for anything else, including zero, negative numbers, `NaN` and `inf`.
    ///
    /// # Examples
    ///
    /// ```
    /// use aqueduct_gateway::source::replay::Speed;
    ///
    /// assert_eq!(Speed::parse("1"), Some(Speed::RECORDED));
    /// assert!(Speed::parse("max").is_some());
    /// assert_eq!(Speed::parse("0"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        if text == "max" {
            return Some(Self(f64::INFINITY));
        }
        let factor: f64 = text.parse().ok()?;
        (factor.is_finite() && factor > 0.0).then_some(Self(factor))
    }

    /// Returns the replay time of a frame that was recorded at that time.
    fn scaled(self, at: Duration) -> Duration {
        if self.0.is_finite() {
            Duration::try_from_secs_f64(at.as_secs_f64() / self.0).unwrap_or(Duration::MAX)
        } else {
            Duration::ZERO
        }
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self::RECORDED
    }
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| "expected a factor (`2`, `0.5`) or `max`".to_owned())
    }
}

/// A source that replays a recording. Each run replays it from the beginning; runs share the recording in memory.
#[derive(Debug, Clone)]
pub(crate) struct ReplaySource {
    pub(crate) recording: Arc<Recording>,
    pub(crate) speed: Speed,
}

impl Agent for ReplaySource {
    /// A cancelled run ends at once, also in the middle of a pause.
    fn run(&self, request: AgentRequest) -> SourceStream {
        let source = self.clone();
        emit(|out| async move {
            tokio::select! {
                biased;
                () = request.cancel.cancelled() => out.finish(RunOutcome::Cancelled).await,
                () = source.play(&out) => {}
            }
        })
    }
}

impl ReplaySource {
    /// Replays all frames. Times are relative to the start of the replay and not to the frame before, so that delays of
    /// the reader do not add up.
    async fn play(&self, out: &EventSender) {
        let begun = Instant::now();
        let mut decoder = Decoder::new(&self.recording);
        for frame in &self.recording.frames {
            tokio::time::sleep_until(begun + self.speed.scaled(frame.at)).await;
            let mut events = Vec::new();
            let read = decoder.handle_frame(frame, &mut events);
            if !out.send_all(events).await {
                return;
            }
            // The events before the invalid part of a frame are sent first, as from a live agent.
            if let Err(what) = read {
                return out.fail(RunFailure::new(RunFailure::UPSTREAM_INVALID, what)).await;
            }
        }
        tokio::time::sleep_until(begun + self.speed.scaled(self.recording.end.at)).await;
        // A stream without a terminal event ends without one; the stream machine reports it as cut.
        let mut events = Vec::new();
        decoder.handle_end(&mut events);
        out.send_all(events).await;
    }
}

/// The decoder of the recording's dialect. Boxed, because the decoders differ much in size.
enum Decoder {
    Agui(Box<AguiDecoder>),
    A2a(Box<A2aDecoder>),
}

impl Decoder {
    /// Returns the decoder for the dialect in the head of the recording: A2A of the recorded version, else AG-UI.
    fn new(recording: &Recording) -> Self {
        match recording.head.dialect.a2a() {
            None => Self::Agui(Box::default()),
            Some(dialect) => {
                let config = DecodeConfig { dialect, ..DecodeConfig::root() };
                Self::A2a(Box::new(A2aDecoder::new(config)))
            }
        }
    }

    /// Decodes one frame and appends its events. Frames after the end of an A2A task are ignored, as a client would.
    ///
    /// # Errors
    ///
    /// Returns the message of the AG-UI decoder for an invalid payload. The A2A decoder reports invalid frames as
    /// events.
    fn handle_frame(&mut self, frame: &Frame, events: &mut Vec<SourceEvent>) -> Result<(), String> {
        match self {
            Self::Agui(decoder) => {
                let read = decoder.handle_payload(&frame.data);
                events.extend(std::iter::from_fn(|| decoder.poll_event()));
                read.map_err(|error| error.to_string())
            }
            Self::A2a(decoder) => {
                if decoder.settled().is_none() {
                    let frame = A2aFrame { event: frame.event.as_deref(), data: &frame.data };
                    decoder.handle_frame(frame, events);
                }
                Ok(())
            }
        }
    }

    /// Handles the end of the recording. An A2A task that has not ended fails as cut; an AG-UI stream without its
    /// terminal event is reported by the stream machine.
    fn handle_end(&mut self, events: &mut Vec<SourceEvent>) {
        if let Self::A2a(decoder) = self
            && decoder.settled().is_none()
        {
            decoder.handle_end(events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_factor() {
        let second = Duration::from_secs(1);
        for (text, scaled) in [("2", 500), ("0.5", 2000), ("1", 1000), ("max", 0)] {
            assert_eq!(Speed::parse(text).unwrap().scaled(second).as_millis(), scaled, "{text}");
        }
        for bad in ["", "0", "-1", "fast", "NaN", "inf"] {
            assert_eq!(Speed::parse(bad), None, "{bad}");
        }
    }
}
