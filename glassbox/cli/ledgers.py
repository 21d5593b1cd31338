"""Opening the ledgers that the settings name, and putting policies on those that only an administrator may change."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from glassbox.cli.errors import CommandError
from glassbox.settings import PREFIX

if TYPE_CHECKING:
    from glassbox.contract.policy import Policy
    from glassbox.settings import Settings
    from ledger.anchoring import Anchoring
    from ledger.fabric.channel import ChannelLedger
    from ledger.merkle_log import MerkleLog
    from ledger.port import Ledger

log = logging.getLogger("glassbox.ledgers")

_AGAIN_S = 1.0
"""Between two looks whether a ledger is free, or answers."""


def fabric_ledger(settings: Settings, *, admin: bool = False) -> ChannelLedger:
    """The ledger on Fabric, as the client that the settings name or as their administrator; through hfc where its
    interpreter is named.

    Raises `LedgerError` where a variable or file is missing or wrong, `CommandError` where no administrator is named.
    """
    # the Fabric samples' own names count too, hence the whole environment
    ours = {name: value for name, value in settings.environment().items() if name.startswith(f"{PREFIX}FABRIC_")}
    environment = {**os.environ, **ours}
    if admin:
        if settings.fabric_admin_identity is None:
            raise CommandError(
                f"only an administrator registers policies on Fabric: set {PREFIX}FABRIC_ADMIN_IDENTITY to an "
                "administrator's MSP folder (signcerts, keystore) or .id file"
            )
        environment[f"{PREFIX}FABRIC_IDENTITY"] = str(settings.fabric_admin_identity)
    try:
        from ledger.fabric.ledger import FabricLedger
        from ledger.fabric.profile import Profile
    except ModuleNotFoundError as error:
        raise CommandError(f"the Fabric ledger needs {error.name}: pip install 'glassbox[fabric]'") from None
    if settings.fabric_hfc_python is not None:
        from ledger.fabric.hfc.ledger import HfcLedger

        return HfcLedger.from_environment(environment)
    settings.make_data_dir()
    return FabricLedger(Profile.from_environment(environment), settings.fabric_pending_path)


def fabric_place(settings: Settings) -> str:
    """The channel and chaincode that keep the records, for people. Raises as `fabric_ledger` does."""
    ledger = fabric_ledger(settings)
    try:
        return ledger.place
    finally:
        asyncio.run(ledger.close())


def own_roots(settings: Settings) -> list[str]:
    """MSPID=FILE of the own organisation's certificate authorities, as the identity's MSP folder has them; empty where
    it has none. An auditor gets them from the organisation itself."""
    folder = settings.fabric_identity and settings.fabric_identity / "cacerts"
    if folder is None or settings.fabric_msp_id is None or not folder.is_dir():
        return []
    return [f"{settings.fabric_msp_id}={file}" for file in sorted(folder.iterdir())]


def open_reader(settings: Settings) -> Ledger:
    """The ledger, for reading. Raises `LedgerError` where it cannot be opened."""
    from ledger.merkle_log import MerkleLog

    fabric = fabric_ledger(settings) if "fabric" in settings.ledgers else None
    merkle = MerkleLog.reader(settings.ledger_path) if "merkle" in settings.ledgers else None
    return _joined(settings, merkle, fabric)


async def open_committer(settings: Settings, hear: Callable[[str], None]) -> tuple[Ledger, Anchoring | None]:
    """The ledger, for writing, and what anchors one in the other where there are two.

    A second committer of a Merkle log waits here and takes over when the first is gone. `hear` is told what is waited
    for. Raises `LedgerError` where Fabric's settings are wrong, `CommandError` where a configured policy is not there.
    """
    from ledger.merkle_log import MerkleLog
    from ledger.port import LedgerUnavailable

    fabric = await _fabric_with_policies(settings, hear) if "fabric" in settings.ledgers else None
    merkle: MerkleLog | None = None
    while "merkle" in settings.ledgers and merkle is None:
        try:
            merkle = MerkleLog.committer(settings.ledger_path, settings.signing_key())
        except LedgerUnavailable as error:
            hear(str(error))
            await asyncio.sleep(_AGAIN_S)
    anchoring = None
    if merkle is not None and fabric is not None:
        from ledger.anchoring import Anchoring

        anchoring = Anchoring(merkle, fabric, settings.anchor_interval_s, _note_anchored, _note_trouble)
    return _joined(settings, merkle, fabric), anchoring


async def _fabric_with_policies(settings: Settings, hear: Callable[[str], None]) -> ChannelLedger:
    """Once it can be asked. Refused where it lacks a configured policy, whatever a ledger beside it has: only an
    administrator puts it there, and records could not cite it."""
    from ledger.port import LedgerUnavailable

    fabric = fabric_ledger(settings)
    while True:
        try:
            missing = await unregistered(fabric, settings.policies().values())
        except LedgerUnavailable as error:
            hear(str(error))
            await asyncio.sleep(_AGAIN_S)
            continue
        if not missing:
            return fabric
        await fabric.close()
        names = ", ".join(policy.name for policy in missing)
        raise CommandError(
            f"not on the ledger: the policies {names}; let an administrator run `glassbox policy register`"
        )


def _note_anchored(records: int) -> None:
    from streams import metrics

    metrics.ANCHORED_RECORDS.set(records)
    metrics.ANCHORED_AT.set_to_current_time()


def _note_trouble(trouble: str | None) -> None:
    if trouble is not None:
        log.error("no checkpoint is anchored: %s", trouble)


def _joined(settings: Settings, merkle: MerkleLog | None, fabric: ChannelLedger | None) -> Ledger:
    named: dict[str, Ledger | None] = {"merkle": merkle, "fabric": fabric}
    opened = [ledger for name in settings.ledgers if (ledger := named[name]) is not None]
    if len(opened) == 1:
        return opened[0]
    from ledger.both import Both

    return Both(*opened)


async def unregistered(ledger: Ledger, policies: Iterable[Policy]) -> list[Policy]:
    """The policies that are not on the ledger. Raises `LedgerUnavailable`."""
    return [policy for policy in policies if await ledger.policy(policy.digest) is None]


async def register_on_fabric(settings: Settings, policies: Iterable[Policy]) -> None:
    """Put policies on Fabric that are not there, as its administrator, who need not be named where all are there.

    Raises `LedgerError` and `CommandError`.
    """
    from glassbox.contract.events import rfc3339

    reading = fabric_ledger(settings)
    try:
        missing = await unregistered(reading, policies)
    finally:
        await reading.close()
    if not missing:
        return
    writing = fabric_ledger(settings, admin=True)
    try:
        for policy in missing:
            await writing.register_policy(policy.document, rfc3339(time.time_ns() // 1_000_000))
    finally:
        await writing.close()
