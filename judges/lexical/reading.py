"""How the lexical model reads a text: what each word counts as, which words carry content, which are negated."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from judges.text import Token, citations, is_content, language, normalise, sentences, stem, words

NEGATION = "\N{NOT SIGN}"
_REACH = 4  # words after a negation that it can bear on

_NEGATION_LISTING = (
    "no not never without neither nor cannot none nobody nothing nowhere"
    " nicht kein keine keinen keinem keiner keines nie niemals ohne niemand nichts weder"
    " pas jamais sans aucun aucune rien ni nunca jamás ningún ninguna ninguno nadie tampoco"
    " non nessun nessuno nessuna não nem nenhum nenhuma ninguém niet geen nooit niemand"
    " не нет ни никогда никто ничего لا لم لن ليس ليست غير"
)
_NEGATIONS = frozenset(_NEGATION_LISTING.split())
# Words of one language that mean something else in another (French "né", German "Mai").
_NEGATIONS_OF = {"it": frozenset(("né", "mai"))}
# Scripts without spaces have a character a word. Chinese negates what follows; Japanese what stands before.
_BEFORE = re.compile("(?!非常|非洲|不同|不仅|不但|不过|不断|不久|不管|不少|无论|未来)[不没沒未无無非]|(?<=[没沒])有")
_BEHIND = re.compile(
    "(?<=[\u3040-\u30ff\u4e00-\u9fff])(?:ない|なかっ|なけれ|なく(?!な)|(?<=ま)せん|ず(?=[、。に]|$)|ぬ(?=[、。]|$))"
)
_TRAILING = frozenset(("nicht", "niet"))
"""Where no word with content follows in their clause, they bear on what stands before."""
_KANA = re.compile("[\u3040-\u30ff]")
# Not "one" (a pronoun as often as a number) nor "second" (a unit of time).
_CARDINAL_LISTING = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
_CARDINALS = dict(zip(_CARDINAL_LISTING.split(), [*range(2, 20), *range(20, 100, 10)], strict=True))
# Function words that change what is claimed, so that a passage must have said them too: how many, how certain,
# when and where; and the speaker, of whom no passage knows anything.
_WEIGHTY_LISTING = (
    "all any both each many more most much only other some such one ones"
    " can could will would shall should may might must"
    " before after during until since while against through between over under above below within across"
    " i me my mine myself we us our ours ourselves"
    " alle nur mehr kann können muss müssen soll sollen bis vor nach seit über unter ich mir mich mein wir uns unser"
    " plus peut entre vers sur sous je mon ma mes nous notre nos"
    " más hasta desde sobre entre yo mi mis nosotros nuestro nuestra"
)
_WEIGHTY = frozenset(_WEIGHTY_LISTING.split())
_FILLER = re.compile(
    r"\s*(?:(?:yes|yeah|yep|oh|ah|well|hmm|wow|okay|ok|haha)\b[\s,.:;!–-]*"
    r"|(?:no|sure|right|indeed|exactly|great|ja|nein|doch|oui|non|sí|claro)\s*[,.:;!–]+\s*)+",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[.,;:!?…()\n。！？、，；：]")
_CLAUSE_WORDS = frozenset({"and", "but"})

_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GROUPED_BY_POINTS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|\d{1,3}\.\d{3},\d+")
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}")
_DECIMAL = re.compile(r"\d+\.\d+")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as parallel tuples, one entry a word; `content`, `function` and `names` hold places in them."""

    language: str | None
    units: tuple[str, ...]
    signed: tuple[str, ...]  # the unit, marked where a negation before it may bear on it
    denied: tuple[bool, ...]  # whether it is the first content word after a negation
    content: tuple[int, ...]  # words that carry content; negations are none of them
    function: tuple[int, ...]  # the other words, without negations and citation marks
    names: frozenset[int]
    negations: int


@lru_cache(maxsize=65_536)
def unit(word: str) -> str:
    """What a word counts as when texts are compared: NEGATION, a number by its value, or its stem."""
    plain = normalise(word)
    if plain in _NEGATIONS or plain.endswith("n't"):
        return NEGATION
    if plain in _CARDINALS:
        return str(_CARDINALS[plain])
    return _value(plain) if is_number(plain) else stem(word)


def is_number(unit: str) -> bool:
    """Whether a unit has a digit: years, amounts, but also codes such as "b2b"."""
    return any(map(str.isdecimal, unit))


def _value(number: str) -> str:
    if _GROUPED.fullmatch(number):
        number = number.replace(",", "")
    elif _GROUPED_BY_POINTS.fullmatch(number):
        number = number.replace(".", "").replace(",", ".")
    elif _DECIMAL_COMMA.fullmatch(number):
        number = number.replace(",", ".")
    if _DECIMAL.fullmatch(number):
        return number.rstrip("0").rstrip(".")
    if ordinal := _ORDINAL.fullmatch(number):
        return ordinal[1]
    return number.replace("'", "")


@lru_cache(maxsize=512)
def read(text: str, spoken: str | None = None) -> Reading:
    """Read a text in the language `spoken`, or else in the one that its function words show.

    What a negation bears on is decided by neighbouring words alone and never across a clause, so that a clause
    reads the same on its own as inside its text.
    """
    spoken = spoken or language(text)
    tokens = words(text)
    before, behind = _negating(text)
    units = tuple(
        NEGATION
        if token.start in before
        or token.start in behind
        or normalise(token.text) in _NEGATIONS_OF.get(spoken or "", ())
        else unit(token.text)
        for token in tokens
    )
    carries = [_carries(token.text, spoken) for token in tokens]
    signed, denied = _signs(text, tokens, units, carries, behind)
    filler = _FILLER.match(text)
    begin = filler.end() if filler else 0
    every = range(len(tokens))
    cited = {position for mark in citations(text) for position in range(*mark)}
    places = [i for i in every if tokens[i].start >= begin and tokens[i].start not in cited] or every
    plain = [i for i in places if units[i] != NEGATION]
    return Reading(
        language=spoken,
        units=units,
        signed=signed,
        denied=denied,
        content=tuple(i for i in plain if carries[i] or is_number(units[i])),
        function=tuple(i for i in plain if not (carries[i] or is_number(units[i]))),
        names=_names(text, tokens, spoken, begin),
        negations=len(places) - len(plain),
    )


def _negating(text: str) -> tuple[frozenset[int], frozenset[int]]:
    """Where characters stand that negate what follows them, and what stands before them."""
    if text.isascii():
        return frozenset(), frozenset()
    before = frozenset(found.start() for found in _BEFORE.finditer(text))
    behind = frozenset(found.start() for found in _BEHIND.finditer(text)) if _KANA.search(text) else frozenset()
    return before, behind


def _carries(word: str, spoken: str | None) -> bool:
    return is_content(word, spoken) or normalise(word) in _WEIGHTY


def _signs(
    text: str, tokens: Sequence[Token], units: Sequence[str], carries: Sequence[bool], behind: Collection[int]
) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    signed: list[str] = []
    denied: list[bool] = []
    reach = 0
    awaited = False  # the negation has not met its first content word yet
    trailing = False  # nor one that it would bear on
    end = clause = 0

    def deny_before(place: int) -> None:
        for index in range(max(clause, place - _REACH), place):
            if units[index] != NEGATION:
                signed[index], denied[index] = NEGATION + units[index], carries[index]

    for place, (token, word, content) in enumerate(zip(tokens, units, carries, strict=True)):
        if _CLAUSE_END.search(text, end, token.start) or word in _CLAUSE_WORDS:
            if trailing:
                deny_before(place)
            reach, clause, trailing = 0, place, False
        end = token.end
        if word == NEGATION:
            if token.start in behind:
                deny_before(place)
            else:
                reach, awaited, trailing = _REACH, True, normalise(token.text) in _TRAILING
            signed.append(word)
            denied.append(False)
            continue
        signed.append(NEGATION + word if reach else word)
        denied.append(bool(reach and awaited and content))
        awaited = awaited and not content
        trailing = trailing and not content
        reach = max(0, reach - 1)
    if trailing:
        deny_before(len(signed))
    return tuple(signed), tuple(denied)


def _names(text: str, tokens: Sequence[Token], spoken: str | None, begin: int) -> frozenset[int]:
    """Indices of the capitalised content words inside a sentence.

    The first word of a sentence counts only before another capitalised one ("Marie Curie"). German writes every
    noun with a capital: there only two in a row make a name.
    """
    firsts = {span.start for span in sentences(text)}
    firsts.update([next((token.start for token in tokens if token.start >= begin), 0)])
    capital = [t.text[0].isupper() and len(t.text) > 1 and is_content(t.text, spoken) for t in tokens]

    def beside(index: int) -> bool:
        return any(capital[max(0, index - 1) : index]) or any(capital[index + 1 : index + 2])

    return frozenset(
        index
        for index, token in enumerate(tokens)
        if capital[index] and (beside(index) or not (spoken == "de" or token.start in firsts))
    )
