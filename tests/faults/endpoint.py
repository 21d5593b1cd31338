"""A model endpoint that a gate may trouble, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from glassbox.cli.children import free_ports
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from judges.lexical.faults import Fault, Faults
from judges.lexical.server import LexicalServer


class Endpoint:
    """Serves while its `with` block lasts, but between `stop` and `start`, always on the same port."""

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server: LexicalServer | None = None

    def environment(self, call_limit_s: float) -> dict[str, str]:
        """What a worker is told that is to ask here."""
        return {
            "GLASSBOX_LLM_BASE_URL": f"http://127.0.0.1:{self._port}/v1",
            "GLASSBOX_LLM_MODEL": CHAT_MODEL,
            "GLASSBOX_EMBEDDING_MODEL": EMBEDDING_MODEL,
            "GLASSBOX_LLM_CALL_LIMIT_S": f"{call_limit_s:g}",
        }

    def __enter__(self) -> Endpoint:
        self._thread.start()
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self) -> None:
        self._server = LexicalServer(port=self._port)
        self._do(self._server.__aenter__())

    def stop(self) -> None:
        if self._server is not None:
            self._do(self._server.__aexit__())
            self._server = None

    def suffer(self, faults: Faults) -> None:
        if self._server is not None:
            self._server.faults = faults

    @property
    def suffered(self) -> Counter[Fault]:
        """The faults that happened since it was started."""
        assert self._server is not None
        return self._server.faulted

    def _do(self, work: Coroutine[Any, Any, object]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)
