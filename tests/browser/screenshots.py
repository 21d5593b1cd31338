"""`python -m tests.browser.screenshots FOLDER`: the views on real evaluations, at two widths in both themes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from tests.browser.chromium import binary, launched
from tests.browser.house import FAILING, HOSTILE, House, entries, filled, housed

VIEWS = {
    "list": ("#/", ".list"),
    "evaluation": (f"#/evaluations/{FAILING}?claim=2", "mark.carrier"),
    "hostile": (f"#/evaluations/{HOSTILE}", ".answer-side"),
    "proof": (f"#/evaluations/{FAILING}/proof", ".proof-verdict b"),
    "comparison": ("#/compare", ".by-part"),
}
"""Name -> address, and what stands there once it is drawn."""


async def shoot(browser: Browser, house: House, folder: Path) -> None:
    for width, height in ((390, 844), (1280, 900)):
        for scheme in ("light", "dark"):
            page = await browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            await page.goto(house.url)
            await page.evaluate("key => localStorage.setItem('glassbox.verifier', key)", house.key)
            for name, (address, shown) in VIEWS.items():
                await page.goto(f"{house.url}/{address}")
                await page.reload()
                await page.locator(shown).first.wait_for(timeout=60_000)
                await settled(page)
                await page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=name != "proof")
            await page.close()


async def settled(page: Page) -> None:
    """Until charts have been drawn to their width."""
    await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


async def main(house: House, folder: Path) -> None:
    program = binary()
    if program is None:
        sys.exit("there is no Chromium: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await launched(playwright, program)
        await shoot(browser, house, folder)
        await browser.close()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        judged = filled(Path(made), time.time_ns() // 1_000_000)
        catalogue = Path(made) / "door"
        catalogue.mkdir()
        with housed(judged, entries(judged), catalogue) as shown:
            shown.told(*shown.ledger)
            asyncio.run(main(shown, target))
