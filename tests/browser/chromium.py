"""A Chromium without a window, spoken to over its own DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")


def binary() -> str | None:
    """Where the browser is; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Tab:
    """One page. What it asked the network for is in `requests`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._ids = socket, itertools.count(1)
        self.requests: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Answer of a DevTools method."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._next()
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result

    async def open(self, path: Path, *, width: int, height: int, dark: bool = False) -> None:
        """Show a local file, without JavaScript, at a size in CSS pixels."""
        await self.call("Network.enable")
        await self.call("Page.enable")
        await self.call("Emulation.setScriptExecutionDisabled", value=True)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        await self.call("Page.navigate", url=path.as_uri())
        while (await self._next()).get("method") != "Page.loadEventFired":
            pass

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression, which the tester asks for and not the page."""
        made = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in made, made
        return made["result"].get("value")

    async def press(self, key: str, code: int) -> None:
        text = {"Enter": "\r"}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    async def screenshot(self) -> bytes:
        """PNG of what can be seen."""
        made = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(made["data"])

    async def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._socket.receive_json(timeout=30)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message


@asynccontextmanager
async def chromium(program: str, profile: Path) -> AsyncIterator[Tab]:
    """A browser with a profile of its own, ended on leaving."""
    process = await asyncio.create_subprocess_exec(
        program,
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
        *("--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(30):
            while b"DevTools listening on" not in (line := await process.stderr.readline()):
                assert line, "the browser ended before it listened"
        root = "http://" + line.decode().split("ws://", 1)[1].split("/", 1)[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{root}/json/list") as answer:
                (page,) = [each for each in await answer.json() if each["type"] == "page"]
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
