"""Blocks as Fabric hashes them (protoutil/blockutils.go of Fabric 2.5)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from cryptography.hazmat import asn1
from fabric_protos.common.common_pb2 import Block, BlockData, BlockHeader, BlockMetadata, BlockMetadataIndex


@asn1.sequence
class _HeaderFields:
    number: int
    previous_hash: bytes
    data_hash: bytes


def header_hash(header: BlockHeader) -> bytes:
    """SHA-256 over the DER of SEQUENCE { number INTEGER, previous OCTET STRING, data OCTET STRING }."""
    fields = _HeaderFields(number=header.number, previous_hash=header.previous_hash, data_hash=header.data_hash)
    return hashlib.sha256(asn1.encode_der(fields)).digest()


def make_block(number: int, previous_hash: bytes, envelopes: Sequence[bytes], codes: Sequence[int]) -> Block:
    """A block over serialized envelopes, with one validation code for each in its transaction filter."""
    metadata = [b""] * len(BlockMetadataIndex.values())
    metadata[BlockMetadataIndex.TRANSACTIONS_FILTER] = bytes(codes)
    data_hash = hashlib.sha256(b"".join(envelopes)).digest()
    return Block(
        header=BlockHeader(number=number, previous_hash=previous_hash, data_hash=data_hash),
        data=BlockData(data=envelopes),
        metadata=BlockMetadata(metadata=metadata),
    )


def validation_codes(block: Block) -> bytes:
    """One TxValidationCode a transaction."""
    return block.metadata.metadata[BlockMetadataIndex.TRANSACTIONS_FILTER]
