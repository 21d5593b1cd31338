"""The proof, checked in the browser: the same verdicts as `glassbox verify`, step by step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from glassbox.contract.canonical import canonical
from ledger.checkpoint import Signer
from ledger.verify import verify_bundle
from tests.browser.house import FAILING, House
from tests.vectors.generate import FOLDER

FILES = ("canonical.json", "composite.json", "record.json", "policy.json")
OTHER = str(Signer.generate("other.example").verifier)
CHECK = """
async ([bundle, key]) => {
  const { verify } = await import("/explorer/proof/bundle.js");
  const { parseKey } = await import("/explorer/proof/note.js");
  const keys = key ? [await parseKey(key)] : [];
  const steps = [];
  for await (const { name, holds } of verify(new TextEncoder().encode(bundle), keys)) steps.push([name, holds]);
  return steps;
}
"""


@pytest.fixture(scope="module")
def bundle(house: House) -> dict[str, Any]:
    made: dict[str, Any] = httpx.get(f"{house.url}/v1/evaluations/{FAILING}/proof").json()
    return made


async def test_a_proof_is_verified_step_by_step(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/{FAILING}")
    await page.get_by_label("The log's public key").fill(house.key)
    await page.get_by_role("button", name="Verify in this browser").click()
    await expect(page.locator(".proof-verdict")).to_contain_text(
        f"Verified: all 6 steps hold for the bundle of {FAILING}"
    )
    steps = page.locator(".step")
    await expect(steps.last).to_contain_text("signed by")
    await expect(page.locator(".command")).to_contain_text(f"--key {house.key}")
    await page.reload()  # the key is kept; a link leads to the verdict
    await page.goto(f"{house.url}/#/evaluations/{FAILING}/proof")
    await expect(page.locator(".proof-verdict")).to_contain_text("Verified")


async def test_without_a_key_or_with_another_the_signature_is_not_vouched_for(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/#/evaluations/{FAILING}/proof")
    verdict, last = page.locator(".proof-verdict"), page.locator(".step").last
    await expect(verdict).to_contain_text("Cannot tell")
    await expect(last).to_contain_text("whom you did not name")
    for key, word in (
        (OTHER, "Does not hold"),
        ("nonsense", "NAME+HASH+BASE64"),
    ):
        await page.get_by_label("The log's public key").fill(key)
        await page.get_by_role("button", name="Verify in this browser").click()
        await expect(page.locator(".proof-result")).to_contain_text(word)


async def test_a_tampered_file_fails_visibly(page: Page, house: House, bundle: dict[str, Any], tmp_path: Path) -> None:
    forged = {**bundle, "record": {**bundle["record"], "trust": "0.990000", "outcome": "pass"}}
    file = tmp_path / "forged.json"
    file.write_bytes(canonical(forged))
    await page.goto(f"{house.url}/#/verify")
    await page.get_by_label("Bundle (choose it").set_input_files(file)
    await expect(page.locator(".proof-verdict")).to_contain_text(
        "Does not hold: stopped at “The record follows from its"
    )
    await expect(page.locator(".step").last).to_contain_text('trust: "0.742681" by arithmetic, not "0.990000"')


def _with(bundle: dict[str, Any], path: str, value: Any) -> bytes:
    made = json.loads(json.dumps(bundle))
    inner = made
    *steps, last = path.split(".")
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return canonical(made)


async def test_the_browser_and_the_verifier_say_the_same(page: Page, house: House, bundle: dict[str, Any]) -> None:
    merkle, record = bundle["merkle"], bundle["record"]
    note, flipped = merkle["checkpoint"], "0" * 64
    forged = [
        canonical(bundle),
        json.dumps(bundle).encode(),
        b"{}",
        b"\xef\xbb\xbf" + canonical(bundle),
        _with(bundle, "schema_version", "2"),
        _with(bundle, "more", 1),
        _with(bundle, "policy.threshold", "0.100000"),
        _with(bundle, "policy", None),
        _with(bundle, "record.outcome", "pass"),
        _with(bundle, "record.evaluation_id", "another"),
        _with(bundle, "record.request_digest", flipped),
        _with(bundle, "record.model", None),
        _with(bundle, "record.parts", record["parts"][::-1]),
        _with(bundle, "merkle.index", merkle["index"] + 1),
        _with(bundle, "merkle.tree_size", merkle["tree_size"] + 1),
        _with(bundle, "merkle.path", [flipped, *merkle["path"][1:]]),
        _with(bundle, "merkle.path", merkle["path"][:-1]),
        _with(bundle, "merkle.path", [*merkle["path"], flipped]),
        _with(bundle, "merkle.origin", "elsewhere"),
        _with(bundle, "merkle.checkpoint", note.replace("\n\n", "\n")),
        _with(bundle, "merkle.checkpoint", f"{note[:-6]}{'A' if note[-6] != 'A' else 'B'}{note[-5:]}"),
        _with(bundle, "merkle.checkpoint", note.replace("\n\n", "\nextension\n\n")),
    ]
    await page.goto(house.url)
    for raw in forged:
        for key in ([house.key], [OTHER], []):
            here = await page.evaluate(CHECK, [raw.decode(), *key])
            assert here == [[step.name, step.holds] for step in verify_bundle(raw, key)], raw[:200]


async def test_what_is_no_bundle_is_said_not_to_be(page: Page, house: House, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_bytes(b'{"a":"b"}')
    await page.goto(f"{house.url}/#/verify")
    await page.get_by_label("Bundle (choose it").set_input_files(file)
    await expect(page.locator(".step").last).to_contain_text(verify_bundle(file.read_bytes(), [])[-1].detail)


async def test_the_golden_vectors_hold_in_the_browser(page: Page, house: House) -> None:
    await page.goto(house.url)
    script = (Path(__file__).parent / "vectors.js").read_text(encoding="utf-8")
    told = await page.evaluate(script, [(FOLDER / name).read_text(encoding="utf-8") for name in FILES])
    assert told["wrong"] == []
    assert told["held"] > 250


async def test_where_browsers_do_not_hash_the_page_says_so_and_gives_the_command(
    page: Page, housed: Callable[..., Any]
) -> None:
    with housed("acme", keyed=True) as house:
        house.told(FAILING)
        await page.goto(f"http://glassbox.test:{house.serving.port}/#/evaluations/{FAILING}")
        await page.get_by_label("Key or token").fill(house.door.key("acme"))
        await page.get_by_role("button", name="Use it").click()
        await expect(page.get_by_text("on HTTPS and localhost only")).to_be_visible()
        await expect(page.get_by_role("button", name="Verify in this browser")).to_be_disabled()
        await expect(page.locator(".command")).to_have_text(f"glassbox verify {FAILING}.proof.json --key KEY")


async def test_a_browser_without_ed25519_says_what_it_could_not_check(page: Page, house: House) -> None:
    await page.add_init_script("crypto.subtle.importKey = async () => { throw new Error('unknown algorithm') }")
    await page.goto(f"{house.url}/#/evaluations/{FAILING}")
    await page.get_by_label("The log's public key").fill(house.key)
    await page.get_by_role("button", name="Verify in this browser").click()
    await expect(page.locator(".proof-verdict")).to_contain_text("Cannot tell")
    await expect(page.locator(".step").last).to_contain_text("this browser cannot check Ed25519 signatures")
