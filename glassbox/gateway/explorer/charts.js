// Small drawings. Each says in words what it shows, and what it shows stands in figures beside it.

import { h, s, table } from "./dom.js";
import { OUTCOMES, count, moment, plain, short } from "./words.js";

/** A figure from 0 to 1 as a bar, with a tick where it has to reach, and the span in which it may lie. */
export function bar(value, { target = null, low = null, high = null, kind = "plain" } = {}) {
  const at = (figure) => (Number(figure) * 100).toFixed(2);
  const wide = low !== null && high !== null && low !== high;
  return s(
    "svg",
    { class: `bar ${kind}`, viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", x: 0, y: 3, width: 100, height: 6, rx: 1.5 }),
    value === null ? null : s("rect", { class: "value", x: 0, y: 3, width: at(value), height: 6, rx: 1.5 }),
    wide ? s("rect", { class: "span", x: at(low), y: 5, width: at(high - low), height: 2 }) : null,
    target === null ? null : s("rect", { class: "target", x: Math.min(99, at(target)), y: 0, width: 1, height: 12 }),
  );
}

/** An outcome as sign and word. */
export function pill(outcome) {
  if (outcome === null) return h("span", { class: "pill none" }, "–");
  const [word, sign] = OUTCOMES[outcome];
  return h("span", { class: `pill ${outcome}` }, h("span", { "aria-hidden": "true", class: "sign" }, sign), word);
}

/** Redraws when its width changes. `draw(width)` gives the inside of an SVG of that width in pixels. */
function fitted(height, label, draw) {
  const svg = s("svg", { class: "chart", height, role: "img", "aria-label": label });
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.round(svg.getBoundingClientRect().width);
    if (!width || width === last) return;
    last = width;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...draw(width));
  }).observe(svg);
  return svg;
}

const [TOP, LINE, BARS] = [8, 84, 44];

/** Mean trust as a line over how many evaluations there were, by outcome. */
export function trend(points, bucket) {
  const known = points.filter((point) => point.mean_trust !== null);
  const total = points.reduce((sum, { n }) => sum + n, 0);
  const label = known.length
    ? `Mean trust in ${count(known.length, "time step")}, last ${short(known.at(-1).mean_trust)}; ${count(total, "evaluation")}`
    : "No trust to draw";
  return fitted(TOP + LINE + BARS + 30, label, (width) => drawTrend(points, known, bucket, width));
}

function drawTrend(points, known, bucket, width) {
  const left = 30;
  const step = bucket === "hour" ? 3_600_000 : 86_400_000;
  const [first, last] = [Date.parse(points[0].at), Date.parse(points.at(-1).at) + step];
  const x = (at) => left + ((Date.parse(at) - first) / (last - first)) * (width - left - 2);
  const y = (trust) => TOP + (1 - Number(trust)) * LINE;
  const slot = ((width - left - 2) * step) / (last - first);
  const middle = (point) => x(point.at) + slot / 2;
  const most = Math.max(...points.map(({ n }) => n));
  const base = TOP + LINE + 12 + BARS;
  const made = [0, 0.5, 1].flatMap((trust) => [
    s("line", { class: "grid", x1: left, x2: width, y1: y(trust), y2: y(trust) }),
    s("text", { class: "tick", x: left - 6, y: y(trust) + 4, "text-anchor": "end" }, String(trust)),
  ]);
  for (const point of points) {
    let top = base;
    const title = `${moment(point.at)}: ${count(point.n, "evaluation")}, mean trust ${short(point.mean_trust)}`;
    const group = s("g", {}, s("title", {}, title));
    for (const outcome of ["fail", "incomplete", "review", "pass"]) {
      const height = (point[outcome] / most) * BARS;
      top -= height;
      const size = { x: x(point.at) + 0.5, y: top, width: Math.max(1, Math.min(slot - 1, 26)), height };
      if (height) group.append(s("rect", { class: `of-${outcome}`, ...size }));
    }
    made.push(group);
  }
  made.push(s("polyline", { class: "line", points: known.map((p) => `${middle(p)},${y(p.mean_trust)}`).join(" ") }));
  for (const point of known) made.push(s("circle", { class: "dot", cx: middle(point), cy: y(point.mean_trust), r: 2.5 }));
  made.push(
    s("text", { class: "tick", x: left, y: base + 15 }, moment(points[0].at).slice(0, bucket === "hour" ? 16 : 10)),
    s("text", { class: "tick", x: width, y: base + 15, "text-anchor": "end" }, "now"),
  );
  return made;
}

export function legend() {
  const names = Object.entries(OUTCOMES).map(([outcome, [word]]) =>
    h("li", {}, h("span", { class: `swatch of-${outcome}`, "aria-hidden": "true" }), word),
  );
  return h("ul", { class: "legend" }, h("li", {}, h("span", { class: "swatch line", "aria-hidden": "true" }), "mean trust"), names);
}

/** The figures of a trend, for who does not see it. */
export function trendTable(points) {
  return h(
    "details",
    { class: "figures" },
    h("summary", {}, "The same as a table"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Trend as a table" },
      table(
        "Trust over time",
        ["from", ["evaluations", "number"], ["mean trust", "number"], ...Object.values(OUTCOMES).map(([word]) => [word, "number"])],
        points.map((p) => [moment(p.at), p.n, short(p.mean_trust), ...Object.keys(OUTCOMES).map((each) => p[each])]),
      ),
    ),
  );
}

/** How a part's scores are spread over 20 bins; with `other`, as an outline, those of a second set. */
export function histogram(part, other = null) {
  const share = ({ histogram: bins, n }) => bins.map((bin) => (n ? bin / n : 0));
  const [mine, theirs] = [share(part), other && share(other)];
  const most = Math.max(...mine, ...(theirs ?? []), 0.0001);
  const y = (value) => 36 - (value / most) * 34;
  const outline = theirs?.flatMap((value, n) => [`${n * 5},${y(value)}`, `${n * 5 + 5},${y(value)}`]).join(" ");
  const spread = `${plain(part.part)}: mean ${short(part.mean)} of ${count(part.n, "score")}`;
  const label = other ? `${spread}; the other side: mean ${short(other.mean)} of ${count(other.n, "score")}` : spread;
  return s(
    "svg",
    { class: "histogram", viewBox: "0 0 100 38", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("line", { class: "grid", x1: 0, x2: 100, y1: 37, y2: 37 }),
    mine.map((value, n) => (value ? s("rect", { x: n * 5 + 0.5, y: y(value), width: 4, height: 36 - y(value) }) : null)),
    outline ? s("polyline", { class: "outline", points: outline }) : null,
  );
}

/** Small histograms of every part, one beside the other. */
export function distributions(parts) {
  return h(
    "ul",
    { class: "distributions" },
    parts.map((part) =>
      h(
        "li",
        {},
        h("span", { class: "name" }, plain(part.part)),
        h("span", { class: "mean", title: `mean of ${part.n}` }, short(part.mean)),
        histogram(part),
      ),
    ),
  );
}

/** Outcomes as parts of one bar, with their counts in words. */
export function outcomeShares(counts) {
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
  let at = 0;
  const pieces = Object.keys(OUTCOMES).map((outcome) => {
    const width = total ? (counts[outcome] / total) * 100 : 0;
    const piece = width ? s("rect", { class: `of-${outcome}`, x: at, y: 0, width, height: 8 }) : null;
    at += width;
    return piece;
  });
  const words = Object.entries(OUTCOMES).map(([outcome, [word, sign]]) =>
    h("li", {}, h("span", { class: `sign ${outcome}`, "aria-hidden": "true" }, sign), `${word} ${counts[outcome]}`),
  );
  return [
    s("svg", { class: "shares", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, pieces),
    h("ul", { class: "legend" }, words),
  ];
}
