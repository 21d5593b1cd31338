"""A Fabric peer and orderer for tests, in one Python process, in front of the real chaincode process.

On one side it serves what Fabric clients call, with the status codes and sentences of Fabric 2.5; on the other the
protocol of chaincode as a service. Between them stand endorsement, ordering, validation and a ledger in memory.

What it does not do: private data, key-level endorsement, rich queries, chaincode that calls chaincode, configuration
transactions, gossip (all peers share one ledger, so none lags behind), Merkle summaries of long range queries (raw
reads stand in their place) and signatures of orderers in block metadata.
"""
