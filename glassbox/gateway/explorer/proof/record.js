// Record v1 and every rule it must keep; the same rules as glassbox/contract/record.py, held to them by the golden
// vectors.

import { CanonicalError, canonical, inner } from "./canonical.js";
import { compose } from "./composite.js";
import { hex, sha256, utf8 } from "./bytes.js";

/** A record that breaks a rule; `field` is a path such as `parts[3].score`. */
export class RecordError extends Error {
  constructor(field, rule) {
    super(`${field}: ${rule}`);
    this.field = field;
  }
}

/** SHA-256 of the canonical bytes of a record, a policy or {worker kind: digest}; hexadecimal. */
export async function digestOf(value) {
  return hex(await sha256(utf8(canonical(value))));
}

/** Throws RecordError unless the record is whole and all it says follows from its parts under the policy. */
export async function checkRecord(record, policy) {
  checkShape(record);
  if (record.kind !== "scorecard") return;
  if (policy === null || policy === undefined)
    throw new RecordError("policy_digest", "the digest of the policy at hand, and there is none");
  checkPolicy(policy);
  if (record.policy_digest !== (await digestOf(policy)))
    throw new RecordError("policy_digest", "the digest of the policy at hand");
  checkArithmetic(record, policy);
}

export function checkShape(record) {
  if (!isObject(record)) throw new RecordError("record", "an object");
  const kinds = ["scorecard", "run", "review", "policy"];
  if (!kinds.includes(record.kind)) throw new RecordError("kind", `one of ${kinds.join(", ")}`);
  shape(record, record.kind === "scorecard" ? SCORECARD : REFERENCE, "");
  if (record.kind !== "scorecard") {
    if (record.evaluation_id !== `${record.kind}:${record.digest}`)
      throw new RecordError("evaluation_id", `\`${record.kind}:\` followed by the digest`);
    ofAnother(record, "refers_to");
    return;
  }
  if (/^(run|review|policy):/.test(record.evaluation_id))
    throw new RecordError("evaluation_id", "not beginning run:, review:, policy:");
  sorted(record.parts, (row) => `${row.judge}\0${row.part}`, "parts", "sorted by judge, part, each once");
  sorted(record.judges, (row) => row.judge, "judges", "sorted by judge, each once");
  for (const name of ["reasons", "missed_targets"])
    sorted(record[name], (code) => code, name, "sorted, each once");
  ofAnother(record, "supersedes");
}

/** Throws RecordError unless the arithmetic can be done by a policy that nobody vouches for. */
export function checkPolicy(policy) {
  if (!isObject(policy)) throw new RecordError("policy", "an object");
  for (const [name, check] of Object.entries(POLICY)) {
    if (!Object.hasOwn(policy, name)) throw new RecordError(`policy.${name}`, "present");
    check(policy[name], `policy.${name}`);
  }
  const parts = Object.values(policy.judges).flatMap((judge) => Object.keys(judge.parts));
  if (parts.length !== new Set(parts).size) throw new RecordError("policy.judges", "each part named once");
  try {
    canonical(policy);
  } catch (error) {
    if (error instanceof CanonicalError) throw new RecordError("policy", error.reason);
    throw error;
  }
}

function checkArithmetic(record, policy) {
  let want;
  try {
    want = compose(record.parts, policy);
  } catch (error) {
    throw new RecordError("parts", `the enabled parts of the policy (${error.message})`);
  }
  record.parts.forEach((row, n) => {
    for (const [key, wanted] of Object.entries(want.parts.get(row.part)))
      if (row[key] !== wanted) throw new RecordError(`parts[${n}].${key}`, `${wanted} by the policy, not ${row[key]}`);
  });
  for (const [key, wanted] of Object.entries(want)) {
    if (key === "parts") continue;
    const [should, is] = [canonical(wanted), canonical(record[key])];
    if (should !== is) throw new RecordError(key, `${should} by arithmetic, not ${is}`);
  }
}

function ofAnother(record, name) {
  if (record[name] === record.evaluation_id) throw new RecordError(name, "another record");
}

function sorted(rows, key, name, rule) {
  const keys = rows.map(key);
  if (keys.some((each, n) => n && !(keys[n - 1] < each))) throw new RecordError(name, rule);
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const matches = (pattern, rule) => (value, path) => {
  if (typeof value !== "string" || !pattern.test(value)) throw new RecordError(path, rule);
};
const oneOf = (...values) => (value, path) => {
  if (!values.includes(value)) throw new RecordError(path, `one of ${values.join(", ")}`);
};
const orNull = (check) => (value, path) => {
  if (value !== null) check(value, path);
};
const each = (check) => (value, path) => {
  if (!Array.isArray(value)) throw new RecordError(path, "a list");
  value.forEach((item, n) => check(item, `${path}[${n}]`));
};
const object = (fields) => (value, path) => {
  if (!isObject(value)) throw new RecordError(path, "an object");
  shape(value, fields, `${path}.`);
};
/** An object of objects, each with at least these fields. */
const table = (fields) => (value, path) => {
  if (!isObject(value)) throw new RecordError(path, "an object");
  for (const [key, row] of Object.entries(value)) {
    code(key, path);
    if (!isObject(row)) throw new RecordError(inner(path, key), "an object");
    for (const [name, check] of Object.entries(fields)) {
      if (!Object.hasOwn(row, name)) throw new RecordError(`${path}.${key}.${name}`, "present");
      check(row[name], `${path}.${key}.${name}`);
    }
  }
};

function shape(value, fields, prefix) {
  for (const name of Object.keys(fields))
    if (!Object.hasOwn(value, name))
      throw new RecordError(`${prefix}${name}`, "present (null where there is nothing)");
  for (const name of Object.keys(value).sort())
    if (!Object.hasOwn(fields, name))
      throw new RecordError(`${prefix}${name.slice(0, 80)}`, "no such field in Record v1");
  for (const [name, check] of Object.entries(fields)) check(value[name], `${prefix}${name}`);
}

const code = matches(/^[a-z][a-z0-9_]{0,63}$/, "a code of lower-case letters, digits and _");
const digest = matches(/^[0-9a-f]{64}$/, "64 lower-case hexadecimal digits");
const figure = matches(
  /^(0\.[0-9]{6}|1\.000000)$/,
  "a decimal string from 0.000000 to 1.000000 with 6 places",
);
const weight = matches(
  /^[0-9]{1,4}\.[0-9]{6}$/,
  "a decimal string from 0.000000 to 9999.999999 with 6 places",
);
const id = matches(/^[A-Za-z0-9._:-]{1,128}$/, "1 to 128 of A-Z a-z 0-9 . _ : -");
const version = oneOf("1");

function time(value, path) {
  const form = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z$/;
  matches(form, "RFC 3339 UTC with milliseconds, such as 2026-01-31T09:30:00.000Z")(value, path);
  const read = new Date(value);
  if (Number.isNaN(read.getTime()) || read.toISOString() !== value || value.startsWith("0000"))
    throw new RecordError(path, "a time that exists");
}

function text(value, path) {
  const length = typeof value === "string" ? [...value].length : 0;
  if (length < 1 || length > 256) throw new RecordError(path, "text of 1 to 256 characters");
  try {
    canonical(value);
  } catch (error) {
    throw new RecordError(path, error.reason);
  }
}

function part(value, path) {
  object(PART)(value, path);
  const scored = value.state === "scored";
  for (const name of ["score", "low", "high"])
    if ((value[name] !== null) !== scored)
      throw new RecordError(`${path}.${name}`, "a figure exactly where the part is scored");
  if (scored && !(value.low <= value.score && value.score <= value.high))
    throw new RecordError(`${path}.low`, "low <= score <= high");
  if ((value.cause === null) !== scored)
    throw new RecordError(`${path}.cause`, "a code exactly where the part is not scored");
}

const POLICY = {
  threshold: figure,
  min_coverage: figure,
  abstention: oneOf("incomplete", "ignore"),
  vetoes: each(code),
  review_on: each(code),
  judges: table({
    enabled: oneOf(true, false),
    weight,
    parts: table({ enabled: oneOf(true, false), weight, target: orNull(figure) }),
  }),
};
const PART = {
  judge: code,
  part: code,
  state: oneOf("scored", "not_applicable", "failed"),
  score: orNull(figure),
  low: orNull(figure),
  high: orNull(figure),
  cause: orNull(code),
  meets_target: oneOf(true, false, null),
  method_digest: orNull(digest),
};
const SCORECARD = {
  kind: oneOf("scorecard"),
  schema_version: version,
  evaluation_id: id,
  request_digest: digest,
  evidence_digest: digest,
  session: orNull(digest),
  policy_digest: digest,
  model: orNull(object({ provider: text, name: text })),
  requested_at: time,
  closed_at: time,
  parts: each(part),
  judges: each(object({ judge: code, score: orNull(figure), coverage: figure })),
  trust: orNull(figure),
  trust_low: orNull(figure),
  trust_high: orNull(figure),
  coverage: figure,
  outcome: oneOf("pass", "review", "fail", "incomplete"),
  reasons: each(matches(/^[a-z][a-z0-9_]{0,63}(:[a-z][a-z0-9_]{0,63})?$/, "CODE or CODE:part")),
  missed_targets: each(code),
  supersedes: orNull(id),
};
const REFERENCE = {
  kind: oneOf("run", "review", "policy"),
  schema_version: version,
  evaluation_id: id,
  digest,
  refers_to: orNull(id),
  created_at: time,
};
