"""Proof bundles, from what the catalogue has of a receipt; from the ledger where a receipt does not carry the proof."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from glassbox.catalogue.reading import Row
from glassbox.gateway.problems import Problem
from ledger.bundle import make_bundle
from ledger.port import LedgerError, Receipt

Prove = Callable[[str], Awaitable[Receipt | None]]
"""`Ledger.prove` of the ledger whose receipts are published."""


async def bundle(card: Row, policy: Mapping[str, Any] | None, prove: Prove | None) -> bytes:
    """The bundle of a committed card. Raises `Problem`."""
    if policy is None:
        raise Problem("catalogue_unavailable", "the policy of this record has not come to the catalogue yet")
    record, ledger = json.loads(card["record"]), card["ledger"]
    receipt = Receipt("exists", record, card["record_digest"], ledger, json.loads(card["proof"]))
    if ledger != "merkle":  # a Merkle receipt is whole; another's only says where the proof is
        if prove is None:
            raise Problem("ledger_unavailable", f"this gateway cannot ask the {ledger} ledger; use `glassbox proof`")
        try:
            standing = await prove(record["evaluation_id"])
        except LedgerError:
            raise Problem("ledger_unavailable", "try again later") from None
        if standing is None:
            raise Problem("ledger_unavailable", "it does not know this record yet")
        receipt = standing
    return make_bundle(receipt, policy)
