"""Which parts of a text are in a language that its sources are in, so that its words can be looked for there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judges.languages import SUPPORTED, spoken, supported
from judges.text import script, stem, words

QUOTED = 4
"""Words in a row that stand in the sources, all but one of them in small letters: whoever has so many quotes them,
whatever language the rest is in."""

SHARED = 0.5
"""Of the words in small letters of a part of no telling language: so many that the sources have make it theirs."""


@dataclass(frozen=True)
class Tongues:
    """`scripts`, `languages`: of the sources, each and together. `stems`: of their words, none where claims in the
    sources' own language are not judged."""

    scripts: frozenset[str]
    languages: frozenset[str]
    stems: frozenset[str]

    @classmethod
    def of(cls, sources: Sequence[str]) -> Tongues:
        joined = "\n".join(sources)
        texts = (joined, *sources)
        return cls(
            frozenset(filter(None, map(script, texts))),
            frozenset(filter(None, map(spoken, texts))),
            frozenset(stem(token.text) for token in words(joined)) if supported(joined) else frozenset(),
        )

    def differs(self, text: str) -> str | None:
        """`other_script` or `other_language`, where most of the text is in another than any source; None where it is
        in theirs, or where nobody can tell."""
        for cause, tell, theirs in (("other_script", script, self.scripts), ("other_language", spoken, self.languages)):
            if theirs and (mine := tell(text)) is not None and mine not in theirs:
                return cause
        return None

    def quotes(self, text: str) -> bool:
        """Whether the text has a run of the sources' words, `QUOTED` long."""
        run = small = 0
        for token in words(text):
            there = stem(token.text) in self.stems
            run = run + 1 if there else 0
            small = small + token.text[0].islower() if there else 0
            if run >= QUOTED and small >= QUOTED - 1:
                return True
        return False

    def shares(self, text: str) -> bool:
        """Whether the sources have `SHARED` of its words in small letters; names and figures tell no language."""
        small = [stem(token.text) in self.stems for token in words(text) if token.text[0].islower()]
        return bool(small) and sum(small) >= SHARED * len(small)

    def apart(self, part: str) -> str | None:
        """The cause for which this part of a text cannot be held against the sources word by word."""
        return None if self.quotes(part) else self.differs(part)

    def wholly_apart(self, text: str, parts: Sequence[str]) -> str | None:
        """The cause for which no part of the text can be. So a tail in another language switches nothing off: parts
        of no telling language count as the sources', unless the text is in another one and they share few words."""
        causes = [self.apart(part) for part in parts]
        whole = self.differs(text)
        if all(
            cause or (whole and spoken(part) is None and not self.shares(part))
            for part, cause in zip(parts, causes, strict=True)
        ):
            return whole or next(filter(None, causes), None)
        return None

    def judges_none(self, text: str, parts: Sequence[str]) -> bool:
        """Whether no part of the text is in a language whose claims are judged, by whatever model."""
        known = supported(text)

        def judged(part: str) -> bool:
            said = spoken(part)
            return said in SUPPORTED or self.quotes(part) or (said is None and (known or self.shares(part)))

        return not (known if not parts else any(map(judged, parts)))
