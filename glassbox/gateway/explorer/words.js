// What codes and figures are called.

import { h } from "./dom.js";

/** Word and sign of each outcome: colour is never the only difference. */
export const OUTCOMES = {
  pass: ["Pass", "✓"],
  review: ["Review", "!"],
  fail: ["Fail", "✕"],
  incomplete: ["Incomplete", "?"],
};
export const VERDICTS = {
  supported: ["supported", "✓"],
  unsupported: ["not supported", "✕"],
  undecided: ["could not tell", "?"],
};
const STATES = {
  accepted: "accepted, not judged yet",
  judging: "being judged",
  scored: "scored, not on the ledger yet",
  committed: "on the ledger",
  dead_letter: "ended without a record",
};
/** Codes of a record's reasons in words, what weighs most first. `parts` is a list of names. */
const REASONS = {
  veto: (parts, many) => `${parts} missed ${many ? "their targets" : "its target"}, which the policy makes a veto`,
  below_threshold: () => "trust is below the threshold",
  beyond_reach: () => "trust stays below it even at its upper bound",
  failed: (parts) => `${parts} could not be judged`,
  no_scored_part: () => "nothing of it could be scored",
  low_coverage: () => "too little of it could be scored",
  abstained: () => "the answer abstains",
  review: (parts, many) => `${parts} missed ${many ? "their targets" : "its target"}, so a person should look`,
};

export const plain = (code) => code.replaceAll("_", " ");
export const stateWord = (state) => STATES[state] ?? plain(state);

/** The reasons of a record, each `CODE` or `CODE:part`, in words. */
export function because(reasons) {
  const named = new Map();
  for (const [code, part] of reasons.map((each) => each.split(":")))
    named.set(code, [...(named.get(code) ?? []), ...(part ? [plain(part)] : [])]);
  const order = [...Object.keys(REASONS).filter((code) => named.has(code)), ...[...named.keys()].filter((code) => !(code in REASONS))];
  return order.map((code) => REASONS[code]?.(named.get(code).join(", "), named.get(code).length > 1) ?? plain(code)).join("; ");
}

/** A figure of 6 places to as many as are read at a glance; the whole stands in a title. */
export const short = (figure, places = 2) => (figure === null ? "–" : Number(figure).toFixed(places));

export const modelName = (model) => (model === null ? null : [model.provider, model.name].filter(Boolean).join(" / "));

export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

const UNITS = [
  [60, "s"],
  [60, "min"],
  [24, "h"],
  [365, "d"],
  [Infinity, "y"],
];

/** How long ago, in one unit. */
export function age(at, now = Date.now()) {
  let value = Math.max(0, (now - Date.parse(at)) / 1000);
  for (const [size, unit] of UNITS) {
    if (value < size) return `${Math.floor(value)} ${unit}`;
    value /= size;
  }
  return "";
}

/** A time as its age; all ages on the page grow by themselves. */
export const ageOf = (at) => h("time", { datetime: at, title: moment(at), class: "age" }, age(at));

setInterval(() => {
  for (const time of document.querySelectorAll("time.age")) {
    const now = age(time.dateTime);
    if (time.textContent !== now) time.textContent = now;
  }
}, 15_000);

/** A time to the second, in UTC, as records have it. */
export const moment = (at) => `${at.slice(0, 10)} ${at.slice(11, 19)} UTC`;
