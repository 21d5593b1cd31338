"""Commands and servers that answer, and those that do not."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from glassbox.replay.store import SystemReference
from glassbox.replay.systems.command import CommandSystem

SCRIPT = """
import json, os, signal, subprocess, sys, time
def reply(asked, **fields):
    print(json.dumps({"id": asked["id"], **fields}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    question = asked["question"]
    match question.split()[0]:
        case "hang": time.sleep(600)
        case "die": os.kill(os.getpid(), signal.SIGKILL)
        case "exit": sys.exit(3)
        case "chatter": print("Loading ..."); reply(asked, answer="late")
        case "twice": reply(asked, answer="one"); reply(asked, answer="two")
        case "busy": reply(asked, error={"type": "rate_limited", "message": "later", "retry_after_s": 1})
        case "brood":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open(question.split()[1], "w").write(str(child.pid)); time.sleep(600)
        case "huge": reply(asked, answer="x" * 1_000_000)
        case "secret": reply(asked, answer="The key is " + os.environ["SOME_API_KEY"])
        case _: reply(asked, answer=f"{os.getpid()}")
"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    (tmp_path / "system.py").write_text(SCRIPT)
    return [sys.executable, str(tmp_path / "system.py")]


@pytest.fixture
async def system(script: list[str]) -> AsyncIterator[CommandSystem]:
    made = CommandSystem(script, SystemReference(name="command", version="1"))
    yield made
    await made.close()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves a handler at any path: its address."""
    runners = []

    async def start(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runners.append(web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", 0).start()
        host, port = runners[-1].addresses[0][:2]
        return f"http://{host}:{port}"

    yield start
    for runner in runners:
        await runner.cleanup()
