"""The forms of names and figures in addresses and bodies, as patterns and as people are told of them."""

from __future__ import annotations

from glassbox.contract.judge_settings import CODE

ID = r"^[A-Za-z0-9._:-]{1,128}$"
WORD = r"^[^\u0000]{1,256}$"
"""A name that a producer gave."""
SESSION = "^[0-9a-f]{64}$"
FIGURE = r"^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$"
CURSOR = "^[A-Za-z0-9_-]+$"
PRINTABLE = r"^[\x21-\x7e]+$"
RUN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
SUITE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

SENTENCES = {
    ID: "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -",
    WORD: "must be 1 to 256 characters, none of them NUL",
    SESSION: "is the keyed digest that a scorecard shows as `session`, 64 hex digits",
    CODE: "must be a name such as semantic_faithfulness: a-z, then up to 63 of a-z 0-9 _",
    FIGURE: "must be a number from 0 to 1 with at most 6 places, such as 0.75",
    CURSOR: "must be the `next` of the page before",
    PRINTABLE: "must be printable ASCII without spaces",
    RUN: "must be the name of a run's folder: up to 100 of A-Z a-z 0-9 . _ -, first a letter or digit",
    SUITE: "must be up to 64 of A-Z a-z 0-9 . _ -, first a letter or digit",
}
"""Pattern -> what a value must be."""
