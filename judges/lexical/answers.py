"""What the lexical model answers to a prompt: the schema's name chooses the task, the prompt's JSON holds its data."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from judges.lexical.model import question_back, quotation, relevance, support
from judges.lexical.statements import noncommittal, statements
from judges.llm.fence import enclosed

Data = Mapping[str, Any]


class PromptError(ValueError):
    """The prompt is not one that this model can read; the message says what is missing, never what it holds."""


def _passage_verdicts(data: Data) -> dict[str, Any]:
    reference = data.get("reference_answer")
    if reference is not None and not isinstance(reference, str):
        raise PromptError("reference_answer in the prompt's JSON must be a string or absent")
    found = relevance(_text(data, "query"), _texts(data, "passages"), reference)
    return {
        "verdicts": [
            {"index": index, "reason": judged.reason, "verdict": "yes" if judged.relevant else "no"}
            for index, judged in enumerate(found)
        ]
    }


def _statements(data: Data) -> dict[str, Any]:
    return {"statements": statements(_text(data, "answer"))}


def _support(data: Data) -> dict[str, Any]:
    return _supported(data, _texts(data, "statements"))


def _claims(data: Data) -> dict[str, Any]:
    return _supported(data, statements(_text(data, "answer")))


def _supported(data: Data, claims: list[str]) -> dict[str, Any]:
    passages = _texts(data, "passages") if "passages" in data else [_text(data, "context")]
    judged = [(statement, support(statement, passages)) for statement in claims]
    return {
        "statements": [
            {"statement": statement, "reason": found.reason, "verdict": int(found.verdict != "unsupported")}
            for statement, found in judged
        ]
    }


def _question(data: Data) -> dict[str, Any]:
    response = _text(data, "response")
    return {"question": question_back(response), "noncommittal": int(noncommittal(response))}


_TASKS: dict[str, tuple[str, Callable[[Data], dict[str, Any]]]] = {
    "PassageVerdicts": ("INPUT\n", _passage_verdicts),
    "StatementGeneratorOutput": ("input: ", _statements),
    "NLIStatementOutput": ("input: ", _support),
    "ClaimVerdictsOutput": ("input: ", _claims),
    "AnswerRelevanceOutput": ("input: ", _question),
}
SCHEMAS = tuple(_TASKS)

PLAIN = "plain"
"""What requests without a schema are counted as, and what `Faults.only_schema` calls them."""
ABSTENTION = "The documents do not say."

_TITLE = re.compile(f'"title":\\s*"({"|".join(SCHEMAS)})"')


def answer(schema: str, prompt: str) -> dict[str, Any]:
    """The output for the named schema. `prompt` is the last user message; its data is the JSON object that the whole
    message fences, under whatever key, or the one after the last line that begins with "input: " (for PassageVerdicts,
    after the last line "INPUT").

    JSON has no line break inside a string, so no text in the data can begin such a line. Raises PromptError for an
    unknown schema and for a prompt without the data that its task needs.
    """
    if schema not in _TASKS:
        raise PromptError(f"unknown schema name; this model knows {', '.join(SCHEMAS)}")
    marker, task = _TASKS[schema]
    return task(_data(prompt, marker))


def plain(prompt: str) -> str:
    """The answer in plain words where no schema is asked for, to a question over documents, which stand in the prompt's
    data as {question, documents: [{id, text}]}: a sentence of theirs with its document's id in brackets, or that they
    do not say. Raises PromptError for a prompt without such data."""
    data = _data(prompt, "input: ")
    question, documents = _text(data, "question"), data.get("documents")
    if not isinstance(documents, list) or not all(isinstance(each, dict) for each in documents):
        raise PromptError("documents in the prompt's JSON must be a list of objects")
    found = quotation(question, [_text(each, "text") for each in documents])
    if found is None:
        return ABSTENTION
    index, sentence = found
    return f"{sentence} [{_text(documents[index], 'id')}]"


def schema_in(texts: list[str]) -> str | None:
    """The known schema whose title stands last in instructions: how a client without json_schema names it."""
    titles = [title for text in texts for title in _TITLE.findall(_instructions(text))]
    return titles[-1] if titles else None


def _instructions(prompt: str) -> str:
    if enclosed(prompt) is not None:
        return ""
    ends = [at for marker, _ in _TASKS.values() if (at := _marked(prompt, marker)) is not None]
    return prompt[: max(ends)] if ends else prompt


def _marked(prompt: str, marker: str) -> int | None:
    at = f"\n{prompt}".rfind(f"\n{marker}")
    return None if at < 0 else at + len(marker)


def _data(prompt: str, marker: str) -> Data:
    fenced = enclosed(prompt)
    where = "inside the fence of" if fenced is not None else f"after {marker.strip()!r} in"
    at = _marked(prompt, marker) if fenced is None else 0
    if at is None:
        raise PromptError(f"the user message has no fence and no line that begins with {marker.strip()!r}")
    try:
        data, _ = json.JSONDecoder().raw_decode(prompt if fenced is None else fenced, at)
    except (ValueError, RecursionError):
        raise PromptError(f"what stands {where} the user message is not JSON") from None
    if not isinstance(data, dict):
        raise PromptError(f"what stands {where} the user message is not a JSON object")
    return data


def _text(data: Data, key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise PromptError(f"{key} in the prompt's JSON must be a string")
    return value


def _texts(data: Data, key: str) -> list[str]:
    value = data.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise PromptError(f"{key} in the prompt's JSON must be a list of strings")
    return value
