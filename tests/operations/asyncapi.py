"""The AsyncAPI document of the topics: what stands on which, and who writes and reads it.

    python -m tests.operations.asyncapi [FILE]           writes FILE (docs/asyncapi.yaml)
    python -m tests.operations.asyncapi --check [FILE]   exits 1 where the file differs from what would be written

Made from the topic table, the table of who may do what and the published schemas, so that it cannot say what the code
does not do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml

from glassbox.contract.events import Source
from glassbox.contract.verdict import KINDS
from streams.access import access
from streams.dead_letters import Code, Reason, headers
from streams.topics import (
    BULK_REQUESTS,
    CLOSED,
    DEAD_LETTERS,
    RECEIPTS,
    REQUESTS,
    RESULTS,
    SCORECARDS,
    TOPICS,
    Topic,
    judge_topic,
)

DEFAULT_FILE = Path("docs/asyncapi.yaml")

_STAND_ON = {
    **dict.fromkeys((REQUESTS, BULK_REQUESTS), ("request",)),
    **{judge_topic(kind, bulk=bulk): ("judge-task",) for kind in KINDS for bulk in (False, True)},
    RESULTS: ("announced", "judged", "deadline-passed"),
    SCORECARDS: ("scorecard", "claim", "reference", "review", "policy-registration"),
    RECEIPTS: ("receipt",),
    DEAD_LETTERS: ("dead-letter", "dead-letter-note"),
}
MESSAGES = {topic: _STAND_ON[topic] for topic in TOPICS if topic != CLOSED}
"""What stands on each topic, by the name of its schema in docs/schemas; a dead letter holds foreign bytes. The join's
changelog is nobody else's."""

_TRACE = {
    "traceparent": "W3C Trace Context: the evaluation belongs to this trace.",
    "tracestate": "W3C Trace Context.",
}
_HEADERS = {
    "reason": "Why the message is dead.",
    "field": "Which field is wrong.",
    "detail": "For people; quotes nothing of the evaluation.",
    "source_topic": "Where the message stood.",
    "source_partition": "Likewise.",
    "source_offset": "Likewise.",
    "attempt": "How often the request was redriven.",
    "original": "Where the request stood at first, TOPIC/PARTITION/OFFSET, if it was redriven.",
    "first_seen": "Append time of the message, RFC 3339 in UTC.",
    "evaluation_id": "The evaluation, where it is known.",
    "tenant": "Whose it is, where it is known.",
}
_ON_REQUESTS = {
    "tenant": "Whose it is, as the gateway says: so that its dead letter is the tenant's, too, if it cannot be read.",
    "attempt": "How often the request was redriven.",
    "original": "Where it stood at first, TOPIC/PARTITION/OFFSET, if it was.",
    "moved_from": "On the bulk lane: where on glassbox.requests intake took it from, PARTITION/OFFSET.",
}
_NOTE = {
    "action": "What was done about the letter.",
    "letter": "Where the letter stands on this topic, PARTITION/OFFSET.",
    "at": "When, RFC 3339 in UTC.",
    "by": "By whom.",
    "comment": "Why.",
}


def document() -> dict[str, Any]:
    """AsyncAPI 3.0."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "GlassBox",
            "version": "1",
            "description": "Answers of LLM systems in, scorecards with proof out. A producer writes glassbox.requests, "
            "in any language, and reads its receipts; all else is the pipeline's own. Values are JSON in UTF-8. Leave "
            "an unknown field of a message out of account: a later minor version may send it.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "kafka": {
                "host": "{address}",
                "protocol": "kafka",
                "description": "GLASSBOX_BROKER; docs/kafka.md says how it is secured, and what each user may do.",
                "variables": {"address": {"default": "127.0.0.1:9092"}},
            }
        },
        "channels": {_channel(topic): _described(topic) for topic in MESSAGES},
        "operations": dict(_operations()),
        "components": {"messages": {name: _message(name) for name in _names()}},
    }


def _channel(topic: Topic) -> str:
    return topic.name.removeprefix("glassbox.").replace(".", "-")


def _names() -> list[str]:
    return list(dict.fromkeys(name for names in MESSAGES.values() for name in names))


def _described(topic: Topic) -> dict[str, Any]:
    config = topic.config(1)
    return {
        "address": topic.name,
        "description": f"{topic.purpose}. {_KEYS.get(topic, _KEYS[RESULTS])}",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in MESSAGES[topic]},
        "bindings": {
            "kafka": {
                "topicConfiguration": {
                    "cleanup.policy": [topic.cleanup],
                    "retention.ms": int(config["retention.ms"]),
                    "max.message.bytes": topic.max_message_bytes,
                },
                "bindingVersion": "0.5.0",
            }
        },
    }


_KEYS = {
    BULK_REQUESTS: "As glassbox.requests, for what no other producer is to wait for; intake moves here, as it is, what "
    "a tenant asks beyond its share.",
    REQUESTS: "Any key; the evaluation id keeps the order of requests under one id.",
    RESULTS: "The key is the evaluation id; it goes to partition murmur2(key) modulo the number of partitions, as "
    "Kafka's own clients have it.",
    DEAD_LETTERS: "The key is the message's own, or where it stood; so is the partition.",
}


def _operations() -> Iterator[tuple[str, dict[str, Any]]]:
    """What each role and user reads and writes, by the table that its ACLs are made from."""
    for user, needs in access().items():
        for action, topics in (("receive", needs.reads), ("send", needs.writes)):
            for topic in topics:
                if topic != CLOSED:
                    channel = {"$ref": f"#/channels/{_channel(topic)}"}
                    yield f"{user}-{action}-{_channel(topic)}", {"action": action, "channel": channel, "title": user}


def _message(name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "headers": {"type": "object", "properties": _text(_TRACE)}}
    if name == "dead-letter":
        words = {key: text for key, text in _HEADERS.items() if key in _written()}
        reasons = {"enum": list(get_args(Code)), **_text(words)["reason"]}
        made["headers"]["properties"] = {**_text(words), "reason": reasons, **_text(_TRACE)}
        made["headers"]["required"] = ["reason", *(key for key in words if key.startswith("source_")), "first_seen"]
        return {**made, "contentType": "application/octet-stream", "summary": "The message's own bytes, if any."}
    if name == "dead-letter-note":
        made["headers"] = {"type": "object", "properties": _text(_NOTE), "required": ["action", "letter", "at"]}
        return {**made, "summary": "Without a value: what an operator did about a letter."}
    if name == "request":
        made["headers"]["properties"] |= _text(_ON_REQUESTS)
    reference = {"$ref": f"schemas/{name}.json"}
    return {**made, "payload": {"schemaFormat": "application/schema+json;version=draft-2020-12", "schema": reference}}


def _text(words: dict[str, str]) -> dict[str, dict[str, str]]:
    return {name: {"type": "string", "description": said} for name, said in words.items()}


def _written() -> set[str]:
    """The headers that the pipeline writes on a dead letter."""
    return set(headers(Reason("contract", "f", "d"), Source(topic="t", partition=0, offset=0), 0, "e", "t", "1", "o"))


def written() -> str:
    """The document as text."""
    lines = "# Written by `python -m tests.operations.asyncapi`, from the code: change it there.\n"
    return lines + yaml.safe_dump(document(), sort_keys=False, width=120, allow_unicode=True)


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    path = Path(next((each for each in arguments if each != "--check"), DEFAULT_FILE))
    if not check:
        path.write_text(written())
        return 0
    if path.is_file() and path.read_text() == written():
        return 0
    sys.stderr.write(f"{path} differs from what python -m tests.operations.asyncapi writes\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
