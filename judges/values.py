"""Values in a text and what each amounts to: numbers with units, money, percentages, dates, times, codes, addresses.

A value is compared by its forms, so that "1,200", "1200" and "1.2 thousand" are one number and "2024-03-01" is
"March 1, 2024". Every pattern is bounded: time is linear in the text, whatever it holds.
"""

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Context, Decimal

from judges.units import CURRENCIES, MONEY_SCALES, MONTHS, PERCENT, SCALES, SMALL, TENS, UNITS

_EXACT = Context(prec=80)


@dataclass(frozen=True, slots=True)
class Value:
    """`text[start:end]` and what it says.

    `forms`: each way to read it, the likeliest first ("03/04/2024" is two dates, "1.200" two numbers).
    `implies`: weaker things that a text with this value also says ("March 1, 2024" says 2024).
    `bare`: the number without its unit, where there is one; a source that gives only this does not contradict.
    """

    kind: str
    start: int
    end: int
    forms: tuple[str, ...]
    implies: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()


_SP = "[ \u00a0\u202f\u2009]"
_NUMBER = (
    r"(?:\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d{1,12})?"  # 12,34,567.89
    r"|\d{1,3}(?:(?:,\d{3})+(?:\.\d{1,12})?|(?:\.\d{3}){2,}(?:,\d{1,12})?|\.\d{3},\d{1,12}"
    r"|(?:['’\u00a0\u202f\u2009]\d{3})+(?:[.,]\d{1,12})?|(?:[ ]\d{3})*[ ]000)"
    r"|\d{1,30}(?:[.,]\d{1,12})?)(?![.,]?\d)"
)

_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY = r"\d{1,2}(?:\.|st|nd|rd|th|er|º)?"
_OF = rf"{_SP}(?:(?:of|de|del|di){_SP})?"

# Nothing begins in the middle of a word, and to say so first spares most of the search.
_CANDIDATE = re.compile(
    rf"""(?<![^\W\d_])(?:
      (?P<url>(?:https?://|www\.)[^\s<>"'”’»)\]]{{1,2000}})
    | (?P<email>(?<![\w.+-])[\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,64}}){{1,8}})
    | (?P<phone>(?<![\w+])\+\d{{1,3}}(?:[{_SP[1:-1]}().-]{{0,2}}\d{{2,12}}){{2,6}}(?!\w))
    | (?<![\w.])(?P<ymd>\d{{4}}(?P<ysep>[-/.])\d{{1,2}}(?P=ysep)\d{{1,2}})(?:(?=T\d)|(?!\w|[-/.]\d))
    | (?<![\w.])(?P<dmy>\d{{1,2}}(?P<dsep>[-/.])\d{{1,2}}(?P=dsep)\d{{4}}|\d{{1,2}}/\d{{1,2}}/\d{{2}})(?!\w|[-/.]\d)
    | (?<![\w.,])(?P<day_first>{_DAY}{_OF}(?:{_MONTH})\b(?:\.?,?{_OF}\d{{4}}(?!\w))?)
    | (?<!\w)(?P<month_year>(?:{_MONTH})\.?,?{_OF}\d{{4}})(?!\w)
    | (?<!\w)(?P<month_first>(?:{_MONTH})\.?{_SP}\d{{1,2}}(?:st|nd|rd|th)?(?:,?{_SP}\d{{4}})?)(?![\w:]|[.,]\d)
    | (?<![\w:.,])(?P<time>\d{{1,2}}:[0-5]\d(?::[0-5]\d)?(?:{_SP}?(?:[ap]\.m\.|[apAP][mM]\b))?
                    |\d{{1,2}}{_SP}?(?:[ap]\.m\.|[apAP][mM]\b))(?![\w:])
    | (?<![\w.])(?P<version>(?!\d{{1,3}}(?:\.\d{{3}})+(?![.\d]))[vV]?\d{{1,6}}(?:\.\d{{1,6}}){{2,8}}
                    |[vV]\d{{1,6}}(?:\.\d{{1,6}})?)(?!\w|\.\d)
    | (?<![\w-])(?P<code>(?:[A-Za-z]{{1,12}}|(?=[a-z]{{0,11}}[A-Z])[A-Za-z]{{1,12}}-)\d[A-Za-z0-9]{{0,30}}
                    (?:[-./_][A-Za-z0-9]{{1,20}}){{0,6}}
                   |(?=[A-Z-]{{0,60}}\d)[A-Z]{{2,10}}(?:-[A-Z0-9]{{1,20}}){{1,6}}
                   |[A-Za-z][A-Za-z0-9]{{0,40}}(?:_[A-Za-z0-9]{{1,40}}){{1,8}})(?!\w)
    | (?P<money>(?:(?:US|A|C|NZ)?[$]|[€£¥₹₽₩₺₴]|(?<!\w)[A-Z]{{3}}(?={_SP}?\d)){_SP}?)?
      (?<!\w)(?<!\d[.,])(?P<sign>(?<![^\s(\[])[-−])?(?P<number>{_NUMBER})
    )""",
    re.VERBOSE,
)
_WORD = re.compile(rf"[{_SP[1:-1]}-]?((?:[^\W\d_]|[°º%‰€£$¥₹/²³])+)")
_GLUED = re.compile(r"[^\W_]{1,30}(?:[-.][^\W_]{1,20}){0,4}")
_PLAIN_NUMBER = re.compile(rf"(?:US)?[$€£¥]?{_NUMBER}")
_GROUPING = re.compile("['’ \u00a0\u202f\u2009]")
_SEPARATORS = re.compile("[-_]")
_ORDINALS = frozenset(("st", "nd", "rd", "th", "er", "ère", "e", "ème", "º", "ª"))
_RANGE = re.compile(rf"{_SP}?[-–—]{_SP}?|{_SP}(?:to|and|or|bis|und|oder|à|et|ou|a|y|o){_SP}")

_PER = re.compile(rf"{_SP}(?:per|pro|par|por){_SP}(?:hour|Stunde|heure|hora)\b|{_SP}(?:an hour|à l['’]heure)\b")
_PER_WORDS = frozenset(("per", "pour", "por"))
_OF_WHAT = re.compile(rf"{_SP}(?:of|de|d['’])")
_SPEEDS = {("m", Decimal(1000)): "km/h", ("mi", Decimal(1)): "mph"}
_POUNDS = (("money", "gbp"), ("quantity", "lb"))  # "6 pounds" costs or weighs
_CENT = re.compile(rf"{_SP}(?:cent|cento|ciento)\b")

_NUMERAL = re.compile(
    rf"(?<![\w-])(?:({'|'.join(TENS)})(?:[ -]({'|'.join(list(SMALL)[:9])}))?|({'|'.join(SMALL)}))(?!\w)",
    re.IGNORECASE,
)
_WORTH_A_LOOK = re.compile(r"[\d_@]|www\.|https?:")


def values(text: str) -> list[Value]:
    """The values of one sentence in reading order; none overlaps another.

    Kinds: url, email, phone, date, time, code, number, quantity, percent, money; and `numeral`, a number in words,
    which a source may offer and an answer need not account for ("the two firms").
    """
    found = list(_written_in_digits(text)) if _WORTH_A_LOOK.search(text) else []
    free = 0
    merged: list[Value] = []
    for value in found:
        merged += _written_in_words(text, free, value.start)
        merged.append(value)
        free = value.end
    merged += _written_in_words(text, free, len(text))
    return _ranges(text, merged)


def _written_in_digits(text: str) -> Iterator[Value]:
    position = 0
    while match := _CANDIDATE.search(text, position):
        value = _read(text, match)
        yield value
        position = max(match.end(), value.end)


def _written_in_words(text: str, start: int, end: int) -> Iterator[Value]:
    for match in _NUMERAL.finditer(text, start, end):
        tens, unit, small = (part and part.lower() for part in match.groups())
        number = Decimal(SMALL[small] if small else TENS[tens] + (SMALL[unit] if unit else 0))
        measured = _measured(text, match.start(), match.end(), (number,), None)
        if measured.kind == "number" and measured.end == match.end():
            yield Value("numeral", match.start(), match.end(), measured.forms, measured.implies)
        elif measured.end <= end:
            yield measured


def _read(text: str, match: re.Match[str]) -> Value:
    start, end = match.span()
    said = match.group()
    match match.lastgroup:
        case "url":
            said = said.rstrip(".,;:!?")
            plain = said.casefold().split("://")[-1].removeprefix("www.").rstrip("/")
            return Value("url", start, start + len(said), ("url:" + plain,))
        case "email":
            return Value("email", start, end, ("email:" + said.casefold(),))
        case "phone":
            return Value("phone", start, end, ("phone:" + "".join(filter(str.isdigit, said)),))
        case "ymd":
            year, month, day = re.split("[-/.]", said)
            return _date(start, end, said, [(year, month, day)])
        case "dmy":
            first, second, year = re.split("[-/.]", said)
            year = year if len(year) == 4 else "20" + year
            day_first, month_first = (year, second, first), (year, first, second)
            return _date(start, end, said, [day_first] if "." in said else [day_first, month_first])
        case "day_first" | "month_year" | "month_first":
            month = next(str(MONTHS[word]) for word in re.findall(r"[^\W\d_]+", said) if word in MONTHS)
            digits = re.findall(r"\d+", said)
            year = digits.pop() if len(digits[-1]) == 4 else ""
            return _date(start, end, said, [(year, month, digits[0] if digits else "")])
        case "time":
            return _time(start, end, said)
        case "version":
            return Value("code", start, end, ("code:" + said.lower().removeprefix("v"),))
        case "code":
            return Value("code", start, end, ("code:" + _SEPARATORS.sub("", said.casefold()),))
    return _amount(text, match)


@dataclass(frozen=True, slots=True)
class _Suffix:
    """What follows a number: a power of ten and then a currency, a per cent sign or a unit; `end` is after it."""

    end: int
    exponent: int = 0
    kind: str = "number"
    unit: str = ""
    factor: Decimal = Decimal(1)


def _amount(text: str, match: re.Match[str]) -> Value:
    start, end = match.span("number")
    numbers = _numbers(match["number"])
    if match["sign"]:
        start, numbers = match.start("sign"), tuple(-number for number in numbers)
    currency = CURRENCIES.get(re.sub(_SP, "", match["money"])) if match["money"] else None
    if currency:
        return _measured(text, match.start(), end, numbers, currency)
    glued = _GLUED.match(text, end)
    if glued and glued.group() in _ORDINALS:
        return _value(start, glued.end(), numbers, _Suffix(glued.end()))
    if glued and glued.group() == "s" and end - start == 4:
        return Value("date", start, glued.end(), (f"decade:{match['number']}",))
    if glued and _suffix(text, end, None).end == end:
        code = text[start : glued.end()]
        return Value("code", start, glued.end(), ("code:" + _SEPARATORS.sub("", code.casefold()),))
    return _measured(text, start, end, numbers, None)


def _measured(text: str, start: int, end: int, numbers: tuple[Decimal, ...], currency: str | None) -> Value:
    suffix = _suffix(text, end, currency)
    if suffix.end > end:
        return _value(start, suffix.end, numbers, suffix)
    # "20 to 40 seconds", "€5-7 million": what follows the second number is said of the first as well.
    if (to := _RANGE.match(text, end)) and (second := _PLAIN_NUMBER.match(text, to.end())):
        shared = _suffix(text, second.end(), currency)
        if shared.end > second.end():
            both = [_value(start, end, numbers, reading) for reading in (shared, suffix)]
            return replace(both[0], forms=both[0].forms + both[1].forms, implies=both[0].implies + both[1].implies)
    return _value(start, end, numbers, suffix)


def _value(start: int, end: int, numbers: tuple[Decimal, ...], suffix: _Suffix) -> Value:
    scaled = [_EXACT.scaleb(number, suffix.exponent) for number in numbers]
    plain = tuple(f"number:{_plain(number)}" for number in scaled)
    match suffix.kind:
        case "number":
            return Value("number", start, end, plain)
        case "percent":
            return Value("percent", start, end, tuple(f"percent:{_plain(number)}" for number in scaled), plain)
        case "money":
            return Value("money", start, end, tuple(f"money:{_plain(n)}:{suffix.unit}" for n in scaled), plain)
    forms = tuple(f"quantity:{_plain(_EXACT.multiply(n, suffix.factor))}:{suffix.unit}" for n in scaled)
    if suffix.unit == "pound":
        forms = tuple(f"{kind}:{_plain(n)}:{unit}" for n in scaled for kind, unit in _POUNDS)
    return Value("quantity", start, end, forms, plain, plain)


def _suffix(text: str, end: int, currency: str | None) -> _Suffix:
    exponent = 0
    while scale := _word_at(text, end, MONEY_SCALES if currency else SCALES):
        exponent, end = exponent + MONEY_SCALES[scale[0]], scale[1]
    if currency:
        return _Suffix(end, exponent, "money", currency)
    if not exponent and (scale := _word_at(text, end, MONEY_SCALES)) and _word_at(text, scale[1], CURRENCIES):
        exponent, end = MONEY_SCALES[scale[0]], scale[1]
    linked = _OF_WHAT.match(text, end) if exponent else None
    if named := _word_at(text, linked.end() if linked else end, CURRENCIES):
        return _Suffix(named[1], exponent, "money", CURRENCIES[named[0]])
    if named := _word_at(text, end, PERCENT):
        return _Suffix(named[1], exponent, "percent")
    if (named := _word_at(text, end, _PER_WORDS)) and (cent := _CENT.match(text, named[1])):
        return _Suffix(cent.end(), exponent, "percent")
    if named := _word_at(text, end, UNITS):
        word, after = named
        unit, factor = UNITS[word]
        if (per := _PER.match(text, after)) and (speed := _SPEEDS.get((unit, factor))):
            return _Suffix(per.end(), exponent, "quantity", speed)
        return _Suffix(after, exponent, "quantity", unit, factor)
    return _Suffix(end, exponent)


def _word_at(text: str, position: int, table: Container[str]) -> tuple[str, int] | None:
    """The table's word that follows, one space or hyphen between, and where it ends. Symbols are read as they are
    written ("MW" is not "mW"); longer words in any case."""
    match = _WORD.match(text, position)
    if match is None:
        return None
    word = match[1]
    for candidate in (word, word.split("/")[0]):
        end = match.start(1) + len(candidate)
        for spelling in (candidate, candidate.lower()) if len(candidate) > 3 else (candidate,):
            if spelling in table and not _GLUED.match(text, end):
                return spelling, end
    return None


def _numbers(digits: str) -> tuple[Decimal, ...]:
    """The readings of a written number, the likeliest first: only "1.200" has two."""
    bare = _GROUPING.sub("", digits)
    comma, dot = bare.rfind(","), bare.rfind(".")
    if comma >= 0 and dot >= 0:
        decimal, group = (",", ".") if comma > dot else (".", ",")
        return (Decimal(bare.replace(group, "").replace(decimal, ".")),)
    if comma >= 0:
        grouped = re.fullmatch(r"[1-9]\d{0,2}(?:,\d{2,3})*,\d{3}", bare)
        return (Decimal(bare.replace(",", "" if grouped else ".")),)
    if bare.count(".") > 1:
        return (Decimal(bare.replace(".", "")),)
    if re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", bare):
        return (Decimal(bare), Decimal(bare.replace(".", "")))
    return (Decimal(bare),)


def _plain(number: Decimal) -> str:
    """The number's one spelling: no exponent, no idle zeros."""
    written = f"{number:f}"
    written = written.rstrip("0").rstrip(".") if "." in written else written
    sign, digits = ("-", written[1:]) if written.startswith("-") else ("", written)
    digits = digits.lstrip("0") or "0"
    return sign + ("0" + digits if digits.startswith(".") else digits)


def _date(start: int, end: int, said: str, readings: Iterable[tuple[str, str, str]]) -> Value:
    """`readings`: year, month, day as digits, where a missing one is empty."""
    forms, implies = [], []
    for year, month, day in readings:
        if not (1 <= int(month) <= 12 and (not day or 1 <= int(day) <= 31)):
            continue
        without_year = f"date:--{int(month):02}-{int(day):02}" if day else ""
        without_day = f"date:{year}-{int(month):02}" if year else ""
        if year and day:
            forms.append(f"{without_day}-{int(day):02}")
            implies += [without_day, without_year]
        else:
            forms.append(without_day or without_year)
        if year:
            implies.append(f"number:{int(year)}")
    if not forms:
        return Value("code", start, end, ("code:" + said,))
    return Value("date", start, end, tuple(dict.fromkeys(forms)), tuple(dict.fromkeys(implies)))


def _time(start: int, end: int, said: str) -> Value:
    hour, minute, second = [*re.findall(r"\d+", said), "0", "0"][:3]
    clock = said.casefold()
    if "p" in clock and int(hour) < 12:
        hour = str(int(hour) + 12)
    elif "a" in clock and int(hour) == 12:
        hour = "0"
    return Value("time", start, end, (f"time:{int(hour):02}:{int(minute):02}:{int(second):02}",))


def _ranges(text: str, found: list[Value]) -> list[Value]:
    """The second number of "$5-7 million" is money too."""
    made = found[:1]
    for value in found[1:]:
        before = made[-1]
        if before.kind == "money" and value.kind == "number" and _RANGE.fullmatch(text, before.end, value.start):
            currency = before.forms[0].rsplit(":", 1)[1]
            money = tuple(f"money:{form.split(':')[1]}:{currency}" for form in value.forms)
            value = replace(value, kind="money", forms=money + value.forms)
        made.append(value)
    return made
