// What the gateway is asked. The key is kept for this tab alone (sessionStorage), and sent to the gateway alone.

const KEY = "glassbox.key";
const TENANT = "glassbox.tenant";
const CREDENTIALS = new Set(["unauthenticated"]);

/** A refusal of the gateway: its problem document, or that it cannot be reached. */
export class Problem extends Error {
  constructor({ type = "", title = "The gateway answered what this page does not understand", status = 0, detail = "" }) {
    super(detail ? `${title}: ${detail}` : title);
    this.code = type.split(":").at(-1);
    this.status = status;
  }
}

export const credentials = {
  get key() {
    return sessionStorage.getItem(KEY) ?? "";
  },
  get tenant() {
    return sessionStorage.getItem(TENANT) ?? "";
  },
  set(key, tenant) {
    sessionStorage.setItem(KEY, key);
    sessionStorage.setItem(TENANT, tenant);
  },
  forget() {
    sessionStorage.removeItem(KEY);
    sessionStorage.removeItem(TENANT);
  },
};

/** Asks the reader for a key; set by the page. Resolves once there is one, to false where the reader does not want. */
let ask = async () => false;
let asking = null;
export function onLocked(dialog) {
  ask = dialog;
}

/** Sends a request. Throws Problem; a signal that aborts throws AbortError. */
export async function request(path, { query = {}, headers = {}, ...options } = {}) {
  for (;;) {
    const used = credentials.key;
    try {
      return await send(path, query, headers, options);
    } catch (error) {
      if (!CREDENTIALS.has(error.code)) throw error;
      if (credentials.key !== used) continue; // given meanwhile, to another request
      asking ??= ask().finally(() => (asking = null));
      if (!(await asking)) throw error;
    }
  }
}

async function send(path, query, headers, options) {
  const address = new URL(path, document.baseURI);
  const named = { ...query, ...(credentials.tenant ? { tenant: credentials.tenant } : {}) };
  for (const [name, value] of Object.entries(named))
    if (value !== null && value !== undefined && value !== "") address.searchParams.set(name, value);
  const key = credentials.key;
  const sent = { ...headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let answer;
  try {
    answer = await fetch(address, { ...options, headers: sent, credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The gateway cannot be reached", detail: "is it running, and this machine online?" });
  }
  if (answer.ok) return answer;
  throw new Problem({ status: answer.status, ...(await answer.json().catch(() => ({}))) });
}

export const get = async (path, query, signal) => (await request(path, { query, signal })).json();

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

export const ofEvaluation = (id, more = "") => `v1/evaluations/${encodeURIComponent(id)}${more}`;
