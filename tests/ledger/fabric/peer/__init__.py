"""A Fabric peer and orderer for tests, in one Python process, in front of the real chaincode process.

On one side it serves what Fabric clients call, with the status codes and sentences of Fabric 2.5; on the other the
protocol of chaincode as a service. Between them stand endorsement, ordering, validation and a ledger in memory.

Each peer's port serves the gateway, and beside it, for the older SDKs, Endorser.ProcessProposal,
AtomicBroadcast.Broadcast and Deliver, and Deliver.Deliver and DeliverFiltered (services.py): to such a client the same
endpoint is peer, orderer and event source. Faults of `PeerFaults` are of the gateway alone.

`python -m tests.ledger.fabric.peer --help` runs a network as a process of its own.

What it does not do: private data, key-level endorsement, rich queries, chaincode that calls chaincode, configuration
transactions, gossip (all peers share one ledger, so none lags behind), Merkle summaries of long range queries (raw
reads stand in their place) and signatures of orderers in block metadata.
"""
