"""The far side of the process boundary: hfc (fabric-sdk-py) under the Python of its own virtual environment.

A JSON line a request on standard input, a JSON line an answer on standard output, one at a time, until standard input
ends. Whatever else is printed here goes to standard error.

    {"call": "open", "channel", "chaincode", "msp_id", "certificate", "peers", "orderers"} -> {"result": null}
    {"call": "evaluate", "function", "arguments", "wait_s"} -> {"result": {"status", "message", "payload": base64}}
    {"call": "submit", "function", "arguments", "wait_s"}
        -> {"result": {"tx_id": str | null, "block_number": int | null, "trouble": str | null}}
    {"call": "transaction", "tx_id", "wait_s"} -> {"result": base64}
    {"call": "block_number", "tx_id", "wait_s"} -> {"result": int}
    anything that fails -> {"error": sentence}

Before an answer there may come {"sign": base64}: the next line is then {"signature": base64}. So no key is here.
"""

import asyncio
import hashlib
import json
import logging
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

_MAX_MESSAGE = 100 << 20
"""What a Fabric node accepts in one message by default, in bytes."""

Sign = Callable[[bytes], bytes]


class Network:
    """hfc's client for one identity, one channel and one chaincode."""

    def __init__(
        self,
        channel: str,
        chaincode: str,
        msp_id: str,
        certificate: str,
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
        self._channel, self._chaincode = channel, chaincode
        suite = ecies()
        suite.sign = lambda _key, message: sign(message)
        # Not hfc's User, which pickles the private key into its store whenever it is assigned something.
        enrollment = SimpleNamespace(cert=certificate.encode(), private_key=None)
        self._user = SimpleNamespace(org=msp_id, msp_id=msp_id, enrollment=enrollment, cryptoSuite=suite)
        self._client = Client()
        self._client.new_channel(channel)
        self._peers = [Peer(name=node["endpoint"], **_connection(node)) for node in peers]
        for node in orderers:
            self._client.orderers[node["endpoint"]] = Orderer(name=node["endpoint"], **_connection(node))

    async def evaluate(self, function: str, arguments: Sequence[str], wait_s: float) -> dict[str, str | int]:
        response = await self._ask(self._chaincode, function, arguments, wait_s)
        return {
            "status": response.status,
            "message": response.message,
            "payload": b64encode(response.payload).decode(),
        }

    async def transaction(self, tx_id: str, wait_s: float) -> str:
        """The bytes of a peer.ProcessedTransaction, in base64."""
        return b64encode(await self._system("GetTransactionByID", tx_id, wait_s)).decode()

    async def block_number(self, tx_id: str, wait_s: float) -> int:
        from hfc.protos.common.common_pb2 import Block

        return int(Block.FromString(await self._system("GetBlockByTxID", tx_id, wait_s)).header.number)

    async def _system(self, function: str, tx_id: str, wait_s: float) -> bytes:
        """The query system chaincode's answer. Not hfc's own calls for it: undecoded, they raise what they found."""
        response = await self._ask("qscc", function, [self._channel, tx_id], wait_s)
        if response.status != 200:
            raise LookupError(response.message)
        return bytes(response.payload)

    async def _ask(self, chaincode: str, function: str, arguments: Sequence[str], wait_s: float) -> Any:
        """The peer.Response of the first peer that can be reached. Not hfc's `chaincode_query`, which raises a list of
        messages where the chaincode refuses."""
        from hfc.fabric.transaction.tx_context import create_tx_context
        from hfc.fabric.transaction.tx_proposal_request import CC_QUERY, CC_TYPE_GOLANG, create_tx_prop_req

        request = create_tx_prop_req(
            prop_type=CC_QUERY, cc_type=CC_TYPE_GOLANG, cc_name=chaincode, fcn=function, args=arguments
        )
        channel = self._client.get_channel(self._channel)
        failures = []
        for peer in self._peers:
            context = create_tx_context(self._user, self._user.cryptoSuite, request)
            (answering,), _, _ = channel.send_tx_proposal(context, [peer])
            try:
                return (await asyncio.wait_for(answering, wait_s / len(self._peers))).response
            except Exception as error:  # any error of a library that documents none
                failures.append(f"{peer.name}: {describe(error)}")
        raise ConnectionError("; ".join(failures))

    async def submit(self, function: str, arguments: Sequence[str], wait_s: float) -> dict[str, str | int | None]:
        """Endorse, order, and wait for the block. `trouble` is None where the transaction is known to be valid.

        Not `submit_transaction`, which ignores the function's name.
        """
        client = self._client
        client.evt_tx_id, client.evts = None, {}
        trouble = None
        try:
            answer = await asyncio.wait_for(
                client.chaincode_invoke(
                    self._user,
                    self._channel,
                    self._peers,
                    arguments,
                    self._chaincode,
                    fcn=function,
                    wait_for_event=True,
                    wait_for_event_timeout=wait_s,
                ),
                wait_s,
            )
        except Exception as error:  # any error of a library that documents none
            trouble = describe(error)
        else:
            if client.evt_tx_id is None:  # hfc notes the id once an orderer has taken the transaction
                trouble = answer  # a rejection, returned as if it were the result
        client.get_channel(self._channel)._channel_event_hubs.clear()  # hfc keeps one a transaction for ever
        events = client.evts.get(client.evt_tx_id, {}).get("txEvents", ())
        block = next((event["block_number"] for event in events), None)
        return {"tx_id": client.evt_tx_id, "block_number": block, "trouble": trouble}


def _connection(node: Mapping[str, Any]) -> dict[str, Any]:
    options = [("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.max_send_message_length", _MAX_MESSAGE)]
    if node["host_alias"]:
        options.append(("grpc.ssl_target_name_override", node["host_alias"]))
    return {
        "endpoint": node["endpoint"],
        "tls_ca_cert_file": node["tls_ca"] and node["tls_ca"].encode(),
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
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # hfc prints errors

    def tell(message: Mapping[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    asyncio.run(serve(sys.stdin.readline, tell))


if __name__ == "__main__":
    main()
