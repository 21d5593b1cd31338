// Spans of a text, and the pieces that it falls into where they begin and end.

/** Turns offsets in code points, as judges count, into offsets in UTF-16, as this language does. */
export function offsets(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (at) => Math.min(at, text.length);
  const starts = [];
  for (let at = 0; at < text.length; at += text.codePointAt(at) > 0xffff ? 2 : 1) starts.push(at);
  return (at) => starts[at] ?? text.length;
}

/** The spans that do not reach into one before them, in order; of two that overlap the later keeps what is left. */
export function apart(spans) {
  const made = [];
  let end = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start || other.end - one.end)) {
    const start = Math.max(span.start, end);
    if (start >= span.end) continue;
    made.push({ ...span, start });
    end = span.end;
  }
  return made;
}

/**
 * [from, to) cut where any span begins or ends: [{start, end, of}], `of` one from each layer or null. A layer is a list
 * of spans that are apart.
 */
export function pieces(from, to, layers) {
  const within = layers.map((spans) => spans.filter(({ start, end }) => start < to && end > from));
  const edges = within.flat().flatMap(({ start, end }) => [start, end]);
  const cuts = [...new Set([from, to, ...edges.filter((edge) => edge > from && edge < to)])].sort((a, b) => a - b);
  const at = layers.map(() => 0);
  return cuts.slice(0, -1).map((start, n) => ({
    start,
    end: cuts[n + 1],
    of: within.map((spans, layer) => {
      while (spans[at[layer]] && spans[at[layer]].end <= start) at[layer] += 1;
      const span = spans[at[layer]];
      return span && span.start <= start ? span : null;
    }),
  }));
}
