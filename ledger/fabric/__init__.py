"""The ledger on Hyperledger Fabric; needs the extra `fabric`."""

import os

# Our child processes are fork and exec at once: gRPC's own handling of forks, which can abort such a child, is not
# wanted. Read when grpc is imported, hence here.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
