"""langgraph-api's in-memory server: `serve_langgraph.py <port>`.

The agent is at `/a2a/fe096781-5601-53d2-b2f6-0d3403f7e9ca`: the server derives the id from the name of the graph, `agent`.
"""
from server import arguments, listen

import os
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import fake_model
from langgraph_api.cli import run_server

port, _ = arguments()
listener, address = listen(port)
listener.close()  # this server takes only a port number
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # this server logs to its standard output, whose first line is the address
os.environ["FAKE_MODEL"] = fake_model.serve()
here = Path(__file__).resolve().parent
sys.path.insert(0, str(here))


def announce():
    """Prints the address once the server answers."""
    while True:
        try:
            urllib.request.urlopen(f"{address}/ok").read()
            return print(address, file=out, flush=True)
        except OSError:
            time.sleep(0.1)


threading.Thread(target=announce, daemon=True).start()
with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)  # it writes its state beside itself
    graphs = {"agent": f"{here / 'langgraph_agent.py'}:graph"}
    run_server(port=int(address.rsplit(":", 1)[1]), graphs=graphs, disable_persistence=True, allow_blocking=True)
