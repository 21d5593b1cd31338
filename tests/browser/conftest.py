"""One Chromium for the session, a context for each test; and a gateway that shows real evaluations."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.browser.chromium import binary, launched
from tests.browser.house import House, entries, filled
from tests.browser.house import housed as open_house

PATIENCE_MS = 60_000
"""How long a page may take for what takes it a second here."""
expect.set_options(timeout=PATIENCE_MS)
WATCH = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser lives in the session's loop, so what asks it does too. The first test waits for what all share."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.timeout(300))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(missing: Callable[[str], NoReturn]) -> AsyncIterator[Browser]:
    program = binary()
    if program is None:
        missing("there is no Chromium: apt-get install chromium")
    async with async_playwright() as playwright:
        running = await launched(playwright, program)
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


Housed = Callable[..., AbstractContextManager[House]]


@pytest.fixture(scope="session")
def judged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("house"), time.time_ns() // 1_000_000)


@pytest.fixture(scope="session")
def housed(
    judged_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., AbstractContextManager[House]]:
    """Opens a house with a catalogue of its own, which knows all policies and no evaluation."""
    ledger = entries(judged_folder)
    return lambda tenant=None, **options: open_house(
        judged_folder, ledger, tmp_path_factory.mktemp("door"), tenant, **options
    )


@pytest.fixture(scope="session")
def house(housed: Housed) -> Iterator[House]:
    """Shows everything, to anybody on this machine."""
    with housed() as made:
        made.told(*made.ledger)
        yield made
