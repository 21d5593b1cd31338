"""`python -m tests.trivial_role ROLE`: a role as in production, but a worker's judge answers at once.

What is left is the transport's own cost. A query may ask for trouble: `raise:KIND`, `hang:KIND`, `kill:KIND`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack

from glassbox import logs
from glassbox.cli.worker import RoleProcess
from glassbox.contract.verdict import Method, Scored
from glassbox.settings import Settings
from judges.port import NEEDS, Case, Judge, Judgement

CALL = {"asked": "constant", "prompt_tokens": 2, "completion_tokens": 1}
METHOD = Method(name="constant", family="rules", library="tests", version="1")


class Constant:
    def __init__(self, kind: str) -> None:
        self.kind, self.needs = kind, NEEDS[kind]

    async def judge(self, case: Case) -> Judgement:
        query = case.input.query or ""
        if f"raise:{self.kind}" in query:
            raise RuntimeError("asked for")
        if f"kill:{self.kind}" in query:
            os._exit(9)
        if f"hang:{self.kind}" in query:
            await asyncio.Event().wait()
        return Judgement(tuple(Scored.of(part, 0.96, method=METHOD) for part in case.settings), {"calls": [CALL]})

    async def close(self) -> None:
        pass


class TrivialRole(RoleProcess):
    async def judge(self, resources: AsyncExitStack) -> Judge:
        return Constant(self.role)


if __name__ == "__main__":
    settings = Settings.load()
    logs.configure(settings.log_level, settings.log_format, role=sys.argv[1])
    sys.exit(asyncio.run(TrivialRole(sys.argv[1], settings).run()))
