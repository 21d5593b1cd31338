// The list: live, filtered, sorted; above it how trust goes over time and how each part's scores are spread.

import { get } from "./api.js";
import { bar, distributions, legend, pill, trend, trendTable } from "./charts.js";
import { h, replace, table, unseen } from "./dom.js";
import { filterForm, matches, toQuery } from "./filters.js";
import { foreign } from "./foreign.js";
import { ageOf, count, modelName, plain, short, stateWord } from "./words.js";

const PAGE = 50;
const MOST_ROWS = 400; // beyond, new rows push old ones out: who looks for old ones filters
const FIGURES_EVERY_MS = 10_000;

export function showList(into, _rest, query, { signal, say, live }) {
  let [filters, items, next, waiting, loading] = [Object.fromEntries(query), [], null, new Map(), null];
  const body = h("div", { class: "rows" });
  const fresh = h("button", { type: "button", class: "button small fresh", hidden: true, onclick: () => reload() });
  const more = h("button", { type: "button", class: "button", hidden: true, onclick: () => loadMore() }, "More");
  const figures = h("div", { class: "overview" });
  const known = { models: [], judges: [] };
  const form = filterForm((changed) => {
    location.hash = toQuery("#/", changed);
  });
  form.fill(filters, known);
  replace(
    into,
    h("h1", { tabindex: -1, class: "unseen" }, "Evaluations"),
    figures,
    form.element,
    h("div", { class: "list-head" }, fresh),
    body,
    h("p", { class: "actions center" }, more),
  );
  const problem = (error) => {
    if (error.name !== "AbortError") replace(body, h("p", { class: "notice bad", role: "alert" }, error.message));
  };

  /** What the gateway is asked: all but what only this page knows. */
  const asked = () => ({ ...filters, span: null });

  async function reload() {
    loading?.abort();
    const mine = (loading = new AbortController());
    signal.addEventListener("abort", () => mine.abort());
    body.setAttribute("aria-busy", "true");
    try {
      const page = await get("v1/evaluations", { ...asked(), limit: PAGE }, mine.signal);
      [items, next] = [page.items, page.next];
      waiting.clear();
      draw();
      say(items.length ? count(items.length, "evaluation") + (next ? " and more" : "") : "No evaluations");
    } catch (error) {
      problem(error);
    }
    body.removeAttribute("aria-busy");
  }

  async function loadMore() {
    try {
      const page = await get("v1/evaluations", { ...asked(), limit: PAGE, cursor: next }, signal);
      const there = new Set(items.map(({ evaluation_id: id }) => id));
      items.push(...page.items.filter(({ evaluation_id: id }) => !there.has(id)));
      next = page.next;
      draw();
    } catch (error) {
      problem(error);
    }
  }

  function draw() {
    more.hidden = next === null;
    fresh.hidden = waiting.size === 0;
    fresh.textContent = `Show ${count(waiting.size, "new evaluation")}`;
    replace(body, items.length ? rows(items, filters.judge) : nothing(filters));
  }

  let drawing = 0;
  function arrived(item) {
    const at = items.findIndex(({ evaluation_id: id }) => id === item.evaluation_id);
    if (at >= 0) items[at] = { ...item, judge_score: items[at].judge_score };
    else if (!matches(item, filters)) return;
    else if (inOrder(filters)) items = [{ ...item, isNew: true }, ...items].slice(0, MOST_ROWS);
    else waiting.set(item.evaluation_id, item);
    drawing ||= setTimeout(() => {
      drawing = 0;
      if (!signal.aborted) draw();
    }, 250);
  }

  let due = 0;
  function figuresSoon() {
    due ||= setTimeout(() => {
      due = 0;
      if (!signal.aborted) loadFigures();
    }, FIGURES_EVERY_MS);
  }

  async function loadFigures() {
    const { model, provider, since, until } = filters;
    const bucket = filters.span === "day" ? "day" : "hour";
    try {
      const found = await get("v1/statistics", { model, provider, since, until, bucket }, signal);
      known.models = found.models;
      known.judges = [...new Set(found.parts.map(({ judge }) => judge))];
      form.offer(known);
      drawFigures(figures, found, bucket, filters);
    } catch (error) {
      if (error.name !== "AbortError") replace(figures, h("p", { class: "notice" }, error.message));
    }
  }

  live.subscribe((kind, what) => {
    if (kind === "event") {
      arrived(what);
      figuresSoon();
    } else reload();
  }, signal);
  reload();
  loadFigures();
  return {
    title: "Evaluations",
    update(_, changed) {
      filters = Object.fromEntries(changed);
      form.fill(filters, known);
      reload();
      loadFigures();
    },
  };
}

/** Whether what is new belongs on top. */
const inOrder = ({ order, judge }) => !judge && (order ?? "newest") === "newest";

function nothing(filters) {
  const filtered = Object.keys(filters).length > 0;
  return h(
    "div",
    { class: "empty" },
    h("p", {}, filtered ? "Nothing matches these filters." : "Nothing has been judged yet."),
    filtered
      ? h("p", {}, h("a", { href: "#/" }, "Show all"))
      : h("p", { class: "quiet" }, "Send something: ", h("code", {}, "glassbox submit FILE --wait")),
  );
}

function rows(items, judge) {
  const heads = ["Evaluation", "Trust", "Outcome", "Weakest part", "Model", ["Age", "number"]];
  if (judge) heads.splice(2, 0, plain(judge));
  const made = items.map((item) => {
    const cells = [
      h("a", { href: `#/evaluations/${encodeURIComponent(item.evaluation_id)}`, class: "row-link" }, item.evaluation_id),
      trustCell(item),
      item.outcome === null ? h("span", { class: "quiet" }, stateWord(item.state)) : pill(item.outcome),
      weakest(item.weakest),
      item.model === null ? null : foreign(modelName(item.model)),
      ageOf(item.requested_at),
    ];
    if (judge) cells.splice(2, 0, h("span", { class: "figure" }, short(item.judge_score)));
    return cells;
  });
  const drawn = table("Evaluations", heads, made, { class: "list" });
  items.forEach((item, n) => {
    if (item.isNew) drawn.tBodies[0].rows[n].classList.add("new");
  });
  return drawn;
}

function trustCell({ trust, threshold, outcome }) {
  if (trust === null) return h("span", { class: "quiet" }, "–");
  return h(
    "span",
    { class: "trust", title: threshold === null ? trust : `${trust}, threshold ${threshold}` },
    h("span", { class: "figure" }, short(trust)),
    bar(trust, { target: threshold, kind: outcome }),
    threshold === null ? null : unseen(`, threshold ${short(threshold)}`),
  );
}

function weakest(part) {
  if (!part) return null;
  const figure = part.score === null ? plain(part.cause ?? part.state) : short(part.score);
  return h("span", { title: plain(part.judge) }, plain(part.part), " ", h("span", { class: "quiet figure" }, figure));
}

function drawFigures(into, found, bucket, filters) {
  if (!found.trend.length) return replace(into);
  const other = bucket === "hour" ? "day" : "hour";
  const address = toQuery("#/", { ...filters, span: other === "day" ? "day" : "" });
  return replace(
    into,
    h(
      "section",
      { class: "card", "aria-labelledby": "trend" },
      h(
        "div",
        { class: "card-head" },
        h("h2", { id: "trend" }, "Trust over time"),
        h("a", { href: address }, bucket === "hour" ? "by day" : "by hour"),
      ),
      trend(found.trend, bucket),
      legend(),
      trendTable(found.trend),
    ),
    h(
      "section",
      { class: "card", "aria-labelledby": "spread" },
      h("div", { class: "card-head" }, h("h2", { id: "spread" }, "Scores by part"), h("span", { class: "quiet" }, "mean, 0 to 1")),
      distributions(found.parts),
    ),
  );
}
