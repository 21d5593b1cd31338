"""RFC 6962 reference vectors of certificate-transparency, then properties over random trees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import merkle

# Leaves, roots and proofs of the certificate-transparency reference tests (merkle_tree_test.cc).
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
PATHS = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}


class Tree:
    """A log's stored nodes, grown one leaf at a time; `fetched` counts what a call needed."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.leaves: list[bytes] = []
        self.nodes: dict[merkle.Node, bytes] = {}
        self.fetched = 0
        for data in leaves:
            self.append(data)

    def fetch(self, level: int, index: int) -> bytes:
        self.fetched += 1
        return self.nodes[level, index]

    def append(self, data: bytes) -> None:
        leaf = merkle.leaf_hash(data)
        self.nodes.update(merkle.completed(len(self.leaves), leaf, self.fetch))
        self.leaves.append(leaf)

    def root(self, size: int) -> bytes:
        return merkle.tree_root(size, self.fetch)


def numbered(size: int) -> Tree:
    return Tree([index.to_bytes(4, "big") for index in range(size)])


def flip(value: bytes, bit: int) -> bytes:
    bit %= len(value) * 8
    return value[: bit // 8] + bytes([value[bit // 8] ^ 1 << bit % 8]) + value[bit // 8 + 1 :]


REFERENCE = Tree(LEAVES)
sizes = st.integers(1, 70)


@pytest.mark.parametrize("size", range(1, 9))
def test_reference_roots(size: int) -> None:
    assert REFERENCE.root(size).hex() == ROOTS[size - 1]
    assert merkle.root(REFERENCE.leaves[:size]).hex() == ROOTS[size - 1]


def test_empty_root_is_the_hash_of_nothing() -> None:
    assert merkle.tree_root(0, REFERENCE.fetch) == merkle.root([]) == merkle.EMPTY_ROOT
    assert merkle.EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(("index", "size"), PATHS)
def test_reference_inclusion_paths(index: int, size: int) -> None:
    path = merkle.inclusion_path(index, size, REFERENCE.fetch)
    assert [value.hex() for value in path] == PATHS[index, size]


@pytest.mark.parametrize(("first", "second"), CONSISTENCY)
def test_reference_consistency_proofs(first: int, second: int) -> None:
    path = merkle.consistency_path(first, second, REFERENCE.fetch)
    assert [value.hex() for value in path] == CONSISTENCY[first, second]


@given(st.lists(st.binary(max_size=40), max_size=70))
def test_growing_gives_the_root_of_the_definition_at_every_size(leaves: list[bytes]) -> None:
    tree = Tree(leaves)
    for size in range(len(leaves) + 1):
        assert tree.root(size) == merkle.root(tree.leaves[:size])


@given(sizes)
def test_every_inclusion_proof_verifies(size: int) -> None:
    tree = numbered(size)
    for index in range(size):
        path = merkle.inclusion_path(index, size, tree.fetch)
        merkle.verify_inclusion(tree.leaves[index], index, size, path, tree.root(size))


@given(sizes)
def test_every_consistency_proof_verifies(size: int) -> None:
    tree = numbered(size)
    for first in range(size + 1):
        path = merkle.consistency_path(first, size, tree.fetch)
        merkle.verify_consistency(first, size, path, tree.root(first), tree.root(size))


@given(sizes, st.data())
def test_any_flipped_bit_breaks_an_inclusion_proof(size: int, data: st.DataObject) -> None:
    tree = numbered(size)
    index = data.draw(st.integers(0, size - 1))
    path = merkle.inclusion_path(index, size, tree.fetch)
    parts = [tree.leaves[index], tree.root(size), *path]
    broken = data.draw(st.integers(0, len(parts) - 1))
    parts[broken] = flip(parts[broken], data.draw(st.integers(0, 255)))
    with pytest.raises(merkle.ProofError):
        merkle.verify_inclusion(parts[0], index, size, parts[2:], parts[1])


@given(st.integers(2, 70), st.data())
def test_any_flipped_bit_breaks_a_consistency_proof(size: int, data: st.DataObject) -> None:
    tree = numbered(size)
    first = data.draw(st.integers(1, size - 1))
    path = merkle.consistency_path(first, size, tree.fetch)
    parts = [tree.root(first), tree.root(size), *path]
    broken = data.draw(st.integers(0, len(parts) - 1))
    parts[broken] = flip(parts[broken], data.draw(st.integers(0, 255)))
    with pytest.raises(merkle.ProofError):
        merkle.verify_consistency(first, size, parts[2:], parts[0], parts[1])


@given(sizes, st.data())
def test_a_proof_holds_for_its_own_leaf_number_only(size: int, data: st.DataObject) -> None:
    tree = numbered(size)
    index = data.draw(st.integers(0, size - 1))
    path = merkle.inclusion_path(index, size, tree.fetch)
    for other in set(range(-1, size + 2)) - {index}:
        with pytest.raises(merkle.ProofError):
            merkle.verify_inclusion(tree.leaves[index], other, size, path, tree.root(size))


@given(sizes, st.data())
def test_a_longer_or_shorter_path_fails(size: int, data: st.DataObject) -> None:
    tree = numbered(size)
    index = data.draw(st.integers(0, size - 1))
    path = merkle.inclusion_path(index, size, tree.fetch)
    root = tree.root(size)
    for wrong in [[*path, root], path[:-1]]:
        if wrong != path:
            with pytest.raises(merkle.ProofError):
                merkle.verify_inclusion(tree.leaves[index], index, size, wrong, root)


@given(st.integers(2, 70), st.data())
def test_a_longer_or_shorter_consistency_proof_fails(size: int, data: st.DataObject) -> None:
    tree = numbered(size)
    first = data.draw(st.integers(0, size))
    path = merkle.consistency_path(first, size, tree.fetch)
    for wrong in [[*path, tree.root(size)], path[:-1]]:
        if wrong != path:
            with pytest.raises(merkle.ProofError):
                merkle.verify_consistency(first, size, wrong, tree.root(first), tree.root(size))


def test_trees_of_one_size_with_two_roots_are_a_split_view() -> None:
    tree = numbered(5)
    with pytest.raises(merkle.ProofError, match="different roots"):
        merkle.verify_consistency(5, 5, [], tree.root(5), tree.root(4))
    with pytest.raises(merkle.ProofError, match="cannot extend"):
        merkle.verify_consistency(5, 4, [], tree.root(5), tree.root(4))
    with pytest.raises(merkle.ProofError, match="empty tree"):
        merkle.verify_consistency(0, 4, [], tree.root(1), tree.root(4))


def test_hashes_of_another_length_are_refused() -> None:
    with pytest.raises(merkle.ProofError, match="32 bytes"):
        merkle.verify_inclusion(b"short", 0, 1, [], b"short")


def test_asking_for_an_impossible_proof_is_an_error() -> None:
    with pytest.raises(ValueError, match="leaf 3 is not in a tree of 3"):
        merkle.inclusion_path(3, 3, REFERENCE.fetch)
    with pytest.raises(ValueError, match="cannot extend"):
        merkle.consistency_path(4, 3, REFERENCE.fetch)


def test_work_grows_with_the_height_of_the_tree_only() -> None:
    size = 5_000
    tree = numbered(size)
    assert tree.fetched < size
    for call in (
        lambda: tree.root(size),
        lambda: merkle.inclusion_path(size // 3, size, tree.fetch),
        lambda: merkle.consistency_path(size // 3, size, tree.fetch),
    ):
        tree.fetched = 0
        call()
        assert tree.fetched <= 2 * size.bit_length()
