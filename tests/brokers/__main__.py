"""Start a Kafka broker of one node, say where it listens, and run it until Ctrl-C."""

import argparse
import signal
import socket

from tests.brokers.jvm import CannotRun, JvmBroker

DEFAULT_PORT = 9092
"""Where streamsvm looks for a broker if it is told of none."""


def main() -> None:
    """Run one broker in the foreground; its data are deleted at the end."""
    parser = argparse.ArgumentParser(prog="python -m tests.brokers", description=__doc__)
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="where it listens; 0: anywhere")
    port = parser.parse_args().port
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if port and taken(port):
        raise SystemExit(f"port {port} is taken: by a broker already? Another one: python -m tests.brokers --port 0")
    try:
        broker = JvmBroker(port=port)
        broker.start()
    except CannotRun as error:
        raise SystemExit(str(error)) from error
    try:
        print(f"bootstrap.servers={broker.bootstrap_servers}", flush=True)
        print("Ctrl-C ends the broker and deletes its data.", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print("stopping", flush=True)
    finally:
        broker.stop()


def taken(port: int) -> bool:
    """Tell whether somebody listens on a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    main()
