// How far judges and people agree, part by part.

import { Problem, get, request } from "./api.js";
import { h, replace, table } from "./dom.js";
import { saveFile } from "./proofpanel.js";
import { plain, short } from "./words.js";

export function showPeople(into, _rest, _query, { signal }) {
  const body = h("div", { "aria-busy": "true" });
  const said = h("p", { class: "said" });
  replace(
    into,
    h("h1", { tabindex: -1 }, "Judges and people"),
    h("p", { class: "lead" }, "Readers say of a part whether its judgement is right. Kappa is agreement beyond chance: 1 is all of it, 0 is none."),
    body,
    h("p", { class: "actions" }, h("button", { type: "button", class: "button", onclick: exported }, "Export the reviews (JSONL)"), said),
    h("p", { class: "quiet" }, "The export is what ", h("code", {}, "glassbox agreement reviews.jsonl"), " reads."),
  );

  async function exported() {
    try {
      saveFile(await (await request("v1/reviews", { signal })).blob(), "reviews.jsonl", "application/x-ndjson");
    } catch (error) {
      if (error instanceof Problem) replace(said, h("span", { class: "bad", role: "alert" }, error.message));
    }
  }

  get("v1/agreement", {}, signal).then(
    ({ parts }) => {
      body.removeAttribute("aria-busy");
      replace(body, parts.length ? h("div", { class: "card" }, agreement(parts)) : h("div", { class: "empty" }, h("p", {}, "Nobody has reviewed anything yet."), h("p", { class: "quiet" }, "Open an evaluation and say whether a part is right.")));
    },
    (error) => error.name !== "AbortError" && replace(body, h("p", { class: "notice bad", role: "alert" }, error.message)),
  );
  return { title: "Judges and people" };
}

function agreement(parts) {
  return table(
    "Agreement of judges with people",
    ["Part", ["Reviews", "number"], ["Agree", "number"], ["n", "number"], "Kappa", "Methods"],
    parts.map((part) => [
      h("span", {}, plain(part.part), h("br"), h("span", { class: "quiet" }, plain(part.judge))),
      part.reviews,
      part.reviews ? `${Math.round((part.agreed / part.reviews) * 100)} %` : null,
      h("span", { title: "reviews of a part with a target, which alone say yes or no" }, String(part.n)),
      part.kappa
        ? h("span", { class: "figure" }, short(part.kappa.value), h("span", { class: "quiet" }, ` (${short(part.kappa.low)} to ${short(part.kappa.high)})`))
        : h("span", { class: "quiet" }, part.n ? "people said only one thing" : "no target to agree with"),
      part.methods > 1 ? h("span", { class: "tag" }, `${part.methods} together`) : "one",
    ]),
    { class: "cards" },
  );
}
