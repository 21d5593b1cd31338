// Signed checkpoints (c2sp.org/tlog-checkpoint in c2sp.org/signed-note) and the keys that sign them; the same rules as
// ledger/checkpoint.py.

import { concat, hex, sha256, unbase64, utf8 } from "./bytes.js";

const ED25519 = 1;
const MAX_NOTE = 64 * 1024;

/** Read a verifier key `NAME+HASH+BASE64`. Throws a sentence where it is none, or damaged. */
export async function parseKey(text) {
  const [name, hash, ...rest] = text.trim().split("+");
  const data = unbase64(rest.join("+"));
  if (!name || data === null || data.length !== 33)
    throw new Error("A key has the form NAME+HASH+BASE64, with 33 bytes in the last.");
  if (data[0] !== ED25519)
    throw new Error(`The key of ${name} is of type ${data[0]}: only Ed25519 (1) is known here.`);
  const key = { name, id: await keyId(name, data), bytes: data.slice(1) };
  if (key.id !== hash) throw new Error(`The key of ${name} is damaged: its hash does not match.`);
  return { ...key, label: `${name}+${key.id}` };
}

const keyId = async (name, data) => hex((await sha256(concat(utf8(`${name}\n`), data))).subarray(0, 4));

/** Read a signed checkpoint; says nothing about who may have signed it. */
export function parseNote(note) {
  if (note.length > MAX_NOTE) throw new Error(`the checkpoint is longer than ${MAX_NOTE} characters`);
  if (/[\u0000-\u0009\u000b-\u001f]/.test(note)) throw new Error("the checkpoint has control characters");
  const blank = note.lastIndexOf("\n\n");
  const tail = note.slice(blank + 2);
  if (blank < 0 || !tail.endsWith("\n")) throw new Error("the checkpoint has no signature lines");
  const text = note.slice(0, blank + 1);
  const lines = text.split("\n").slice(0, -1);
  if (lines.length < 3) throw new Error("the checkpoint has fewer than three lines");
  const [origin, size, encoded, ...extensions] = lines;
  if (!origin) throw new Error("the checkpoint names no log");
  if (!/^(0|[1-9][0-9]{0,18})$/.test(size)) throw new Error("the checkpoint's tree size is not a decimal number");
  if (extensions.includes("")) throw new Error("the checkpoint has an empty line");
  const root = unbase64(encoded);
  if (root === null || root.length !== 32) throw new Error("the checkpoint's root is not the base64 of 32 bytes");
  const signatures = tail.split("\n").slice(0, -1).map(parseSignature);
  return { origin, size: BigInt(size), root, text, signatures };
}

function parseSignature(line) {
  const [, name, encoded] = /^— ([^ ]+) (.*)$/.exec(line) ?? [];
  const data = name ? unbase64(encoded) : null;
  if (data === null || data.length < 5) throw new Error("the checkpoint has a malformed signature line");
  const id = hex(data.subarray(0, 4));
  return { name, id, signer: `${name}+${id}`, value: data.subarray(4) };
}

/** Whether this browser can check Ed25519 signatures. */
export async function knowsEd25519() {
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32), "Ed25519", false, ["verify"]);
    return true;
  } catch {
    return false;
  }
}

/** Check the signatures of a note by one of `keys`; gives the key. Throws where none signed, or one is wrong. */
export async function verifyNote(note, keys) {
  const signed = [];
  for (const signature of note.signatures) {
    const key = keys.find(({ name, id }) => name === signature.name && id === signature.id);
    if (!key) continue;
    const imported = await crypto.subtle.importKey("raw", key.bytes, "Ed25519", false, ["verify"]);
    if (!(await crypto.subtle.verify("Ed25519", imported, signature.value, utf8(note.text))))
      throw new Error(`the signature of ${key.label} does not verify`);
    if (key.name !== note.origin) throw new Error(`the key ${key.label} is not that of the log ${note.origin}`);
    signed.push(key);
  }
  if (!signed.length) throw new Error(`signed by ${signers(note)}, not by the key given`);
  return signed[0];
}

export const signers = (note) => note.signatures.map(({ signer }) => signer).join(", ");
