"""Which characters make up words, in any script, and which nobody sees."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_CONTROLS = "\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # all but white space
INVISIBLE = re.compile(
    f"[{_CONTROLS}\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+"
    "|[\U000e0000-\U000e0fff]+"
)
"""Characters that nobody sees: control characters, soft hyphens, joiners, marks of direction, variation selectors,
tags and spaces of no width."""


def seen(text: str) -> tuple[str, list[int] | None]:
    """The text as a reader sees it, without `INVISIBLE`, and where each of its characters stands in the given one;
    None: where it is. So what is hidden in a word cannot part it: "un\u200bhappy" does not hold "happy"."""
    if (text.isascii() and text.isprintable()) or not INVISIBLE.search(text):
        return text, None
    kept: list[int] = []
    start = 0
    for hidden in INVISIBLE.finditer(text):
        kept += range(start, hidden.start())
        start = hidden.end()
    kept += range(start, len(text))
    return INVISIBLE.sub("", text), kept


# Scripts written without spaces: one character is one token, so that windows have words to slide over.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"  # Han
)
_MORE_HAN = "[\U00020000-\U0003ffff]"
# Written as what it is not, because `re` looks up a set within 16 bits in a table and walks any other.
_BEYOND_LATIN = re.compile("[^\0-\u02bb\u02bd-\u02ff\u2000-\u20cf\u2100-\u2bff]")


def _spelled(points: Iterable[int]) -> str:
    """Words spelled in these code points of the first 65,536. From a look at each, because `\\w` leaves out the
    combining marks, and with them half of Hindi."""
    letters: list[str] = []
    marks: list[str] = []
    unspaced: list[str] = []
    for character in map(chr, points):
        if _is_mark(character):
            marks.append(character)
        elif character.isalnum() and character != "\u02bc":
            (unspaced if _UNSPACED.match(character) else letters).append(character)
    letter = f"[A-Za-z0-9{_ranges(letters)}]"
    run = f"{letter}[A-Za-z0-9{_ranges(letters + marks)}]*"
    joined = f"(?:(?<=\\d)[.,](?=\\d)|['\u2019\u02bc](?={letter}))"
    alone = f"|[{_ranges(unspaced)}][{_ranges(marks)}]*" if unspaced else ""
    return f"{run}(?:{joined}{run})*{alone}"


@lru_cache(maxsize=1)
def _latin_word() -> re.Pattern[str]:
    return re.compile(_spelled((*range(0x80, 0x300), *range(0x2000, 0x20D0), *range(0x2100, 0x2C00))))


@lru_cache(maxsize=1)
def _any_word() -> re.Pattern[str]:
    """The same rules for every script. Built on first use, which takes a tenth of a second."""
    letters = _ranges(filter(str.isalnum, map(chr, range(0x10000, 0x20000))))
    marks = _ranges(filter(_is_mark, map(chr, range(0x80, 0x20000))))
    # Behind a lookahead, so that the sets that `re` has to walk cost other texts nothing.
    rare = f"(?=[\U00010000-\U0003ffff])(?:[{letters}][{letters}{marks}]*|(?=\\w){_MORE_HAN}[{marks}]*)"
    return re.compile(f"{_spelled(range(0x80, 0x10000))}|{rare}")


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc")


def _ranges(characters: Iterable[str]) -> str:
    """A set of characters written as the ranges of a character class."""
    ranges: list[list[int]] = []
    for point in sorted(map(ord, characters)):
        if ranges and point == ranges[-1][1] + 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def word_pattern(text: str) -> re.Pattern[str]:
    """Finds the words of this text, of which `seen` has left what a reader sees. Texts in Latin letters have a
    pattern of their own, which is quick to build."""
    return _any_word() if beyond_latin(text) else _latin_word()


def beyond_latin(text: str) -> bool:
    """Whether it has a combining mark, ʼ or a letter that is neither Latin nor a sign such as Ⅷ."""
    return not text.isascii() and _BEYOND_LATIN.search(text) is not None
