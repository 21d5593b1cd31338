// The proof bundle checked step by step, ending at the first that does not hold or cannot be told; the same steps as
// ledger/verify.py, which needs no browser.

import { MAX_DEPTH, canonical, strictParse } from "./canonical.js";
import { checkRecord, digestOf, isObject } from "./record.js";
import { concat, hex, same, sha256, unbase64, unhex, utf8 } from "./bytes.js";
import { leafHash, rootOf } from "./merkle.js";
import { knowsEd25519, parseNote, signers, verifyNote } from "./note.js";

/** May be right, and cannot be known here. */
class CannotTell extends Error {}

/** Why nothing can be checked on this page; null where all can. */
export function obstacle() {
  if (globalThis.isSecureContext && globalThis.crypto?.subtle) return null;
  return "Browsers hash and check signatures on HTTPS and localhost only, and this page is on neither.";
}

/**
 * Steps {name, holds, detail, facts} as they are done. `holds` is null where it could not be told; `facts` are
 * [label, value] pairs that were computed. `keys`: verifier keys as note.js reads them, whom the reader trusts.
 */
export async function* verify(raw, keys) {
  const bundle = {};
  for (const [name, check] of plan(bundle, raw, keys)) {
    let step;
    try {
      step = { name, holds: true, facts: [], ...(await check()) };
    } catch (error) {
      step = { name, holds: error instanceof CannotTell ? null : false, detail: error.message, facts: [] };
    }
    yield step;
    if (step.holds !== true) return;
  }
}

function* plan(bundle, raw, keys) {
  yield ["format", () => checkFormat(raw, bundle)];
  yield ["policy", () => checkCited(bundle)];
  yield ["record", () => checkScorecard(bundle)];
  if ("salt" in bundle) {
    yield ["request", () => checkRequest(bundle)];
    yield ["evidence", () => checkEvidence(bundle)];
  }
  if ("raw" in bundle) yield ["raw", () => checkOutputs(bundle)];
  if (bundle.ledger === "fabric") {
    yield ["ledger", () => leaveFabric(bundle)];
    return;
  }
  yield ["checkpoint", () => checkCheckpoint(bundle)];
  yield ["inclusion", () => checkInclusion(bundle)];
  yield ["signature", () => checkSignature(bundle, keys)];
}

const DISCLOSED = ["salt", "request", "evidence"];
const isHash = (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
const FORMS = {
  text: (value) => typeof value === "string",
  "a whole number": (value) => Number.isSafeInteger(value),
  "64 lower-case hexadecimal digits": isHash,
  "a list of 64 lower-case hexadecimal digits each": (value) => Array.isArray(value) && value.every(isHash),
};
const [TEXT, NUMBER, DIGITS, PATH] = Object.keys(FORMS);
const PROOFS = {
  merkle: { origin: TEXT, index: NUMBER, tree_size: NUMBER, path: PATH, checkpoint: TEXT },
  fabric: {
    channel: TEXT, chaincode: TEXT, tx_id: DIGITS, block_number: NUMBER, transaction: TEXT, reading: TEXT,
  },
};
const LATER = ["transaction", "reading"];

async function checkFormat(raw, bundle) {
  const value = strictParse(raw, MAX_DEPTH + 4);
  if (!isObject(value)) throw new Error("the bundle is not a JSON object");
  if (!("schema_version" in value)) throw new Error("no proof bundle: schema_version is missing");
  if (typeof value.schema_version !== "string") throw new Error("schema_version: text");
  if (value.schema_version !== "1")
    throw new CannotTell(`the bundle has format ${value.schema_version.slice(0, 20)}, this page knows 1`);
  const backend = value.ledger;
  if (typeof backend !== "string" || !Object.hasOwn(PROOFS, backend))
    throw new Error(`ledger: one of ${Object.keys(PROOFS).join(", ")}`);
  const disclosed = DISCLOSED.some((name) => name in value) ? [...DISCLOSED] : [];
  if (disclosed.length && "raw" in value) disclosed.push("raw");
  expectKeys(value, ["schema_version", "record", "policy", "ledger", backend, ...disclosed], "");
  for (const name of ["record", backend, ...disclosed.filter((each) => each !== "salt")])
    if (!isObject(value[name])) throw new Error(`${name}: an object`);
  if (value.policy !== null && !isObject(value.policy)) throw new Error("policy: an object or null");
  if (disclosed.length && !isHash(value.salt)) throw new Error(`salt: ${DIGITS}`);
  const fields = PROOFS[backend];
  const proof = value[backend];
  expectKeys(proof, Object.keys(fields).filter((name) => !LATER.includes(name) || name in proof), `${backend}.`);
  for (const [name, form] of Object.entries(fields))
    if (name in proof && !FORMS[form](proof[name])) throw new Error(`${backend}.${name}: ${form}`);
  if (!same(utf8(canonical(value)), raw)) throw new Error("the bundle is not in canonical form (RFC 8785)");
  Object.assign(bundle, value);
  return {
    detail: `a proof bundle of ${raw.length} bytes, in canonical form (RFC 8785)`,
    facts: [["SHA-256 of the bundle", hex(await sha256(raw))]],
  };
}

function expectKeys(value, expected, prefix) {
  for (const name of [...expected].sort()) if (!(name in value)) throw new Error(`${prefix}${name}: missing`);
  for (const name of Object.keys(value).sort())
    if (!expected.includes(name)) throw new Error(`${prefix}${name.slice(0, 80)}: no such field in a bundle`);
}

async function checkCited({ record, policy }) {
  const cited = { scorecard: "policy_digest", policy: "digest" }[record.kind];
  if (cited === undefined) {
    if (policy !== null) throw new Error("policy: null, because the record cites none");
    return { detail: "the record cites no policy" };
  }
  if (policy === null) throw new Error("policy: the one that the record cites");
  const digest = await digestOf(policy);
  if (digest !== record[cited]) throw new Error(`the policy's digest is not the record's ${cited}`);
  return { detail: "the policy is the one that the record cites", facts: [["Policy digest", digest]] };
}

async function checkScorecard({ record, policy }) {
  await checkRecord(record, policy);
  const facts = [["Record digest", await digestOf(record)]];
  if (record.kind !== "scorecard") return { detail: `record ${record.evaluation_id}`, facts };
  const trust = record.trust === null ? "without trust score" : `trust ${record.trust}`;
  return { detail: `${record.evaluation_id} (${trust}, ${record.outcome}) follows from its parts`, facts };
}

const salted = async (salt, content) => hex(await sha256(concat(unhex(salt), utf8(canonical(content)))));

async function checkRequest({ salt, request, record }) {
  const digest = await salted(salt, request);
  if (digest !== record.request_digest) throw new Error("salt and request do not give the record's request_digest");
  return { detail: "the request is the one that the record cites", facts: [["Request digest", digest]] };
}

async function checkEvidence({ salt, evidence, record }) {
  const byKind = Object.create(null);
  for (const [kind, content] of Object.entries(evidence)) byKind[kind] = await salted(salt, content);
  const digest = await digestOf(byKind);
  if (digest !== record.evidence_digest) throw new Error("salt and evidence do not give the record's evidence_digest");
  return { detail: "the evidence is what the record cites", facts: [["Evidence digest", digest]] };
}

async function checkOutputs({ raw, evidence }) {
  const cited = new Set(citedOutputs(evidence));
  for (const [digest, text] of Object.entries(raw)) {
    const output = unbase64(text);
    if (output === null) throw new Error("a raw output is not base64");
    if (hex(await sha256(output)) !== digest) throw new Error("a raw output is not what its name says");
  }
  if (Object.keys(raw).length !== cited.size || Object.keys(raw).some((digest) => !cited.has(digest)))
    throw new Error("the raw outputs are not those that the evidence cites");
  return { detail: `${cited.size} raw outputs as cited` };
}

function* citedOutputs(evidence) {
  for (const [key, value] of Object.entries(evidence)) {
    if (typeof value === "object" && value !== null) yield* citedOutputs(value);
    else if (key === "output_digest" && typeof value === "string") yield value;
  }
}

async function checkCheckpoint({ merkle }) {
  const head = parseNote(merkle.checkpoint);
  if (head.origin !== merkle.origin)
    throw new Error(`the checkpoint is of the log ${head.origin}, the proof of another`);
  if (head.size !== BigInt(merkle.tree_size))
    throw new Error(`the checkpoint is of ${head.size} records, the proof of ${merkle.tree_size}`);
  return { detail: `checkpoint of ${head.origin} at ${head.size} records`, facts: [["Root", hex(head.root)]] };
}

async function checkInclusion({ merkle, record }) {
  const leaf = await leafHash(utf8(canonical(record)));
  const computed = await rootOf(leaf, merkle.index, merkle.tree_size, merkle.path.map(unhex));
  if (!same(computed, parseNote(merkle.checkpoint).root)) throw new Error("the path does not lead to the root");
  return {
    detail: `record number ${merkle.index} of ${merkle.tree_size}, ${merkle.path.length} hashes lead to the root`,
    facts: [["Leaf", hex(leaf)], ...merkle.path.map((hash, n) => [`Path ${n + 1}`, hash]), ["Root", hex(computed)]],
  };
}

async function checkSignature({ merkle }, keys) {
  const note = parseNote(merkle.checkpoint);
  if (!keys.length)
    throw new CannotTell(
      `all else holds, but the log is signed by ${signers(note)}, whom you did not name: paste the log's public key`,
    );
  if (!(await knowsEd25519()))
    throw new CannotTell("all else holds, but this browser cannot check Ed25519 signatures: use glassbox verify");
  const key = await verifyNote(note, keys);
  return { detail: `signed by ${key.label}, the key you gave` };
}

function leaveFabric({ fabric }) {
  throw new CannotTell(
    `policy, arithmetic and digests hold; the endorsements of transaction ${fabric.tx_id.slice(0, 12)}… on channel ` +
      `${fabric.channel} need Fabric's message types, which this page has not: use glassbox verify`,
  );
}
