"""One Chromium for the session, a context for each test; and a gateway that shows real evaluations."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from glassbox.cli.stores import evidence_store
from glassbox.dossier.archive import Shelf
from glassbox.gateway.limits import Limits
from streams.ports import Record
from tests.browser.house import Serving, filled, published
from tests.cli.judged import settings_of
from tests.gateway.parts import Door, door

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 30_000
"""How long a page may take for what takes it a second here."""
WATCH = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser lives in the session's loop, so what asks it does too."""
    for item in items:
        if item.path.parent == Path(__file__).parent and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(missing: Callable[[str], NoReturn]) -> AsyncIterator[Browser]:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        missing("there is no Chromium: apt-get install chromium")
    async with async_playwright() as playwright:
        # a name that is not this machine's own, so that a page can be on an insecure origin
        arguments = ["--no-sandbox", "--host-resolver-rules=MAP glassbox.test 127.0.0.1"]
        running = await playwright.chromium.launch(executable_path=program, args=arguments)
        yield running
        await running.close()


@dataclass
class Watched:
    """A context whose pages are watched: what they say, and whom they ask."""

    context: BrowserContext
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def page(self) -> Page:
        page = await self.context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(f"uncaught: {error}"))
        page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.asked.append(request.url))
        return page


@pytest_asyncio.fixture(loop_scope="session")
async def opened(browser: Browser) -> AsyncIterator[Callable[..., Any]]:
    """Makes contexts as `Browser.new_context` does. When the test is over none of their pages may have broken the
    policy, thrown, opened a dialog or asked anybody but this machine."""
    made: list[Watched] = []

    async def make(**options: Any) -> Watched:
        watched = Watched(await browser.new_context(**options))
        await watched.context.add_init_script(WATCH)
        made.append(watched)
        return watched

    yield make
    for watched in made:
        await watched.context.close()
        wrong = ("policy violated", "uncaught", "dialog", "Refused", "Content Security Policy")
        assert [text for text in watched.said if any(word in text for word in wrong)] == []
        here = ("http://localhost:", "http://glassbox.test:", "file:", "blob:http://localhost:")
        assert [url for url in watched.asked if not url.startswith(here)] == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(opened: Callable[..., Any]) -> Page:
    """A page at the size of a desktop."""
    made: Page = await (await opened(viewport={"width": 1280, "height": 900})).page()
    return made


@dataclass
class House:
    """A gateway that is served on a data folder with real evaluations. `records`: what their ledger published. `key`:
    the log's public key."""

    folder: Path
    records: dict[str, Record]
    key: str
    door: Door
    serving: Serving
    limits: Limits

    @property
    def url(self) -> str:
        return self.serving.url

    def told(self, *names: str) -> None:
        self.door.told([self.records[name] for name in names])

    def again(self) -> None:
        """Serve on the same address as before."""
        self.serving = Serving(self.door.app, self.limits, self.serving.port)


@pytest.fixture(scope="session")
def judged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("house"), time.time_ns() // 1_000_000)


@pytest.fixture(scope="session")
def housed(judged_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Opens a house with a catalogue of its own, which knows all policies and no evaluation."""

    @contextmanager
    def open_house(tenant: str | None = None, *, stream_s: float = 60, **options: Any) -> Iterator[House]:
        records, limits = published(judged_folder, tenant), Limits(stream_s=stream_s)
        settings = settings_of(judged_folder)
        shelf = Shelf(evidence_store(settings))
        with door(tmp_path_factory.mktemp("door"), limits=limits, shelf=shelf, **options) as made:
            key = str(settings.signing_key().verifier)
            house = House(judged_folder, records, key, made, Serving(made.app, limits), limits)
            house.told(*(name for name in records if name.startswith("policy:")))
            try:
                yield house
            finally:
                house.serving.stop()

    return open_house


@pytest.fixture(scope="session")
def house(housed: Callable[..., Any]) -> Iterator[House]:
    """Shows everything, to anybody on this machine."""
    with housed() as made:
        made.told(*made.records)
        yield made
