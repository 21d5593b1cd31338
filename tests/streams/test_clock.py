"""The broker's time as a role knows it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import clock
from streams.clock import BrokerClock


class Monotonic:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(clock, "monotonic", lambda: self.now)


async def test_it_goes_on_by_itself_between_records(monkeypatch: pytest.MonkeyPatch) -> None:
    own, known = Monotonic(monkeypatch), BrokerClock()
    known.observe(50_000)
    own.now += 7
    known.observe(20_000)  # an old record says nothing new
    assert known.now() == 57_000


async def test_a_broker_whose_clock_jumped_ahead_and_was_set_right_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    own, known = Monotonic(monkeypatch), BrokerClock()
    known.observe(3_650_000)  # an hour ahead
    sent = own.now
    own.now += 0.5
    known.acknowledged(50_200, sent)
    assert known.now() == pytest.approx(50_700)


@given(st.floats(0, 30), st.floats(0, 30), st.integers(-(10**7), 10**7))
def test_after_an_acknowledgement_it_is_off_by_no_more_than_the_sending_took(
    before_s: float, after_s: float, wrong_ms: int
) -> None:
    """Whatever was known before; `before_s` of the sending passed before the append and `after_s` after it."""

    async def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            own, known = Monotonic(patch), BrokerClock()
            known.observe(10**9 + wrong_ms)
            sent = own.now
            own.now += before_s + after_s
            known.acknowledged(10**9 + round(before_s * 1000), sent)
            truth = 10**9 + (before_s + after_s) * 1000
            assert truth - after_s * 1000 - 1 <= known.now() <= truth + before_s * 1000 + 1

    asyncio.run(run())
