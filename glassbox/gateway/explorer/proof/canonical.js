// Canonical bytes (RFC 8785) and the strict reading of JSON; the same rules as glassbox/contract/canonical.py, held to
// them by the golden vectors.

export const MAX_DEPTH = 32;

/** Bytes or a value that have no canonical form; `field` is a path such as `chunk_scores[2]`, or "". */
export class CanonicalError extends Error {
  constructor(reason, field = "") {
    super(field ? `${field}: ${reason}` : reason);
    this.reason = reason;
    this.field = field;
  }
}

/** The canonical text of a JSON value; its UTF-8 form are the canonical bytes. */
export function canonical(value) {
  return written(value, "");
}

export function inner(path, key) {
  return path ? `${path}.${key}` : key;
}

function written(value, path) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quoted(value, path);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new CanonicalError("a number that is not finite", path);
    return JSON.stringify(value); // RFC 8785 §3.2.2.3 is ECMAScript's own form
  }
  if (Array.isArray(value)) return `[${value.map((item, n) => written(item, `${path}[${n}]`)).join(",")}]`;
  const keys = Object.keys(value).sort(); // by UTF-16 code units, as RFC 8785 §3.2.3 asks
  return `{${keys.map((key) => `${quoted(key, path)}:${written(value[key], inner(path, key))}`).join(",")}}`;
}

function quoted(text, path) {
  checkSurrogates(text, path);
  return JSON.stringify(text);
}

function checkSurrogates(text, path) {
  if (/\p{Surrogate}/u.test(text)) throw new CanonicalError("lone surrogate", path);
}

/** Parse UTF-8 JSON, refusing what parsers disagree on. Throws CanonicalError. */
export function strictParse(bytes, maxDepth = MAX_DEPTH) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new CanonicalError("not UTF-8");
  }
  return new Reader(text, maxDepth).whole();
}

const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const WORD = /true|false|null|NaN|-?Infinity/y;

class Reader {
  constructor(text, maxDepth) {
    this.text = text;
    this.maxDepth = maxDepth;
    this.at = 0;
  }

  whole() {
    const value = this.value("", 0);
    this.take(SPACE);
    if (this.at < this.text.length) this.fail();
    return value;
  }

  fail() {
    throw new CanonicalError(`not JSON: at character ${this.at}`);
  }

  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at += found[0].length;
    return found;
  }

  next(char) {
    this.take(SPACE);
    if (this.text[this.at] !== char) return false;
    this.at += 1;
    return true;
  }

  value(path, depth) {
    if (this.next("{")) return this.members(path, depth);
    if (this.next("[")) return this.items(path, depth);
    if (this.text[this.at] === '"') return this.string(path);
    const word = this.take(WORD);
    if (word) {
      if (word[0] in WORDS) return WORDS[word[0]];
      throw new CanonicalError("a number that is not finite", path);
    }
    return this.number(path);
  }

  members(path, depth) {
    this.enter(path, depth);
    const made = Object.create(null); // so that a key named __proto__ is a key
    if (this.next("}")) return made;
    do {
      this.take(SPACE);
      const key = this.string(path);
      if (Object.hasOwn(made, key)) throw new CanonicalError("duplicated key", inner(path, key));
      if (!this.next(":")) this.fail();
      made[key] = this.value(inner(path, key), depth + 1);
    } while (this.next(","));
    if (!this.next("}")) this.fail();
    return made;
  }

  items(path, depth) {
    this.enter(path, depth);
    const made = [];
    if (this.next("]")) return made;
    do made.push(this.value(`${path}[${made.length}]`, depth + 1));
    while (this.next(","));
    if (!this.next("]")) this.fail();
    return made;
  }

  enter(path, depth) {
    if (depth === this.maxDepth) throw new CanonicalError(`nested deeper than ${this.maxDepth} levels`, path);
  }

  string(path) {
    const found = this.take(STRING);
    if (!found) this.fail();
    const text = JSON.parse(found[0]);
    if (text.includes("\0")) throw new CanonicalError("NUL character", path);
    checkSurrogates(text, path);
    return text;
  }

  number(path) {
    const found = this.take(NUMBER);
    if (!found) this.fail();
    const value = Number(found[0]);
    if (!Number.isFinite(value)) throw new CanonicalError("a number that is not finite", path);
    const whole = found[1] === undefined && found[2] === undefined;
    if (whole && !Number.isSafeInteger(value) && JSON.stringify(value) !== found[0])
      throw new CanonicalError("integer beyond 2^53 - 1", path);
    return value;
  }
}

const WORDS = { true: true, false: false, null: null };
