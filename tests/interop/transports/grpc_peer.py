"""grpcio against a running gRPC service (`docs/grpc.md`).

    python grpc_peer.py <host:port> --types <folder of .proto files | reflection> --say <words> --expect <text> [--agent <name>]

Lists, runs, watches from a number, completes, cancels, feeds and asks for health, with messages and methods made either by
grpcio-tools from our .proto file or from what the server's reflection tells. Prints what it saw as one line of JSON;
ends with an error if that is not what was expected. `<words>` go to the agent `echo`, which says them again. Of a service
with another agent, which it names, it expects that agent alone, and neither cancels nor feeds.
"""

import argparse
import importlib
import json
import pathlib
import queue
import sys
import tempfile

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

PACKAGE = "aqueduct.v1"
SERVICE = f"{PACKAGE}.AgentStream"
FILE = "aqueduct/v1/agent_stream"
DEADLINE = 30


def check(found, wanted, what):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r}, not {wanted!r}")


class Compiled:
    """Messages and methods made by grpcio-tools."""

    def __init__(self, channel, protos):
        from grpc_tools import protoc

        out = tempfile.mkdtemp(prefix="aqueduct-stubs-")
        args = ["protoc", f"-I{protos}", f"--python_out={out}", f"--grpc_python_out={out}", f"{FILE}.proto"]
        check(protoc.main(args), 0, "the exit code of protoc")
        sys.path.insert(0, out)
        name = FILE.replace("/", ".")
        self.messages = importlib.import_module(f"{name}_pb2")
        self.stub = importlib.import_module(f"{name}_pb2_grpc").AgentStreamStub(channel)

    def __getattr__(self, name):
        return getattr(self.messages, name)


class Reflected:
    """Messages and methods made from what the server tells about itself."""

    def __init__(self, channel):
        database = ProtoReflectionDescriptorDatabase(channel)
        check(SERVICE in database.get_services(), True, "whether reflection lists the service")
        self.pool = descriptor_pool.DescriptorPool(database)
        self.stub = self
        kinds = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}
        for method in self.pool.FindServiceByName(SERVICE).methods:
            call = getattr(channel, kinds[method.client_streaming, method.server_streaming])
            request, response = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
            callable_ = call(
                f"/{SERVICE}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            setattr(self, method.name, callable_)

    def __getattr__(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


class Peer:
    def __init__(self, types):
        self.types = types
        self.stub = types.stub

    def request(self, agent, run, text):
        types = self.types
        message = types.Message(role=2, contents=[types.Content(text=text)])
        input_ = types.RunInput(thread_id="t", run_id=run, messages=[message])
        return types.RunRequest(agent=agent, input=input_)

    def start(self, agent, run, text):
        return self.stub.Run(self.request(agent, run, text), timeout=DEADLINE)

    def watch(self, run, after=0):
        return self.stub.Watch(self.types.WatchRequest(run_id=run, after=after), timeout=DEADLINE)


def events_of(stream):
    """The events of a stream, with the blocks that its messages introduce."""
    events, blocks = [], {}
    for message in stream:
        blocks.update((block.handle, block) for block in message.blocks)
        events.extend(message.events)
    return events, blocks


def text_of(events, blocks):
    deltas = [event.block_delta for event in events if event.WhichOneof("event") == "block_delta"]
    return "".join(delta.delta for delta in deltas if blocks[delta.block].kind == 1)


def runs_and_watches(peer, agent, run, said, expected):
    events, blocks = events_of(peer.start(agent, run, said))
    check(text_of(events, blocks), expected, "the text of the run")
    check([event.number for event in events], list(range(1, len(events) + 1)), "the numbers of the events")
    check(events[-1].run_finished.outcome, 1, "the outcome")
    after = len(events) // 2
    again, _ = events_of(peer.watch(run, after))
    check([event.number for event in again], [event.number for event in events[after:]], f"the numbers after {after}")
    kinds = lambda events: [event.WhichOneof("event") for event in events]
    check(kinds(again), kinds(events[after:]), f"the events after {after}")
    return len(events)


def completes(peer, agent, run, said, expected):
    value = peer.stub.Complete(peer.request(agent, run, said), timeout=DEADLINE)
    check((value.run.run_id, value.WhichOneof("end"), value.outcome), (run, "outcome", 1), "the run as one value")
    check(value.text, expected, "the answer of the run as one value")
    spoken = [content.text for message in value.messages if message.role == 1 for content in message.contents]
    check("".join(spoken), expected, "the messages of the run as one value")


def cancels(peer, run):
    stream = peer.start("slow", run, "count")
    first = next(stream)
    check(first.run_id, run, "the run of the first message")
    cancel = peer.types.CancelRequest(run_id=run)
    check(peer.stub.Cancel(cancel, timeout=DEADLINE).was_running, True, "whether it was running")
    events, _ = events_of(stream)
    check(events[-1].run_finished.outcome, 3, "the outcome of a stopped run")
    check(peer.stub.Cancel(cancel, timeout=DEADLINE).was_running, False, "whether it was running afterwards")


def feeds(peer, run):
    types, requests = peer.types, queue.Queue()
    answers = peer.stub.Publish(iter(requests.get, None), timeout=DEADLINE)
    requests.put(types.PublishRequest(open=types.PublishOpen(agent="mine", run_id=run, format="text")))
    opened = next(answers).opened
    check((opened.run_id, opened.acknowledged), (run, 0), "the answer to open")
    words = ["fed ", "from ", "grpcio"]
    for number, word in enumerate(words, 1):
        payload = types.PublishPayload(number=number, data=json.dumps(word).encode())
        requests.put(types.PublishRequest(payload=payload))
    acknowledged = 0
    while acknowledged < len(words):
        acknowledged = next(answers).acknowledged.number
    requests.put(types.PublishRequest(finish=types.PublishFinish()))
    last = next(answer for answer in answers if answer.WhichOneof("response") == "finished")
    check(last.finished.acknowledged, len(words), "the answer to finish")
    requests.put(None)
    check(text_of(*events_of(peer.watch(run))), "".join(words), "the text of the fed run")


def is_refused(peer):
    try:
        events_of(peer.watch("no-such-run"))
    except grpc.RpcError as error:
        check(error.code(), grpc.StatusCode.NOT_FOUND, "the status for an unknown run")
        return
    raise SystemExit("an unknown run could be watched")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--types", required=True)
    parser.add_argument("--say", required=True)
    parser.add_argument("--expect", required=True)
    parser.add_argument("--agent", default="echo")
    args = parser.parse_args()
    with grpc.insecure_channel(args.address) as channel:
        reflected = args.types == "reflection"
        peer = Peer(Reflected(channel) if reflected else Compiled(channel, pathlib.Path(args.types)))
        prefix = "reflected" if reflected else "compiled"
        listed = peer.stub.ListAgents(peer.types.ListAgentsRequest(), timeout=DEADLINE).agents
        is_example = args.agent == "echo"
        wanted = ["echo", "mine", "slow"] if is_example else [args.agent]
        check([agent.name for agent in listed], wanted, "the agents")
        events = runs_and_watches(peer, args.agent, f"{prefix}-1", args.say, args.expect)
        completes(peer, args.agent, f"{prefix}-4", args.say, args.expect)
        if is_example:
            cancels(peer, f"{prefix}-2")
            feeds(peer, f"{prefix}-3")
        is_refused(peer)
        health = health_pb2_grpc.HealthStub(channel)
        answer = health.Check(health_pb2.HealthCheckRequest(service=SERVICE), timeout=DEADLINE)
        check(answer.status, health_pb2.HealthCheckResponse.SERVING, "the health of the service")
    print(json.dumps({"grpcio": grpc.__version__, "types": prefix, "events": events}))


main()
