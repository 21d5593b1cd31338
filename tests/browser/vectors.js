// The golden vectors, held against the explorer's own modules in the browser. Gives what does not hold.
async (vectors) => {
  const { canonical, strictParse } = await import("/explorer/proof/canonical.js");
  const { compose } = await import("/explorer/proof/composite.js");
  const { checkPolicy, checkRecord, digestOf } = await import("/explorer/proof/record.js");
  const [CANONICAL, COMPOSITE, RECORD, POLICY] = vectors.map((text) => JSON.parse(text));
  const wrong = [];
  let held = 0;
  const expect = (holds, ...what) => (holds ? (held += 1) : wrong.push(what.map(String).join(" ")));
  const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const utf8 = (text) => new TextEncoder().encode(text);
  const refused = async (what, field, act) => {
    try {
      await act();
      expect(false, what, "was taken");
    } catch (error) {
      expect(error.field === field, what, error);
    }
  };
  const edited = (base, { at, ...edit }) => {
    const made = structuredClone(base);
    const inner = at.slice(0, -1).reduce((value, step) => value[step], made);
    if ("set" in edit) inner[at.at(-1)] = edit.set;
    else if (Array.isArray(inner)) inner.splice(at.at(-1), 1);
    else delete inner[at.at(-1)];
    return made;
  };

  for (const { ieee754, canonical: written } of CANONICAL.numbers)
    expect(canonical(new DataView(bytes(ieee754).buffer).getFloat64(0)) === written, ieee754);
  for (const { name, json, canonical: written, digest } of CANONICAL.values) {
    expect(canonical(strictParse(utf8(json))) === written, name);
    expect((await digestOf(strictParse(utf8(json)))) === digest, name);
  }
  for (const { name, hex, field } of CANONICAL.refused) await refused(name, field, () => strictParse(bytes(hex)));
  for (const { name, parts, policy, expect: want } of COMPOSITE.cases) {
    const made = compose(parts, COMPOSITE.policies[policy]);
    made.parts = Object.fromEntries([...made.parts].map(([part, row]) => [part, [row.judge, row.meets_target]]));
    expect(canonical(made) === canonical(want), name, canonical(made));
  }
  for (const { name, record, policy, bytes: written, digest } of RECORD.accepted) {
    await checkRecord(record, RECORD.policies[policy]).catch((error) => expect(false, name, error));
    expect(canonical(record) === written && (await digestOf(record)) === digest, name);
  }
  for (const edit of RECORD.refused) {
    const base = RECORD.accepted.find(({ name }) => name === edit.base);
    await refused(JSON.stringify(edit), edit.field, () => checkRecord(edited(base.record, edit), RECORD.policies[base.policy]));
  }
  for (const { by_kind, digest } of RECORD.evidence) expect((await digestOf(by_kind)) === digest, digest);
  for (const { name, bytes: written, digest } of [...POLICY.shipped, ...POLICY.accepted]) {
    const policy = strictParse(utf8(written));
    checkPolicy(policy);
    expect(canonical(policy) === written && (await digestOf(policy)) === digest, name);
  }
  for (const edit of POLICY.refused) {
    const base = JSON.parse(POLICY.shipped.find(({ name }) => name === edit.base).bytes);
    await refused(JSON.stringify(edit), edit.field, () => checkPolicy(edited(base, edit)));
  }
  return { held, wrong };
};
