// Every part with how it was judged, and the arithmetic from there to trust.

import { bar } from "./charts.js";
import { h, table } from "./dom.js";
import { foreign, marked } from "./foreign.js";
import { count, plain, short } from "./words.js";

/** `parts`: as the evidence has them, or rows of a record, which know less. */
export function partsTable(parts) {
  const heads = ["Part", "Score", "Target", ["Weight", "number"], "Method", "Cost", "Why"];
  const rows = parts.map((part) => [
    h("span", { class: "part-name" }, plain(part.part), h("br"), h("span", { class: "quiet" }, plain(part.judge))),
    score(part),
    target(part),
    part.weight ? h("span", { class: "figure" }, short(part.weight, 3)) : null,
    method(part),
    cost(part),
    why(part),
  ]);
  return table("Parts", heads, rows, { class: "parts cards" });
}

function score(part) {
  if (part.state !== "scored")
    return h("span", { class: part.state === "failed" ? "bad" : "quiet" }, part.state === "failed" ? "✕ failed" : "does not apply");
  const kind = { true: "pass", false: "fail", null: "plain" }[part.meets_target];
  const bounds = part.low !== part.high ? ` (${short(part.low)} to ${short(part.high)})` : "";
  return h(
    "span",
    { class: "trust", title: part.score + bounds },
    h("span", { class: "figure" }, short(part.score)),
    bar(part.score, { target: part.target ?? null, low: part.low, high: part.high, kind }),
    bounds ? h("span", { class: "quiet figure" }, bounds) : null,
  );
}

function target(part) {
  if (part.meets_target === null) return part.target ? h("span", { class: "quiet figure" }, `> ${short(part.target)}`) : null;
  const [sign, word, kind] = part.meets_target ? ["✓", "met", "supported"] : ["✕", "missed", "unsupported"];
  return h("span", {}, h("span", { class: "figure" }, h("span", { class: `sign ${kind}`, "aria-hidden": "true" }, sign), ` ${word}`), part.target ? h("span", { class: "quiet figure" }, ` > ${short(part.target)}`) : null);
}

function method({ method: made }) {
  if (!made) return null;
  return h(
    "span",
    { class: "method" },
    h("span", { class: "mono" }, made.name),
    h("br"),
    h("span", { class: "quiet" }, `${made.library} ${made.version}`, made.model ? [", ", foreign(made.model)] : null),
  );
}

function cost(part) {
  const usage = part.usage ?? [];
  if (!usage.length) return null;
  const shared = part.shares_usage_with?.length ? ` with ${part.shares_usage_with.map(plain).join(", ")}` : "";
  const lines = usage.map((used) => `${marked(used.model)}: ${count(used.calls, "call")}, ${used.prompt_tokens} + ${used.completion_tokens} tokens`);
  const calls = usage.reduce((sum, { calls: n }) => sum + n, 0);
  const tokens = usage.reduce((sum, used) => sum + used.prompt_tokens + used.completion_tokens, 0);
  return h(
    "span",
    { title: lines.join("\n") + shared },
    part.cost === null ? null : [h("span", { class: "figure" }, part.cost), h("br")],
    h("span", { class: "quiet" }, `${count(calls, "call")}, ${tokens.toLocaleString("en")} tokens${shared}`),
  );
}

function why(part) {
  const flags = (part.flags ?? []).map((flag) => h("span", { class: "tag" }, plain(flag)));
  const said = part.why || (part.cause ? plain(part.cause) : "");
  return said || flags.length ? h("span", {}, said ? foreign(said) : null, " ", flags) : null;
}

/** Trust spelled out: each line can be redone with a pencil. */
export function arithmetic(lines, policy) {
  return h(
    "div",
    {},
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Arithmetic" },
      table(
        "How trust follows from the parts",
        ["Line", "Sum", ["Result", "number"], "Note"],
        lines.map(({ label, text, value, note }) => [
          plain(label),
          h("span", { class: "figure" }, text),
          value === null ? "" : h("span", { class: "figure" }, `= ${value}`),
          note ? h("span", { class: "quiet" }, note) : "",
        ]),
        { class: "arithmetic" },
      ),
    ),
    policy
      ? h(
          "p",
          { class: "quiet" },
          `Policy ${policy.name}: threshold ${policy.threshold}, at least ${policy.min_coverage} must be scored`,
          policy.vetoes.length ? `; a missed target fails it for ${policy.vetoes.map(plain).join(", ")}` : "",
          policy.review_on.length ? `; asks for a person for ${policy.review_on.map(plain).join(", ")}` : "",
          ". Every result is rounded half to even, once, to 6 places.",
        )
      : null,
  );
}
