"""The report in a real browser: nothing is cut off at any width, keys unfold it, the network is left alone."""

import struct
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import pytest

from glassbox.replay.evaluate import EvaluationEngine
from glassbox.replay.report import Side, report
from glassbox.replay.store import Run
from glassbox.replay.suite import load_suite
from tests.browser.chromium import Tab, binary, chromium
from tests.replay.shipped import run_version

SIZES = {"phone": (360, 740), "tablet": (768, 1024), "small": (1000, 700), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
async def tab(tmp_path: Path, missing: Callable[[str], NoReturn]) -> AsyncIterator[Tab]:
    program = binary()
    if program is None:
        missing("there is no Chromium: apt-get install chromium")
    async with chromium(program, tmp_path / "profile") as found:
        yield found


@pytest.mark.parametrize("size", SIZES)
async def test_nothing_is_wider_than_the_page(size: str, tab: Tab, page: Path) -> None:
    width, height = SIZES[size]
    await tab.open(page, width=width, height=height)
    assert await tab.evaluate("document.documentElement.scrollWidth") == width
    wide = "[...document.querySelectorAll('body *')].filter(e => getComputedStyle(e).overflowX == 'auto'"
    wide += " && e.scrollWidth > e.clientWidth).map(e => [e.ariaLabel, e.tabIndex])"
    assert await tab.evaluate(wide) in ([], [["Cases by class", 0]])  # long names scroll, and keys can do that
    unfold = "document.querySelectorAll('details').forEach(e => e.open = true); document.documentElement.scrollWidth"
    assert await tab.evaluate(unfold) == width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_page_follows_the_colour_scheme(dark: bool, tab: Tab, page: Path) -> None:
    await tab.open(page, width=1280, height=900, dark=dark)
    red, green, blue = pixel(await tab.screenshot())
    assert (red + green + blue < 150) == dark


async def test_the_page_asks_the_network_for_nothing_and_loads_without_scripts(tab: Tab, page: Path) -> None:
    await tab.open(page, width=1280, height=900)
    assert tab.requests == [page.as_uri()]
    assert await tab.evaluate("document.scripts.length") == 0
    assert await tab.evaluate("document.querySelector('mark').getBoundingClientRect().height > 10")


async def test_a_key_opens_a_case(tab: Tab, page: Path) -> None:
    await tab.open(page, width=1280, height=900)
    await tab.evaluate("document.querySelectorAll('main > details > summary')[1].focus()")
    is_open = "document.querySelectorAll('main > details')[1].open"
    assert not await tab.evaluate(is_open)
    await tab.press("Enter", 13)
    assert await tab.evaluate(is_open)


async def test_a_narrow_table_is_still_a_table(tab: Tab, page: Path) -> None:
    await tab.open(page, width=360, height=740)
    nodes = (await tab.call("Accessibility.getFullAXTree"))["nodes"]
    heads = {str(n["name"]["value"]) for n in nodes if n.get("role", {}).get("value") == "rowheader"}
    assert any("groundedness" in head for head in heads)


async def test_a_reader_that_does_not_see_hears_the_bars_and_why_a_sentence_failed(tab: Tab, page: Path) -> None:
    await tab.open(page, width=1280, height=900)
    nodes = (await tab.call("Accessibility.getFullAXTree"))["nodes"]
    said = [str(node.get("name", {}).get("value", "")) for node in nodes]
    assert "extractive v3: 22 ungrounded, 4 missed abstention" in said
    assert any("(cites nothing)" in each for each in said)
    assert any("higher is better" in each for each in said)
    roles = {str(node.get("role", {}).get("value")) for node in nodes}
    assert {"main", "heading", "table", "row", "columnheader", "rowheader"} <= roles


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
