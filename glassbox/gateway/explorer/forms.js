// Controls of forms.

import { h } from "./dom.js";
import { marked } from "./foreign.js";

export const field = (label, control) => h("label", { class: "field" }, h("span", {}, label), control);

export const options = (named) => Object.entries(named).map(([value, name]) => h("option", { value }, marked(name)));

/** A moment as `datetime-local` wants it; "" for none. */
export function local(time) {
  const at = new Date(time ?? "");
  return Number.isNaN(at.getTime()) ? "" : new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The moment that a reader chose, as the gateway wants it; "" for none. */
export const iso = (time) => (time ? new Date(time).toISOString() : "");

/** A select of models, whose values are [provider, name] as JSON. */
export function modelOptions(models, { provider = "", model = "" }, any) {
  const named = ([from, name]) => [from, name].filter(Boolean).join(" / ");
  const pairs = models.map((each) => [each.provider ?? "", each.name ?? ""]);
  const chosen = provider || model ? [[provider, model]] : [];
  return options({ "": any, ...Object.fromEntries([...chosen, ...pairs].map((pair) => [JSON.stringify(pair), named(pair)])) });
}

export const modelValue = ({ provider = "", model = "" }) => (provider || model ? JSON.stringify([provider, model]) : "");

export function readModel(value) {
  const [provider, model] = value ? JSON.parse(value) : ["", ""];
  return { provider, model };
}
