"""The Fabric ledger over hfc: what the gateway client does at once, done one call after the other.

hfc says little that can be relied upon: a rejection comes back as if it were a result, and where its look-out for the
block misses it, nothing is known. So what a call would do is evaluated first, and after every commit the records are
read back: they stand, under the transaction that was submitted, or it is trouble.
"""

import asyncio
import re
import time
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from glassbox.contract.canonical import canonical, strict_loads
from ledger.fabric.batches import BATCH, standing
from ledger.fabric.channel import ChannelLedger
from ledger.fabric.errors import Conflict, GatewayError, Permanent, Step, Unknown, classify, invalidity
from ledger.fabric.gateway import Event, or_expired
from ledger.fabric.hfc.process import HfcFailed, Worker
from ledger.fabric.identity import ProfileError
from ledger.fabric.profile import PREFIX, Peer, Profile, orderers_from_environment
from ledger.fabric.proposal import Position
from ledger.fabric.protos import transaction
from ledger.fabric.transactions import Call, Committed, Outcome
from ledger.port import LedgerUnavailable

PYTHON = f"{PREFIX}HFC_PYTHON"

_ERROR = 400
"""The status from which on a chaincode's answer is an error (fabric-chaincode-go, shim.ERRORTHRESHOLD)."""

_CODED = re.compile(r"[A-Z_]+: |Function \S+ not found in contract")
"""How the chaincode's own errors begin; a peer's have the same status."""

_ATTEMPTS = 6
"""How often a call that others overtake is made, before it is trouble."""

_LOOKING_S = 0.2


@dataclass(frozen=True)
class Deadlines:
    """Seconds. `seen`: for hfc to endorse, submit and see the block. `known`: for the records to turn up if it did
    not."""

    evaluate: float = 15
    seen: float = 15
    known: float = 30


class HfcLedger(ChannelLedger):
    """A ledger in a channel that is reached through hfc. `orderers`: of the channel, one of which is drawn for each
    transaction. `python`: the interpreter of hfc's own environment (`make hfc`: .venv-hfc/bin/python). All of the
    profile's peers are asked to endorse."""

    def __init__(
        self,
        profile: Profile,
        orderers: Sequence[Peer],
        python: Path,
        *,
        batch: int = BATCH,
        deadlines: Deadlines | None = None,
    ) -> None:
        network = HfcNetwork(profile, orderers, python, deadlines or Deadlines())
        super().__init__(profile, network, network, batch)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "HfcLedger":
        """As `Profile.from_environment`, with the interpreter that GLASSBOX_FABRIC_HFC_PYTHON names and the orderers
        (`orderers_from_environment`). Raises ProfileError."""
        python = environment.get(PYTHON)
        if not python:
            raise ProfileError(f"{PYTHON} is not set: name the interpreter of hfc's own environment (`make hfc`)")
        profile = Profile.from_environment(environment)
        return cls(profile, orderers_from_environment(environment), Path(python))


class HfcNetwork:
    """Calls the chaincode through a worker. Every method may raise GatewayError or LedgerUnavailable."""

    def __init__(self, profile: Profile, orderers: Sequence[Peer], python: Path, deadlines: Deadlines) -> None:
        self._profile, self._deadlines = profile, deadlines
        self._peers = ", ".join(peer.endpoint for peer in profile.peers)
        tls = profile.client_tls
        opening = {
            "channel": profile.channel,
            "client_tls": tls and {"certificate": tls.certificate.decode(), "key": tls.key.decode()},
            "peers": [_node(peer) for peer in profile.peers],
            "orderers": [_node(orderer) for orderer in orderers],
        }
        self._worker = Worker(python, opening, profile.signer)

    async def evaluate(self, function: str, *args: str, chaincode: str | None = None) -> bytes:
        chaincode = chaincode or self._profile.chaincode
        answer = await self._call(
            "Evaluate", "evaluate", self._deadlines.evaluate, chaincode=chaincode, function=function, arguments=args
        )
        if answer["status"] >= _ERROR:
            said = answer["message"]
            if _CODED.match(said):
                said = f"chaincode response {answer['status']}, {said}"
            raise classify("Evaluate", self._peers, "hfc", said)
        return b64decode(answer["payload"])

    async def commit_status(self, tx_id: str) -> int:
        """The number of the block with the transaction of a record that stands."""
        return int(await self._call("CommitStatus", "block_number", self._deadlines.evaluate, tx_id=tx_id))

    async def run(self, calls: Sequence[Call], writes: Callable[[int, bytes], bool]) -> list[Outcome | Permanent]:
        """As `Transactions.run`, but that a call is submitted once the one before it stands, and that nothing is kept
        on disk: what is on its way when this process ends answers *exists* when it is appended again."""
        outcomes = [await self._evaluated(call) for call in calls]
        written = [
            (n, outcome.result)
            for n, outcome in enumerate(outcomes)
            if isinstance(outcome, Outcome) and writes(n, outcome.result)
        ]
        for n, result in written:
            outcomes[n] = await self._commit(calls[n], result, partial(writes, n))
        return outcomes

    async def _evaluated(self, call: Call) -> Outcome | Permanent:
        try:
            return Outcome(await self.evaluate(call.function, *call.args), None)
        except Permanent as refused:
            return refused

    async def _commit(self, call: Call, result: bytes, writes: Callable[[bytes], bool]) -> Outcome:
        for attempt in range(_ATTEMPTS):
            said = await self._call(
                "Submit",
                "submit",
                self._deadlines.seen,
                chaincode=self._profile.chaincode,
                function=call.function,
                arguments=call.args,
            )
            answer = said["answer"].encode() if said["status"] == "VALID" else result
            if await self._stands(call, said, answer):
                return Outcome(answer, Committed(said["tx_id"], await self._block(said)))
            result = await self.evaluate(call.function, *call.args)
            if not writes(result):
                return Outcome(result, None)
            failure = self._failure(said)
            if not isinstance(failure, Conflict) or attempt + 1 == _ATTEMPTS:
                raise failure
        raise AssertionError("the last attempt returns or raises")

    async def _stands(self, call: Call, said: Mapping[str, Any], answer: bytes) -> bool:
        """Whether what the call is said to have created is there, and was created by this very transaction."""
        tx_id = said["tx_id"]
        if tx_id is None or said["status"] not in ("VALID", None):
            return False
        if not call.evaluation_ids:
            return bool(said["status"] == "VALID")
        wanted = _created(answer)
        until = time.monotonic() + self._deadlines.known
        while True:
            raw = await self.evaluate("ReadRecords", canonical(list(call.evaluation_ids)).decode())
            found = standing(call.evaluation_ids, raw)
            if wanted <= {name for name, (_, wrote) in found.items() if wrote == tx_id}:
                return True
            if wanted <= found.keys() or time.monotonic() > until:
                return False
            await asyncio.sleep(_LOOKING_S)

    async def _block(self, said: Mapping[str, Any]) -> int:
        number = said["block_number"]
        return int(number) if number is not None else await self.commit_status(said["tx_id"])

    def _failure(self, said: Mapping[str, Any]) -> GatewayError:
        tx_id, status, answer = said["tx_id"], said["status"], said["answer"]
        if tx_id is None:
            return classify("Submit", self._peers, "hfc", answer)
        invalid = None if status is None else invalidity(self._peers, tx_id, _code(status))
        reason = f"the transaction {tx_id} was taken by an orderer and is not known to be in a block: {answer}"
        return invalid or Unknown("CommitStatus", self._peers, "hfc", reason)

    async def _call(self, step: Step, name: str, wait_s: float, **arguments: Any) -> Any:
        try:
            return await self._worker.call(name, wait_s, **arguments)
        except HfcFailed as failed:
            failure = classify(step, self._peers, "hfc", str(failed))
            raise or_expired(failure, self._profile.signer) from None

    def events(self, after: Position | None = None) -> AsyncGenerator[Event, None]:
        """Not through hfc: its look-out begins with the newest block, whatever was missed before."""
        raise LedgerUnavailable("events are read through the gateway client: unset GLASSBOX_FABRIC_HFC_PYTHON")

    async def close(self) -> None:
        await self._worker.close()


def _created(answer: bytes) -> set[str]:
    said = strict_loads(answer)
    items = said if isinstance(said, list) else [said]
    return {item["evaluation_id"] for item in items if item["result"] == "created"}


def _node(peer: Peer) -> dict[str, str | None]:
    tls_ca = None if peer.tls_ca is None else peer.tls_ca.decode()
    return {"endpoint": peer.endpoint, "tls_ca": tls_ca, "host_alias": peer.host_alias}


def _code(status: str) -> int:
    """Of a name of peer.TxValidationCode."""
    known = dict(transaction.TxValidationCode.items())
    return int(known.get(status, transaction.INVALID_OTHER_REASON))
