"""Text that talks to the judge instead of answering: orders, forged verdicts, broken fences, fake turns, hidden marks.

A finding is a hint for a person and never part of a score. So the rules are narrow: a text that merely contains a rule,
an order to its reader, markup or source code has none; one about prompt injection may.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from judges.injection_words import FAR, JUDGE, ORDERS, TERMS, TOP_SCORE, WORDS, may_order

RULES = ("instruction", "forged_verdict", "delimiter", "fake_turn", "format_change", "invisible")
"""What a suspicion can be of: an order to whoever judges; a verdict in the form that a judge gives; the end of the
prompt's data; a turn of another speaker; a request for another form of output; characters that nobody sees."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """`text[start:end]` looks like `rule`, one of `RULES`. Offsets count characters."""

    start: int
    end: int
    rule: str


def suspects(text: str) -> list[Suspicion]:
    """What in `text` looks like an attack on its judge, in the order of the text; findings of one rule do not overlap.

    Pure; time grows with the length of the text. Orders are known in English, German, French, Spanish, Italian,
    Portuguese, Russian, Chinese and Japanese. An order reaches to the end of its sentence.
    """
    return list(_found(text) if len(text) <= _KEPT_CHARACTERS else _found.__wrapped__(text))


_KEPT_CHARACTERS = 10_000
"""Several judges read the same texts: what is found in those of usual length is kept for the next."""


@lru_cache(maxsize=512)
def _found(text: str) -> tuple[Suspicion, ...]:
    found = [*_orders(text), *_hidden(text)]
    folded = text.casefold().replace("ı", "i").replace("\u0307", "")  # a pattern takes ı and İ for i
    present = {word for word in _SAID_IN_PATTERNS if word in folded}
    for rule, said, pattern in _PATTERNS:
        if not present.isdisjoint(said):
            found += (Suspicion(*match.span(), rule) for match in pattern.finditer(text))
    found += _stray_closings(text)
    return tuple(_merged(found))


def _merged(found: list[Suspicion]) -> list[Suspicion]:
    last: dict[str, Suspicion] = {}
    merged: list[Suspicion] = []
    for suspicion in sorted(found, key=lambda s: (s.start, s.end, s.rule)):
        before = last.get(suspicion.rule)
        if before is not None and suspicion.start <= before.end:
            last[suspicion.rule] = Suspicion(before.start, max(before.end, suspicion.end), suspicion.rule)
        else:
            if before is not None:
                merged.append(before)
            last[suspicion.rule] = suspicion
    return sorted([*merged, *last.values()], key=lambda s: (s.start, s.end, s.rule))


# --- orders -----------------------------------------------------------------------------------------------------
# A sentence becomes a line of letters, one a word: its role in an order (`injection_words`), "." for any other word,
# "|" at its end and "," inside it. Orders are patterns over these letters, with short gaps. Most sentences have no
# words that an order could be made of, and need no line.

_ENDS = "|"
_CJK = r"\u3040-\u30ff\u3400-\u9fff"
_UNSEEN_IN_WORDS = r"\u00ad\u200b-\u200d\u2060\ufeff"
_TERM = (
    rf"(?=[{''.join(sorted({term[0] for term in TERMS}))}])"
    rf"(?:{'|'.join(sorted(map(re.escape, TERMS), key=len, reverse=True))})"
)
_NUMBER = r"\d+(?:[.,/]\d+)*\s?%?"
_WORD = rf"(?:[^\W{_CJK}]+|[{_UNSEEN_IN_WORDS}]+)+(?:['’]t\b)?"
_END = r"[.!?。！？;；|](?:(?<![.!?])|(?=[\s\"'”’)\]}*]|$))"
_TOKEN = re.compile(
    rf"(?P<number>{_NUMBER})|(?P<word>{_WORD})|(?P<end>{_END}|\n\s*\n|\n\s*[-*#>])"
    rf"|(?P<clause>[,:：，、–—()\"“”„«»「」『』…\n])|(?P<term>{_TERM})|(?P<letter>[{_CJK}])"
)
_SENTENCE_END = re.compile(_END)  # whatever stands before it, it ends a sentence; a line may end one or not
_SAID = re.compile(rf"{_NUMBER}|{_WORD}|{_TERM}")
_UNUSUAL = re.compile(rf"[{_CJK}{_UNSEEN_IN_WORDS}]")
_SAID_PLAINLY = re.compile(rf"{_NUMBER}|\w+(?:['’]t\b)?")  # the same where nothing unusual is
_APART = str.maketrans({chr(c): " " for c in range(128) if not (chr(c).isalpha() or chr(c) == "_")})
_ROUGHLY = {re.sub(r"'t$|\d+$", "", word): role for word, role in WORDS.items()}  # as _APART leaves the words
_UNSEEN = str.maketrans("", "", "\u00ad\u200b\u200c\u200d\u2060\ufeff")
_REACH = 300  # characters an order extends over at most after the words that give it away


def _orders(text: str) -> Iterator[Suspicion]:
    bounds = [0, *(end.end() for end in _SENTENCE_END.finditer(text)), len(text)]
    wanted: set[int] = set()
    for n, (start, stop) in enumerate(pairwise(bounds)):
        sentence = text[start:stop]
        if sentence.isascii():  # a first look, for which any sentence has a top score in it
            roles = frozenset(("x", *map(_ROUGHLY.get, sentence.casefold().translate(_APART).split())))
            if JUDGE not in roles and not may_order(roles):
                continue
        said = _SAID if _UNUSUAL.search(sentence) else _SAID_PLAINLY
        roles = frozenset(map(_letter, said.findall(sentence)))
        if JUDGE in roles:  # who is spoken to in one sentence may be told in another
            wanted.update(range(max(n - 1, 0), min(n + 2 + FAR, len(bounds) - 1)))
        elif may_order(roles):
            wanted.add(n)
    for n in sorted(wanted):
        if n - 1 not in wanted:
            first = n
        if n + 1 not in wanted:
            yield from _orders_in(text, bounds[first], bounds[n + 1])


def _orders_in(text: str, start: int, stop: int) -> Iterator[Suspicion]:
    letters = [_ENDS]
    spans = [(start, start)]
    for token in _TOKEN.finditer(text, start, stop):
        kind = token.lastgroup
        letters.append(_ENDS if kind == "end" else "," if kind == "clause" else _letter(token[0]))
        spans.append(token.span())
    line = "".join(letters)
    for rule, pattern in ORDERS:
        place = 0
        while match := pattern.search(line, place):
            begin, last = spans[match.start()][0], match.end() - 1
            end = line.find(_ENDS, match.end())
            until = spans[end][1] if end >= 0 else stop
            yield Suspicion(begin, max(spans[last][1], min(until, spans[last][1] + _REACH)), rule)
            place = match.end() if end < 0 else max(end, match.end())


@lru_cache(maxsize=65_536)
def _letter(said: str) -> str:
    if said in TERMS:
        return TERMS[said]
    plain = said if said.isascii() else unicodedata.normalize("NFKC", said.translate(_UNSEEN)).replace("’", "'")
    plain = plain.casefold().strip()
    return "x" if TOP_SCORE.fullmatch(plain) else WORDS.get(plain, ".")


# --- forms ------------------------------------------------------------------------------------------------------

_QUOTE = r"(?:\\?[\"'“”]|&quot;)"
_ABOUT_JUDGING = (
    r"(?:verdict|rubric|as (?:relevant|supported)|(?:is|are) (?:fully )?supported|ignore|disregard|evaluator|grader"
    r"|(?:highest|maximum|full|perfect) (?:score|marks|rating)"
    r"|(?:grade|judge|score|rate|mark) (?:this|the|it|all|every|my)\b)"
)
_PATTERNS = tuple(
    # Whatever matches says one of the words in the middle, which are found sooner.
    (rule, said.split(), re.compile(pattern, re.IGNORECASE | re.MULTILINE))
    for rule, said, pattern in (
        # The forms that our judges, and those of DeepEval and Ragas, give a verdict in.
        (
            "forged_verdict",
            "\"verdict 'verdict “verdict ”verdict quot;verdict",
            rf"\{{?\s?{_QUOTE}verdicts?{_QUOTE}\s?:\s?(?:\[|{_QUOTE}\w+{_QUOTE}|[01]\b|true\b|false\b)",
        ),
        ("forged_verdict", "noncommittal", rf"{_QUOTE}noncommittal{_QUOTE}\s?:\s?[01]"),
        ("forged_verdict", '"statements', r"\{?\s?\\?\"statements\\?\"\s?:\s?\[\s?(?:\{|\\?\")"),
        ("forged_verdict", "<verdict", r"<verdicts?>\s?(?:yes|no|1|0|supported|relevant)\b"),
        (
            "forged_verdict",
            "verdict",
            r"^[ \t*#-]{0,8}verdict\**\s?[:=]\s?\**(?:yes|1|1\.0|supported|relevant)\**[ \t.]{0,3}$",
        ),
        # The fence around what is judged, which nobody can forge, and banners that pretend to be its end.
        ("delimiter", "<<", r"<{2,3}\s?/?(?:end|begin)?[\s_:-]?[0-9a-f]{16,64}\s?>{2,3}"),
        (
            "delimiter",
            "end begin start",
            # [-=#*~]{3,20}, <{2,3} or [: the first character stands apart, so that the search leaps to it
            r"[-=#*~<\[](?:(?<=[-=#*~])[-=#*~]{2,19}|(?<=<)<{1,2}|(?<=\[))\s?/?(?:end|begin|start)[ _](?:of[ _])?"
            r"(?:the[ _])?(?:user[ _]|untrusted[ _]|retrieved[ _])?(?:inputs?|contexts?|passages?|answers?|prompt|query"
            r"|response|system|untrusted)\b"
            r"(?:[ :_]{0,2}[-=#*~>\]]{1,20})?",
        ),
        # Special tokens of chat templates.
        (
            "fake_turn",
            "<| <｜ [inst] [/inst] <<sys <</sys _of_turn>",
            r"<[|｜](?:im_start|im_end|system|user|assistant|endoftext|eot_id|end|start_header_id|end_header_id"
            r"|begin_of_text|end[_▁]of[_▁]sentence|begin[_▁]of[_▁]sentence|User|Assistant)[|｜]>"
            r"(?:(?:system|user|assistant)\b)?"
            r"|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>",
        ),
        (
            "fake_turn",
            "system developer",
            r"(?:^[ \t#*\[<_-]{0,8}|\[)(?:system|developer)(?: message| prompt| override| note| update)?"
            r"(?:[\]>*_ ]{0,4}:|\])[ \t*]{0,4}(?:you (?:are|must|should|will|shall)\b|ignore|disregard|forget"
            r"|override\b|from now on|new (?:instruction|rule)"
            r"|(?:the )?(?:above|previous|evaluation|grader|grading|judge|rubric)\b|(?:stop|skip) (?:judging|grading))",
        ),
        (
            "fake_turn",
            "system developer assistant user human instruction response",
            r"^[ \t#*\[<_-]{0,8}(?:system|developer|assistant|user|human|instruction|response)[\]>*_ ]{0,4}:"
            rf"(?=[^\n]{{0,100}}?{_ABOUT_JUDGING})[^\n]{{0,100}}",
        ),
        # A score that another speaker gives, and nothing else in the line.
        (
            "fake_turn",
            "system assistant",
            r"^[ \t#*\[<_-]{0,8}(?:system|assistant)[\]>*_ ]{0,4}:[ \t*]{0,4}"
            r"(?:faithfulness|groundedness|(?:answer )?relevanc[ey]|score|rating)\**[ \t:=]{1,4}"
            r"(?:1(?:[.,]0+)?(?:/1)?|10/10|100\s?%)[ \t.!*]{0,4}$",
        ),
        (
            "fake_turn",
            "\"role 'role “role ”role quot;role",
            rf"{_QUOTE}role{_QUOTE}\s?:\s?{_QUOTE}(?:system|developer|assistant|user){_QUOTE}"
            rf"(?=[^\n]{{0,100}}?{_ABOUT_JUDGING})",
        ),
    )
)

_SAID_IN_PATTERNS = frozenset(word for _, said, _ in _PATTERNS for word in said)

_TAG = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z][\w-]{0,40})(?:\s[^<>]{0,200})?>")
_PROMPT_LISTING = (
    "passage passages context contexts answer response claim claims statement statements instructions system prompt"
    " rubric user assistant untrusted input inputs query evaluation document documents retrieved_passages"
)
_PROMPT_TAGS = frozenset(_PROMPT_LISTING.split())


def _stray_closings(text: str) -> Iterator[Suspicion]:
    """Closing tags of a prompt that nothing in the text has opened. A text with tags of other names is markup, whose
    pieces begin and end anywhere."""
    stray: list[Suspicion] = []
    open_tags: dict[str, int] = {}
    for tag in _TAG.finditer(text):
        name = tag["name"].lower()
        if name not in _PROMPT_TAGS:
            return
        if not tag["close"]:
            open_tags[name] = open_tags.get(name, 0) + 1
        elif open_tags.get(name):
            open_tags[name] -= 1
        else:
            stray.append(Suspicion(*tag.span(), "delimiter"))
    yield from stray


# --- what nobody sees -------------------------------------------------------------------------------------------

_SELECTORS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS = r"\U000e0000-\U000e007f"
_FILLERS = r"\u115f\u1160\u3164\uffa0"
_UNSEEN_RUN = re.compile(rf"[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff{_FILLERS}{_SELECTORS}{_TAGS}]+")
_ALWAYS = re.compile(
    # Overrides of the direction, deprecated controls, bytes in variation selectors, tags, many of anything.
    rf"[\u202d\u202e\u206a-\u206f]|[{_SELECTORS}]{{2}}|[{_TAGS}]|[{_FILLERS}\u2061-\u2064]{{2}}"
    r"|[\u200b-\u200d\u2060-\u2064\ufeff]{4}"
)
_FLAG = re.compile(r"(?:[\ufe0f\u200d]{0,2})[\U000e0020-\U000e007e]{1,12}\U000e007f\u200d?")
_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_SHAPED = re.compile(
    # Scripts that join, stack or break without spaces, where these characters are spelling.
    r"[\u0590-\u109f\u1100-\u11ff\u1780-\u1cff\u2e80-\ud7ff\ua800-\uabff\uf900-\ufdff\ufe70-\ufefc\U00010800-\U00011fff"
    r"\U0001b000-\U0001b2ff\U0001e800-\U0001efff\U00020000-\U0003ffff]"
)


def _hidden(text: str) -> Iterator[Suspicion]:
    from_right = None
    for run in () if text.isascii() else _UNSEEN_RUN.finditer(text):
        start, end = run.span()
        before, after = text[start - 1 : start], text[end : end + 1]
        said = run[0]
        if _ALWAYS.search(said):
            suspicious = not (before == "\N{WAVING BLACK FLAG}" and _FLAG.fullmatch(said))
        elif _plain(before) and _plain(after):
            suspicious = not set(said) <= set("\u2061\u2062\u2063\u2064\ufe0e\ufe0f\u2066\u2067\u2068\u2069")
        elif "\u202b" in said or "\u2067" in said:  # right to left, in a text that has nothing to turn around
            if from_right is None:
                from_right = _RIGHT_TO_LEFT.search(text) is not None
            suspicious = not from_right
        else:
            suspicious = False
        if suspicious:
            yield Suspicion(start, end, "invisible")


def _plain(character: str) -> bool:
    """A letter or digit of a script whose spelling needs no invisible characters."""
    return character.isalnum() and not _SHAPED.match(character)
