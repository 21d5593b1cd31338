// Two models, or two spans of time, side by side.

import { get } from "./api.js";
import { histogram, outcomeShares } from "./charts.js";
import { h, replace, table } from "./dom.js";
import { toQuery } from "./filters.js";
import { field, iso, local, modelOptions, modelValue, readModel } from "./forms.js";
import { marked } from "./foreign.js";
import { OUTCOMES, count, plain, short } from "./words.js";

const NAMES = ["A", "B"];

export function showCompare(into, _rest, query, { signal, say }) {
  const result = h("div", {});
  const sides = NAMES.map((name) => sideForm(name));
  const form = h("form", { class: "compare-form" }, sides.map(({ element }) => element));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => {
    const values = sides.map((side, n) => prefixed(side.read(), NAMES[n]));
    location.hash = toQuery("#/compare", Object.assign({}, ...values));
  });
  replace(
    into,
    h("h1", { tabindex: -1 }, "Compare"),
    h("p", { class: "lead" }, "Two models, or the same one in two spans of time."),
    form,
    result,
  );

  async function load() {
    const asked = NAMES.map((name) => ofSide(query, name));
    result.setAttribute("aria-busy", "true");
    try {
      const found = await Promise.all(asked.map((side) => get("v1/statistics", { bucket: "day", ...side }, signal)));
      const models = found[0].models.length >= found[1].models.length ? found[0].models : found[1].models;
      sides.forEach((side, n) => side.fill(asked[n], models));
      replace(result, comparison(found, asked));
      say(`Compared ${count(found[0].n, "evaluation")} with ${found[1].n}.`);
    } catch (error) {
      if (error.name !== "AbortError") replace(result, h("p", { class: "notice bad", role: "alert" }, error.message));
    }
    result.removeAttribute("aria-busy");
  }

  sides.forEach((side, n) => side.fill(ofSide(query, NAMES[n]), []));
  load();
  return {
    title: "Compare",
    update(_, changed) {
      query = changed;
      load();
    },
  };
}

const FIELDS = ["provider", "model", "since", "until"];
const prefixed = (side, name) => Object.fromEntries(FIELDS.map((each) => [name.toLowerCase() + each, side[each]]));
const WEEK_MS = 7 * 86_400_000;

/** What the address says of a side; where it says nothing of either, the week before last is A and the last one B. */
function ofSide(query, name) {
  const given = Object.fromEntries(FIELDS.map((each) => [each, query.get(name.toLowerCase() + each) ?? ""]));
  if ([...query.keys()].length) return given;
  const middle = Date.now() - WEEK_MS;
  return name === "A" ? { ...given, since: iso(middle - WEEK_MS), until: iso(middle) } : { ...given, since: iso(middle) };
}

function sideForm(name) {
  const models = h("select", { name: "of" });
  const since = h("input", { type: "datetime-local", name: "since" });
  const until = h("input", { type: "datetime-local", name: "until" });
  return {
    element: h(
      "fieldset",
      { class: `side side-${name.toLowerCase()}` },
      h("legend", {}, name),
      field("Model", models),
      field("From", since),
      field("Until", until),
    ),
    read: () => ({ ...readModel(models.value), since: iso(since.value), until: iso(until.value) }),
    fill(side, known) {
      replace(models, modelOptions(known, side, "All models"));
      models.value = modelValue(side);
      since.value = local(side.since);
      until.value = local(side.until);
    },
  };
}

function comparison(found, asked) {
  const [a, b] = found;
  if (!a.n && !b.n) return h("div", { class: "empty" }, h("p", {}, "Nothing was judged in these spans."));
  const named = asked.map((side, n) => `${NAMES[n]}: ${side.model ? marked([side.provider, side.model].filter(Boolean).join(" / ")) : "all models"}`);
  const parts = [...new Set([...a.parts, ...b.parts].map(({ part }) => part))];
  return [
    h("div", { class: "two" }, found.map((side, n) => summary(side, named[n], n))),
    h(
      "section",
      { class: "card", "aria-labelledby": "by-part" },
      h("h2", { id: "by-part" }, "Score by part"),
      table(
        "Mean score of each part on both sides",
        ["Part", ["A", "number"], ["B", "number"], ["B − A", "number"], "Spread: A filled, B outlined"],
        parts.map((name) => {
          const [one, other] = found.map((side) => side.parts.find(({ part }) => part === name));
          return [plain(name), figureOf(one), figureOf(other), change(one?.mean, other?.mean), one && other ? histogram(one, other) : one || other ? histogram(one ?? other) : null];
        }),
        { class: "by-part cards" },
      ),
    ),
    found.some(({ complete }) => !complete) ? h("p", { class: "quiet" }, "Of the largest spans only the newest evaluations are counted.") : null,
  ];
}

function figureOf(part) {
  return part ? h("span", { class: "figure", title: `of ${count(part.n, "score")}` }, short(part.mean, 3)) : null;
}

/** A difference with its sign, and an arrow, so that colour is not the only one to tell. */
function change(one, other) {
  if (!one || !other) return null;
  const by = Number(other) - Number(one);
  const [sign, kind] = Math.abs(by) < 0.0005 ? ["=", "none"] : by > 0 ? ["▲", "supported"] : ["▼", "unsupported"];
  return h("span", { class: "figure" }, h("span", { class: `sign ${kind}`, "aria-hidden": "true" }, sign), ` ${by < 0 ? "−" : "+"}${Math.abs(by).toFixed(3)}`);
}

/** Outcomes of a whole side, and the mean of its time steps' means, each as heavy as it has complete evaluations. */
function totals({ trend }) {
  const outcomes = Object.fromEntries(Object.keys(OUTCOMES).map((name) => [name, trend.reduce((sum, step) => sum + step[name], 0)]));
  const known = trend.filter((step) => step.mean_trust !== null).map((step) => [step.n - step.incomplete || 1, Number(step.mean_trust)]);
  const weight = known.reduce((sum, [n]) => sum + n, 0);
  const mean = weight ? known.reduce((sum, [n, trust]) => sum + n * trust, 0) / weight : null;
  return { outcomes, mean };
}

function summary(side, name, n) {
  const { outcomes, mean } = totals(side);
  return h(
    "section",
    { class: `card side-${NAMES[n].toLowerCase()}`, "aria-label": name },
    h("h2", {}, name),
    h("p", {}, h("span", { class: "big figure" }, short(mean)), h("span", { class: "quiet" }, ` mean trust of ${count(side.n, "evaluation")}`)),
    outcomeShares(outcomes),
  );
}
