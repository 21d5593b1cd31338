"""The test peer holds clients and chaincode to the rules of a real one."""

import json

from ledger.fabric.gateway import Gateway
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.records import CREATED_AT, POLICY, scorecard


async def test_a_transaction_commits_end_to_end(fabric: TestNetwork) -> None:
    admin, user = Gateway(fabric.profile("Admin")), Gateway(fabric.profile())
    registration = await admin.endorse("RegisterPolicy", json.dumps(POLICY.document), CREATED_AT)
    await admin.submit(registration.tx_id, registration.envelope)
    await admin.commit_status(registration.tx_id)
    prepared = await user.endorse("CommitScorecards", json.dumps([scorecard("e-1")]))
    assert json.loads(prepared.result) == [{"evaluation_id": "e-1", "result": "created"}]
    await user.submit(prepared.tx_id, prepared.envelope)
    assert await user.commit_status(prepared.tx_id) == 2
    (read,) = json.loads(await user.evaluate("ReadRecords", json.dumps(["e-1"])))
    assert read == {"record": scorecard("e-1"), "tx_id": prepared.tx_id}
    await admin.close()
    await user.close()
