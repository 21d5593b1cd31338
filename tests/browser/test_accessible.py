"""Every view, at two widths in both themes: axe-core finds nothing, and nothing is wider than the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.browser.house import FAILING, HOSTILE, House

VIEWS = {
    "#/": "Mean trust in",
    f"#/evaluations/{FAILING}?claim=2": "Claim 2 of 3",
    f"#/evaluations/{HOSTILE}/proof": "Cannot tell",
    "#/compare": "mean trust of",
    "#/people": "Export the reviews",
    "#/replay": "A suite of cases",
    "#/verify": "It stays in this browser",
}
"""Address -> what stands there once it is drawn."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_nobody_is_left_out(width: int, dark: bool, opened: Callable[..., Any], house: House) -> None:
    watched = await opened(
        viewport={"width": width, "height": 844},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    page = await watched.page()
    for address, shown in VIEWS.items():
        await page.goto(f"{house.url}/{address}")
        drawn = page.get_by_text(shown).or_(page.get_by_role("img", name=shown)).first
        await expect(drawn).to_be_visible()
        found = (await Axe().run(page)).response["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == [], address
        assert await page.evaluate("document.documentElement.scrollWidth") == width, address


async def test_the_keyboard_is_enough(page: Page, house: House) -> None:
    await page.goto(house.url)
    await expect(page.get_by_role("rowheader").first).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="To the content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    await page.get_by_role("link", name=FAILING).focus()
    ring = "link => getComputedStyle(link).outlineStyle"
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Tab")
    assert await page.get_by_role("link", name=FAILING).evaluate(ring) == "solid"
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=FAILING)).to_be_focused()
