// The gateway's events (WHATWG HTML §9.2) over fetch, because EventSource cannot send a key. Comes back by itself where
// it left off.

import { request } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;
const SILENCE_MS = 45_000; // the gateway says something every 15 s

/** Calls `onEvent(object)` for each event and `onState("live" | "dropped" | "paused", missed)`, until `stop()`. `missed`:
 * there was a break, and nothing to say where to go on from. */
export function follow(onEvent, onState) {
  let [lastId, wait, stopped, broken] = [null, FIRST_WAIT_MS, false, false];
  let connection = new AbortController();
  let wake = () => {};

  async function run() {
    while (!stopped) {
      if (document.hidden) {
        onState("paused", false); // a browser has six connections to a host for all of its tabs
        await pause(Infinity);
        continue;
      }
      try {
        await once();
        wait = FIRST_WAIT_MS;
        continue; // its time was over, which is how these streams end
      } catch {
        if (stopped) return;
        if (document.hidden) continue;
        onState("dropped", false);
      }
      await pause(wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }

  async function once() {
    connection = new AbortController();
    const began = performance.now();
    let silence = setTimeout(() => connection.abort(), SILENCE_MS);
    try {
      const headers = lastId === null ? {} : { "Last-Event-ID": lastId };
      const answer = await request("v1/events", { headers, signal: connection.signal });
      onState("live", broken && lastId === null);
      broken = true;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(silence);
        silence = setTimeout(() => connection.abort(), SILENCE_MS);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        blocks.forEach(dispatch);
      }
    } finally {
      clearTimeout(silence);
    }
    if (performance.now() - began < FIRST_WAIT_MS) await pause(FIRST_WAIT_MS);
  }

  function dispatch(block) {
    const fields = {};
    for (const line of block.split("\n")) {
      const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
      if (name) fields[name] = value;
    }
    if (fields.id !== undefined) lastId = fields.id;
    if (fields.event === "scorecard") onEvent(JSON.parse(fields.data));
  }

  const pause = (ms) =>
    new Promise((resolve) => {
      wake = resolve;
      if (ms !== Infinity) setTimeout(resolve, ms);
    });
  const look = () => (document.hidden ? connection.abort() : wake());
  const online = () => wake();
  document.addEventListener("visibilitychange", look);
  addEventListener("online", online);
  run();
  return function stop() {
    stopped = true;
    document.removeEventListener("visibilitychange", look);
    removeEventListener("online", online);
    connection.abort();
    wake();
  };
}
