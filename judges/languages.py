"""In which languages an answer's claims are judged, and which language a text is in."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from judges.text import language, script

NAMES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
    "pl": "Polish",
    "ru": "Russian",
    "zh": "Chinese",
    "ja": "Japanese",
    "ar": "Arabic",
}
"""What a model is told of a language."""

SUPPORTED = tuple(NAMES)
"""Languages (ISO 639-1) with a row in tests/conformance/test_grounding.py: a claim that the passages support is found
supported, and one that they do not is not. An answer in another one is not judged for support."""

_LETTERS = {
    # Letters that only this one of the languages of its script has, or hardly any other.
    "pl": "ąęłńśźż",
    "cs": "řěů",
    "sk": "ľĺŕ",
    "hu": "őű",
    "tr": "ğı",
    "ro": "ășțţ",
    "vi": "ơưđạảấầẩậắằặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "sv": "å",
    "da": "øæ",
    "is": "þð",
    "lt": "ėįų",
    "lv": "āēģķļņ",
    "uk": "іїєґ",
    "be": "ў",
    "sr": "јљњђћџќѓѕ",
    "kk": "әғқңөұүһ",
    "fa": "پچژگک",
    "ur": "ٹڈڑےںھ",
}
_OF_LETTER = {letter: code for code, letters in _LETTERS.items() for letter in letters}
_FOREIGN = re.compile(f"[{''.join(_OF_LETTER)}]")
_LEAST, _SHARE = 3, 0.01
"""So many of such letters, and such a share of all letters, are more than a foreign name in the text."""

_OF_SCRIPT = {
    "cyrillic": "ru",
    "arabic": "ar",
    "hangul": "ko",
    "greek": "el",
    "hebrew": "he",
    "thai": "th",
    "devanagari": "hi",
    "bengali": "bn",
    "tamil": "ta",
    "armenian": "hy",
    "georgian": "ka",
}
_KANA = re.compile("[\u3040-\u30ff]")


def spoken(text: str) -> str | None:
    """ISO 639-1 code of the language that most of the text is in, by script, letters and function words; the name of
    the script where that is all that can be told; None for a text in Latin letters that gives no hint."""
    written = script(text)
    if written is None:
        return None
    if written == "cjk":
        return "ja" if _KANA.search(text) else "zh"
    folded = unicodedata.normalize("NFC", text.lower())
    hints = Counter(_OF_LETTER[letter] for letter in _FOREIGN.findall(folded))
    if hints:
        code, count = hints.most_common(1)[0]
        if count >= _LEAST and count >= _SHARE * sum(map(str.isalpha, folded)):
            return code
    return language(text) if written == "latin" else _OF_SCRIPT.get(written, written)


def supported(text: str) -> bool:
    """Whether claims in the language of the text are judged; also where nobody can tell what it is: a table, names."""
    return spoken(text) in (None, *SUPPORTED)
