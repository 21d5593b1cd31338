"""When two names are one: the normal form of a name.

| written | read as | rule |
|---|---|---|
| `CAFÉ Bleu`, `Cafe\u0301 Bleu` | café bleu | NFC, case folded; accents stay |
| `Apple's`, `Apple’s` | apple | possessives |
| `l'Italie`, `dell’Arte` | italie, arte | elided articles |
| `U.S.`, `US`, `J. K. Rowling` | us, jk rowling | initials joined |
| `AT&T`, `Johnson & Johnson` | at and t, johnson and johnson | "&" is "and" |
| `Dr. Ada Lovelace`, `Herr Maier` | ada lovelace, maier | honorifics before a name |
| `the Beatles`, `le Monde` | beatles, monde | articles before a name: "The", others in small letters |
| `Jean-Luc`, `"Heron"` | jean luc, heron | hyphens part words, other punctuation goes |
| `Jo\u200bsiah` | josiah | invisible characters (`judges.scripts`) |

Not one: a part of a name ("Lovelace" for "Ada Lovelace" is found in the source's text instead; "Apple Inc." for
"Apple" is a near miss), another spelling, another script. Values (numbers, units, money, dates) are compared by what
they amount to: `judges.values`.
"""

import re
from collections.abc import Sequence

from judges.text import Token, is_content, normalise, words

_ELIDED = re.compile(r"(?:[cdjlmnst]|qu|dell|all|nell|sull|dall|un)['’ʼ](?=\w\w)", re.IGNORECASE)
_AMPERSAND = re.compile(r"[ \u00a0]?&[ \u00a0]?")
_BETWEEN_INITIALS = frozenset((".", ". ", ".\u00a0"))


def terms(text: str) -> list[Token]:
    """The words under which names are compared, with their places: case folded NFC without possessives and
    elisions, initials joined ("U.S." and "US" are "us", "J. K." is "jk"), "&" as "and"."""
    made: list[Token] = []
    initials = False
    for token in words(text):
        start, plain = token.start, normalise(token.text)
        if "'" in plain:
            if elided := _ELIDED.match(token.text):
                start += elided.end()
                plain = normalise(text[start : token.end])
            plain = plain.removesuffix("'s")
        single = len(plain) == 1 and text[start].isupper()
        if made and (gap := text[made[-1].end : token.start]) != " ":
            if single and initials and gap in _BETWEEN_INITIALS:
                made[-1] = Token(made[-1].text + plain, made[-1].start, token.end)
                continue
            if "&" in gap and _AMPERSAND.fullmatch(gap):
                made.append(Token("and", made[-1].end, token.start))
        initials = single
        made.append(Token(plain, start, token.end))
    return made


_HONORIFIC_LISTING = (
    "mr mrs ms miss mx dr prof professor sir dame lord lady rev hon st herr frau monsieur madame mme mlle señor señora"
    " sr sra don doña president senator captain judge minister chancellor gen general col lt sgt"
)
HONORIFICS = frozenset(_HONORIFIC_LISTING.split())
_ARTICLE_LISTING = "the a an der die das den dem le la les el los las il lo gli i de het o os as"
_ARTICLES = frozenset(_ARTICLE_LISTING.split())


def name_form(text: str, said: Sequence[Token]) -> str:
    """The normal form of the name in `text` whose `terms` are these."""
    while len(said) > 1 and (said[0].text in HONORIFICS or _is_article(text, said)):
        said = said[1:]
    return " ".join(term.text for term in said)


def _is_article(text: str, said: Sequence[Token]) -> bool:
    """Whether the first word is an article and no part of the name as "Los" is of "Los Angeles", "The" of "The Who"."""
    first = said[0]
    small = text[first.start].islower() or first.text == "the"
    return first.text in _ARTICLES and small and any(is_content(term.text) for term in said[1:])
