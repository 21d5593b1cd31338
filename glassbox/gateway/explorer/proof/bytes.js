// Bytes as text and back, and SHA-256 by WebCrypto.

export const utf8 = (text) => new TextEncoder().encode(text);

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

export const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export function concat(...parts) {
  const made = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    made.set(part, at);
    at += part.length;
  }
  return made;
}

export const same = (one, other) => one.length === other.length && one.every((byte, n) => byte === other[n]);

/** Bytes of base64 that is written in the one way (RFC 4648); null for any other text. */
export function unbase64(text) {
  if (typeof text !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4) return null;
  const raw = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return base64(raw) === text ? raw : null;
}

export function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
