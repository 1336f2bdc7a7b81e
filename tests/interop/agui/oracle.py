"""Lets the real Python models of AG-UI judge events.

    python oracle.py [--self-test]

Reads the same cases as oracle.mjs from standard input and writes verdicts of the same shape. The package has models
and an SSE encoder, but no client: it knows no order of events, builds no messages, and reads neither frames nor
protobuf. So frames are split here the way its TypeScript sibling does, messages and state are null, and protobuf is
refused.
"""

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter, ValidationError

EVENT = TypeAdapter(Event)


def events_of(case):
    if "proto_hex" in case:
        raise ValueError("the Python package does not read protobuf")
    if "events" in case:
        return case["events"]
    return [json.loads(data) for frame in case["sse"].split("\n\n") if (data := data_of(frame))]


def data_of(frame):
    lines = (line.removeprefix("data:") for line in frame.split("\n") if line.startswith("data:"))
    return "\n".join(line.removeprefix(" ") for line in lines)


def judge(case):
    verdict = {"name": case["name"], "ok": False, "error": None, "warnings": [], "messages": None, "state": None}
    verdict |= {"events": 0, "lastEvent": None, "runError": None, "pendingInterrupts": None, "request": None}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            if case.get("input") is not None:
                RunAgentInput.model_validate(case["input"])
            for wire in events_of(case):
                note(verdict, EVENT.validate_python(wire), wire)
            verdict["ok"] = True
        except ValidationError as error:
            verdict["error"] = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        except ValueError as error:
            verdict["error"] = str(error)
    verdict["warnings"] = [str(warning.message) for warning in heard]
    return verdict


def note(verdict, event, wire):
    verdict["events"] += 1
    verdict["lastEvent"] = event.type.value
    if event.type.value == "RUN_ERROR":
        verdict["runError"] = wire


def self_test():
    """Compares the verdicts on known cases with what the package is known to say."""
    lines = Path(__file__).with_name("matrix.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    wrong, refused = [], 0
    for case in cases:
        verdict = judge(case)
        refused += not verdict["ok"]
        if ("ok" if verdict["ok"] else "refused") != case["expect"]["python"]:
            wrong.append(f"{case['name']}: ok is {verdict['ok']}: {verdict['error']}")
    accepted = len(cases) - refused
    name = f"ag-ui-protocol {version('ag-ui-protocol')}"
    print(f"{name}: {len(cases)} known cases, {accepted} accepted, {refused} refused")
    if wrong:
        sys.exit(f"the oracle disagrees with what is known of {name}:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        sys.stdin.reconfigure(encoding="utf-8")
        sys.stdout.reconfigure(encoding="utf-8")
        for line in filter(str.strip, sys.stdin):
            print(json.dumps(judge(json.loads(line)), ensure_ascii=False), flush=True)
