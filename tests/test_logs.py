from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars

from glassbox import logs
from streams.ports import SendFailed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in logs.OURS}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_what_the_work_is_about() -> None:
    stream = io.StringIO()
    logs.configure("INFO", "auto", stream, role="join")
    with bound_contextvars(evaluation_id="e-1", partition=3):
        logging.getLogger("streams.joiner").warning("%d tasks wait", 4)
    logging.getLogger("judges").debug("not heard")
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "4 tasks wait",
        "level": "warning",
        "logger": "streams.joiner",
        "role": "join",
        "evaluation_id": "e-1",
        "partition": 3,
    }


@pytest.mark.parametrize(
    ("form", "terminal", "is_json"),
    [("auto", False, True), ("auto", True, False), ("json", True, True), ("text", False, False)],
)
def test_people_at_a_terminal_read_text(form: logs.Form, terminal: bool, is_json: bool) -> None:
    stream = Terminal() if terminal else io.StringIO()
    logs.configure("INFO", form, stream, role="join")
    logging.getLogger("streams").info("all is well")
    assert stream.getvalue().startswith("{") == is_json
    assert "all is well" in stream.getvalue()


def test_libraries_are_heard_from_warning_up_in_the_same_form() -> None:
    stream = io.StringIO()
    logs.configure("DEBUG", "json", stream, role="grounding")
    logging.getLogger("openai._base_client").debug("Request options: %s", {"json_data": "the answer"})
    logging.getLogger("httpx").info("POST /chat/completions")
    logging.getLogger("aiokafka.conn").error("connection lost")
    logging.getLogger("judges.run").debug("heard")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", UserWarning, stacklevel=1)
    assert [(line["logger"], line["level"]) for line in lines(stream)] == [
        ("aiokafka.conn", "error"),
        ("judges.run", "debug"),
        ("py.warnings", "warning"),
    ]


def test_an_exception_is_told_without_words_that_may_quote() -> None:
    stream = io.StringIO()
    logs.configure("INFO", "json", stream)
    try:
        try:
            raise ValueError("the text of the answer")
        except ValueError as error:
            raise SendFailed("glassbox.results: no broker") from error
    except SendFailed:
        logging.getLogger("streams").exception("stopping")
    told = lines(stream)[0]["exception"]
    assert told.startswith("SendFailed: glassbox.results: no broker at test_logs.py:")
    assert " < ValueError at test_logs.py:" in told
    assert "answer" not in stream.getvalue()
