"""Merkle tree of RFC 6962: hashes, inclusion paths and consistency proofs, without any I/O.

Every hash is 32 raw bytes (SHA-256). Leaves are numbered from 0. A *node* is a complete subtree, named
(level, index): it covers the leaves [index << level, (index + 1) << level). A complete subtree never changes
once its last leaf is there, so a log stores each node once and needs O(log n) of them to append, to tell its
root or to prove anything; `Fetch` is how this module asks for one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

Node = tuple[int, int]
Fetch = Callable[[int, int], bytes]

HASH_SIZE = 32
EMPTY_ROOT = sha256(b"").digest()


class ProofError(ValueError):
    """A proof does not prove what it is said to; the message says where it breaks."""


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 || data), RFC 6962 section 2.1."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right), RFC 6962 section 2.1."""
    return sha256(b"\x01" + left + right).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """Merkle tree hash of leaf hashes, computed from the definition (RFC 6962 section 2.1). O(n)."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = _split(len(leaves))
    return node_hash(root(leaves[:split]), root(leaves[split:]))


def completed(index: int, leaf: bytes, fetch: Fetch) -> Iterator[tuple[Node, bytes]]:
    """The nodes that become complete when `leaf` (a leaf hash) is appended as number `index`, lowest first.

    `fetch` is asked only for nodes completed by earlier leaves. Amortised two nodes a leaf.
    """
    level, value = 0, leaf
    yield (level, index), value
    while index & 1:
        value = node_hash(fetch(level, index - 1), value)
        level, index = level + 1, index >> 1
        yield (level, index), value


def tree_root(size: int, fetch: Fetch) -> bytes:
    """Root of the tree of the first `size` leaves, from O(log size) stored nodes."""
    return _range(0, size, fetch) if size else EMPTY_ROOT


def inclusion_path(index: int, size: int, fetch: Fetch) -> list[bytes]:
    """Audit path of leaf `index` in the tree of the first `size` leaves, RFC 6962 section 2.1.1."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    path: list[bytes] = []
    begin, end = 0, size
    while end - begin > 1:
        split = begin + _split(end - begin)
        if index < split:
            path.append(_range(split, end, fetch))
            end = split
        else:
            path.append(_range(begin, split, fetch))
            begin = split
    path.reverse()
    return path


def consistency_path(first: int, second: int, fetch: Fetch) -> list[bytes]:
    """Proof that the tree of `second` leaves extends the tree of `first`, RFC 6962 section 2.1.2.

    Empty when the sizes are equal or `first` is 0 (every tree extends the empty one).
    """
    if not 0 <= first <= second:
        raise ValueError(f"a tree of {second} cannot extend a tree of {first}")
    if first in (0, second):
        return []
    path: list[bytes] = []
    begin, end = 0, second
    whole = True  # the subtree [begin, first) is the old tree itself, whose root the verifier already has
    while end != first:
        split = begin + _split(end - begin)
        if first <= split:
            path.append(_range(split, end, fetch))
            end = split
        else:
            path.append(_range(begin, split, fetch))
            begin, whole = split, False
    if not whole:
        path.append(_range(begin, end, fetch))
    path.reverse()
    return path


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], expected_root: bytes) -> None:
    """Check that the leaf hash `leaf` is number `index` of the tree with `size` leaves and that root.

    RFC 9162 section 2.1.3.2. Raises ProofError.
    """
    if not 0 <= index < size:
        raise ProofError(f"leaf {index} cannot be in a tree of {size}")
    _check_lengths([leaf, expected_root, *path])
    fn, sn, value = index, size - 1, leaf
    for sibling in path:
        if sn == 0:
            raise ProofError("the path is longer than the tree is high")
        if fn & 1 or fn == sn:
            value = node_hash(sibling, value)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            value = node_hash(value, sibling)
        fn, sn = fn >> 1, sn >> 1
    if sn:
        raise ProofError("the path is shorter than the tree is high")
    if value != expected_root:
        raise ProofError("the path does not lead to the root")


def verify_consistency(first: int, second: int, path: Sequence[bytes], first_root: bytes, second_root: bytes) -> None:
    """Check that the tree (`second`, `second_root`) extends the tree (`first`, `first_root`).

    RFC 9162 section 2.1.4.2. Raises ProofError.
    """
    if not 0 <= first <= second:
        raise ProofError(f"a tree of {second} cannot extend a tree of {first}")
    _check_lengths([first_root, second_root, *path])
    if first in (0, second):
        if path:
            raise ProofError("the proof should be empty")
        if first == 0 and first_root != EMPTY_ROOT:
            raise ProofError("the first root is not that of an empty tree")
        if first == second and first_root != second_root:
            raise ProofError("trees of the same size have different roots")
        return
    nodes = list(path)
    if not first & (first - 1):  # the old tree is one complete subtree: its root is where the walk begins
        nodes.insert(0, first_root)
    if not nodes:
        raise ProofError("the proof is empty")
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old = new = nodes[0]
    for sibling in nodes[1:]:
        if sn == 0:
            raise ProofError("the proof is longer than the tree is high")
        if fn & 1 or fn == sn:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = node_hash(new, sibling)
        fn, sn = fn >> 1, sn >> 1
    if sn:
        raise ProofError("the proof is shorter than the tree is high")
    if old != first_root:
        raise ProofError("the proof does not lead to the first root")
    if new != second_root:
        raise ProofError("the proof does not lead to the second root")


def _range(begin: int, end: int, fetch: Fetch) -> bytes:
    """Tree hash of the leaves [begin, end), where begin is a multiple of the largest power of two below."""
    size = end - begin
    if not size & (size - 1):
        level = size.bit_length() - 1
        return fetch(level, begin >> level)
    split = begin + _split(size)
    return node_hash(_range(begin, split, fetch), _range(split, end, fetch))


def _split(size: int) -> int:
    """The largest power of two smaller than `size` (which is at least 2)."""
    return 1 << (size - 1).bit_length() - 1


def _check_lengths(hashes: Iterable[bytes]) -> None:
    if any(len(value) != HASH_SIZE for value in hashes):
        raise ProofError(f"a hash is not {HASH_SIZE} bytes long")
