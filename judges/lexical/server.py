"""The lexical model behind the HTTP interface of OpenAI: chat completions, embeddings, models.

Output depends on the request alone, to the byte. Faults can be switched on, so that the same server stands in for an
endpoint that misbehaves.
"""

import asyncio
import base64
import json
import logging
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any, Self

from aiohttp import web

from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL, UNKNOWN_SCHEMA
from judges.lexical.answers import PLAIN, SCHEMAS, PromptError, answer, plain, schema_in
from judges.lexical.faults import EMBEDDINGS, Fault, Faults, spoil
from judges.lexical.model import DIMENSIONS, embed

log = logging.getLogger(__name__)

_MAX_BODY = 32 * 1024 * 1024  # bytes; a thousand passages and their prompt
_MAX_CHOICES = 16
_MODELS = (CHAT_MODEL, EMBEDDING_MODEL)
_NO_FAULTS = Faults()


class _BadRequest(Exception):
    """A request that no retry would mend; becomes an error body in OpenAI's shape."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.body = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
        self.status = status


class LexicalServer:
    """Serves while its `async with` block lasts; `url` is the base URL to give to an OpenAI client.

    `calls` counts the chat requests by schema, `embedding_calls` those for embeddings, `faulted` the faults that
    happened; setting `faults` begins the count of requests, by which they are drawn, again. Port 0 takes a free one;
    entering raises OSError where the address cannot be bound.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, faults: Faults = _NO_FAULTS) -> None:
        self.calls: Counter[str] = Counter()
        self.embedding_calls = 0
        self.faulted: Counter[Fault] = Counter()
        self.faults = faults
        self._host, self._port = host, port
        app = web.Application(client_max_size=_MAX_BODY, middlewares=[_errors_as_json])
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/embeddings", self._embeddings),
                web.get("/v1/models", self._list_models),
                web.get("/v1/models/{model}", self._show_model),
                web.get("/healthz", self._health),
            ]
        )
        # Without cancellation a hanging request would outlive its client and hold up the end.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except BaseException:
            await self._runner.cleanup()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Base URL, ending in /v1, with the port that was bound."""
        host, port = self._runner.addresses[0][:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = faults
        self._requests = 0
        self._left = faults.times

    async def _chat(self, request: web.Request) -> web.Response:
        body = await _json_object(request)
        _check_model(body, CHAT_MODEL)
        if body.get("stream"):
            raise _BadRequest("this endpoint does not stream; leave stream out", "stream")
        texts = _message_texts(body)
        schema, by_tool = _schema(body, [text for _, text in texts])
        self.calls[schema] += 1
        fault = await self._suffer(schema)
        if isinstance(fault, web.Response):
            return fault
        prompt = next(text for role, text in reversed(texts) if role == "user")
        try:
            output = plain(prompt) if schema == PLAIN else answer(schema, prompt)
        except PromptError as error:
            raise _BadRequest(str(error), "messages") from None
        if fault == "malformed" and isinstance(output, str):
            return web.Response(text=output)  # plain words keep to any form: the response itself is none
        said = spoil(output, self._faults.malformed) if fault == "malformed" and isinstance(output, dict) else output
        content = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        finish = "tool_calls" if by_tool else "stop"
        if fault == "truncate":
            content, finish = content[: len(content) * 2 // 3], "length"
        prompt_tokens = _tokens("".join(text for _, text in texts))
        return _completion(
            _message(schema, content, by_tool=by_tool, refused=fault == "refuse"),
            finish="stop" if fault == "refuse" else finish,
            choices=_choices(body),
            prompt_tokens=prompt_tokens,
            completion_tokens=_tokens(content),
        )

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await _json_object(request)
        _check_model(body, EMBEDDING_MODEL)
        texts = body.get("input")
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise _BadRequest("input must be a string or a list of at least one string", "input")
        encoding = body.get("encoding_format") or "float"
        if encoding not in ("float", "base64"):
            raise _BadRequest("encoding_format must be float or base64", "encoding_format")
        if body.get("dimensions") not in (None, DIMENSIONS):
            raise _BadRequest(f"dimensions must be {DIMENSIONS}", "dimensions")
        self.embedding_calls += 1
        fault = await self._suffer(EMBEDDINGS)
        if isinstance(fault, web.Response):
            return fault
        tokens = sum(map(_tokens, texts))
        result: dict[str, Any] = {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": _encoded(embed(text), encoding)}
                for index, text in enumerate(texts)
            ],
            "model": EMBEDDING_MODEL,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        said = spoil(result, self._faults.malformed) if fault == "malformed" else result
        return web.Response(text=said) if isinstance(said, str) else _json(said)

    async def _list_models(self, _: web.Request) -> web.Response:
        return _json({"object": "list", "data": [_model(name) for name in _MODELS]})

    async def _show_model(self, request: web.Request) -> web.Response:
        if (name := request.match_info["model"]) not in _MODELS:
            raise _unknown_model(_MODELS)
        return _json(_model(name))

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _suffer(self, schema: str) -> web.Response | Fault | None:
        """Wait and fail as the faults say: the response that takes the place of an answer, or what to do to it."""
        number = self._requests
        self._requests += 1
        faults = self._faults
        if faults.latency_s and faults.concern(schema):
            await asyncio.sleep(faults.latency_s)
        fault = faults.draw(number, schema) if self._left != 0 else None
        if fault is None:
            return None
        self.faulted[fault] += 1
        if self._left is not None:
            self._left -= 1
        match fault:
            case "hang":
                await asyncio.Event().wait()
            case "error":
                return _error(500, {"message": "the server had an error", "type": "server_error", "code": None})
            case "rate_limit":
                body = {"message": "rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}
                return _error(429, body, {"Retry-After": f"{faults.retry_after_s:g}"})
        return fault


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except _BadRequest as error:
        return _error(error.status, error.body)
    except web.HTTPException as error:  # unknown path, other method, body too large
        body = {"message": error.reason, "type": "invalid_request_error", "param": None, "code": None}
        return _error(error.status, body)
    except Exception as error:
        # The text of an error may quote the answer that was judged: its kind and place are enough.
        log.error("chat or embeddings request failed: %s", type(error).__name__)
        return _error(500, {"message": "the server had an error", "type": "server_error", "code": None})


async def _json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        raise _BadRequest("the body is not JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise _BadRequest("the body is not a JSON object")
    return body


def _check_model(body: dict[str, Any], served: str) -> None:
    if not isinstance(body.get("model"), str):
        raise _BadRequest("model is missing", "model")
    if body["model"] != served:
        raise _unknown_model((served,))


def _unknown_model(served: tuple[str, ...]) -> _BadRequest:
    message = f"the model does not exist here; this path serves {' and '.join(served)}"
    return _BadRequest(message, "model", status=404, code="model_not_found")


def _message_texts(body: dict[str, Any]) -> list[tuple[str, str]]:
    """(role, text) of each message; parts that are not text are refused."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise _BadRequest("messages must be a list of objects with role and content", "messages")
    texts = []
    for message in messages:
        parts = message.get("content")
        if isinstance(parts, str):
            parts = [{"type": "text", "text": parts}]
        if not isinstance(parts, list) or not all(_is_text(part) for part in parts):
            raise _BadRequest("content must be a string or a list of text parts", "messages")
        texts.append((str(message.get("role")), "".join(part["text"] for part in parts)))
    if all(role != "user" for role, _ in texts):
        raise _BadRequest("messages must hold a message of the user", "messages")
    return texts


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _schema(body: dict[str, Any], texts: list[str]) -> tuple[str, bool]:
    """The name of the schema that is asked for, or PLAIN; and whether the answer goes out as a tool call."""
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if body.get("tools"):
        name, param = _tool_name(body), "tools"
    elif kind == "json_schema":
        schema = wanted.get("json_schema") if isinstance(wanted, dict) else None
        name, param = (schema.get("name") if isinstance(schema, dict) else None), "response_format"
    elif kind == "json_object":
        name, param = schema_in(texts), "response_format"
    elif kind in (None, "text"):
        return PLAIN, False
    else:
        raise _BadRequest("response_format must be of type json_schema, json_object or text", "response_format")
    if name not in SCHEMAS:
        known = f"unknown schema name; this model knows {', '.join(SCHEMAS)}"
        raise _BadRequest(known, param, code=UNKNOWN_SCHEMA)
    return name, param == "tools"


def _tool_name(body: dict[str, Any]) -> object:
    choice = body.get("tool_choice")
    tools = body["tools"]
    chosen = choice if isinstance(choice, dict) else tools[0] if isinstance(tools, list) else None
    function = chosen.get("function") if isinstance(chosen, dict) else None
    return function.get("name") if isinstance(function, dict) else None


def _choices(body: dict[str, Any]) -> int:
    count = body.get("n")
    count = 1 if count is None else count
    if not isinstance(count, int) or not 1 <= count <= _MAX_CHOICES:
        raise _BadRequest(f"n must be between 1 and {_MAX_CHOICES}", "n")
    return count


def _message(schema: str, content: str, *, by_tool: bool, refused: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if refused:
        return message | {"content": None, "refusal": "I cannot help with that."}
    if by_tool:
        call = {"id": _digest("call_", content), "type": "function", "function": {"name": schema, "arguments": content}}
        return message | {"content": None, "tool_calls": [call]}
    return message


def _completion(
    message: dict[str, Any], *, finish: str, choices: int, prompt_tokens: int, completion_tokens: int
) -> web.Response:
    return _json(
        {
            "id": _digest("chatcmpl-", json.dumps(message)),
            "object": "chat.completion",
            "created": 0,  # no clock: the same request gets the same bytes
            "model": CHAT_MODEL,
            "choices": [
                {"index": index, "message": message, "finish_reason": finish, "logprobs": None}
                for index in range(choices)
            ],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens * choices,
                "total_tokens": prompt_tokens + completion_tokens * choices,
            },
        }
    )


def _encoded(vector: tuple[float, ...], encoding: str) -> list[float] | str:
    """As JSON numbers, or as OpenAI's base64 of little-endian float32."""
    if encoding == "base64":
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    return list(vector)


def _tokens(text: str) -> int:
    """A count to account with: four characters a token, the usual rule of thumb for English."""
    return max(1, len(text) // 4)


def _digest(prefix: str, text: str) -> str:
    return prefix + blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "glassbox"}


def _json(body: dict[str, Any]) -> web.Response:
    return web.Response(text=json.dumps(body), content_type="application/json")


def _error(status: int, error: dict[str, Any], headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status, text=json.dumps({"error": error}), headers=headers, content_type="application/json"
    )
