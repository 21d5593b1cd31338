// The proof panel: what a bundle says, checked in this browser, step by step.

import { request, ofEvaluation } from "./api.js";
import { h, replace } from "./dom.js";
import { field } from "./forms.js";
import { foreign, marked } from "./foreign.js";
import { obstacle, verify } from "./proof/bundle.js";
import { parseKey } from "./proof/note.js";

const KEPT = "glassbox.verifier";
const MOST_BYTES = 32 * 1024 * 1024;
const STEPS = {
  format: "The bundle is whole and in canonical form",
  policy: "The policy is the one that the record cites",
  record: "The record follows from its parts",
  request: "The request is the one that the record cites",
  evidence: "The evidence is what the record cites",
  raw: "Raw outputs are those that the evidence cites",
  checkpoint: "The checkpoint is of this log and size",
  inclusion: "The record is in the log",
  signature: "The log's key signed the checkpoint",
  ledger: "The ledger's own proof",
};

/** The panel. `id`: the evaluation whose bundle is fetched; null where the reader brings a file. */
export function proofPanel(id, { signal, say }) {
  const key = h("input", { name: "key", spellcheck: "false", autocomplete: "off", placeholder: "NAME+HASH+BASE64", "aria-describedby": "key-help" });
  key.value = localStorage.getItem(KEPT) ?? "";
  const file = h("input", { type: "file", accept: ".json,application/json" });
  const result = h("div", { class: "proof-result" });
  const hindrance = obstacle();
  const start = h("button", { type: "submit", class: "button main", disabled: Boolean(hindrance) }, "Verify in this browser");
  const save = id ? h("button", { type: "button", class: "button", onclick: () => download() }, "Save the bundle") : null;
  const form = h(
    "form",
    { class: "proof-form" },
    field("The log's public key", key),
    h("p", { class: "quiet", id: "key-help" }, "From somebody you trust, not from this page; ", h("code", {}, "glassbox up"), " prints it. It is kept in this browser."),
    h("div", { class: "actions" }, id ? start : null, save, field(id ? "or check a file of yours" : "Bundle (choose it, or drop it here)", file)),
  );
  const element = h(
    "div",
    { class: "proof" },
    hindrance ? h("p", { class: "notice", role: "note" }, hindrance, " Save the bundle and check it where you trust the machine:") : null,
    form,
    result,
    h(
      "p",
      { class: "quiet" },
      "This page came from the gateway whose word it checks. To rely on nothing of it, check the saved bundle yourself:",
    ),
    h("pre", { class: "command", tabindex: 0, "aria-label": "Command" }, command(id, key.value)),
  );
  key.addEventListener("input", () => (element.querySelector(".command").textContent = command(id, key.value)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (id) check(fetchBundle);
  });
  file.addEventListener("change", () => file.files[0] && check(() => read(file.files[0])));
  for (const kind of ["dragover", "drop"])
    element.addEventListener(kind, (event) => {
      event.preventDefault();
      element.classList.toggle("dropping", kind === "dragover");
      const dropped = event.dataTransfer.files[0];
      if (kind === "drop" && dropped) check(() => read(dropped));
    });
  element.addEventListener("dragleave", () => element.classList.remove("dropping"));

  async function fetchBundle() {
    const answer = await request(ofEvaluation(id, "/proof"), { signal });
    return { name: `the bundle of ${id}`, bytes: new Uint8Array(await answer.arrayBuffer()) };
  }

  async function read(given) {
    if (given.size > MOST_BYTES) throw new Error("This file is larger than any bundle.");
    return { name: given.name, bytes: new Uint8Array(await given.arrayBuffer()) };
  }

  async function check(bring) {
    if (hindrance) return;
    replace(result, h("p", { class: "quiet" }, "Checking …"));
    try {
      const keys = key.value.trim() ? [await parseKey(key.value)] : [];
      if (keys.length) localStorage.setItem(KEPT, key.value.trim());
      else localStorage.removeItem(KEPT);
      const { name, bytes } = await bring();
      await showSteps(name, bytes, keys);
    } catch (error) {
      if (error.name !== "AbortError") replace(result, h("p", { class: "notice bad", role: "alert" }, marked(error.message)));
    }
  }

  async function showSteps(name, bytes, keys) {
    const list = h("ol", { class: "steps" });
    const verdict = h("p", { class: "proof-verdict" });
    replace(result, verdict, list);
    let last = null;
    for await (const step of verify(bytes, keys)) {
      last = step;
      list.append(stepLine(step));
    }
    const [kind, sign, word] = { true: ["pass", "✓", "Verified"], false: ["fail", "✕", "Does not hold"], null: ["review", "?", "Cannot tell"] }[last.holds];
    verdict.className = `proof-verdict ${kind}`;
    const where = last.holds ? `all ${list.children.length} steps hold for ` : `stopped at “${STEPS[last.name]}” for `;
    replace(verdict, h("span", { class: "sign", "aria-hidden": "true" }, sign), h("b", {}, ` ${word}: `), where, foreign(name));
    say(`${word}. ${marked(last.detail)}`);
  }

  async function download() {
    try {
      const { bytes } = await fetchBundle();
      saveFile(bytes, `${id}.proof.json`, "application/json");
    } catch (error) {
      replace(result, h("p", { class: "notice bad", role: "alert" }, error.message));
    }
  }

  return { element, run: () => id && !hindrance && check(fetchBundle) };
}

/** Give the reader a file. */
export function saveFile(content, name, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: address, download: name.replace(/[^\w.-]/g, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

const command = (id, key) =>
  `glassbox verify ${id ? `${id}.proof.json`.replace(/[^\w.-]/g, "_") : "FILE"} --key ${/^[\w.+/=-]+$/.test(key.trim()) ? key.trim() : "KEY"}`;

function stepLine({ name, holds, detail, facts }) {
  const [sign, word, kind] = { true: ["✓", "holds", "supported"], false: ["✕", "does not hold", "unsupported"], null: ["?", "cannot tell", "undecided"] }[holds];
  return h(
    "li",
    { class: `step ${kind}` },
    h("span", { class: `sign ${kind}`, "aria-hidden": "true" }, sign),
    h(
      "div",
      {},
      h("b", {}, STEPS[name]),
      h("span", { class: "unseen" }, `: ${word}. `),
      h("p", { class: "quiet" }, foreign(detail)),
      facts.length
        ? h(
            "details",
            {},
            h("summary", {}, "What was computed"),
            h("dl", { class: "facts" }, facts.map(([label, value]) => [h("dt", {}, label), h("dd", { class: "mono" }, value)])),
          )
        : null,
    ),
  );
}
