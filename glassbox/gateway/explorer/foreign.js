// Texts of models and users: each isolated from the direction of what is around it, and with every character that is
// not seen, or changes what is seen, shown as a mark.

import { h } from "./dom.js";

// Number signs of Arabic, Syriac and Kaithi: of the format characters, those that are seen.
const SEEN = "\\u0600-\\u0605\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u{110bd}\\u{110cd}";
// Blank without being a space or a format character: in Braille, music, Khitan and hieroglyphs.
const BLANK = "\\u2800\\u{1d159}\\u{16fe4}\\u{13441}\\u{13442}";
const EMOJI = "\\p{Extended_Pictographic}";
const JOINED = [
  `${EMOJI}\\p{Emoji_Modifier}\\p{Script=Arabic}\\p{Script=Devanagari}\\p{Script=Bengali}\\p{Script=Malayalam}`,
  "\\p{Script=Sinhala}\\p{Script=Tamil}\\p{Script=Telugu}\\p{Script=Kannada}\\p{Mn}",
].join("");
const IGNORED = "\\p{Default_Ignorable_Code_Point}";
// A joiner stays where scripts and emoji need it, one variation selector behind an emoji or inside a keycap.
const HIDDEN = new RegExp(
  [
    `(?![\\t\\n\\u200c\\u200d\\ufe0e\\ufe0f${SEEN}])[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}${IGNORED}\\ufffc${BLANK}]`,
    `(?<!${EMOJI}\\ufe0f|(?!${IGNORED})[${JOINED}])[\\u200c\\u200d]`,
    `(?<!${EMOJI}|[0-9#*](?=\\ufe0f\\u20e3))[\\ufe0e\\ufe0f]`,
  ].join("|"),
  "gu",
);
const LINE_END = /\r\n/g;
const MOST_MARKS = 300;
const NAMES = {
  0x00ad: "soft hyphen",
  0x200b: "zero-width space",
  0x200c: "zero-width non-joiner",
  0x200d: "zero-width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "end of embedding",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2060: "word joiner",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "end of isolate",
  0xfeff: "byte order mark",
};

/** Nodes for a text. `budget.marks`: how many marks may still be elements; beyond, they are written into the text, so
 * that a million of them do not become a million elements. */
export function visible(text, budget = { marks: MOST_MARKS }) {
  const nodes = [];
  let plain = "";
  let at = 0;
  const read = text.replace(LINE_END, "\n");
  for (const found of read.matchAll(HIDDEN)) {
    plain += read.slice(at, found.index);
    at = found.index + found[0].length;
    const code = found[0].codePointAt(0);
    const name = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    if (budget.marks <= 0) {
      plain += `⟨${name}⟩`;
      continue;
    }
    budget.marks -= 1;
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(h("span", { class: "hidden-char", title: NAMES[code] ?? "a character that is not seen" }, name));
  }
  plain += read.slice(at);
  if (plain) nodes.push(plain);
  return nodes;
}

/** A text where no element can stand. */
export const marked = (text) => visible(text, { marks: 0 }).join("");

/** A short text inside a sentence of ours. */
export const foreign = (text, attributes = {}) =>
  h("bdi", { dir: "auto", ...attributes, class: `foreign ${attributes.class ?? ""}`.trim() }, visible(String(text)));

const FIRST = 16_000;
const NEXT = 120_000;

/** Blocks of a text of any length: its beginning, and a button for more. `nodes(from, to)` draws a piece (UTF-16). */
export function longText(text, nodes) {
  const box = h("div", { class: "foreign long", dir: "auto" });
  let shown = 0;
  const more = h("button", { type: "button", class: "button small" });
  more.addEventListener("click", () => extend(NEXT));

  function extend(size) {
    const end = boundary(text, shown + size);
    box.insertBefore(h("div", { class: "chunk" }, nodes(shown, end)), more.isConnected ? more : null);
    shown = end;
    if (shown >= text.length) more.remove();
    else {
      more.textContent = `Show more: ${(text.length - shown).toLocaleString("en")} of ${text.length.toLocaleString("en")} characters are left`;
      box.append(more);
    }
  }
  extend(FIRST);
  return box;
}

/** Where a piece may end: behind a line or a word near `at`, never inside a surrogate pair. */
function boundary(text, at) {
  if (at >= text.length) return text.length;
  const near = text.slice(at - 400, at);
  const gap = Math.max(near.lastIndexOf("\n"), near.lastIndexOf(" "));
  if (gap > 0) return at - 400 + gap + 1;
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

/** A whole text without marks of judges. */
export function plainText(text) {
  const budget = { marks: MOST_MARKS };
  return longText(text, (from, to) => visible(text.slice(from, to), budget));
}
