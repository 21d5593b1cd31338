"""Batching: the budget, what goes wrong with an item, order and concurrency, cancellation, the end of the thread."""

import asyncio
import math
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judges.batching import SHARE, Batcher
from judges.port import JudgeError


class Full(Exception):
    """Memory does not hold the batch."""


class Model:
    """Squares numbers; `batches` is what it was given. `room`: the items × largest that its memory holds. It raises
    on the items `bad`, and waits for `gate` before each batch."""

    def __init__(self, room=math.inf, bad=(), gate=None, size=int):
        self.batches, self.room, self.bad, self.gate, self.size = [], room, frozenset(bad), gate, size
        self.entered = threading.Event()
        self.inside = 0

    def __call__(self, items):
        self.inside += 1
        assert self.inside == 1
        self.batches.append(list(items))
        self.entered.set()
        try:
            if self.gate is not None:
                assert self.gate.wait(30)
            if len(items) * max(map(self.size, items)) > self.room:
                raise Full("no room for the text of the evaluation")
            if self.bad.intersection(items):
                raise ValueError("the text of the evaluation")
            return [item * item for item in items]
        finally:
            self.inside -= 1


def batcher(run, budget=100, size=int, **settings):
    return Batcher(run, size=size, budget=budget, out_of_memory=lambda error: isinstance(error, Full), **settings)


async def outcomes(batching, calls):
    made = await asyncio.gather(*(batching.submit(call) for call in calls), return_exceptions=True)
    await batching.close()
    return made


async def entered(model):
    assert await asyncio.to_thread(model.entered.wait, 30)


calls = st.lists(st.lists(st.integers(1, 60), max_size=8), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # what was before stays so
@given(calls, st.integers(1, 200), st.integers(20, 200), st.randoms())
def test_order_concurrency_budget_and_memory_change_no_result(no_thread_left, asked, budget, room, random):
    shuffled = random.sample(asked, len(asked))
    for order in (asked, shuffled):
        model = Model(room)
        made = asyncio.run(outcomes(batcher(model, budget), order))
        for call, result in zip(order, made, strict=True):
            if any(item > room for item in call):
                assert isinstance(result, JudgeError)
            else:
                assert result == [item * item for item in call]
        assert all(len(batch) == 1 or len(batch) * max(batch) <= budget for batch in model.batches)
    assert no_thread_left()


async def test_concurrent_calls_share_batches_of_similar_size():
    model = Model()
    made = await outcomes(batcher(model), [[1, 40], [2, 41], [3, 39]])
    assert made == [[1, 1600], [4, 1681], [9, 1521]]
    assert model.batches == [[41, 40], [39, 3], [2, 1]]


async def test_equal_items_of_concurrent_calls_are_run_once():
    model = Model(gate=threading.Event())
    batching = batcher(model)
    first = asyncio.create_task(batching.submit([7]))
    await entered(model)
    others = [asyncio.create_task(batching.submit(items)) for items in ([3, 4, 3], [4, 3], [5])]
    await asyncio.sleep(0.05)
    model.gate.set()
    assert await asyncio.gather(first, *others) == [[49], [9, 16, 9], [16, 9], [25]]
    assert model.batches == [[7], [5, 4, 3]]
    await batching.close()


async def test_uniform_batches_hold_one_size():
    model = Model(size=lambda item: item % 3 + 1)
    made = await outcomes(batcher(model, 4, model.size, uniform=True), [list(range(9))])
    assert made == [[item * item for item in range(9)]]
    assert model.batches == [[2], [5], [8], [1, 4], [7], [0, 3, 6]]


async def test_what_arrives_meanwhile_is_gathered():
    model = Model(gate=threading.Event())
    batching = batcher(model)
    first = asyncio.create_task(batching.submit([7]))
    await entered(model)
    others = [asyncio.create_task(batching.submit([n])) for n in (1, 2, 3)]
    await asyncio.sleep(0.05)
    model.gate.set()
    assert await asyncio.gather(first, *others) == [[49], [1], [4], [9]]
    assert model.batches == [[7], [3, 2, 1]]
    await batching.close()


async def test_out_of_memory_halves_the_batch_and_is_remembered(caplog):
    model = Model(room=30, size=lambda item: 10)
    batching = batcher(model, size=model.size)
    assert await batching.submit(range(10)) == [item * item for item in range(10)]
    assert batching.budget == 25
    failures = len([batch for batch in model.batches if len(batch) > 3])
    assert await batching.submit(range(10)) == [item * item for item in range(10)]
    assert len([batch for batch in model.batches if len(batch) > 3]) == failures
    assert "out of memory: batches of at most 25" in caplog.text
    assert "text of the evaluation" not in caplog.text
    await batching.close()


async def test_an_item_that_no_batch_can_hold_fails_alone():
    large, small = await outcomes(batcher(Model(room=30)), [[5, 31], [5, 6]])
    assert isinstance(large, JudgeError)
    assert (large.cause, large.detail) == ("crashed", "out of memory")
    assert small == [25, 36]


@given(calls, st.sets(st.integers(1, 60)))
def test_a_bad_item_harms_its_own_call_only(asked, bad):
    made = asyncio.run(outcomes(batcher(Model(bad=bad)), asked))
    for call, result in zip(asked, made, strict=True):
        if bad.intersection(call):
            assert isinstance(result, JudgeError)
            assert (result.cause, result.detail) == ("crashed", "ValueError")
        else:
            assert result == [item * item for item in call]


async def test_a_typed_failure_keeps_its_cause():
    def refuse(items):
        raise JudgeError("bad_embedding", "not finite")

    [made] = await outcomes(batcher(refuse), [[1, 2]])
    assert (made.cause, made.detail) == ("bad_embedding", "not finite")


async def test_too_few_results_are_a_failure():
    short, whole = await outcomes(batcher(lambda items: [1] * len(set(items) - {3})), [[3], [1, 2]])
    assert short.cause == "crashed"
    assert whole == [1, 1]


async def test_a_panic_does_not_end_the_thread():
    def panic(items):
        if 3 in items:
            raise BaseException("panic")
        return items

    broken, whole = await outcomes(batcher(panic), [[3], [1, 2]])
    assert broken.cause == "crashed"
    assert whole == [1, 2]


async def test_a_small_call_does_not_wait_for_the_whole_of_a_large_one():
    model = Model(gate=threading.Event(), size=lambda item: 1)
    batching = batcher(model, budget=SHARE + 1, size=model.size)
    asked = list(range(100, 100 + SHARE * 20))
    large = asyncio.create_task(batching.submit(asked))
    await entered(model)
    small = asyncio.create_task(batching.submit([2]))
    await asyncio.sleep(0.05)
    model.gate.set()
    assert await asyncio.gather(small, large) == [[4], [item * item for item in asked]]
    assert [2 in batch for batch in model.batches].index(True) == 1
    assert len(model.batches) >= 20
    await batching.close()


async def test_a_cancelled_call_loses_nothing_for_others_and_leaves_nothing_behind(no_thread_left):
    model = Model(gate=threading.Event())
    batching = batcher(model)
    running = asyncio.create_task(batching.submit([7]))
    await entered(model)
    waiting = asyncio.create_task(batching.submit([8]))
    other = asyncio.create_task(batching.submit([9]))
    await asyncio.sleep(0.05)
    running.cancel()
    waiting.cancel()
    await asyncio.wait([running, waiting])
    model.gate.set()
    assert await other == [81]
    assert running.cancelled()
    assert waiting.cancelled()
    assert model.batches == [[7], [9]]
    await batching.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert no_thread_left()


async def test_close_ends_what_waits(no_thread_left):
    model = Model(gate=threading.Event())
    batching = batcher(model)
    running = asyncio.create_task(batching.submit([7]))
    await entered(model)
    waiting = asyncio.create_task(batching.submit([8]))
    await asyncio.sleep(0.05)
    late = asyncio.create_task(batching.submit([9]))
    await asyncio.sleep(0)  # `late` has begun and is not yet handed over
    closing = asyncio.create_task(batching.close())
    await asyncio.sleep(0.05)
    model.gate.set()
    await closing
    assert await running == [49]
    for call in (waiting, late, asyncio.create_task(batching.submit([1]))):
        with pytest.raises(JudgeError, match="closed"):
            await call
    assert no_thread_left()
    await batching.close()


async def test_nothing_asked_starts_nothing(no_thread_left):
    batching = batcher(Model())
    assert await batching.submit([]) == []
    assert no_thread_left()
    await batching.close()


def test_it_serves_other_loops(no_thread_left, missing):
    try:
        import uvloop
    except ImportError:
        missing("uvloop is not installed")
    model = Model(room=30)
    made = uvloop.run(outcomes(batcher(model), [[8, 9, 10], [31]]))
    assert made[0] == [64, 81, 100]
    assert made[1].cause == "crashed"
    assert no_thread_left()


def test_one_batcher_serves_one_loop_after_another():
    batching = batcher(Model())
    assert [asyncio.run(batching.submit([n])) for n in (2, 3)] == [[4], [9]]
    asyncio.run(batching.close())
