from tests.ledger.fabric.fixtures import (
    chaincode_binary,
    fabric_network,
    fabric_network_of_two,
    pytest_collection_modifyitems,
)

__all__ = ["chaincode_binary", "fabric_network", "fabric_network_of_two", "pytest_collection_modifyitems"]
