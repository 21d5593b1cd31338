"""Bodies as they come in: in chunks, against a clock, and refused before they fill the memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from glassbox.contract.canonical import CanonicalError, showable, strict_loads
from glassbox.contract.request import MAX_BODY
from glassbox.gateway.limits import CLOSE, Held, InFlightBytes
from glassbox.gateway.problems import Problem, sentence

__all__ = ["ClientDisconnect", "check_type", "lines", "read_json", "too_large", "whole"]

SMALL = 64 * 1024
"""Most bytes of a body that holds no request."""

BY_REFERENCE = "larger documents go by reference (claim check)"

M = TypeVar("M", bound=BaseModel)


def check_type(request: Request, wanted: str) -> None:
    """Raises `Problem` unless the body is of this media type, as it is (no Content-Encoding)."""
    kind, _, _ = request.headers.get("content-type", "").partition(";")
    if kind.strip().lower() != wanted:
        raise Problem("unsupported_media_type", f"send Content-Type: {wanted}", headers=CLOSE)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("unsupported_media_type", "send the body without Content-Encoding", headers=CLOSE)


async def whole(
    request: Request, held: Held, within_s: float, most: int = MAX_BODY, advice: str = BY_REFERENCE
) -> bytes:
    """The body. Raises `Problem` where it has more than `most` bytes (`advice`: what to do then), or is not there in
    `within_s` seconds."""
    declared = request.headers.get("content-length")
    if declared is not None:
        if int(declared) > most:
            raise too_large(most, advice)
        held.grow(int(declared))  # all of it or nothing, before a byte is read
    chunks, size = [], 0
    try:
        async with asyncio.timeout(within_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise too_large(most, advice)
                if size > held.size:
                    held.grow(size - held.size)
                chunks.append(chunk)
    except TimeoutError:
        raise Problem("slow_body", f"the body was not there within {within_s:g} s", headers=CLOSE) from None
    return b"".join(chunks)


async def read_json(request: Request, held_bytes: InFlightBytes, within_s: float, model: type[M]) -> M:
    """A small JSON body as a model. Raises `Problem`."""
    check_type(request, "application/json")
    with held_bytes.held() as held:
        raw = await whole(request, held, within_s, SMALL, "shorten it")
    try:
        return model.model_validate(strict_loads(raw))
    except CanonicalError as error:
        raise Problem("contract", error.reason, field=error.field or "body") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = showable(".".join(map(str, first["loc"])))
        raise Problem("contract", sentence(first), field=where or "body") from None


async def lines(request: Request, held: Held, within_s: float) -> AsyncIterator[bytes | None]:
    """The lines of a body as they come, without their ends; a blank one is empty. None stands for a line that is
    larger than the contract allows; what follows it is read on.

    Raises `Problem` where a line is not whole within `within_s` seconds.
    """
    stream = request.stream().__aiter__()
    rest, too_long, more = bytearray(), False, True
    while more:
        try:
            async with asyncio.timeout(within_s):
                while b"\n" not in rest:
                    chunk = await anext(stream, None)
                    if chunk is None:
                        more = False
                        break
                    held.grow(len(chunk))
                    rest += chunk
                    if len(rest) > MAX_BODY and b"\n" not in rest:
                        held.shrink(len(rest))
                        rest.clear()
                        too_long = True
        except TimeoutError:
            raise Problem("slow_body", f"a line was not there within {within_s:g} s", headers=CLOSE) from None
        while (end := rest.find(b"\n")) >= 0 or (not more and (rest or too_long)):
            size = end + 1 if end >= 0 else len(rest)
            line = bytes(rest[:size]).strip(b"\r\n \t")
            del rest[:size]
            held.shrink(size)
            if too_long or len(line) > MAX_BODY:
                too_long = False
                yield None
            else:
                yield line


def too_large(most: int, advice: str) -> Problem:
    """`most`: bytes that a body may have. `advice`: what to do."""
    return Problem("too_large", f"at most {most} bytes; {advice}", field="body", headers=CLOSE)
