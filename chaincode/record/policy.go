package record

import (
	"fmt"
	"math/big"
	"slices"

	"glassbox/chaincode/canonical"
)

// MaxPolicyBytes is the longest canonical form of a policy.
const MaxPolicyBytes = 64 * 1024

var policyFields = []field{
	{"threshold", isFigure},
	{"min_coverage", isFigure},
	{"abstention", oneOf("incomplete", "ignore")},
	{"vetoes", each(isCode)},
	{"review_on", each(isCode)},
	{"judges", table([]field{
		{"enabled", isFlag},
		{"weight", isWeight},
		{"parts", table([]field{{"enabled", isFlag}, {"weight", isWeight}, {"target", orNull(isFigure)}})},
	})},
}

// Policy is what the arithmetic needs of a canonical policy. Figures and weights are integers in units of their sixth
// decimal place.
type Policy struct {
	Bytes  []byte // RFC 8785
	Digest string

	threshold, minCoverage int64
	ignoreAbstention       bool
	vetoes, reviewOn       []string
	parts                  []policyPart // the enabled parts, sorted by (judge, part)
}

type policyPart struct {
	judge, name string
	target      string   // a figure, or "" for none
	inJudge     *big.Int // v, the part's weight in its judge
	inWhole     *big.Int // in the proportions of W = w·v / Σv, multiplied out to integers
}

// NewPolicy reads a policy from a JSON value, or says what of it the arithmetic cannot be done by. The policy's other
// rules are those of glassbox/contract/policy.py.
func NewPolicy(value any) (*Policy, *Error) {
	made, ok := value.(canonical.Object)
	if !ok {
		return nil, &Error{"policy", "an object"}
	}
	for _, f := range policyFields {
		inner, present := made.Get(f.name)
		if !present {
			return nil, &Error{"policy." + f.name, "present"}
		}
		if err := f.check(inner, "policy."+f.name); err != nil {
			return nil, err
		}
	}
	p := &Policy{
		Bytes:            canonical.Write(made),
		threshold:        units(text(made, "threshold")),
		minCoverage:      units(text(made, "min_coverage")),
		ignoreAbstention: text(made, "abstention") == "ignore",
		vetoes:           strs(made, "vetoes"),
		reviewOn:         strs(made, "review_on"),
	}
	if len(p.Bytes) > MaxPolicyBytes {
		return nil, &Error{"policy", fmt.Sprintf("at most %d bytes in canonical form, not %d", MaxPolicyBytes, len(p.Bytes))}
	}
	p.Digest = canonical.Digest(p.Bytes)
	judges := objectAt(made, "judges")
	if !namedOnce(judges) {
		return nil, &Error{"policy.judges", "each part named once"}
	}
	p.parts = enabledParts(judges)
	return p, nil
}

func namedOnce(judges canonical.Object) bool {
	var names []string
	for _, judge := range judges {
		for _, part := range objectAt(objectAt(judges, judge.Name), "parts") {
			names = append(names, part.Name)
		}
	}
	slices.Sort(names)
	return len(slices.Compact(slices.Clone(names))) == len(names)
}

// enabledParts leaves out a judge that is disabled or has no enabled part. Judges and parts come sorted, since an
// object is.
func enabledParts(judges canonical.Object) []policyPart {
	var made []policyPart
	var totals []*big.Int // of each judge, in the order of parts
	scale := big.NewInt(1)
	for _, judge := range judges {
		settings := objectAt(judges, judge.Name)
		if !flag(settings, "enabled") {
			continue
		}
		weight := big.NewInt(units(text(settings, "weight")))
		first, total := len(made), new(big.Int)
		parts := objectAt(settings, "parts")
		for _, part := range parts {
			its := objectAt(parts, part.Name)
			if !flag(its, "enabled") {
				continue
			}
			v := big.NewInt(units(text(its, "weight")))
			total.Add(total, v)
			made = append(made, policyPart{
				judge: judge.Name, name: part.Name, target: text(its, "target"),
				inJudge: v, inWhole: new(big.Int).Mul(weight, v),
			})
		}
		if total.Sign() == 0 {
			total.SetInt64(1) // all v are 0, and so is every W
		}
		for range made[first:] {
			totals = append(totals, total)
		}
		scale = leastCommonMultiple(scale, total)
	}
	for n, part := range made {
		part.inWhole.Mul(part.inWhole, new(big.Int).Quo(scale, totals[n]))
	}
	return made
}

func leastCommonMultiple(a, b *big.Int) *big.Int {
	divisor := new(big.Int).GCD(nil, nil, a, b)
	return divisor.Mul(new(big.Int).Quo(a, divisor), b)
}

// names of the enabled parts, sorted.
func (p *Policy) names() []string {
	names := make([]string, len(p.parts))
	for n, part := range p.parts {
		names[n] = part.name
	}
	slices.Sort(names)
	return names
}
