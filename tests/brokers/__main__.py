"""Start a Kafka broker of one node, say where it listens, and run it until Ctrl-C."""

import signal

from tests.brokers.jvm import CannotRun, JvmBroker


def main() -> None:
    """Run one broker in the foreground; its data are deleted at the end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        broker = JvmBroker()
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


if __name__ == "__main__":
    main()
