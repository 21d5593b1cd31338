// The filters of the list: a form, an address, and what of a new evaluation can be told by them.

import { h, replace } from "./dom.js";
import { field, iso, local, modelOptions, modelValue, options, readModel } from "./forms.js";
import { OUTCOMES, plain } from "./words.js";

const ORDERS = {
  newest: "Newest first",
  oldest: "Oldest first",
  lowest_trust: "Lowest trust first",
  highest_trust: "Highest trust first",
};

/** An address with what is set. */
export function toQuery(path, values) {
  const set = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return set.length ? `${path}?${new URLSearchParams(set)}` : path;
}

/** Whether an evaluation that has just come belongs in the list. */
export function matches(item, filters) {
  const equal = {
    outcome: item.outcome,
    provider: item.model?.provider,
    model: item.model?.name,
    session: item.session,
  };
  if (Object.entries(equal).some(([name, value]) => filters[name] && filters[name] !== value)) return false;
  if (filters.since && item.requested_at < iso(filters.since)) return false;
  return !filters.until || item.requested_at < iso(filters.until);
}

/** The form. `changed(filters)` when the reader wants others. */
export function filterForm(changed) {
  const models = h("select", { name: "of" });
  const judges = h("select", { name: "judge" });
  const element = h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filter evaluations" },
    field("Outcome", h("select", { name: "outcome" }, options({ "": "Any", ...ofOutcomes() }))),
    field("Model", models),
    field("Order", h("select", { name: "order" }, options(ORDERS))),
    h(
      "details",
      {},
      h("summary", {}, "More filters"),
      h(
        "div",
        { class: "filters" },
        field("From", h("input", { type: "datetime-local", name: "since" })),
        field("Until", h("input", { type: "datetime-local", name: "until" })),
        field("Judge", judges),
        field("Judge scored below", h("input", { type: "number", name: "below", min: 0, max: 1, step: 0.01 })),
        field("Session (keyed digest)", h("input", { name: "session", pattern: "[0-9a-f]{64}", spellcheck: "false", title: "64 hexadecimal digits" })),
      ),
    ),
    h("a", { href: "#/", class: "clear" }, "Clear"),
  );
  element.addEventListener("submit", (event) => event.preventDefault());
  element.addEventListener("change", () => {
    if (element.checkValidity()) changed(read());
  });

  function read() {
    const { outcome, of, order, since, until, judge, below, session } = Object.fromEntries(new FormData(element));
    return {
      outcome,
      ...readModel(of),
      order: judge || order === "newest" ? "" : order,
      since: iso(since),
      until: iso(until),
      judge,
      below: judge ? below : "",
      session,
      span: current.span ?? "",
    };
  }

  let current = {};
  function offer(known) {
    replace(models, modelOptions(known.models, current, "Any"));
    models.value = modelValue(current);
    const names = new Set([...known.judges, ...(current.judge ? [current.judge] : [])]);
    replace(judges, options({ "": "Any", ...Object.fromEntries([...names].map((name) => [name, plain(name)])) }));
    judges.value = current.judge ?? "";
  }

  return {
    element,
    offer,
    /** Show what the address says. */
    fill(filters, known) {
      current = filters;
      offer(known);
      for (const name of ["outcome", "below", "session"]) element.elements[name].value = filters[name] ?? "";
      element.elements.order.value = filters.order ?? "newest";
      element.elements.order.disabled = Boolean(filters.judge);
      for (const name of ["since", "until"]) element.elements[name].value = local(filters[name]);
      if (["since", "until", "judge", "session"].some((name) => filters[name])) element.querySelector("details").open = true;
      element.querySelector(".clear").hidden = Object.keys(filters).length === 0;
    },
  };
}

const ofOutcomes = () => Object.fromEntries(Object.entries(OUTCOMES).map(([outcome, [word]]) => [outcome, word]));
