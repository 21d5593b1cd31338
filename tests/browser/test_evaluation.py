"""One evaluation: what carries each claim, how it was judged, what people say; and answers that mean harm."""

from __future__ import annotations

import json

from playwright.async_api import Page, expect

from streams.topics import SCORECARDS
from tests.browser.house import FAILING, HOSTILE, HUGE, House
from tests.catalogue.stories import message


async def test_a_claim_shows_the_span_that_carries_it(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/{FAILING}")
    claims = page.locator("a.claim")
    await expect(claims).to_have_count(3)
    await expect(claims.nth(0)).to_contain_text("A single ticket for two zones costs €4.60")
    await expect(claims.nth(0)).to_contain_text("(not supported)")
    await claims.nth(2).hover()
    await expect(page.locator("mark.carrier")).to_have_text(
        "Changing between tram, bus and metro is allowed within the period"
    )
    await claims.nth(0).focus()
    await expect(page.locator(".claim-head")).to_contain_text("Claim 1 of 3: not supported")
    await page.keyboard.press("Tab")
    await expect(page.locator(".claim-head")).to_contain_text("Claim 2 of 3: supported")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{house.url}/#/evaluations/{FAILING}?claim=2")
    await page.reload()
    await expect(claims.nth(1)).to_be_focused()
    await expect(page.locator("mark.carrier")).to_be_visible()


async def test_all_that_stands_behind_the_score_is_told(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/{FAILING}")
    head = page.locator("header.head")
    await expect(head).to_contain_text("0.74")
    await expect(head).to_contain_text("Because faithfulness missed its target, which the policy makes a veto;")
    await expect(page.get_by_role("region", name="What the sources do not have")).to_contain_text("€4.60")
    await expect(page.locator(".marker.entity")).to_contain_text("€4.60")
    faithfulness = page.get_by_role("table", name="Parts").get_by_role("row", name="faithfulness").nth(1)
    for text in ("0.67", "missed", "> 0.95", "0.240", "ragas.faithfulness", "2 calls", "1 of 3 claims unsupported"):
        await expect(faithfulness).to_contain_text(text)
    sums = page.get_by_role("table", name="How trust follows")
    await expect(sums.get_by_role("row", name="faithfulness")).to_contain_text("0.240000 × 0.666667= 0.160000")
    await expect(sums.get_by_role("row", name="sum 0.")).to_contain_text("0.597858 / 0.805000= 0.742681")
    passage = page.get_by_role("listitem").filter(has_text="Passage 1")
    await expect(passage).to_contain_text("relevant")
    await expect(passage).to_contain_text("similarity 0.38")


async def test_an_evaluation_that_is_not_there_is_said_not_to_be(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/nothing")
    await expect(page.get_by_role("heading", name="There is no such evaluation")).to_be_visible()


async def test_what_a_model_wrote_is_shown_and_never_done(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/{HOSTILE}")
    answer = page.locator(".answer-side .long")
    await expect(answer).to_contain_text("<script>document.title='taken'</script>")
    await expect(answer).to_contain_text("[click](javascript:alert(1))")
    marks = answer.locator(".hidden-char")
    await expect(marks).to_have_text(["U+202E", "U+202E", "U+2066", "U+FEFF"])
    await expect(page.locator(".query .hidden-char")).to_have_text("U+200B")
    await expect(page.get_by_text("<i>evil</i> / javascript:alert(6)").first).to_be_visible()
    assert await page.title() == f"{HOSTILE} · GlassBox"
    links = await page.eval_on_selector_all("[href], [src]", "all => all.map((each) => each.href ?? each.src)")
    assert [url for url in links if not url.startswith(house.url)] == []
    assert await page.locator("main script, main img, main svg[onload], main b[onmouseover]").count() == 0
    # each foreign text is an island: its direction ends where it ends
    isolated = "all => all.map((each) => [each.dir, getComputedStyle(each).unicodeBidi])"
    assert {tuple(each) for each in await page.eval_on_selector_all(".foreign", isolated)} <= {
        ("auto", "isolate"),
        ("auto", "plaintext"),
    }
    shown = await page.locator("main").inner_text()
    assert not set(shown) & set("\u202e\u2066\u200b\ufeff")


UNSEEN = [0x00, 0x85, 0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, *range(0x180B, 0x1810), *range(0x200B, 0x2010)]
UNSEEN += [0x2028, *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x2800, 0x3164, *range(0xFE00, 0xFE10), 0xFEFF]
UNSEEN += [0xFFA0, *range(0xFFF0, 0xFFFD), 0x1BCA0, *range(0x1D173, 0x1D17B), 0xE0000, 0xE0041, 0xE0100, 0xE0FFF]
SEEN = "a\tb\n é e\u0301 ا\u200cب क्\u200dष \u0601 \u06dd ❤\ufe0f ❤\ufe0e 1\ufe0f\u20e3 👩🏽\u200d💻 "
SEEN += "👁\ufe0f\u200d🗨\ufe0f 🏳\ufe0f\u200d🌈"


async def test_every_character_that_nobody_sees_is_shown_by_its_number(page: Page, house: House) -> None:
    await page.goto(house.url)
    script = "async (texts) => texts.map((await import('/explorer/foreign.js')).marked)"
    texts = [f"a{chr(code)}b" for code in UNSEEN]
    assert await page.evaluate(script, texts) == [f"a⟨U+{code:04X}⟩b" for code in UNSEEN]
    assert await page.evaluate(script, [SEEN, "❤\ufe0f\ufe0f", "1\ufe0f", "a\ufe00\u200d"]) == [
        *(SEEN, "❤\ufe0f⟨U+FE0F⟩", "1⟨U+FE0F⟩"),
        "a⟨U+FE00⟩⟨U+200D⟩",
    ]


async def test_a_megabyte_comes_in_pieces(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/{HUGE}")
    more = page.locator(".answer-side").get_by_role("button", name="Show more")
    await expect(more).to_be_visible()
    first = await page.locator("main").evaluate("main => [main.textContent.length, main.querySelectorAll('*').length]")
    assert first[0] < 60_000
    assert first[1] < 5_000
    await more.click()
    await expect(page.locator(".answer-side .chunk")).to_have_count(2)
    await page.locator("a.claim").nth(3).focus()
    await expect(page.locator("mark.carrier")).to_have_text("A passage ")


async def test_a_reader_disagrees_and_the_review_goes_to_the_ledger(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/{FAILING}")
    form = page.locator(".review-form")
    await form.get_by_label("Part").select_option("terminology (structural fidelity)")
    await form.get_by_label("wrong").check()
    await form.get_by_label("Why").fill("The words are the same.")
    await form.get_by_role("button", name="Record it").click()
    await expect(form).to_contain_text("Recorded")
    review = json.loads(house.door.broker.entries[-1])
    assert review["record"]["kind"] == "review"
    assert review["record"]["refers_to"] == FAILING
    house.door.told([message(SCORECARDS, review, at=10**9, offset=10**6)])
    await page.reload()
    await expect(page.locator(".reviews")).to_contain_text("disagrees with terminology: The words are the same.")


async def test_a_failure_becomes_a_case_of_a_replay_suite(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/{FAILING}")
    form = page.locator(".suite-form")
    await form.get_by_label("Replay suite").fill("incidents")
    await form.get_by_role("button", name="Add this case").click()
    await expect(form).to_contain_text("Added; the suite has 1 case now.")
    await form.get_by_role("button", name="Add this case").click()
    await expect(form).to_contain_text("It is in that suite already.")
    await page.reload()
    await expect(page.locator("#suites option")).to_have_count(1)
