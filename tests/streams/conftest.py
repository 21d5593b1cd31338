from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from glassbox.cli.children import Child, free_ports, stop_all
from streams.admin import wait_for_broker
from streams.broker import embedded_broker_command
from streams.clients import Broker
from tests.kafka import EITHER


@pytest.fixture(params=EITHER)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """An empty broker: the embedded one, then Kafka."""
    if request.param == "kafka":
        yield request.getfixturevalue("kafka").empty()
        return
    (port,) = free_ports(1)
    server = Child("broker", embedded_broker_command(port), dict(os.environ), tmp_path_factory.mktemp("broker"))
    server.start()
    made = Broker(f"127.0.0.1:{port}", embedded=True)
    try:
        wait_for_broker(made, 20)
        yield made
    finally:
        stop_all([server], 2)
