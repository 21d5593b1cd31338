from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.cli.errors import CommandError
from glassbox.cli.letters import Filter, moment
from streams.redrive import DeadLetter

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LETTER = DeadLetter(
    {
        "reason": "contract",
        "source_topic": "glassbox.requests",
        "source_partition": "1",
        "source_offset": "17",
        "first_seen": "2026-01-31T09:30:00.000Z",
        "evaluation_id": "e1",
        "tenant": "acme",
    },
    b"e1",
    b"{}",
    2,
    5,
)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("90s", "2026-01-31T11:58:30.000Z"),
        ("1.5h", "2026-01-31T10:30:00.000Z"),
        ("2d", "2026-01-29T12:00:00.000Z"),
        ("2026-01-31T09:30Z", "2026-01-31T09:30:00.000Z"),
        ("2026-01-31T11:30+02:00", "2026-01-31T09:30:00.000Z"),
        ("2026-01-31", "2026-01-31T00:00:00.000Z"),
    ],
)
def test_a_moment_is_a_time_or_an_age(text: str, means: str) -> None:
    assert moment(text, NOW) == means


@given(st.text(max_size=20))
def test_any_other_text_is_a_sentence(text: str) -> None:
    with suppress(CommandError):  # and no other error
        assert moment(text, NOW).endswith("Z")


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        ({}, True),
        ({"reasons": ("contract", "too_large")}, True),
        ({"reasons": ("too_large",)}, False),
        ({"source": "glassbox.requests"}, True),
        ({"source": "glassbox.requests/1"}, True),
        ({"source": "glassbox.requests/1/17"}, True),
        ({"source": "glassbox.requests/1/1"}, False),
        ({"source": "glassbox.requests/2"}, False),
        ({"source": "glassbox"}, False),
        ({"evaluation_id": "e1", "tenant": "acme"}, True),
        ({"evaluation_id": "e2"}, False),
        ({"tenant": "other"}, False),
        ({"since": "2026-01-31T09:30Z"}, True),
        ({"since": "2h"}, False),
        ({"until": "2026-01-31T09:30Z"}, False),
        ({"since": "3h", "until": "1h"}, True),
    ],
)
def test_filters(wanted: dict[str, Any], matches: bool) -> None:
    assert Filter(**wanted).matcher(NOW)(LETTER) is matches
    assert bool(Filter(**wanted)) is bool(wanted)
