"""Canonical bytes (RFC 8785) and the strict reading of JSON, on the standard library alone.

The offline verifier carries this file, so it must not import anything that an auditor would have to install.
The `rfc8785` package is the oracle in its tests.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NamedTuple

MAX_DEPTH = 32
"""Deepest nesting of arrays and objects that `strict_loads` accepts."""

MAX_SAFE_INTEGER = 2**53 - 1
"""RFC 8785 §3.2.2.3: integers beyond this do not survive an IEEE 754 double."""

_UNSHOWABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_MAX_FIELD = 160


class CanonicalError(ValueError):
    """Bytes or a value that have no canonical form. `field` is a path such as `chunk_scores[2]`, or ``""``.

    Keys come from outside, so the path is cut at 160 characters and always encodes: it ends in headers and logs.
    """

    def __init__(self, reason: str, field: str = "") -> None:
        self.field, self.reason = showable(field), reason
        super().__init__(f"{self.field}: {reason}" if field else reason)


def showable(field: str) -> str:
    """A path made of keys from outside as a header or a terminal can take it."""
    return _UNSHOWABLE.sub("\ufffd", field[:_MAX_FIELD])


def sha256_hex(data: bytes) -> str:
    """SHA-256 of `data`, 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def canonical(value: Any) -> bytes:
    """The RFC 8785 (JSON Canonicalization Scheme) bytes of a JSON value.

    `value` is built of dict (string keys), list, tuple, str, int, float, bool and None. Raises `CanonicalError`,
    naming the path, for anything else: NaN, infinities, integers beyond 2^53 - 1, lone surrogates, other types.
    """
    out: list[str] = []
    _write(value, out, "")
    return "".join(out).encode()


def _write(value: Any, out: list[str], path: str) -> None:
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append(_string(value, path))
    elif isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise CanonicalError("integer beyond 2^53 - 1", path)
        out.append(str(int(value)))
    elif isinstance(value, float):
        out.append(_number(value, path))
    elif isinstance(value, dict):
        out.append("{")
        for n, key in enumerate(sorted(value, key=lambda k: _utf16(k, path))):
            if n:
                out.append(",")
            out.append(_string(key, path))
            out.append(":")
            _write(value[key], out, _inner(path, key))
        out.append("}")
    elif isinstance(value, list | tuple):
        out.append("[")
        for n, item in enumerate(value):
            if n:
                out.append(",")
            _write(item, out, f"{path}[{n}]")
        out.append("]")
    else:
        raise CanonicalError(f"a {type(value).__name__} has no JSON form", path)


def _utf16(key: Any, path: str) -> bytes:
    """Keys are sorted by UTF-16 code units (RFC 8785 §3.2.3)."""
    if not isinstance(key, str):
        raise CanonicalError("object keys are strings", path)
    return key.encode("utf-16-be", "surrogatepass")


def _string(text: str, path: str) -> str:
    _check_surrogates(text, path)
    return encode_basestring(text)


def _number(value: float, path: str) -> str:
    """ECMAScript Number::toString: the shortest digits that round-trip, which is also what repr gives."""
    if not math.isfinite(value):
        raise CanonicalError("a number that is not finite", path)
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(text) + exponent  # value = 0.text × 10^point
    if len(text) <= point <= 21:
        text += "0" * (point - len(text))
    elif 0 < point <= 21:
        text = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{text}"
    else:
        mantissa = text if len(text) == 1 else f"{text[0]}.{text[1:]}"
        text = f"{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return "-" + text if sign else text


def strict_loads(raw: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Parse UTF-8 JSON, refusing what parsers disagree on.

    Raises `CanonicalError` for invalid UTF-8 or JSON, duplicated keys, NaN and infinities (written or overflowing),
    integers that a double does not hold, lone surrogates, NUL characters and nesting deeper than `max_depth`.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CanonicalError(f"not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise CanonicalError("not JSON: begins with a byte order mark; send UTF-8 without one")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise CanonicalError(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise CanonicalError(f"nested deeper than {max_depth} levels") from None
    _check(value, "", 0, max_depth)
    return value


class _Repeated(NamedTuple):
    """Stands for an object with a duplicated key until `_check`, which knows the path."""

    key: str


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Repeated:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    return _Repeated(Counter(key for key, _ in pairs).most_common(1)[0][0])


def _integer(text: str) -> int | float:
    value = int(text[:24])  # int() refuses thousands of digits; 24 characters say enough
    if abs(value) > MAX_SAFE_INTEGER and len(text) < 24 and _number(float(text), "") == text:
        return float(text)  # RFC 8785 writes a double below 1e21 without an exponent: its own bytes must come back
    return value


def _check(value: Any, path: str, depth: int, max_depth: int) -> None:
    items: Iterable[tuple[str, Any]]
    match value:
        case str():
            return _check_text(value, path)
        case float() if not math.isfinite(value):
            raise CanonicalError("a number that is not finite", path)
        case int() if abs(value) > MAX_SAFE_INTEGER:
            raise CanonicalError("integer beyond 2^53 - 1", path)
        case _Repeated(key):
            raise CanonicalError("duplicated key", _inner(path, key))
        case dict():
            for key in value:
                _check_text(key, path)
            items = ((_inner(path, key), item) for key, item in value.items())
        case list():
            items = ((f"{path}[{n}]", item) for n, item in enumerate(value))
        case _:
            return None
    if depth == max_depth:
        raise CanonicalError(f"nested deeper than {max_depth} levels", path)
    for inner, item in items:
        _check(item, inner, depth + 1, max_depth)
    return None


def _inner(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _check_text(text: str, path: str) -> None:
    if "\0" in text:
        raise CanonicalError("NUL character", path)
    _check_surrogates(text, path)


def _check_surrogates(text: str, path: str) -> None:
    try:
        text.encode()  # a search for them takes ten times as long
    except UnicodeEncodeError:
        raise CanonicalError("lone surrogate", path) from None
