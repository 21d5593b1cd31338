// From the parts' recorded figures to trust and outcome, in exact arithmetic on whole numbers; the same rules as
// glassbox/contract/composite.py, held to them by the golden vectors.

const ONE = 1_000_000n;

/** A figure of 6 places in units of its last place. */
const units = (text) => BigInt(text.replace(".", ""));

function written(value) {
  const digits = String(value).padStart(7, "0");
  return `${digits.slice(0, -6)}.${digits.slice(-6)}`;
}

function halfEven(dividend, divisor) {
  const quotient = dividend / divisor;
  const twice = 2n * (dividend % divisor);
  return quotient + (twice > divisor || (twice === divisor && quotient % 2n === 1n) ? 1n : 0n);
}

const sum = (values) => values.reduce((total, value) => total + value, 0n);

/** Part -> its judge, target, weight in the judge, and weight in the whole: whole numbers in the right proportions. */
function enabledParts(policy) {
  const judges = Object.entries(policy.judges)
    .filter(([, settings]) => settings.enabled)
    .map(([judge, settings]) => {
      const parts = Object.entries(settings.parts).filter(([, part]) => part.enabled);
      return { judge, weight: units(settings.weight), parts, total: sum(parts.map(([, part]) => units(part.weight))) };
    });
  const scale = judges.reduce((product, { total }) => product * (total || 1n), 1n);
  const table = new Map();
  for (const { judge, weight, parts, total } of judges)
    for (const [name, part] of parts) {
      const own = units(part.weight);
      const whole = total ? (weight * own * scale) / total : 0n; // exact: total divides scale
      table.set(name, { judge, own, whole, target: part.target });
    }
  return table;
}

function meetsTarget(score, target) {
  if (score === null || target === null) return null;
  return units(score) > units(target) || units(score) === ONE;
}

function mean(values, weight) {
  const total = sum([...values.keys()].map(weight));
  if (!total) return null;
  return written(halfEven(sum([...values].map(([name, value]) => weight(name) * value)), total));
}

function ratio(some, all, weight) {
  const total = sum(all.map(weight));
  return written(total ? halfEven(sum(some.map(weight)) * ONE, total) : 0n);
}

/** What a record says besides its parts' own figures. Throws where the parts are not the policy's enabled parts. */
export function compose(parts, policy) {
  const table = enabledParts(policy);
  const rows = new Map(parts.map((row) => [row.part, row]));
  if (rows.size !== parts.length || rows.size !== table.size || [...rows.keys()].some((name) => !table.has(name)))
    throw new Error(`parts: want exactly ${[...table.keys()].sort().join(", ")}`);

  const whole = (name) => table.get(name).whole;
  const names = (state) => [...rows.keys()].filter((name) => rows.get(name).state === state);
  const scored = names("scored");
  const failed = names("failed");
  const figures = (key, ofFailed) =>
    new Map([...scored.map((name) => [name, units(rows.get(name)[key])]), ...failed.map((name) => [name, ofFailed])]);
  const score = new Map(scored.map((name) => [name, units(rows.get(name).score)]));

  let trust = mean(score, whole);
  const low = mean(figures("low", 0n), whole);
  const high = mean(figures("high", ONE), whole);
  const coverage = ratio(scored, [...table.keys()], whole);
  const met = new Map([...table].map(([name, { target }]) => [name, meetsTarget(rows.get(name).score, target)]));
  const missed = [...met.keys()].filter((name) => met.get(name) === false);
  const threshold = units(policy.threshold);
  const faithfulness = rows.get("faithfulness");
  const abstains = faithfulness?.state === "not_applicable" && faithfulness.cause === "abstained";
  const covered = units(coverage) >= units(policy.min_coverage);
  const noneScored = trust === null;
  if (!covered) trust = null;

  const vetoed = missed.filter((name) => policy.vetoes.includes(name));
  const beyondReach = high !== null && units(high) < threshold && covered && !abstains;
  const incomplete = failed.map((name) => `failed:${name}`);
  if (trust === null) incomplete.push(noneScored ? "no_scored_part" : "low_coverage");
  if (abstains && policy.abstention === "incomplete") incomplete.push("abstained");
  const below = trust !== null && units(trust) < threshold;
  const doubtful = missed.filter((name) => policy.review_on.includes(name));

  let outcome = "pass";
  if (vetoed.length || beyondReach) outcome = "fail";
  else if (incomplete.length) outcome = "incomplete";
  else if (below) outcome = "fail";
  else if (doubtful.length) outcome = "review";
  const reasons = [
    ...vetoed.map((name) => `veto:${name}`),
    ...incomplete,
    ...doubtful.map((name) => `review:${name}`),
    ...(below ? ["below_threshold"] : []),
    ...(beyondReach ? ["beyond_reach"] : []),
  ];
  const judges = [...new Set([...table.values()].map(({ judge }) => judge))].sort();
  return {
    parts: new Map([...table].map(([name, { judge }]) => [name, { judge, meets_target: met.get(name) }])),
    judges: judges.map((judge) => {
      const mine = [...table.keys()].filter((name) => table.get(name).judge === judge);
      const own = (name) => table.get(name).own;
      const values = new Map([...score].filter(([name]) => mine.includes(name)));
      return { judge, score: mean(values, own), coverage: ratio([...values.keys()], mine, own) };
    }),
    trust,
    trust_low: low,
    trust_high: high,
    coverage,
    outcome,
    reasons: reasons.sort(),
    missed_targets: missed.sort(),
  };
}
