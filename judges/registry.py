"""Every judge by its worker kind: those that come with the product, and those that installed packages register.

A package registers a judge under the entry point group `glassbox.judges`: the entry point's name is the kind, its
object a class (or any callable) with the attributes `kind`, `needs` and `parts` that makes a judge of a
`JudgeContext`. docs/judges.md shows one. Packages are imported only when a policy names their judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from glassbox.contract.canonical import canonical
from glassbox.contract.judge_settings import PART_NAMES, RESERVED_KINDS, OwnPart
from glassbox.contract.policy import Policy, nearest
from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import KINDS, Failed, NotApplicable, Scored
from judges.port import Case, Judge, JudgeContext, JudgeError, Judgement

GROUP = "glassbox.judges"

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FIGURE = re.compile(r"-?[0-9]+\.[0-9]{6}")

Default = bool | int | float | str | tuple[int | float | str, ...]
"""The default of a setting of one's own; what a policy sets in its place has the same type."""


def _relevance(context: JudgeContext) -> Judge:
    from judges.relevance import RelevanceJudge

    return RelevanceJudge(context.client)


def _calibration(context: JudgeContext) -> Judge:
    from judges.calibration import CalibrationJudge
    from judges.embedders import EndpointEmbedder

    if context.models.sentence:
        from judges.sentence_embedder import SentenceEmbedder

        return CalibrationJudge(SentenceEmbedder(context.models.sentence, context.models.device))
    return CalibrationJudge(EndpointEmbedder(context.client))


def _grounding(context: JudgeContext) -> Judge:
    from judges.grounding import GroundingJudge

    return GroundingJudge(context.client)


def _terminology(context: JudgeContext) -> Judge:
    from judges.terminology import TerminologyJudge

    return TerminologyJudge()


def _structure(context: JudgeContext) -> Judge:
    from judges.structure import StructureJudge

    models = context.models
    if models.entity or models.relation:
        from judges.extract_models import structure_extractor

        return StructureJudge(structure_extractor(models.entity, models.relation, models.device))
    return StructureJudge()


BUILT_IN: Mapping[str, Callable[[JudgeContext], Judge]] = {
    "relevance": _relevance,
    "calibration": _calibration,
    "grounding": _grounding,
    "terminology": _terminology,
    "structure": _structure,
}
"""Worker kind -> what makes its judge. Each imports its own when it is called: some bring large libraries."""

QUICK = frozenset(("terminology", "structure"))
"""The kinds that judge without waiting for anything, as long as no model of this process is asked."""


class RegistryError(ValueError):
    """A judge that cannot be used as it was registered, or as a policy asks for it: one sentence."""


@dataclass(frozen=True)
class OwnEntry:
    """A judge that a package registers. `package`: the distribution and its version. `parts`: part -> its own
    settings with their defaults."""

    kind: str
    package: str
    needs: frozenset[str]
    parts: Mapping[str, Mapping[str, Default]]
    factory: Callable[[JudgeContext], Any]

    def make(self, context: JudgeContext) -> Judge:
        """The judge. Whatever the package raises escapes. Raises `RegistryError` where what it made is no judge."""
        made = self.factory(context)
        if not all(callable(getattr(made, name, None)) for name in ("judge", "close")):
            raise RegistryError(f"the {self.kind} judge of {self.package} has no judge() or no close()")
        return _Own(self, made)

    def settings(self, part: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """A part's settings with every default filled in and each value of its default's type; those that every
        part has stay as they are. Raises `RegistryError` for an unknown part or setting, or a value of another
        type."""
        if part not in self.parts:
            hint = nearest(part, self.parts) or f"; it has {', '.join(sorted(self.parts))}"
            raise RegistryError(f"{part}: the {self.kind} judge of {self.package} has no such part{hint}")
        defaults = self.parts[part]
        own = {name: value for name, value in given.items() if name not in OwnPart.model_fields}
        for name in own:
            if name not in defaults:
                raise RegistryError(
                    f"{part}.{name}: the {self.kind} judge of {self.package} has no such setting"
                    f"{nearest(name, defaults)}"
                )
        typed = {
            name: _typed(own[name], default, f"{part}.{name}") for name, default in defaults.items() if name in own
        }
        return {**defaults, **given, **typed}


class _Own:
    """A package's judge as the pipeline sees it: it is handed settings that are whole and typed."""

    def __init__(self, entry: OwnEntry, judge: Any) -> None:
        self.kind, self.needs = entry.kind, entry.needs
        self._entry, self._judge = entry, judge

    async def judge(self, case: Case) -> Judgement:
        try:
            settings = {part: self._entry.settings(part, given) for part, given in case.settings.items()}
        except RegistryError as error:  # a task of a policy that this version of the package does not know
            raise JudgeError("crashed", f"settings: {error}") from None
        made = await self._judge.judge(replace(case, settings=settings))
        if fault := _fault(made):
            raise JudgeError("crashed", fault)
        answer: Judgement = made
        return answer

    async def close(self) -> None:
        await self._judge.close()


def _fault(made: Any) -> str | None:
    """Why what a package's judge returned is no judgement; None where it is one. Quotes nothing of it."""
    if not isinstance(made, Judgement) or not isinstance(made.evidence, dict):
        return "judge() must return a Judgement with a dict of evidence"
    if not all(isinstance(output, bytes) for output in made.raw):
        return "raw outputs must be bytes"
    verdicts: tuple[Any, ...] = made.verdicts
    for verdict in verdicts:
        if not isinstance(verdict, Scored | NotApplicable | Failed):
            return "each verdict must be a Scored, NotApplicable or Failed"
        try:
            canonical(verdict.model_dump(mode="json"))
        except ValueError as error:  # what cannot be written would stop the worker, or the join
            return f"the verdict on {verdict.part} is not JSON ({type(error).__name__})"
    return None


def registered() -> dict[str, EntryPoint]:
    """Kind -> entry point of every judge that an installed package registers; nothing is imported. Raises
    `RegistryError` where two packages register the same kind, or one has a name that cannot be a kind."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        if not _CODE.fullmatch(entry.name):
            raise RegistryError(
                f"{_package(entry)} registers a judge {entry.name!r}: the name must begin with a lower-case letter and "
                "have only lower-case letters, digits and _"
            )
        if entry.name in RESERVED_KINDS:
            raise RegistryError(f"{_package(entry)} registers a judge {entry.name!r}: that name is GlassBox's own")
        if entry.name in found:
            other = _package(found[entry.name])
            raise RegistryError(f"{other} and {_package(entry)} both register a judge {entry.name!r}; uninstall one")
        found[entry.name] = entry
    return found


def own_entry(kind: str) -> OwnEntry:
    """The judge that a package registers for a kind. Imports the package. Raises `RegistryError`."""
    known = registered()
    if kind not in known:
        raise RegistryError(
            f"no installed package registers a judge {kind!r} (entry point group {GROUP})"
            f"{nearest(kind, known) or '; install the package that has it'}"
        )
    entry, package = known[kind], _package(known[kind])
    where = f"the {kind} judge of {package} ({entry.value})"
    try:
        factory = entry.load()
    except Exception as error:
        raise RegistryError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    for name in ("kind", "needs", "parts"):
        if not hasattr(factory, name):
            raise RegistryError(f"{where} has no attribute {name!r}; docs/judges.md says what a judge has")
    if factory.kind != kind or not callable(factory):
        raise RegistryError(f"{where} is of kind {factory.kind!r}: its entry point must have that name")
    return OwnEntry(kind, package, _needs(factory.needs, where), _parts(factory.parts, where), factory)


def check(policies: Iterable[Policy], kind: str | None = None) -> dict[str, OwnEntry]:
    """Kind -> entry of every judge of one's own that the policies use, or of that `kind` alone. Raises `RegistryError`
    that names the key of a policy that asks for what nobody registered: a kind, a part of it, or a setting."""
    used: dict[str, OwnEntry] = {}
    for policy in policies:
        for name, judge in policy.judges.own().items():
            if judge.enabled and kind in (None, judge.kind):
                where = f"policy.{policy.name}.judges.{name}"
                try:
                    used[judge.kind] = own_entry(judge.kind)
                except RegistryError as error:
                    raise RegistryError(f"{where}: {error}") from error
                for part, settings in judge.parts.items():
                    try:
                        used[judge.kind].settings(part, settings.model_dump(mode="json"))
                    except RegistryError as error:
                        raise RegistryError(f"{where}.parts.{error}") from None
    return used


def make_judge(kind: str, context: JudgeContext) -> Judge:
    """The judge of a worker kind. Raises `RegistryError`, `JudgeError` where what it needs is not there, and whatever
    a package raises."""
    made = BUILT_IN.get(kind)
    return made(context) if made else own_entry(kind).make(context)


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def _needs(needs: Any, where: str) -> frozenset[str]:
    if isinstance(needs, str) or not isinstance(needs, Iterable):
        raise RegistryError(f"{where}: needs must be a set of names")
    for name in (made := frozenset(needs)):
        if name not in JudgeInput.model_fields:
            hint = nearest(str(name), JudgeInput.model_fields)
            raise RegistryError(
                f"{where} needs {name!r}, which no task carries{hint or ': ' + ', '.join(JudgeInput.model_fields)}"
            )
    return made


def _parts(parts: Any, where: str) -> dict[str, dict[str, Default]]:
    if not isinstance(parts, Mapping) or not parts:
        raise RegistryError(f"{where}: parts must map each part to its own settings with their defaults, {{}} for none")
    made = {}
    for part, settings in parts.items():
        if not isinstance(part, str) or not _CODE.fullmatch(part):
            raise RegistryError(f"{where}: {part!r} cannot be a part: lower-case letters, digits and _")
        if part in PART_NAMES:
            kind = next(kind for kind, names in KINDS.items() if part in names)
            raise RegistryError(f"{where}: the part {part!r} is that of GlassBox's own {kind} judge; name it otherwise")
        if not isinstance(settings, Mapping):
            raise RegistryError(f"{where}: the settings of {part} must be a mapping of names to defaults")
        made[part] = {name: _default(name, value, f"{where}: {part}") for name, value in settings.items()}
    return made


def _default(name: Any, value: Any, where: str) -> Default:
    if not isinstance(name, str) or not _CODE.fullmatch(name) or name in OwnPart.model_fields:
        raise RegistryError(f"{where}.{name} cannot be a setting: every part has one of that name, or it is no name")
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and {type(item) for item in value} in ({int}, {float}, {str}):
        return tuple(value)
    raise RegistryError(
        f"{where}.{name}: the default must be text, a number, true, false, or a list of texts or of numbers (not empty)"
    )


def _typed(value: Any, default: Default, where: str) -> Default:
    """`value` as the canonical policy has it (numbers are figures) in the type of `default`."""
    if isinstance(default, tuple):
        if isinstance(value, list | tuple):
            return tuple(_scalar(item, default[0], f"{where}[{n}]") for n, item in enumerate(value))
        raise RegistryError(f"{where}: must be a list like {list(default)!r}")
    made: Default = _scalar(value, default, where)
    return made


def _scalar(value: Any, default: Any, where: str) -> Any:
    number = isinstance(value, str) and _FIGURE.fullmatch(value) is not None
    match default:
        case bool() if isinstance(value, bool):
            return value
        case bool():
            pass
        case int() if number and float(value).is_integer():
            return int(float(value))
        case float() if number:
            return float(value)
        case str() if isinstance(value, str) and not number:
            return value
        case _:
            pass
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    raise RegistryError(f"{where}: must be {names[type(default)]}, like {default!r}")
