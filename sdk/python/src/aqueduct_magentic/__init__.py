"""Carries the events of a Microsoft Agent Framework workflow to an Aqueduct gateway, a file or a pipe.

==========================================  =============================================
to                                          use
==========================================  =============================================
write events to a file or standard output   `record`
run, forward, answer, until it is done      `run_workflow`
reach a gateway                             `Forwarder` (extra ``websocket``)
do any of it step by step                   `encode_line`, `Recorder`, `decode_reply`
==========================================  =============================================
"""

from .events import encode_event, encode_line, encode_update
from .forwarding import Backoff, Forwarder, ForwarderError
from .payload import JSON, to_json
from .recording import Recorder, record
from .replies import PendingRequest, Reply, ReplyError, decode_replies, decode_reply, parse_replies
from .running import run_workflow
from .sinks import LineFile, Sink

__all__ = [
    "JSON",
    "Backoff",
    "Forwarder",
    "ForwarderError",
    "LineFile",
    "PendingRequest",
    "Recorder",
    "Reply",
    "ReplyError",
    "Sink",
    "decode_replies",
    "decode_reply",
    "encode_event",
    "encode_line",
    "encode_update",
    "parse_replies",
    "record",
    "run_workflow",
    "to_json",
]
