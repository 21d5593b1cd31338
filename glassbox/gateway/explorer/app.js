// Which view is shown, and what all of them share: the stream of events, the key, what is said aloud.

import { credentials, onLocked } from "./api.js";
import { h, replace } from "./dom.js";
import { follow } from "./stream.js";
import { showList } from "./list.js";
import { showEvaluation } from "./evaluation.js";
import { showCompare } from "./compare.js";
import { showPeople } from "./people.js";
import { showReplay } from "./replay.js";
import { showVerify } from "./verify.js";

const main = document.getElementById("content");
const VIEWS = {
  "": showList,
  evaluations: showEvaluation,
  compare: showCompare,
  people: showPeople,
  replay: showReplay,
  verify: showVerify,
};

/** `#/name/argument/…?query`. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name = "", ...rest] = path.split("/");
  return { name, rest: rest.map(decodeURIComponent), query: new URLSearchParams(query) };
}

let shown = { name: null, rest: [], leave: () => {}, update: null };

function show() {
  const { name, rest, query } = route();
  if (shown.update && name === shown.name && rest[0] === shown.rest[0]) {
    shown.rest = rest;
    shown.update(rest, query);
    return;
  }
  const first = shown.name === null;
  shown.leave();
  const leaving = new AbortController();
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : showNothing;
  replace(main);
  shown = { name, rest, leave: () => leaving.abort(), update: null };
  const { title, update = null } = view(main, rest, query, { signal: leaving.signal, say, live });
  shown.update = update;
  document.title = `${title} · GlassBox`;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === `#/${name === "evaluations" ? "" : name}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!first) {
    scrollTo(0, 0);
    (main.querySelector("h1") ?? main).focus();
  }
}

function showNothing(into) {
  replace(into, h("h1", { tabindex: -1 }, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "All evaluations")));
  return { title: "No such page" };
}

/** Say something to who listens; the same thing is not said twice in a row, nor more than one thing in 3 s. */
let [spoken, due, next] = ["", 0, null];
function say(text) {
  next = text;
  if (due) return;
  due = setTimeout(() => {
    due = 0;
    if (next !== spoken) document.getElementById("spoken").textContent = spoken = next;
  }, Math.max(0, 3000 - performance.now() + saidAt));
  saidAt = performance.now();
}
let saidAt = -3000;

/** The stream of events, one for the page. Listeners get (kind, what): "event", or "state" with whether some were missed. */
const listeners = new Set();
const live = {
  subscribe(listener, signal) {
    listeners.add(listener);
    signal?.addEventListener("abort", () => listeners.delete(listener));
  },
};
const WORDS = {
  live: ["Live", "New evaluations appear by themselves."],
  dropped: ["Not live", "The stream dropped; trying to get it back."],
  paused: ["Paused", "Goes on when this page is looked at."],
};

function startStream() {
  let [state, timer] = [null, 0];
  const tell = (kind, what) => listeners.forEach((listener) => listener(kind, what));
  return follow(
    (event) => tell("event", event),
    (now, missed) => {
      clearTimeout(timer);
      // a stream that ends and is back at once is nothing to tell
      timer = setTimeout(() => showState(now, state), now === "dropped" ? 1500 : 0);
      if (now === "live" && missed) tell("state", true);
    },
  );

  function showState(now, before) {
    const [word, more] = WORDS[now];
    const element = document.getElementById("stream");
    element.className = `stream ${now}`;
    replace(element, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { title: more }, word));
    if (now === "dropped" && before !== "dropped") say("The stream of evaluations dropped. Trying to get it back.");
    if (now === "live" && before === "dropped") say("The stream of evaluations is back.");
    state = now;
  }
}

const dialog = document.getElementById("locked");

/** Asks for a key. Resolves to whether there is one now. */
function askForKey() {
  const form = dialog.querySelector("form");
  form.elements.key.value = credentials.key;
  form.elements.tenant.value = credentials.tenant;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const use = dialog.returnValue === "use" && form.elements.key.value.trim() !== "";
        if (use) credentials.set(form.elements.key.value.trim(), form.elements.tenant.value.trim());
        if (dialog.returnValue === "forget") credentials.forget();
        form.reset();
        resolve(use);
      },
      { once: true },
    );
  });
}

let stop = () => {};
function restart() {
  stop();
  stop = startStream();
}

document.getElementById("key").addEventListener("click", async () => {
  const before = `${credentials.key} ${credentials.tenant}`;
  await askForKey();
  if (before !== `${credentials.key} ${credentials.tenant}`) location.reload(); // nothing of the other key's stays
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash names a view
  main.focus();
});
onLocked(askForKey);
addEventListener("hashchange", show);
show();
restart();
