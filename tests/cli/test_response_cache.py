"""Models' answers that are kept between runs: sealed, bounded, and never trouble."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassbox.cli import response_cache
from glassbox.cli.local import Result, bench, judge_lines
from glassbox.cli.response_cache import SealedResponses
from glassbox.settings import Settings
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from judges.lexical.server import LexicalServer

SECRET = b"what the model said of a secret answer"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[SealedResponses]:
    made = SealedResponses(path, b"k")
    yield made
    made.close()


async def test_what_was_put_is_found_by_the_next_run(path: Path, cache: SealedResponses) -> None:
    assert await cache.get("a") is None
    await cache.put("a", SECRET)
    await cache.put("a", SECRET + b" again")
    await cache.put("b", b"")
    other = SealedResponses(path, b"k")
    assert (await other.get("a"), await other.get("b"), await other.get("c")) == (SECRET + b" again", b"", None)
    other.close()


def contents(path: Path) -> tuple[bytes, int]:
    """What stands in the file and those beside it, and who may read it."""
    return b"".join(file.read_bytes() for file in path.parent.iterdir()), stat.S_IMODE(path.stat().st_mode)


async def test_without_the_key_neither_text_nor_question_can_be_read(path: Path, cache: SealedResponses) -> None:
    await cache.put("question", SECRET)
    cache.close()
    stored, mode = contents(path)
    assert SECRET not in stored
    assert b"question" not in stored
    assert mode == 0o600
    other = SealedResponses(path, b"another key")
    assert await other.get("question") is None
    other.close()
    cache.__init__(path, b"k")  # type: ignore[misc]
    assert await cache.get("question") == SECRET


@pytest.fixture
def damaged(path: Path) -> Path:
    path.write_bytes(b"not a database" * 1000)
    return path


async def test_a_file_that_is_no_cache_costs_calls_and_nothing_else(damaged: Path) -> None:
    cache = SealedResponses(damaged, b"k")
    await cache.put("a", SECRET)
    assert await cache.get("a") is None
    cache.close()


async def test_the_oldest_go_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_cache, "MOST", 3)
    cache = SealedResponses(path, b"k")
    for n in range(6):
        await cache.put(str(n), SECRET)
    cache.close()
    cache = SealedResponses(path, b"k")
    assert [n for n in range(6) if await cache.get(str(n))] == [3, 4, 5]
    cache.close()


async def test_a_second_run_asks_no_model_and_gives_the_same_bytes(tmp_path: Path) -> None:
    passage = "The ferry Alma Linde was built in 1962 by Hartwell Yard. It carries 240 passengers across the Wend."
    lines = [
        (n, json.dumps({"query": "Who built the ferry?", "answer": answer, "retrieved_passages": [passage]}).encode())
        for n, answer in enumerate(("It was built by Hartwell Yard.", "It was built in 1971 by Northgate Works."))
    ]

    async def run(settings: Settings, cache: bool) -> list[Result]:
        async with bench(settings, "offline", cache=cache) as judges:
            return [result async for result in judge_lines(judges, lines, 2)]

    async with LexicalServer() as server:
        settings = Settings(
            data_dir=tmp_path,
            llm_base_url=server.url,
            llm_model=CHAT_MODEL,
            embedding_model=EMBEDDING_MODEL,
        )
        first = await run(settings, True)
        asked = server.calls.total() + server.embedding_calls
        assert asked > 0
        assert await run(settings, True) == first
        assert server.calls.total() + server.embedding_calls == asked
        assert await run(settings, False) == first
        assert server.calls.total() + server.embedding_calls == 2 * asked
