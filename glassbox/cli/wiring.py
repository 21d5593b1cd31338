"""Which judges the settings call for, and what they are made of: the one place that joins settings and judges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from glassbox.cli.errors import CommandError
from glassbox.contract.verdict import KINDS
from judges.port import JudgeContext, JudgeError, Models
from judges.registry import QUICK, OwnEntry, RegistryError, check
from judges.registry import make_judge as make

if TYPE_CHECKING:
    from glassbox.contract.policy import Policy
    from judges.llm import EndpointClient
    from judges.port import Judge

ASKS_A_MODEL = frozenset(KINDS) - QUICK
"""The kinds of the product whose judge is given a client of the model endpoint; a judge of one's own may ask for it."""


def own_kinds(policies: Iterable[Policy]) -> tuple[str, ...]:
    """The worker kinds of judges of one's own that the policies use, sorted. Imports no package."""
    return tuple(sorted({kind for policy in policies for kind in policy.own_kinds()}))


def own_judges(policies: Iterable[Policy], kind: str | None = None) -> dict[str, OwnEntry]:
    """Kind -> what its package registers, of every judge of one's own that the policies use (or of that `kind`).
    Raises `CommandError` where a policy asks for what no installed package has."""
    try:
        return check(policies, kind)
    except RegistryError as error:
        raise CommandError(str(error)) from None


def make_judge(kind: str, client: EndpointClient | None, models: Models | None = None) -> Judge:
    """The judge of a kind. `client` belongs to the caller, who closes it after the judge. `models`: those of this
    process, by default none.

    Raises `CommandError` with the package to install where a judge's library is missing.
    """
    try:
        return make(kind, JudgeContext(client, models or Models()))
    except RegistryError as error:
        raise CommandError(str(error)) from None
    except JudgeError as error:
        raise CommandError(f"the {kind} judge cannot start: {error.detail or error.cause}") from None
    except ModuleNotFoundError as error:
        install = "GlassBox with its dependencies" if kind in KINDS else "what the judge's package needs"
        raise CommandError(f"the {kind} judge cannot start: {error.name} is not installed; install {install}") from None
    except Exception as error:
        if kind in KINDS:
            raise  # a fault of ours keeps its traceback
        raise CommandError(f"the {kind} judge cannot start: {type(error).__name__}: {error}") from error
