"""The list: what it shows, what new evaluations do to it, what happens when their stream drops, and who may see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from playwright.async_api import Page, expect

from tests.browser.house import FAILING, HOSTILE, House

NEW = "transit-fare-01"


async def test_each_evaluation_is_a_row_with_trust_outcome_and_model(page: Page, house: House) -> None:
    await page.goto(house.url)
    row = page.get_by_role("row", name=FAILING)
    await expect(row).to_contain_text("0.74, threshold 0.80")
    await expect(row).to_contain_text("Fail")
    await expect(row).to_contain_text("northgate / assistant-small")
    await expect(row).to_contain_text("faithfulness")  # its weakest part
    await expect(page.get_by_role("img", name="Mean trust")).to_be_visible()
    await expect(page.get_by_role("img", name="faithfulness: mean")).to_be_visible()


async def test_filters_are_in_the_address_and_the_back_button_takes_them_back(page: Page, house: House) -> None:
    await page.goto(house.url)
    rows = page.locator(".list").get_by_role("rowheader")
    shown = len(house.ledger) - 1  # all but the policy
    await expect(rows).to_have_count(shown)
    await page.get_by_label("Outcome").select_option("Fail")
    await expect(page).to_have_url(f"{house.url}/#/?outcome=fail")
    await expect(page.get_by_role("rowheader", name=FAILING)).to_be_visible()
    await expect(page.get_by_role("cell", name="Pass")).to_have_count(0)
    await page.go_back()
    await expect(rows).to_have_count(shown)
    await page.get_by_label("Order").select_option("Lowest trust first")
    await expect(rows.first).to_have_text(HOSTILE)
    await page.goto(f"{house.url}/#/?judge=semantic_faithfulness&below=0.9")
    await expect(page.get_by_role("columnheader", name="semantic faithfulness")).to_be_visible()
    await expect(rows.first).to_have_text(HOSTILE)


async def test_a_row_leads_to_its_evaluation_and_back(page: Page, house: House) -> None:
    await page.goto(house.url)
    await page.get_by_role("link", name=FAILING).click()
    await expect(page.get_by_role("heading", name=FAILING)).to_be_focused()
    await expect(page).to_have_title(f"{FAILING} · GlassBox")
    await page.go_back()
    await expect(page.get_by_role("rowheader", name=FAILING)).to_be_visible()


async def test_new_evaluations_appear_and_a_dropped_stream_says_so_and_comes_back(
    page: Page, housed: Callable[..., Any]
) -> None:
    with housed(stream_s=600) as house:
        house.told("transit-night-01")
        await page.goto(house.url)
        state, rows = page.locator("#stream"), page.locator(".list").get_by_role("rowheader")
        await expect(state).to_have_text("Live")
        await expect(rows).to_have_count(1)
        house.told(NEW)
        await expect(rows).to_have_text([NEW, "transit-night-01"])
        await asyncio.to_thread(house.serving.stop)
        await expect(state).to_have_text("Not live")
        await expect(page.get_by_role("status")).to_contain_text("dropped")
        house.told(FAILING)  # while nobody is told
        house.again()
        await expect(state).to_have_text("Live")
        await expect(rows).to_have_count(3)
        await expect(page.get_by_role("status")).to_contain_text("back")
        await expect(page.get_by_role("rowheader", name=FAILING)).to_be_visible()


async def test_what_does_not_match_the_filters_does_not_appear(page: Page, housed: Callable[..., Any]) -> None:
    with housed() as house:
        house.told("transit-night-01")
        await page.goto(f"{house.url}/#/?outcome=pass")
        await expect(page.locator("#stream")).to_have_text("Live")
        house.told(FAILING)
        house.told(NEW)
        await expect(page.get_by_role("rowheader", name=NEW)).to_be_visible()
        await expect(page.get_by_role("rowheader", name=FAILING)).to_have_count(0)


async def test_a_gateway_with_keys_asks_for_one_and_it_stays_in_the_tab(page: Page, housed: Callable[..., Any]) -> None:
    with housed("acme", keyed=True) as house:
        house.told(FAILING)
        key = house.door.key("acme")
        await page.goto(house.url)
        dialog = page.get_by_role("dialog", name="asks for a key")
        await dialog.get_by_label("Key or token").fill("gbk_wrong")
        await dialog.get_by_role("button", name="Use it").click()
        await expect(dialog).to_be_visible()  # asked again
        await dialog.get_by_label("Key or token").fill(key)
        await dialog.get_by_role("button", name="Use it").click()
        await expect(page.get_by_role("rowheader", name=FAILING)).to_be_visible()
        await expect(page.locator("#stream")).to_have_text("Live")
        assert await page.evaluate("sessionStorage.getItem('glassbox.key')") == key
        assert key not in await page.evaluate("JSON.stringify({...localStorage}) + document.cookie + location")
        await page.get_by_role("button", name="Key").click()
        await dialog.get_by_role("button", name="Forget it").click()
        await expect(dialog).to_be_visible()
        await expect(page.get_by_role("rowheader")).to_have_count(0)
