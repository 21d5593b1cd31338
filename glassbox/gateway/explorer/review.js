// What a person thinks: of a part, and that a case should be tried again with every new version.

import { get, ofEvaluation, post } from "./api.js";
import { h, replace } from "./dom.js";
import { field, options } from "./forms.js";
import { foreign } from "./foreign.js";
import { ageOf, count, plain } from "./words.js";

/** Reviews so far, and a form for one more. `changed(had)` when one was taken; there were `had` before. */
export function reviews(id, evidence, { say }, changed) {
  const parts = evidence.parts.map(({ judge, part }) => [JSON.stringify([judge, part]), `${plain(part)} (${plain(judge)})`]);
  const said = h("p", { class: "said" });
  const form = h(
    "form",
    { class: "review-form" },
    field("Part", h("select", { name: "part" }, options(Object.fromEntries(parts)))),
    h(
      "fieldset",
      {},
      h("legend", {}, "Its judgement is"),
      h("label", {}, h("input", { type: "radio", name: "agrees", value: "yes", required: true }), " right"),
      h("label", {}, h("input", { type: "radio", name: "agrees", value: "no" }), " wrong"),
    ),
    field("Why", h("textarea", { name: "reason", rows: 2, maxlength: 4000, dir: "auto" })),
    h("div", { class: "actions" }, h("button", { class: "button main" }, "Record it"), said),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form));
    const [judge, part] = JSON.parse(given.part);
    const body = { judge, part, agrees: given.agrees === "yes" };
    if (given.reason.trim()) body.reason = given.reason.trim();
    try {
      await post(ofEvaluation(id, "/reviews"), body);
      form.reset();
      replace(said, "Recorded: it becomes a signed record of its own that points at this one.");
      say("Your review was recorded.");
      changed(evidence.reviews.length);
    } catch (error) {
      replace(said, h("span", { class: "bad", role: "alert" }, error.message));
    }
  });
  return h(
    "div",
    {},
    evidence.reviews.length ? reviewList(evidence.reviews) : null,
    form,
    h("p", { class: "quiet" }, "The record on the ledger stays as it is. ", h("a", { href: "#/people" }, "How far judges and people agree")),
  );
}

export const reviewList = (all) => h("ul", { class: "reviews plain" }, all.map(reviewLine));

function reviewLine({ part, agrees, reason, reviewer, created_at: at, state }) {
  const [sign, word, kind] = agrees ? ["✓", "agrees", "supported"] : ["✕", "disagrees", "unsupported"];
  return h(
    "li",
    {},
    h("span", { class: `sign ${kind}`, "aria-hidden": "true" }, sign),
    " ",
    foreign(reviewer, { class: "mono" }),
    ` ${word} with `,
    h("b", {}, plain(part)),
    reason ? [": ", foreign(reason)] : null,
    h("span", { class: "quiet" }, " ", ageOf(at), state === "committed" ? ", on the ledger" : ", on its way to the ledger"),
  );
}

/** The button by which an incident becomes a regression test. */
export function toSuite(id, { say }) {
  const names = h("datalist", { id: "suites" });
  const name = h("input", { name: "suite", list: "suites", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}", title: "letters, digits, dots, dashes", spellcheck: "false", autocomplete: "off" });
  const said = h("p", { class: "said" });
  const form = h(
    "form",
    { class: "suite-form" },
    field("Replay suite", name),
    names,
    h("div", { class: "actions" }, h("button", { class: "button" }, "Add this case"), said),
  );
  name.value = "regressions";
  get("v1/suites").then(
    ({ suites }) => replace(names, options(Object.fromEntries(suites.map((suite) => [suite.name, suite.name])))),
    () => {}, // the names are a help; a new one can be typed
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const added = await post(ofEvaluation(id, "/case"), { suite: name.value });
      const done = added.added ? `Added; the suite has ${count(added.cases, "case")} now. ` : "It is in that suite already. ";
      replace(said, done, h("code", {}, `glassbox replay run --suite ${added.folder}`));
      say(done);
    } catch (error) {
      replace(said, h("span", { class: "bad", role: "alert" }, error.message));
    }
  });
  return h(
    "div",
    {},
    h("p", { class: "quiet" }, "Question, answer, passages and what failed become a case that every new version is tried on."),
    form,
  );
}
