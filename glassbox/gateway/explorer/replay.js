// Replay runs and their comparison, in the words of `glassbox replay`.

import { get } from "./api.js";
import { h, redraw, replace, table } from "./dom.js";
import { field } from "./forms.js";
import { foreign, marked } from "./foreign.js";
import { ageOf, count, plain } from "./words.js";

export function showReplay(into, rest, _query, tools) {
  const [base, candidate] = rest;
  if (base && candidate) showComparison(into, base, candidate, tools);
  else showRuns(into, tools);
  return { title: base && candidate ? `Replay: ${base} to ${candidate}` : "Replay" };
}

function failed(into) {
  return (error) => error.name !== "AbortError" && into.append(h("p", { class: "notice bad", role: "alert" }, error.message));
}

function showRuns(into, { signal }) {
  replace(into, h("h1", { tabindex: -1 }, "Replay"), h("p", { class: "lead" }, "A suite of cases, run once with each version of a system; compared for ever after."));
  get("v1/runs", {}, signal).then(({ runs }) => into.append(...(runs.length ? runList(runs) : noRuns())), failed(into));
}

const noRuns = () => [
  h("div", { class: "empty" }, h("p", {}, "There are no runs in the data folder."), h("p", { class: "quiet" }, "Make one: ", h("code", {}, "glassbox replay run"))),
];

function runList(runs) {
  const named = (run) => `${marked(run.system.name)} ${marked(run.system.version)} (${marked(run.run)})`;
  const pick = (name, chosen) => h("select", { name }, runs.map((run, n) => h("option", { value: run.run, selected: n === chosen }, named(run))));
  const form = h(
    "form",
    { class: "filters", "aria-label": "Compare two runs" },
    field("Base", pick("base", Math.min(1, runs.length - 1))),
    field("Candidate", pick("candidate", 0)),
    h("button", { class: "button main" }, "Compare"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { base, candidate } = Object.fromEntries(new FormData(form));
    location.hash = `#/replay/${encodeURIComponent(base)}/${encodeURIComponent(candidate)}`;
  });
  const rows = runs.map((run) => [
    h("span", {}, foreign(run.system.name), " ", foreign(run.system.version), h("br"), h("span", { class: "quiet mono" }, foreign(run.run))),
    h("span", {}, foreign(run.suite.name), h("span", { class: "quiet" }, ` ${count(run.suite.cases, "case")}`)),
    run.classes ? cleanOf(run.classes) : h("span", { class: "quiet" }, "not evaluated yet"),
    run.errors ? h("span", { class: "bad" }, run.errors) : (run.errors ?? null),
    h("span", {}, ageOf(run.started_at), " ago"),
    h("a", { href: `#/?session=${encodeURIComponent(run.session)}` }, "scorecards"),
  ]);
  return [
    runs.length > 1 ? form : "",
    h("div", { class: "card" }, table("Runs", ["System", "Suite", "Clean answers", ["Errors", "number"], "Started", "Live"], rows, { class: "cards" })),
  ];
}

function cleanOf(classes) {
  const total = classes.reduce((sum, { count: n }) => sum + n, 0);
  const clean = classes.find((each) => each.class === "success")?.count ?? 0;
  const others = classes.filter((each) => each.class !== "success" && each.count).map((each) => `${each.count} ${plain(each.class)}`);
  return h("span", {}, `${clean} of ${total}`, others.length ? h("span", { class: "quiet" }, ` ${others.join(", ")}`) : null);
}

const VERDICTS = {
  regressed: ["▼", "unsupported"],
  improved: ["▲", "supported"],
  unmeasured: ["?", "undecided"],
};

function showComparison(into, base, candidate, { signal }) {
  const crumbs = h("p", { class: "crumbs" }, h("a", { href: "#/replay" }, "Replay"));
  replace(into, crumbs, h("h1", { tabindex: -1 }, "Comparing …"));
  const address = `v1/runs/${encodeURIComponent(base)}/comparison/${encodeURIComponent(candidate)}`;
  get(address, {}, signal).then(
    (found) =>
      redraw(
        into,
        crumbs,
        h("h1", { tabindex: -1 }, foreign(found.candidate.heading), " against ", foreign(found.base.heading)),
        h("p", { class: "lead" }, count(found.cases, "case"), found.left_out ? `, ${found.left_out} left out` : ""),
        found.notes.map((note) => h("p", { class: "notice" }, note)),
        changes(found),
        h("div", { class: "two" }, classes(found), transitions(found)),
      ),
    failed(into),
  );
}

function changes({ changes: all, base, candidate }) {
  const rows = all.map((change) => {
    const [sign, kind] = VERDICTS[change.verdict] ?? ["=", "none"];
    return [
      change.metric,
      h("span", { title: change.reason }, h("span", { class: `sign ${kind}`, "aria-hidden": "true" }, sign), ` ${plain(change.verdict)}`),
      change.base,
      change.candidate,
      change.change,
      change.interval,
      change.n,
    ];
  });
  const heads = ["Metric", "Verdict", [marked(base.heading), "number"], [marked(candidate.heading), "number"], ["Change", "number"], ["Interval", "number"], ["n", "number"]];
  const made = h("section", { class: "card", "aria-labelledby": "metrics" }, h("h2", { id: "metrics" }, "Metrics"), table("Metrics of both runs", heads, rows, { class: "cards" }));
  const worse = all.filter(({ cases }) => cases.length);
  if (worse.length) made.append(h("h3", {}, "Cases that got worse"), ...worse.map(casesOf));
  return made;
}

const casesOf = ({ metric, cases, worse }) =>
  h(
    "details",
    {},
    h("summary", {}, `${metric}: ${count(worse, "case")}`),
    table(
      `Cases whose ${metric} got worse`,
      ["Case", ["Base", "number"], ["Candidate", "number"], "Before", "After"],
      cases.map((each) => [foreign(each.case, { class: "mono" }), each.base, each.candidate, plain(each.before), plain(each.after)]),
      { class: "cards" },
    ),
  );

const classes = ({ classes: all, base, candidate }) =>
  h(
    "section",
    { class: "card", "aria-labelledby": "classes" },
    h("h2", { id: "classes" }, "What became of the cases"),
    table("Classes", ["Class", [marked(base.heading), "number"], [marked(candidate.heading), "number"]], all.map((each) => [plain(each.class), each.base, each.candidate])),
  );

const transitions = ({ transitions: all }) =>
  h(
    "section",
    { class: "card", "aria-labelledby": "transitions" },
    h("h2", { id: "transitions" }, "Cases that changed class"),
    all.length
      ? table("Transitions", ["Case", "Before", "After"], all.map((each) => [foreign(each.case, { class: "mono" }), plain(each.before), plain(each.after)]))
      : h("p", { class: "quiet" }, "None."),
  );
