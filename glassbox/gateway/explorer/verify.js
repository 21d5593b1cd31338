// A bundle that the reader brings, checked here; nothing is sent anywhere.

import { h, replace } from "./dom.js";
import { proofPanel } from "./proofpanel.js";

export function showVerify(into, _rest, _query, tools) {
  replace(
    into,
    h("h1", { tabindex: -1 }, "Verify a file"),
    h("p", { class: "lead" }, "A proof bundle, as ", h("code", {}, "glassbox proof ID -o FILE"), " writes it. It stays in this browser."),
    h("section", { class: "card", "aria-label": "Proof" }, proofPanel(null, tools).element),
  );
  return { title: "Verify a file" };
}
