"""Vectors of canonical bytes and of what the strict reader refuses."""

import json
from typing import Any

from tests.vectors.reference import JSON, canonical, digest

NUMBERS = {  # RFC 8785 appendix B: IEEE 754 bits -> JSON
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}

VALUES = {  # name -> JSON as somebody may write it
    "example of RFC 8785 §3.2.2": r"""{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}""",
    "keys by UTF-16 code units, RFC 8785 §3.2.3": r"""{
  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
}""",
    "keys on both sides of the surrogates": r"""{
  "\ue000": 5, "\ud83d\ude01": 4, "\ud83d\ude00": 3, "\ud83c\udfff": 2, "\ud7ff": 1, "ab": 0.1, "a": 0, "": -1
}""",
    "every control character": json.dumps("".join(map(chr, range(1, 32))) + "\x7f\x80\u2028\ufeff"),
    "not normalised": '["caf\\u00e9", "cafe\\u0301"]',
    "numbers in their shortest form": "[-0, -0.0, 1.0, 1e0, 10e-1, 0.1e1, 100, 1e2, 1e20, 1e21, 1e-6, 1e-7, -1.50]",
    "the largest safe integers": "[9007199254740991, -9007199254740991]",
    "a double below 1e21 comes back": "[9007199254740992, 100000000000000000000]",
    "nothing": '[{}, [], "", null]',
    "space outside strings": ' \t\r\n{ "b" : [ 1 , 2 ] , "a" : { "d" : " x " , "c" : null } } ',
    "32 levels": "[" * 32 + "]" * 32,
}

REFUSED = {  # name -> (bytes, field, reason)
    "nothing at all": (b"", "", "not JSON"),
    "not JSON": (b"{'a':1}", "", "not JSON"),
    "trailing comma": (b'{"a":1,}', "", "not JSON"),
    "two values": (b"1 2", "", "not JSON"),
    "byte order mark": (b"\xef\xbb\xbf{}", "", "not JSON"),
    "not UTF-8": (b'{"a":"\xff"}', "", "not UTF-8"),
    "surrogate in UTF-8": (b'{"a":"\xed\xa0\x80"}', "", "not UTF-8"),
    "raw control character": (b'["\x01"]', "", "not JSON"),
    "NaN": (b'{"a":[0,NaN]}', "a[1]", "not finite"),
    "Infinity": (b'{"a":-Infinity}', "a", "not finite"),
    "overflow": (b'{"a":1e999}', "a", "not finite"),
    "large integer": (b'{"a":{"b":9007199254740993}}', "a.b", "2^53"),
    "duplicated key": (b'{"a":{"b":1,"b":1}}', "a.b", "duplicated key"),
    "duplicated key, written differently": (b'{"a":1,"\\u0061":1}', "a", "duplicated key"),
    "lone surrogate": (b'{"a":["\\ud800"]}', "a[0]", "lone surrogate"),
    "surrogates the wrong way round": (b'{"a":"\\ude00\\ud83d"}', "a", "lone surrogate"),
    "lone surrogate in a key": (b'{"a":{"\\udfff":1}}', "a", "lone surrogate"),
    "NUL": (b'{"a":"x\\u0000"}', "a", "NUL"),
    "NUL in a key": (b'{"a":{"\\u0000":1}}', "a", "NUL"),
    "33 levels": (b"[" * 33 + b"]" * 33, "[0]" * 32, "nested deeper than 32"),
}


def canonical_vectors() -> JSON:
    return {
        "numbers": [{"ieee754": bits, "canonical": written} for bits, written in NUMBERS.items()],
        "values": [
            {
                "name": name,
                "json": text,
                "canonical": canonical(_floats(json.loads(text))),
                "digest": digest(_floats(json.loads(text))),
            }
            for name, text in VALUES.items()
        ],
        "refused": [
            {"name": name, "hex": raw.hex(), "field": field, "reason": reason}
            for name, (raw, field, reason) in REFUSED.items()
        ],
    }


def _floats(value: Any) -> Any:
    """Integers as doubles, so that the rfc8785 package writes those beyond 2^53 - 1 too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    return [_floats(item) for item in value] if isinstance(value, list) else value
