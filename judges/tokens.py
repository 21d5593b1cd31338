"""A text as arrays: its words as they are compared, and where each stands."""

import string
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from judges.scripts import beyond_latin, seen
from judges.text import normalise, word_spans

# Texts in Latin letters are read in a few strokes of C instead of one step a word: every character becomes "a", "0" or
# what else counts for the bounds of words, and all that is in no word becomes a blank. A test holds it to `word_spans`.
_ASCII = frozenset(map(chr, range(128)))
_BLANKS = (string.whitespace + string.punctuation).translate(str.maketrans("", "", ".,'"))
_PLAIN = bytes.maketrans(
    (string.ascii_uppercase + _BLANKS).encode(), (string.ascii_lowercase + " " * len(_BLANKS)).encode()
)


@dataclass(frozen=True)
class Tokens:
    """`words[i]` is the normalised word at the characters `[starts[i], ends[i])` of the text."""

    words: list[str]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, text: str) -> "Tokens":
        """The words of `judges.text.words`, in reading order."""
        plain = _plain(text)
        if plain is None:
            spans = word_spans(text)
            starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
        else:
            is_word = plain != ord(" ")
            starts, ends = np.flatnonzero(is_word[1:] != is_word[:-1]).reshape(-1, 2).T
            if text.isascii():
                return cls(plain.tobytes().decode().split(), starts, ends)
            spans = list(zip(starts.tolist(), ends.tolist(), strict=True))
        return cls([normalise(text[start:end]) for start, end in spans], starts, ends)

    def span(self, first: int, end: int) -> list[int]:
        """Characters from the beginning of word `first` to the end of the word before `end`."""
        return [int(self.starts[first]), int(self.ends[end - 1])]


def _plain(text: str) -> NDArray[np.uint8] | None:
    """The text between two blanks as ASCII characters, with blanks for all that is not part of a word; None where it
    takes more to tell."""
    if not text.isascii():
        others = set(text) - _ASCII
        listed = "".join(others)
        if beyond_latin(listed) or seen(listed)[1] is not None:
            return None
        for character in others:
            text = text.replace(character, _stand_in(character))
    codes = np.frombuffer(bytearray(f" {text} ".encode().translate(_PLAIN)), dtype=np.uint8)
    if codes.min() < ord(" ") or codes.max() > ord("z"):  # control characters
        return None
    # What is left below the digits are points, commas and apostrophes: an apostrophe joins letters and digits, the
    # others join digits, and one that joins nothing is in no word.
    at = np.flatnonzero((codes != ord(" ")) & (codes < ord("0")))
    left, right = codes[at - 1], codes[at + 1]
    between_digits = np.maximum(left, right) <= ord("9")
    joins = (np.minimum(left, right) >= ord("0")) & (between_digits | (codes[at] == ord("'")))
    codes[at[~joins]] = ord(" ")
    return codes


@lru_cache(maxsize=1_024)
def _stand_in(character: str) -> str:
    if character == "\u2019":
        return "'"
    if character.isdecimal():
        return "0"
    return "a" if character.isalnum() else " "
