// One evaluation: what was asked and answered, what carries it, how it was judged, and its proof.

import { Problem, get, ofEvaluation } from "./api.js";
import { answerAndPassages, strangers } from "./answer.js";
import { bar, pill } from "./charts.js";
import { h, redraw, replace, section } from "./dom.js";
import { foreign, plainText } from "./foreign.js";
import { arithmetic, partsTable } from "./parts.js";
import { proofPanel } from "./proofpanel.js";
import { reviewList, reviews, toSuite } from "./review.js";
import { ageOf, because, count, modelName, plain, short, stateWord } from "./words.js";

const REVIEW_WAITS_MS = [300, 1000, 3000, 8000]; // how long one takes through the log to the catalogue

export function showEvaluation(into, rest, query, tools) {
  let [id, part = ""] = rest;
  const address = (more = "") => `#/evaluations/${encodeURIComponent(id)}${more}`;
  const claimOf = (named) => (named.has("claim") ? Number(named.get("claim")) - 1 : null);
  let [reading, drawn] = [null, null];
  replace(into, h("p", { class: "quiet", "aria-busy": "true" }, "Loading …"));

  async function load() {
    const [found, evidence] = await Promise.all([
      get(ofEvaluation(id), {}, tools.signal),
      get(ofEvaluation(id, "/evidence"), {}, tools.signal).catch((error) => {
        if (["no_evidence", "not_committed", "store_unavailable", "forbidden"].includes(error.code)) return error;
        throw error;
      }),
    ]);
    return { found, evidence };
  }

  async function show() {
    try {
      const { found, evidence } = await load();
      draw(found, evidence);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Problem)) reportError(error);
      redraw(into, h("h1", { tabindex: -1 }, error.code === "not_found" ? "There is no such evaluation" : "It cannot be shown"), h("p", { class: "notice bad", role: "alert" }, error.message), h("p", {}, h("a", { href: "#/" }, "All evaluations")));
    }
  }

  function draw(found, evidence) {
    const known = evidence instanceof Problem ? null : evidence;
    reading = known ? answerAndPassages(known, claimOf(query), (n) => address(`?claim=${n + 1}`)) : null;
    const proof = found.state === "committed" ? proofPanel(id, tools) : null;
    drawn = { proof: section("Proof", proof?.element ?? h("p", { class: "quiet" }, `There is nothing to prove yet: ${stateWord(found.state)}.`)), run: proof?.run };
    drawn.proof.classList.add("card");
    redraw(
      into,
      h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Evaluations")),
      head(id, found, known),
      known ? null : h("p", { class: "notice" }, evidence.code === "not_committed" ? `Not judged yet: ${stateWord(found.state)}.` : evidence.message),
      known ? h("section", { class: "query", "aria-labelledby": "query" }, h("h2", { id: "query" }, "Query"), plainText(known.query)) : null,
      reading?.element,
      known ? strangers(known) : null,
      partsSection(found, known),
      h("div", { class: "two" }, drawn.proof, known ? h("div", {}, people(found, known), again(found)) : null),
    );
    if (part === "proof") openProof();
    else if (claimOf(query) !== null) reading?.links.get(claimOf(query))?.[0]?.focus();
  }

  function people(found, known) {
    const made = section("Do you agree?", reviews(id, known, tools, refreshReviews));
    made.classList.add("card");
    return made;
  }

  /** The list of reviews anew once the last one is there, and nothing else of the page. */
  async function refreshReviews(had) {
    for (const wait of REVIEW_WAITS_MS) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      if (tools.signal.aborted) return;
      const { evidence } = await load().catch(() => ({}));
      if (!evidence || evidence instanceof Problem || evidence.reviews.length <= had) continue;
      const anew = reviewList(evidence.reviews);
      const list = into.querySelector(".reviews");
      if (list) list.replaceWith(anew);
      else into.querySelector(".review-form")?.before(anew);
      return;
    }
  }

  function again(found) {
    const { outcome } = found.scorecard ?? {};
    const made = section(outcome === "pass" ? "Keep it as a case" : "Never again", toSuite(id, tools));
    made.classList.add("card");
    return made;
  }

  function openProof() {
    drawn.proof.scrollIntoView({ block: "start" });
    drawn.proof.querySelector("button, input")?.focus({ preventScroll: true });
    drawn.run?.();
  }

  tools.live.subscribe((kind, what) => {
    if (kind === "event" && what.evaluation_id === id && into.querySelector(".head.open")) show();
  }, tools.signal);
  show();
  return {
    title: id,
    update([, now = ""], changed) {
      [part, query] = [now, changed];
      reading?.choose(claimOf(changed));
      if (drawn && part === "proof") openProof(); // else it is opened once it is drawn
    },
  };
}

function head(id, { state, scorecard, requested_at: at, waiting_for: waiting, dead_letters: letters }, known) {
  const threshold = known?.policy?.threshold ?? null;
  const trust = scorecard?.trust ?? null;
  return h(
    "header",
    { class: scorecard && state === "committed" ? "head" : "head open" },
    h("h1", { tabindex: -1, class: "mono" }, id),
    h(
      "div",
      { class: "score" },
      h("span", { class: "big figure", title: trust ?? "no trust score" }, short(trust)),
      h("span", { class: "score-bar" }, bar(trust, { target: threshold, low: scorecard?.trust_low ?? null, high: scorecard?.trust_high ?? null, kind: scorecard?.outcome ?? "plain" }), h("span", { class: "quiet" }, `trust${threshold === null ? "" : `, threshold ${short(threshold)}`}`)),
      scorecard ? pill(scorecard.outcome) : h("span", { class: "pill none" }, stateWord(state)),
    ),
    scorecard?.reasons.length ? h("p", { class: "because" }, `Because ${because(scorecard.reasons)}.`) : null,
    waiting.length ? h("p", { class: "quiet" }, `Waiting for ${waiting.map(({ kind }) => plain(kind)).join(", ")}.`) : null,
    letters.map((letter) => h("p", { class: "notice" }, `Dead letter ${letter.letter}: ${plain(letter.reason)}. `, foreign(letter.detail))),
    h(
      "p",
      { class: "quiet meta" },
      scorecard?.model ? [foreign(modelName(scorecard.model)), " · "] : null,
      at ? [ageOf(at), " ago · "] : null,
      `${stateWord(state)}`,
      scorecard?.supersedes ? [" · judged again, first as ", h("a", { href: `#/evaluations/${encodeURIComponent(scorecard.supersedes)}` }, scorecard.supersedes)] : null,
      scorecard?.session ? [" · ", h("a", { href: `#/?session=${scorecard.session}` }, "its session")] : null,
    ),
    h("p", { class: "actions" }, state === "committed" ? h("a", { class: "button main", href: `#/evaluations/${encodeURIComponent(id)}/proof` }, "Verify the proof") : null),
  );
}

function partsSection({ scorecard }, known) {
  const parts = known?.parts ?? scorecard?.parts;
  if (!parts) return null;
  const made = section(
    "How it was judged",
    partsTable(parts),
    known?.cost || known?.usage.length ? h("p", { class: "quiet" }, spent(known)) : null,
    known?.arithmetic?.length ? [h("h3", {}, "How trust follows"), arithmetic(known.arithmetic, known.policy)] : null,
  );
  made.classList.add("card");
  return made;
}

function spent({ usage, cost }) {
  const calls = usage.reduce((sum, used) => sum + used.calls, 0);
  const tokens = usage.reduce((sum, used) => sum + used.prompt_tokens + used.completion_tokens, 0);
  return `In all ${count(calls, "call")} of models and ${tokens.toLocaleString("en")} tokens${cost === null ? "" : `, ${cost} by the price table`}.`;
}
