"""The report in a real browser: nothing is cut off at any width, keys unfold it, the network is left alone."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from glassbox.replay.evaluate import EvaluationEngine
from glassbox.replay.report import Side, report
from glassbox.replay.store import Run
from glassbox.replay.suite import load_suite
from tests.replay.shipped import run_version

SIZES = {"phone": (360, 740), "tablet": (768, 1024), "small": (1000, 700), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, suite = tmp_path_factory.mktemp("report"), load_suite("tidewell")
    engine = EvaluationEngine(suite)
    sides = []
    for version in ("v2", "v3"):
        run = Run.open(run_version(folder / version, suite, version))
        sides.append(Side(run, engine.evaluate(run)))
    path = folder / "report.html"
    path.write_text(report(suite, *sides), encoding="utf-8")
    return path


@pytest.fixture
def show(opened: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """The report without JavaScript, at a size in CSS pixels; and whom it asked."""

    async def shown(width: int = 1280, height: int = 900, *, dark: bool = False) -> tuple[Page, list[str]]:
        size, scheme = {"width": width, "height": height}, "dark" if dark else "light"
        watched = await opened(java_script_enabled=False, viewport=size, color_scheme=scheme)
        page = await watched.page()
        await page.goto(path.as_uri())
        return page, watched.asked

    return shown


@pytest.mark.parametrize("size", SIZES)
async def test_nothing_is_wider_than_the_page(size: str, show: Callable[..., Any]) -> None:
    width, height = SIZES[size]
    page, _ = await show(width, height)
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    wide = "[...document.querySelectorAll('body *')].filter(e => getComputedStyle(e).overflowX == 'auto'"
    wide += " && e.scrollWidth > e.clientWidth).map(e => [e.ariaLabel, e.tabIndex])"
    assert await page.evaluate(wide) in ([], [["Cases by class", 0]])  # long names scroll, and keys can do that
    unfold = "document.querySelectorAll('details').forEach(e => e.open = true); document.documentElement.scrollWidth"
    assert await page.evaluate(unfold) == width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_page_follows_the_colour_scheme(dark: bool, show: Callable[..., Any]) -> None:
    page, _ = await show(dark=dark)
    red, green, blue = pixel(await page.screenshot())
    assert (red + green + blue < 150) == dark


async def test_the_page_asks_the_network_for_nothing_and_loads_without_scripts(
    show: Callable[..., Any], path: Path
) -> None:
    page, asked = await show()
    assert asked == [path.as_uri()]
    assert await page.evaluate("document.scripts.length") == 0
    assert await page.evaluate("document.querySelector('mark').getBoundingClientRect().height > 10")


async def test_a_key_opens_a_case(show: Callable[..., Any]) -> None:
    page, _ = await show()
    case = page.locator("main > details").nth(1)
    assert await case.get_attribute("open") is None
    await case.locator("summary").first.press("Enter")
    await expect(case).to_have_attribute("open", "")


async def test_a_narrow_table_is_still_a_table(show: Callable[..., Any]) -> None:
    page, _ = await show(360, 740)
    assert await page.get_by_role("rowheader", name="groundedness").count()


async def test_a_reader_that_does_not_see_hears_the_bars_and_why_a_sentence_failed(show: Callable[..., Any]) -> None:
    page, _ = await show()
    heard = await page.locator("body").aria_snapshot()
    assert "extractive v3: 22 ungrounded, 4 missed abstention" in heard
    assert "(cites nothing)" in heard
    assert "higher is better" in heard
    for role in ("main", "heading", "table", "row", "columnheader", "rowheader"):
        assert await page.get_by_role(role).count()


def pixel(png: bytes) -> tuple[int, int, int]:
    """Red, green and blue of the first pixel: no filter can change it but by zero, as it has no neighbours."""
    at, data, channels = 8, b"", 3
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        content = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            channels = {2: 3, 6: 4}[content[9]]
        if kind == b"IDAT":
            data += content
        at += 12 + length
    raw = zlib.decompress(data)[1 : 1 + channels]
    return raw[0], raw[1], raw[2]
