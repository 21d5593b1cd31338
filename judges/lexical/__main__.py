"""`python -m judges.lexical`: the lexical model as a process of its own, until SIGTERM or SIGINT."""

import argparse
import asyncio
import signal
import sys
from dataclasses import fields
from typing import get_args

from judges.lexical.faults import MALFORMED, Faults
from judges.lexical.server import LexicalServer


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 after a signal, 2 where the address cannot be bound (or the arguments are wrong)."""
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    host, port = given.pop("host"), given.pop("port")
    try:
        faults = Faults(**given)
    except ValueError as error:
        parser.error(str(error))
    try:
        asyncio.run(_serve(LexicalServer(host=host, port=port, faults=faults)))
    except OSError as error:
        reason = error.strerror or "the address cannot be bound"
        sys.stderr.write(
            f"Cannot listen on {host} port {port} ({reason}): choose another --port, or 0 for a free one.\n"
        )
        return 2
    return 0


async def _serve(server: LexicalServer) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with server:
        sys.stdout.write(f"The lexical model listens on {server.url}\n")
        sys.stdout.flush()
        await stopped.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m judges.lexical",
        description="Serve the offline lexical model as an OpenAI-compatible endpoint.",
        epilog="example: python -m judges.lexical --port 8099 --latency-s 0.05 --error-rate 0.02",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=0, help="port to listen on; 0, the default, takes a free one")
    group = parser.add_argument_group("faults, for tests")
    for field in fields(Faults):
        flag = f"--{field.name.replace('_', '-')}"
        if field.name == "malformed":
            group.add_argument(flag, choices=MALFORMED, default=field.default)
        else:
            kind = next((t for t in (*get_args(field.type), field.type) if t in (int, float, str)), str)
            group.add_argument(flag, type=kind, default=field.default, metavar=kind.__name__)
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65_535:
        raise ValueError
    return port


if __name__ == "__main__":
    sys.exit(main())
