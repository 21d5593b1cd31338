from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.cli import config
from glassbox.contract.events import Usage
from glassbox.contract.policy import PolicyError
from glassbox.contract.request import EvaluationRequest, Model
from glassbox.contract.spending import Rule, Spending, by_model, load_spending, usage_of
from glassbox.settings import SettingsError

KEY = b"k" * 32
ids = st.text("abcdefghij0123456789-", min_size=1, max_size=20)
rates = st.decimals(0, 1, places=6)
usages = st.builds(
    Usage,
    model=st.sampled_from(["small", "large", "embedding"]),
    calls=st.integers(0, 9),
    prompt_tokens=st.integers(0, 10**6),
    completion_tokens=st.integers(0, 10**6),
)

TABLES = """
[[sampling]]
tenant = "acme"
rate = 0.25

[[sampling]]
model = "openai/gpt-x"
rate = 0

[budget]
tokens_per_day = 2_000_000

[prices."gpt-4o-mini"]
prompt = 0.15
completion = 0.60

[policy.mine]
threshold = 0.9
"""


def request(**changes: object) -> EvaluationRequest:
    return EvaluationRequest.model_validate({"query": "q", "answer": "a", "retrieved_passages": [], **changes})


def sampled(rate: Decimal, name: str, key: bytes = KEY) -> bool:
    return Spending(sampling=(Rule(rate=rate),)).samples(request(), name, key)


@given(ids, rates, rates)
def test_what_a_rate_lets_in_every_higher_rate_does_too(name: str, one: Decimal, other: Decimal) -> None:
    low, high = sorted((one, other))
    assert sampled(low, name) <= sampled(high, name)
    assert sampled(Decimal(1), name)
    assert not sampled(Decimal(0), name)


def test_a_rate_is_the_share_that_is_judged_and_another_key_chooses_others() -> None:
    names = [f"e{n}" for n in range(4000)]
    mine = [sampled(Decimal("0.25"), name) for name in names]
    assert 900 < sum(mine) < 1100
    others = [sampled(Decimal("0.25"), name, b"another key of the same length!!") for name in names]
    assert 150 < sum(a and b for a, b in zip(mine, others, strict=True)) < 350


def test_the_first_rule_that_matches_decides() -> None:
    spending = load_spending(TABLES)
    by_gpt = Model(provider="openai", name="gpt-x")
    none = [spending.samples(request(model=by_gpt), f"e{n}", KEY) for n in range(50)]
    some = [spending.samples(request(model=by_gpt, tenant="acme"), f"e{n}", KEY) for n in range(400)]
    every = [spending.samples(request(tenant="other"), f"e{n}", KEY) for n in range(50)]
    assert (any(none), all(every)) == (False, True)
    assert 50 < sum(some) < 150
    assert Rule(rate=Decimal(0), model="gpt-x").matches(request(model=by_gpt))
    assert not Rule(rate=Decimal(0), model="gpt-x").matches(request())


def test_what_supersedes_a_record_was_asked_for_by_name() -> None:
    nothing = Spending(sampling=(Rule(rate=Decimal(0)),))
    assert not nothing.samples(request(), "e1", KEY)
    assert nothing.samples(request(supersedes="e0"), "e1", KEY)


def test_tokens_cost_what_the_table_says() -> None:
    spending = load_spending(TABLES)
    used = Usage(model="gpt-4o-mini", calls=2, prompt_tokens=1_000_000, completion_tokens=500_000)
    assert spending.cost([used]) == Decimal("0.45")
    assert spending.cost([]) == 0
    assert spending.cost([used, used.model_copy(update={"model": "nobody knows"})]) is None


@given(st.lists(usages), st.lists(usages))
def test_usage_adds_up_in_any_order(one: list[Usage], other: list[Usage]) -> None:
    whole = by_model([*one, *other])
    assert whole == by_model([*other, *one]) == by_model([*by_model(one), *by_model(other)])
    assert sum(used.tokens for used in whole) == sum(used.tokens for used in [*one, *other])


def test_usage_is_read_from_the_calls_wherever_the_evidence_logs_them() -> None:
    call = {"asked": "m", "prompt_tokens": 10, "completion_tokens": 3, "output_digest": "d"}
    evidence = {"faithfulness": {"calls": [call, call], "n": 2}, "calls": [{**call, "asked": "other"}], "x": [1, "y"]}
    assert [(used.model, used.calls, used.tokens) for used in usage_of(evidence)] == [("m", 2, 26), ("other", 1, 13)]
    assert usage_of({"calls": [{"input_digest": "of a model in this process"}]}) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[sampling]]\nrate = 2", "sampling[0].rate: must be at most 1"),
        ("[[sampling]]\nratio = 0.5\nrate = 1", "sampling[0].ratio: no such key; did you mean 'rate'?"),
        ("[[sampling]]\ntenant = 'x'", "sampling[0].rate: is missing"),
        ("[sampling]\nrate = 1", "sampling: must be a list"),
        ("[budget]\ntokens_per_day = -1", "budget.tokens_per_day: must be at least 0"),
        ("[budget]\ntokens = 1", "budget.tokens: no such key; did you mean 'tokens_per_day'?"),
        ("[prices.m]\nprompt = 'x'", "prices.m.prompt: must be a number"),
    ],
)
def test_a_wrong_key_is_named(text: str, says: str) -> None:
    with pytest.raises(PolicyError) as error:
        load_spending(text)
    assert str(error.value).startswith(says.split(";")[0])
    assert says.partition("; ")[2] in str(error.value)


def test_the_settings_say_what_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "glassbox.toml").write_text(TABLES)
    monkeypatch.setenv("GLASSBOX_CONFIG", str(tmp_path / "glassbox.toml"))
    config.show(as_json=False)
    shown = capsys.readouterr().out
    assert "judged   0.25           of tenant acme, model (any)" in shown
    assert "budget   2,000,000 tokens a day" in shown
    config.show(as_json=True)
    assert json.loads(capsys.readouterr().out)["prices"]["gpt-4o-mini"]["prompt"] == "0.15"
    (tmp_path / "glassbox.toml").write_text("[budgets]\ntokens_per_day = 1")
    with pytest.raises(SettingsError, match="did you mean 'budget'"):
        config.check()
