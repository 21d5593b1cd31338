"""The far side of the process boundary: hfc (fabric-sdk-py) under the Python of its own virtual environment.

A JSON line a request on standard input, a JSON line an answer on standard output, one at a time, until standard input
ends. Whatever else is printed here goes to standard error.

    {"call": "open", "channel", "msp_id", "certificate", "client_tls", "peers", "orderers"} -> {"result": null}
    {"call": "evaluate", "chaincode", "function", "arguments", "wait_s"}
        -> {"result": {"status", "message", "payload": base64}}
    {"call": "submit", "chaincode", "function", "arguments", "wait_s"}
        -> {"result": {"tx_id": str | null, "block_number": int | null, "status": str | null, "answer": str}}
    {"call": "block_number", "tx_id", "wait_s"} -> {"result": int}
    anything that fails -> {"error": sentence}

`tx_id` is null where the transaction did not get as far as an orderer, `status` and `block_number` where no block
with it was seen. `answer` is the chaincode's where `status` is VALID, else what went wrong.

Before an answer there may come {"sign": base64}: the next line is then {"signature": base64}. So the key of the
identity is not here.
"""

import asyncio
import hashlib
import json
import logging
import os
import runpy
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

_OK = 200
_MAX_MESSAGE = 100 << 20
"""What a Fabric node accepts in one message by default, in bytes."""

Sign = Callable[[bytes], bytes]


class Network:
    """hfc's client for one identity and one channel."""

    def __init__(
        self,
        channel: str,
        msp_id: str,
        certificate: str,
        client_tls: Mapping[str, str] | None,
        peers: Sequence[Mapping[str, Any]],
        orderers: Sequence[Mapping[str, Any]],
        sign: Sign,
    ) -> None:
        sys.modules.setdefault("_sha256", hashlib)  # hfc imports a private module that Python 3.12 renamed
        from hfc.fabric.client import Client
        from hfc.fabric.orderer import Orderer
        from hfc.fabric.peer import Peer
        from hfc.util.crypto.crypto import ecies

        logging.disable()  # hfc logs what it sends, and installs handlers to be heard
        suite = ecies()
        suite.sign = lambda _key, message: sign(message)
        # Not hfc's User, which pickles the private key into its store whenever it is assigned something.
        enrollment = SimpleNamespace(cert=certificate.encode(), private_key=None)
        self._user = SimpleNamespace(org=msp_id, msp_id=msp_id, enrollment=enrollment, cryptoSuite=suite)
        self._client = Client()
        self._channel = self._client.new_channel(channel)
        self._peers = [Peer(**_connection(node, client_tls)) for node in peers]
        for node in orderers:
            orderer = self._client.orderers[node["endpoint"]] = Orderer(**_connection(node, client_tls))
            orderer.broadcast = _saying_why(orderer.broadcast)
        if client_tls is not None:
            self._name_certificate(client_tls["certificate"])

    def _name_certificate(self, certificate: str) -> None:
        """For the header of what asks for events hfc reads the TLS certificate from a file."""
        file = self._certificate_file = NamedTemporaryFile()  # noqa: SIM115 — until this process ends
        file.write(certificate.encode())
        file.flush()
        for peer in self._peers:
            peer._client_cert_path = file.name

    async def evaluate(
        self, chaincode: str, function: str, arguments: Sequence[str], wait_s: float
    ) -> dict[str, str | int]:
        response = await self._ask(chaincode, function, arguments, wait_s)
        payload = b64encode(response.payload).decode()
        return {"status": response.status, "message": response.message, "payload": payload}

    async def block_number(self, tx_id: str, wait_s: float) -> int:
        """Not hfc's `query_block_by_txid`, which decodes the whole block, or else raises it."""
        from hfc.protos.common.common_pb2 import Block

        response = await self._ask("qscc", "GetBlockByTxID", [self._channel.name, tx_id], wait_s)
        if response.status != _OK:
            raise LookupError(response.message)
        return int(Block.FromString(response.payload).header.number)

    async def _ask(self, chaincode: str, function: str, arguments: Sequence[str], wait_s: float) -> Any:
        """The peer.Response of the first peer that can be reached.

        Not hfc's `chaincode_query`, which takes every answer for text, and raises the raw messages of a refusal.
        """
        from hfc.fabric.transaction.tx_context import create_tx_context
        from hfc.fabric.transaction.tx_proposal_request import CC_QUERY, CC_TYPE_GOLANG, create_tx_prop_req

        request = create_tx_prop_req(
            prop_type=CC_QUERY, cc_type=CC_TYPE_GOLANG, cc_name=chaincode, fcn=function, args=arguments
        )
        failures = []
        for peer in self._peers:
            context = create_tx_context(self._user, self._user.cryptoSuite, request)
            (answering,), _, _ = self._channel.send_tx_proposal(context, [peer])
            try:
                return (await asyncio.wait_for(answering, wait_s / len(self._peers))).response
            except Exception as error:  # any error of a library that documents none
                failures.append(f"{peer.name}: {describe(error)}")
        raise ConnectionError("; ".join(failures))

    async def submit(
        self, chaincode: str, function: str, arguments: Sequence[str], wait_s: float
    ) -> dict[str, str | int | None]:
        """Have every peer endorse and an orderer order, and wait for the block.

        Not hfc's `submit_transaction`, which ignores the function's name.
        """
        client = self._client
        client.evt_tx_id, client.evts = None, {}
        invoking = client.chaincode_invoke(
            self._user,
            self._channel.name,
            self._peers,
            arguments,
            chaincode,
            fcn=function,
            wait_for_event=True,
            wait_for_event_timeout=wait_s,
        )
        try:
            answer = str(await asyncio.wait_for(invoking, wait_s))
        except Exception as error:  # any error of a library that documents none
            answer = describe(error)
        self._channel._channel_event_hubs.clear()  # hfc keeps one a transaction for ever
        # Noted once an orderer has the transaction. A rejection before that is returned as if it were the answer.
        tx_id = client.evt_tx_id
        events = client.evts.get(tx_id, {}).get("txEvents") or [{"tx_status": None, "block_number": None}]
        invalid = (event["tx_status"] for event in events if event["tx_status"] != "VALID")
        status = next(invalid, "VALID")
        return {"tx_id": tx_id, "block_number": events[0]["block_number"], "status": status, "answer": answer}


def _saying_why(broadcast: Callable[[Any], AsyncIterator[Any]]) -> Callable[[Any], AsyncIterator[Any]]:
    """hfc looks for an orderer's reason in a field that there is not."""
    from hfc.protos.common.common_pb2 import Status

    async def checked(envelope: Any) -> AsyncIterator[Any]:
        async for response in broadcast(envelope):
            if response.status != _OK:
                raise ConnectionRefusedError(f"the orderer said status={Status.Name(response.status)}, {response.info}")
            yield response

    return checked


def _connection(node: Mapping[str, Any], client_tls: Mapping[str, str] | None) -> dict[str, Any]:
    options = [("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.max_send_message_length", _MAX_MESSAGE)]
    if node["host_alias"]:
        options.append(("grpc.ssl_target_name_override", node["host_alias"]))
    return {
        "name": node["endpoint"],
        "endpoint": node["endpoint"],
        "tls_ca_cert_file": node["tls_ca"] and node["tls_ca"].encode(),
        "client_key_file": client_tls and client_tls["key"].encode(),
        "client_cert_file": client_tls and client_tls["certificate"].encode(),
        "opts": options,
    }


def describe(error: BaseException) -> str:
    """One line: the status and words of a gRPC error, else the error's own words."""
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    if callable(code) and callable(details):
        return f"{code().name}: {details()}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def serve(ask: Callable[[], str], tell: Callable[[Mapping[str, Any]], None]) -> None:
    """Answer requests until `ask` gives an empty line; `ask` and `tell` block."""

    def sign(message: bytes) -> bytes:
        tell({"sign": b64encode(message).decode()})
        return b64decode(json.loads(ask())["signature"])

    network: Network | None = None
    while line := await asyncio.to_thread(ask):
        request = json.loads(line)
        call = request.pop("call")
        try:
            if call == "open":
                network = Network(**request, sign=sign)
                tell({"result": None})
            else:
                tell({"result": await getattr(network, call)(**request)})
        except Exception as error:  # whatever it is, the other side is told
            tell({"error": describe(error)})


def main() -> None:
    """Arguments: glassbox/lifeline.py, and the process to end with."""
    lifeline, parent = sys.argv[1:]
    runpy.run_path(lifeline)["die_with"](int(parent))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # hfc prints errors

    def tell(message: Mapping[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    asyncio.run(serve(sys.stdin.readline, tell))


if __name__ == "__main__":
    main()
