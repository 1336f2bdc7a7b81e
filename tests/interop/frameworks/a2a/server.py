"""What the servers of this folder share: the paths of the suite, and a port that is known before the agent card is made."""
import socket
import sys
from pathlib import Path

SUITE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SUITE))


def arguments():
    """The port (0: any free one) and the variant of the command line."""
    return int((sys.argv + ["0"])[1]), (sys.argv + ["", ""])[2]


def listen(port):
    """A listening socket on the loopback interface, and its address."""
    listener = socket.create_server(("127.0.0.1", port))
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


def serve(app, listener, address):
    """Serves `app` on `listener`; prints the address first, because connections already queue there."""
    import uvicorn

    print(address, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
