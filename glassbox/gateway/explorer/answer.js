// The answer with its claims marked, and beside it the passages: on hover or focus a claim shows what carries it.

import { h, replace, unseen } from "./dom.js";
import { foreign, longText, plainText, visible } from "./foreign.js";
import { apart, offsets, pieces } from "./spans.js";
import { VERDICTS, plain } from "./words.js";

const ENTITY_WORDS = { novel: "not in the sources", near_miss: "differs from the sources" };
const RELATION_WORDS = {
  unsupported: "not together in the sources",
  reversed: "the other way round in the sources",
  novel_entity: "with a name that the sources do not have",
};

/** Both columns. `chosen`: number of the claim that the address names; `addressOf(n)`: the address of one. */
export function answerAndPassages(evidence, chosen, addressOf) {
  const sources = sourceColumn(evidence);
  const card = h("div", { class: "claim-card" });
  const places = new Map();

  function choose(number) {
    for (const [n, links] of places) links.forEach((link) => link.classList.toggle("chosen", n === number));
    const claim = evidence.claims[number];
    replace(card, claim ? claimCard(claim, number, evidence) : hint(evidence));
    sources.show(claim?.support ?? null);
  }

  const answer = markedAnswer(evidence, addressOf, (number, link) => {
    if (!places.has(number)) places.set(number, []);
    places.get(number).push(link);
    link.addEventListener("pointerenter", () => choose(number));
    link.addEventListener("focus", () => choose(number));
  });
  choose(chosen);
  const left = h(
    "section",
    { class: "answer-side", "aria-labelledby": "answer" },
    h("h2", { id: "answer" }, "Answer"),
    answer,
    card,
    evidence.reference_answer === null
      ? null
      : h("details", {}, h("summary", {}, "Reference answer"), plainText(evidence.reference_answer)),
  );
  return { element: h("div", { class: "side-by-side" }, left, sources.element), choose, links: places };
}

const hint = ({ claims }) =>
  claims.length
    ? h("p", { class: "quiet" }, "Point at a claim, or move to it by keyboard, to see what carries it.")
    : h("p", { class: "quiet" }, "No claims were found in this answer.");

function markedAnswer(evidence, addressOf, onClaim) {
  const at = offsets(evidence.answer);
  const span = ({ start, end }, more) => ({ start: at(start), end: at(end), ...more });
  const claims = apart(
    evidence.claims.flatMap((claim, number) => claim.spans.map((each) => span(each, { number, claim }))),
  );
  const entities = apart(
    evidence.entities.filter(({ novel }) => novel).flatMap((e) => e.spans.map((each) => span(each, { entity: e }))),
  );
  const relations = apart(evidence.relations.filter(({ flagged, start }) => flagged && start !== null).map((r) => span(r, { relation: r })));
  const attacks = apart(evidence.attacks.filter(({ field }) => field === "answer").map((each) => span(each, { attack: each })));
  const budget = { marks: 300 };
  const said = new Set();
  return longText(evidence.answer, (from, to) => {
    const made = [];
    let [current, link] = [null, null];
    for (const piece of pieces(from, to, [claims, entities, relations, attacks])) {
      const [claim, entity, relation, attack] = piece.of;
      let nodes = visible(evidence.answer.slice(piece.start, piece.end), budget);
      if (entity) nodes = [marker("entity", entity.entity, ENTITY_WORDS[entity.entity.status], nodes, said)];
      if (relation) nodes = [marker("relation", relation.relation, RELATION_WORDS[relation.relation.status], nodes, said)];
      if (attack) nodes = [marker("attack", attack.attack, `looks like an attack on the judges: ${plain(attack.attack.rule)}`, nodes, said)];
      if (!claim) {
        made.push(...nodes);
        current = null;
      } else if (claim === current) {
        link.lastChild.before(...nodes); // the sign stays last
      } else {
        current = claim;
        link = claimLink(claim, nodes, addressOf);
        onClaim(claim.number, link);
        made.push(link);
      }
    }
    return made;
  });
}

function claimLink({ number, claim }, nodes, addressOf) {
  const [word, sign] = VERDICTS[claim.verdict];
  return h(
    "a",
    { href: addressOf(number), class: `claim ${claim.verdict}` },
    nodes,
    h("span", { class: "verdict-sign" }, h("span", { "aria-hidden": "true" }, sign), unseen(` (${word}) `)),
  );
}

/** A mark whose meaning is told once, however many pieces it falls into. */
function marker(kind, what, meaning, nodes, said) {
  const first = !said.has(what);
  said.add(what);
  return h("span", { class: `marker ${kind}`, title: meaning }, nodes, first ? unseen(` [${meaning}] `) : null);
}

function claimCard(claim, number, evidence) {
  const [word, sign] = VERDICTS[claim.verdict];
  const judged = evidence.support_method === "judge" ? "named by the judge" : "found by comparing words";
  return [
    h(
      "p",
      { class: "claim-head" },
      h("span", { class: `sign ${claim.verdict}`, "aria-hidden": "true" }, sign),
      ` Claim ${number + 1} of ${evidence.claims.length}: ${word}`,
      claim.counted ? null : ", not counted because it stands in a suspected attack",
    ),
    h("p", {}, foreign(claim.text)),
    claim.reason ? h("p", { class: "quiet" }, foreign(claim.reason)) : null,
    claim.support
      ? h("figure", { class: "support" }, quote(claim.support, evidence), h("figcaption", { class: "quiet" }, `${sourceName(claim.support)}, ${judged}`))
      : h("p", { class: "quiet" }, "No passage carries it."),
  ];
}

const sourceName = ({ origin, index }) => `${origin === "passages" ? "Passage" : "Document"} ${index + 1}`;

function quote({ origin, index, start, end }, evidence) {
  const { text } = evidence[origin][index] ?? {};
  if (typeof text !== "string") return h("p", { class: "quiet" }, "Its text is kept elsewhere.");
  const at = offsets(text);
  return h("blockquote", {}, foreign(text.slice(at(start), at(end))));
}

/** Passages in the retriever's order, then source documents; `show(support)` marks one span among them. */
function sourceColumn(evidence) {
  const cards = new Map();
  const list = (origin, sources) =>
    sources.map((source, index) => {
      const card = sourceCard(source, index, origin);
      cards.set(`${origin} ${index}`, card);
      return card.element;
    });
  const { passages, source_documents: documents } = evidence;
  const element = h(
    "section",
    { class: "source-side", "aria-labelledby": "passages" },
    h("h2", { id: "passages" }, "Passages", h("span", { class: "quiet" }, passages.length ? ` ${passages.length}, in the retriever's order` : "")),
    passages.length ? h("ol", { class: "sources", tabindex: 0, "aria-labelledby": "passages" }, list("passages", passages)) : h("p", { class: "quiet" }, "None were retrieved."),
    documents.length ? [h("h3", {}, "Source documents"), h("ol", { class: "sources", tabindex: 0, "aria-label": "Source documents" }, list("source_documents", documents))] : null,
  );
  let marked = null;
  return {
    element,
    show(support) {
      marked?.mark(null);
      marked = support ? cards.get(`${support.origin} ${support.index}`) : null;
      marked?.mark(support);
    },
  };
}

const PASSAGE_VERDICTS = {
  relevant: ["relevant", "✓", "supported"],
  irrelevant: ["not relevant", "✕", "unsupported"],
  duplicate: ["duplicate", "=", "none"],
  blank: ["blank", "–", "none"],
};

function sourceCard(source, index, origin) {
  const body = h("div", {});
  const [word, sign, kind] = PASSAGE_VERDICTS[source.verdict] ?? [];
  const facts = [
    word ? h("span", { class: `pill ${kind}` }, h("span", { "aria-hidden": "true", class: "sign" }, sign), word) : null,
    source.verdict === "duplicate" && source.duplicate_of !== null ? `of ${source.duplicate_of + 1}` : null,
    typeof source.score === "number" ? fact("score", source.score) : null,
    typeof source.similarity === "number" ? fact("similarity", source.similarity) : null,
    source.id ?? source.document_id ? foreign(source.id ?? source.document_id, { class: "mono" }) : null,
  ];
  const element = h(
    "li",
    { class: "source" },
    h("div", { class: "source-head" }, h("span", { class: "source-number" }, sourceName({ origin, index })), facts),
    body,
    source.reason ? h("p", { class: "quiet source-reason" }, foreign(source.reason)) : null,
  );
  function mark(support) {
    element.classList.toggle("carries", support !== null);
    if (typeof source.text !== "string") {
      replace(body, h("p", { class: "quiet" }, "Kept elsewhere: ", foreign(source.reference?.uri ?? "a document", { class: "mono" })));
    } else if (support === null) replace(body, plainText(source.text));
    else {
      const at = offsets(source.text);
      replace(body, carrying(source.text, at(support.start), at(support.end)));
      if (matchMedia("(min-width: 60rem)").matches) reveal(element);
    }
  }
  mark(null);
  return { element, mark };
}

const fact = (name, value) => h("span", { class: "fact" }, `${name} `, h("span", { class: "figure" }, Number(value).toFixed(2)));

function carrying(text, start, end) {
  const budget = { marks: 300 };
  const part = (from, to) => visible(text.slice(from, to), budget);
  const near = Math.max(0, start - 6000); // a span far inside a long passage is shown with what is around it
  return h(
    "div",
    { class: "foreign long", dir: "auto" },
    near ? "… " : null,
    part(near, start),
    h("mark", { class: "carrier" }, part(start, end)),
    part(end, end + 6000),
    end + 6000 < text.length ? " …" : null,
  );
}

/** Bring into view what scrolls on its own, and nothing else. */
function reveal(element) {
  const box = element.parentElement;
  const [top, bottom] = [element.offsetTop - box.offsetTop, element.offsetTop - box.offsetTop + element.offsetHeight];
  if (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight) box.scrollTop = top - 8;
}

/** Names and pairs that the sources do not have, in words. */
export function strangers({ entities, relations, attacks }) {
  const names = entities.filter(({ novel }) => novel);
  const pairs = relations.filter(({ flagged }) => flagged);
  if (!names.length && !pairs.length && !attacks.length) return null;
  return h(
    "section",
    { class: "card", "aria-labelledby": "strangers" },
    h("h2", { id: "strangers" }, "What the sources do not have"),
    h(
      "ul",
      { class: "plain" },
      names.map((each) =>
        h("li", {}, h("span", { class: "tag entity" }, "name"), " ", foreign(each.text), h("span", { class: "quiet" }, ` ${ENTITY_WORDS[each.status]}`, each.nearest ? [", nearest ", foreign(each.nearest)] : null)),
      ),
      pairs.map((each) =>
        h("li", {}, h("span", { class: "tag relation" }, "pair"), " ", foreign(each.one), " ", each.predicate ? foreign(each.predicate) : "with", " ", foreign(each.other), h("span", { class: "quiet" }, ` ${RELATION_WORDS[each.status]}`)),
      ),
      attacks.map((each) =>
        h("li", {}, h("span", { class: "tag attack" }, "attack"), ` in the ${plain(each.field)}: `, foreign(each.text), h("span", { class: "quiet" }, ` ${plain(each.rule)}`)),
      ),
    ),
  );
}
