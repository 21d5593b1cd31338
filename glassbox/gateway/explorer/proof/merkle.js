// Inclusion in the Merkle tree of RFC 6962, checked as RFC 9162 §2.1.3.2 has it; the same as ledger/merkle.py.

import { concat, same, sha256 } from "./bytes.js";

const PREFIX = { leaf: Uint8Array.of(0), node: Uint8Array.of(1) };

export const leafHash = (data) => sha256(concat(PREFIX.leaf, data));

const nodeHash = (left, right) => sha256(concat(PREFIX.node, left, right));

/** The root that the path leads to from leaf number `index` of `size`. Throws where the path does not fit the tree. */
export async function rootOf(leaf, index, size, path) {
  if (!(0 <= index && index < size)) throw new Error(`leaf ${index} cannot be in a tree of ${size}`);
  let [fn, sn, value] = [BigInt(index), BigInt(size) - 1n, leaf];
  for (const sibling of path) {
    if (sn === 0n) throw new Error("the path is longer than the tree is high");
    if (fn & 1n || fn === sn) {
      value = await nodeHash(sibling, value);
      while (!(fn & 1n) && fn) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else {
      value = await nodeHash(value, sibling);
    }
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  if (sn) throw new Error("the path is shorter than the tree is high");
  return value;
}

export async function verifyInclusion(leaf, index, size, path, root) {
  if (!same(await rootOf(leaf, index, size, path), root)) throw new Error("the path does not lead to the root");
}
