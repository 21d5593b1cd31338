"""Canonical bytes against the rfc8785 package and the RFC's vectors; strict reading of what parsers disagree on."""

import json
import math
import struct

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.canonical import MAX_SAFE_INTEGER, CanonicalError, canonical, sha256_hex, strict_loads
from tests.vectors.canonical import NUMBERS

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
)


@given(values)
def test_equals_the_rfc8785_package(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e22, 1e22) | st.floats(-1e-5, 1e-5))
def test_numbers_equal_the_rfc8785_package_and_come_back(value: float) -> None:
    written = canonical(value)
    assert written == rfc8785.dumps(value)
    assert float(written) == value


@pytest.mark.parametrize(("bits", "written"), NUMBERS.items())
def test_numbers_of_the_rfc(bits: str, written: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number).decode() == written


def test_example_of_the_rfc() -> None:
    """RFC 8785 §3.2.2: numbers, escapes and literals."""
    raw = rb"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    assert canonical(strict_loads(raw)).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_utf16_code_units() -> None:
    """RFC 8785 §3.2.3; by code point the emoji would come last."""
    names = ["€", "\r", "\ufb33", "1", "😀", "\x80", "ö"]
    assert list(json.loads(canonical(dict.fromkeys(names)))) == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]


@given(values)
def test_round_trip_is_stable(value: object) -> None:
    if not _has_nul(value):
        assert canonical(strict_loads(canonical(value))) == canonical(value)


@given(st.dictionaries(text, scalars, max_size=6), st.randoms(use_true_random=False))
def test_key_order_does_not_matter(value: dict[str, object], random: object) -> None:
    items = list(value.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert canonical(dict(items)) == canonical(value)


def test_a_tuple_is_a_list() -> None:
    assert canonical((1, ("a",))) == b'[1,["a"]]'


@pytest.mark.parametrize(
    ("value", "field", "reason"),
    [
        ({"a": [1.0, math.nan]}, "a[1]", "not finite"),
        ([math.inf], "[0]", "not finite"),
        ({"a": {"b": MAX_SAFE_INTEGER + 1}}, "a.b", "2^53"),
        ({"a": "\ud800"}, "a", "lone surrogate"),
        ({"\udfff": 1}, "", "lone surrogate"),
        ({"a": {1: 2}}, "a", "keys are strings"),
        ({"a": b"bytes"}, "a", "bytes has no JSON form"),
        ({"a": {1, 2}}, "a", "set has no JSON form"),
    ],
)
def test_what_has_no_canonical_form(value: object, field: str, reason: str) -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical(value)
    assert caught.value.field == field
    assert reason in caught.value.reason


REFUSED = [
    (b"", "", "not JSON"),
    (b"{", "", "line 1 column 2"),
    (b"{'a':1}", "", "not JSON"),
    (b'{"a":1,}', "", "not JSON"),
    (b"[1] x", "", "not JSON"),
    (b"\xef\xbb\xbf{}", "", "not JSON"),
    (b'{"a":"\xff"}', "", "not UTF-8 at byte 6"),
    (b'{"a":"\xed\xa0\x80"}', "", "not UTF-8"),
    (b'{"a":"tab\there"}', "", "not JSON"),
    (b'{"a":NaN}', "a", "not finite"),
    (b'{"a":[1,-Infinity]}', "a[1]", "not finite"),
    (b'{"a":[{"b":1e999}]}', "a[0].b", "not finite"),
    (b'{"a":9007199254740993}', "a", "2^53"),
    (b'{"a":-9007199254740993}', "a", "2^53"),
    (b'{"a":1000000000000000000000}', "a", "2^53"),
    (b'{"a":' + b"9" * 10_000 + b"}", "a", "2^53"),
    (b'{"a":1,"a":1}', "a", "duplicated key"),
    (b'{"a":1,"b":{"c":[{"d":1,"e":2,"d":3}]}}', "b.c[0].d", "duplicated key"),
    (b'{"a":1,"\\u0061":2}', "a", "duplicated key"),
    (b'{"a":["\\u0000"]}', "a[0]", "NUL"),
    (b'{"x":{"a\\u0000":1}}', "x", "NUL"),
    (b'{"a":"\\ud800"}', "a", "lone surrogate"),
    (b'{"a":"\\udc00\\ud800"}', "a", "lone surrogate"),
    (b'{"x":{"\\ud800":1}}', "x", "lone surrogate"),
]


@pytest.mark.parametrize(("raw", "field", "reason"), REFUSED, ids=lambda part: str(part)[:30])
def test_refused_with_field_and_reason(raw: bytes, field: str, reason: str) -> None:
    with pytest.raises(CanonicalError) as caught:
        strict_loads(raw)
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_a_path_made_of_keys_fits_a_header() -> None:
    """Keys come from producers: a dead letter's header must take the path, whatever they wrote."""
    for key in ("\\ud800", "\\u0000", "\\u001b[2J", "k" * 100_000):
        with pytest.raises(CanonicalError) as caught:
            strict_loads(f'{{"a":{{"{key}":1,"{key}":2}}}}'.encode())
        assert caught.value.field.encode().isascii() or "\ufffd" in caught.value.field
        assert "\x1b" not in caught.value.field
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("edge", ["[]", "{}", "1"])
def test_nesting(edge: str) -> None:
    levels = 32 - (edge != "1")
    assert strict_loads(f"{'[' * levels}{edge}{']' * levels}".encode())
    with pytest.raises(CanonicalError, match="nested deeper than 32 levels"):
        strict_loads(f"{'[' * (levels + 1)}{edge}{']' * (levels + 1)}".encode())
    strict_loads(b"[[[1]]]", max_depth=3)
    with pytest.raises(CanonicalError, match="nested deeper than 2 levels"):
        strict_loads(b"[[[1]]]", max_depth=2)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_hostile_nesting_is_a_sentence(opening: bytes) -> None:
    with pytest.raises(CanonicalError, match=r"nested deeper|not JSON"):
        strict_loads(opening * 500_000)


@given(values)
def test_reads_what_json_reads(value: object) -> None:
    if not _has_nul(value):
        assert strict_loads(json.dumps(value).encode()) == value


def test_sha256() -> None:
    assert (
        sha256_hex(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )  # FIPS 180-4 example


def _has_nul(value: object) -> bool:
    return "\\u0000" in json.dumps(value)
