"""Words, sentences and windows: the text functions that the lexical judges share.

Everything here is pure and works on any script with the standard library alone. Offsets count characters of
the text as it was given; normalisation is for comparison only and never moves an offset.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from judges.scripts import seen, word_pattern

RULES = "judges.text/3"
"""Name and version of the rules for words, sentences and citations, for the methods of the judges that go by them."""


class Span(NamedTuple):
    """Half-open range of character offsets into a text: `text[start:end]`."""

    start: int
    end: int


class Token(NamedTuple):
    """A word as it stands in the text, `text[start:end] == token.text`."""

    text: str
    start: int
    end: int


class Window(NamedTuple):
    start: int
    matches: int


def words(text: str) -> list[Token]:
    """Word tokens in reading order.

    Letters and digits with their combining marks form a word; "5.1" and "1,200" are one token, so are "don't"
    and "l'homme"; hyphens and underscores part words. Han, Kana, Thai, Lao, Khmer and Burmese give a token for
    each character. Characters that nobody sees part nothing: words are those of the text as a reader sees it.
    """
    return [Token(text[start:end], start, end) for start, end in word_spans(text)]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of `words(text)` stand, as (start, end), at less than half of its cost."""
    shown, kept = seen(text)
    spans = [m.span() for m in word_pattern(shown).finditer(shown)]
    return spans if kept is None else [(kept[start], kept[end - 1] + 1) for start, end in spans]


@lru_cache(maxsize=65_536)
def normalise(word: str) -> str:
    """The word as words are compared: what is seen of it, NFC, case folded, with one apostrophe."""
    word, _ = seen(word)
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())
    return folded.replace("\u2019", "'").replace("\u02bc", "'")


_ELISION = re.compile(r"^(?:[cdjlmnst]|qu|dell|all|nell|sull)'(?=.)")
_CLITIC = re.compile(r"'(?:s|m|re|ve|ll|d)?$")
_VOWEL = re.compile("[aeiouy]")
_DOUBLED = frozenset(c * 2 for c in "bdgmnprt")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Normalised word without clitics and the commonest English inflection ("jumping", "jumped" -> "jump").

    Light on purpose: it joins the forms of one word and hardly ever two words. Words with digits and
    words of other scripts are only normalised.
    """
    word = _ELISION.sub("", _CLITIC.sub("", normalise(word)))
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for suffix in ("ingly", "edly", "ing", "ied", "ed", "ly"):
        base = word.removesuffix(suffix)
        if base is not word and len(base) >= 3 and _VOWEL.search(base):
            word = base + "y" if suffix == "ied" else base
            if suffix not in ("ied", "ly") and word[-2:] in _DOUBLED:
                word = word[:-1]
            break
    if word.endswith("e") and len(word) > 3:
        return word[:-1]
    if word.endswith("y") and len(word) > 3:
        return word[:-1] + "i"
    return word


_FUNCTION_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(listed.split())
    for language, listed in {
        "en": "a an the of in on at to for from by with and or but as is are was were be been being am it its"
        " this that these those do does did has have had having he she they we you i his her hers him"
        " their theirs them our ours us your yours my mine me what when where which who whom whose how why"
        " not no nor so if than then there here about into over under per each can could will would shall"
        " should may might must also just very too such some any all both more most other own same only"
        " one ones because while during before after up down out off again through between against until"
        " once myself itself himself herself themselves ourselves yourself many much et al etc cannot get"
        " got let really actually quite even still yet",
        "de": "der die das den dem des ein eine einen einem einer eines und oder aber als ist sind war waren"
        " sein wird werden wurde wurden hat haben hatte hatten ich du er sie es wir ihr ihre ihren ihrem"
        " ihrer seine seinen seinem seiner mein dein unser euch uns mir mich dir dich ihm ihn ihnen sich"
        " nicht kein keine zu zum zur von vom mit auf für in im an am bei aus nach über unter durch um"
        " auch nur noch schon so wie was wer wo wann warum welche welcher welches dass daß wenn weil dann"
        " da dort hier diese dieser dieses diesem diesen kann können muss müssen soll sollen man mehr sehr"
        " bis vor seit",
        "fr": "le la les l un une des du de d et ou mais où est sont était étaient être été a ont avait avaient"
        " je tu il elle on nous vous ils elles son sa ses leur leurs mon ma mes ton ta tes notre nos votre"
        " vos ce cet cette ces c qui que qu quoi dont quel quelle quels quelles ne pas n se s y en au aux"
        " à dans par pour sur sous avec sans plus aussi très comme si lui leur même entre vers chez quand"
        " comment pourquoi combien fait peut",
        "es": "el la los las un una unos unas de del y o u pero es son era eran ser sido fue fueron está están"
        " ha han había yo tú él ella nosotros ellos ellas su sus mi mis tu tus nuestro nuestra que qué"
        " quien quién cual cuál cuándo cuando dónde donde cómo como cuánto cuántos por para con sin en a"
        " al se lo le les me te nos no más muy también ya este esta estos estas ese esa eso esto si sí"
        " entre sobre hasta desde",
        "it": "il lo la i gli le un uno una di del della dei delle dello e o ma è sono era erano essere stato"
        " stata ha hanno aveva io tu lui lei noi voi loro suo sua suoi sue che chi cui non si ci in nel"
        " nella a al alla da dal dalla con su sul sulla per tra fra come quando dove perché più anche"
        " molto questo questa questi queste",
        "pt": "o a os as um uma uns umas de do da dos das e ou mas é são era eram ser foi foram está estão tem"
        " têm eu ele ela nós eles elas seu sua seus suas que quem qual quando onde como não em no na nos"
        " nas por para com sem ao à se lhe mais muito também já este esta isso isto entre sobre até desde",
        "nl": "de het een en of maar is zijn was waren wordt werd worden heeft hebben had ik jij hij zij wij"
        " jullie ze we je me hem haar hun mijn uw onze niet geen te van in op aan met voor naar bij uit om"
        " door over onder ook nog al zo als dan dat die deze dit wat wie waar wanneer waarom hoe welke er"
        " kan kunnen moet meer zeer",
    }.items()
}
# Words that vote for a language are those that no other listed language shares.
_VOTES: dict[str, str] = {
    word: language
    for language, listed in _FUNCTION_WORDS.items()
    for word in listed
    if sum(word in other for other in _FUNCTION_WORDS.values()) == 1
}


@lru_cache(maxsize=512)
def language(text: str) -> str | None:
    """ISO 639-1 code by a vote of function words: en, de, fr, es, it, pt or nl.

    None where fewer than two function words vote or the two best languages are level: a text of names and
    numbers has no language that this could tell.
    """
    shown, _ = seen(text)
    folded = shown.lower() if shown.isascii() else unicodedata.normalize("NFC", shown.casefold())
    ballot: Counter[str] = Counter()
    for word, times in Counter(word_pattern(folded).findall(folded)).items():
        if word in _VOTES:
            ballot[_VOTES[word]] += times
    ranked = ballot.most_common(2)
    if not ranked or ranked[0][1] < 2 or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


@lru_cache(maxsize=65_536)
def is_content(word: str, language: str | None = None) -> bool:
    """Whether the word carries content: not a function word of English nor of `language`."""
    bare = _CLITIC.sub("", normalise(word))
    return not (
        bare in _FUNCTION_WORDS["en"]
        or bare.endswith("n't")
        or (language is not None and _ELISION.sub("", bare) in _FUNCTION_WORDS.get(language, ()))
    )


def content_words(text: str, language: str | None = None) -> list[Token]:
    """The words of the text without function words, in reading order and with repetitions."""
    return [token for token in words(text) if is_content(token.text, language)]


_SCRIPTS = dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC"), "cjk")


@lru_cache(maxsize=8_192)
def _script_of(character: str) -> str:
    first = unicodedata.name(character, "unknown").split()[0]
    return _SCRIPTS.get(first, first.lower())


def script(text: str) -> str | None:
    """Script of most letters, by Unicode name: "latin", "cyrillic", "hangul" …; Han and Kana are both "cjk".

    None for a text without letters. A tie goes to the script that comes first in the text.
    """
    if text.isascii():
        return "latin" if any(c.isalpha() for c in text) else None
    letters = Counter(_script_of(c) for c in text if c.isalpha())
    return letters.most_common(1)[0][0] if letters else None


def _word_set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_CLOSERS = "\"'”’»›)\\]」』）］】〉》"
_WIDE = "。！？｡"
_STOPS = ".!?…．؟۔।॥"
_BREAKS = "\n\r\u2028\u2029"
# One set in front lets `re` leap from one candidate to the next; a run of stops or blanks is one candidate.
_CANDIDATE = re.compile(
    f"[{_WIDE}{_STOPS}{_BREAKS}](?:"
    f"(?<=[{_WIDE}])(?P<wide>[{_WIDE}]*[{_CLOSERS}]*)"
    f"|(?<=[{_STOPS}])[{_STOPS}]*+(?P<close>[{_CLOSERS}]*+)(?:\\[\\d{{1,3}}\\])*+(?P<apart>(?=\\s|$))?"
    f"|(?P<line>\\s*))"
)
_MARKER = re.compile(r"(?:[-*+•‣◦▪·–—]|#{1,6}|\(?\d{1,2}[.)]|\(?[A-Za-z]\))\s+")
# Before a name or another word: never the end of a sentence.
_TITLES = _word_set(
    "dr mr mrs ms prof st ste mt ft gen col lt sgt capt cmdr maj sen rep gov pres hon rev fr messrs"
    " hr fam frl mme mlle mm sra srta ud uds vs cf al approx ca bzw bspw evtl ggf inkl sog vgl zzgl"
    " dipl geb gest ing med phil e.g i.e z.b d.h u.a p.ej o.g i.d.r s.o viz est resp"
)
# Ends a sentence only before a word that usually begins one.
_OPEN = _word_set(
    "jr sr inc ltd co corp llc bros etc usw dept univ assn bldg blvd ave rd jan feb mar apr jun jul"
    " aug sep sept oct nov dec mon tue wed thu fri sat sun a.m p.m u.s u.k u.n u.s.a d.c e.u ph.d b.a"
    " m.a b.sc m.sc b.c a.d"
)
_BEFORE_NUMBER = _word_set("no nos nr num fig figs p pp vol art sec ch chap eq abs bd kap pag núm")
_STARTERS = _word_set(
    "the a an this that these those he she it they we you i his her its their our my in on at as by"
    " for from with when where while after before since if although though however there here what who"
    " why how but and so also some many most another both each der die das ein eine er sie es wir ich"
    " im am le la les un une il elle nous el los las en se"
)
_GERMAN_MONTHS = _word_set("januar jänner februar märz april mai juni juli august september oktober november dezember")
_LAST_CHUNK = re.compile(r"[^\s(\[\"'“‘«/]*$")
_NEXT_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def sentences(text: str) -> list[Span]:
    """Sentences in reading order, without surrounding white space and without list markers.

    A stop ends a sentence unless it belongs to an abbreviation, an initial, a decimal, an ordinal or an ellipsis
    that goes on; closing quotes, brackets and citation marks ([1]) belong to the stop before them. A line break
    ends a sentence unless the next line goes on in lower case. Pieces without a word are left out.
    """
    return list(each_sentence(text))


def each_sentence(text: str) -> Iterator[Span]:
    """`sentences(text)` one by one, for who may need only the first."""
    word = word_pattern(text)
    start = 0
    for end in chain((m.end() for m in _CANDIDATE.finditer(text) if _breaks(text, m)), (len(text),)):
        span = _trimmed(text, start, end)
        if word.search(text, span.start, span.end):
            yield span
        start = end


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    end -= len(piece) - len(piece.rstrip())
    start += len(piece) - len(piece.lstrip())
    if (marker := _MARKER.match(text, start, end)) and _begins_line(text, start):
        start = marker.end()
    return Span(min(start, end), end)


def _begins_line(text: str, position: int) -> bool:
    before = text[max(0, position - 40) : position].rstrip(" \t")
    return before[-1:] in ("\n", "\r", "\u2028", "\u2029") or (not before and position <= 40)


def _breaks(text: str, candidate: re.Match[str]) -> bool:
    if candidate["wide"] is not None:
        return True
    following = text[candidate.end() : candidate.end() + 60].lstrip()
    if candidate["line"] is not None:
        before = text[max(0, candidate.start() - 40) : candidate.start()].rstrip()[-1:]
        wrapped = following[:1].islower() and before not in ".!?:;…" and candidate[0].count("\n") == 1
        return not wrapped
    if candidate["apart"] is None:
        return False
    if not following:
        return True
    if following[0].islower() and candidate["close"]:  # "Really?" he said.
        return False
    stop = text[candidate.start() : candidate.start("close")]
    if stop not in (".", "．"):
        return not (following[0].islower() and ("." in stop or "…" in stop))
    return _full_stop_breaks(text, candidate, following)


def _full_stop_breaks(text: str, candidate: re.Match[str], following: str) -> bool:
    chunk_start = max(0, candidate.start() - 40)
    match = _LAST_CHUNK.search(text, chunk_start, candidate.start())
    chunk = match.group().casefold() if match else ""
    next_match = _NEXT_WORD.match(following)
    next_word = normalise(next_match.group()) if next_match else ""
    if chunk in _TITLES:
        return False
    if chunk in _BEFORE_NUMBER:
        return not following[0].isdigit()
    if chunk.isdigit() and len(chunk) <= 2:
        at_line_start = _begins_line(text, candidate.start() - len(chunk))
        return not (at_line_start or next_word in _GERMAN_MONTHS)
    if chunk in _OPEN or (len(chunk) == 1 and chunk.isalpha() and _script_of(chunk) != "cjk"):
        return following[0].isupper() and next_word in _STARTERS
    if following[0].islower():
        # Texts without capitals are common; a short word before a small letter is more often an abbreviation.
        return len(chunk) != 2 and len(chunk) != 3
    return True


_CITED = r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,20}"
_RAISED = "\N{SUPERSCRIPT ZERO}\N{SUPERSCRIPT ONE}\N{SUPERSCRIPT TWO}\N{SUPERSCRIPT THREE}⁴-⁹"
# Raised digits cite after a stop or a word; after a unit's name or a number (m², 10⁶) they are powers.
_CITATION = re.compile(
    rf"\[\s?{_CITED}\s?\]|【\d{{1,3}}(?::\d{{1,3}})?(?:†source)?】"
    rf"|(?<!met(?:er|re))(?:(?<=[^\W\d_{_RAISED}]{{4}})|(?<=[.,;:!?)\]”»\"']))[{_RAISED}]{{1,3}}(?:[,⁻–-][{_RAISED}]{{1,3}}){{0,20}}"
)


_SIGN = re.compile(rf"[\[【{_RAISED}]")  # without one there is no mark: a search for it costs a tenth


def citations(text: str) -> list[Span]:
    """The marks that cite a source, in reading order: [1], [2, 3], [1-3], 【1】, raised digits. What they say is no
    number of the text. A bracketed number of more than three digits is none: it may be a year."""
    return [Span(*found.span()) for found in _CITATION.finditer(text)] if _SIGN.search(text) else []


def best_window(needle: Sequence[str], source: Sequence[str], size: int) -> Window:
    """The contiguous window of `size` source tokens with the most clipped unigram matches of the needle.

    Clipped: a token counts at most as often as it stands in the needle (BLEU's precision, Papineni et al. 2002).
    Ties go to the earliest window. A source of at most `size` tokens is one window. O(len(source)).
    """
    if size < 1:
        raise ValueError("size of a window must be at least 1 token")
    wanted = Counter(needle)
    have = dict.fromkeys(wanted, 0)
    matches = best = start = 0
    for index, token in enumerate(source):
        if index >= size and (gone := source[index - size]) in have:
            have[gone] -= 1
            matches -= have[gone] < wanted[gone]
        if token in have:
            have[token] += 1
            matches += have[token] <= wanted[token]
        if matches > best:
            best, start = matches, max(0, index - size + 1)
    return Window(start, best)
