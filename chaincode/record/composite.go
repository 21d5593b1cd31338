package record

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"glassbox/chaincode/canonical"
)

const one = 1_000_000 // 1.000000 in units of the sixth place

// composite is what follows from a record's parts by a policy.
type composite struct {
	parts  map[string]computedPart // by name; never iterated
	fields []canonical.Member      // the record's computed fields, in the order in which they are compared
}

type computedPart struct {
	judge       string
	meetsTarget any
}

// judgedPart is an enabled part with its recorded figures, in units. One that failed has the bounds 0 and 1.
type judgedPart struct {
	policyPart
	state, cause     string
	score, low, high int64
}

// compose recomputes judge scores, trust, bounds, coverage, outcome and its reasons from the recorded figures. All of it
// is exact integer arithmetic, and each result is rounded once, half to even. Of a row it reads part, state, score, low,
// high and cause.
func compose(rows []canonical.Object, policy *Policy) (*composite, *Error) {
	parts, err := judgedParts(rows, policy)
	if err != nil {
		return nil, err
	}
	scored, bounded := having(parts, isScored), having(parts, isBounded)
	trust := mean(scored, inWhole, score)
	low, high := mean(bounded, inWhole, lowBound), mean(bounded, inWhole, highBound)
	coverage := share(scored, parts, inWhole)

	made := &composite{parts: map[string]computedPart{}}
	var missed, failed []string
	abstains := false
	for _, part := range parts {
		meets := part.meetsTarget()
		made.parts[part.name] = computedPart{part.judge, meets}
		if meets == false {
			missed = append(missed, part.name)
		}
		if part.state == "failed" {
			failed = append(failed, "failed:"+part.name)
		}
		abstains = abstains || part.name == "faithfulness" && part.state == "not_applicable" && part.cause == "abstained"
	}
	slices.Sort(missed)

	covered := units(coverage) >= policy.minCoverage
	incomplete := failed
	switch {
	case trust == nil:
		incomplete = append(incomplete, "no_scored_part")
	case !covered:
		incomplete = append(incomplete, "low_coverage")
	}
	if abstains && !policy.ignoreAbstention {
		incomplete = append(incomplete, "abstained")
	}
	if !covered {
		trust = nil
	}
	vetoed := prefixed("veto:", missed, policy.vetoes)
	doubtful := prefixed("review:", missed, policy.reviewOn)
	beyondReach := under(high, policy.threshold) && covered && !abstains
	below := under(trust, policy.threshold)

	reasons := slices.Concat(vetoed, incomplete, doubtful)
	if below {
		reasons = append(reasons, "below_threshold")
	}
	if beyondReach {
		reasons = append(reasons, "beyond_reach")
	}
	slices.Sort(reasons)

	outcome := "pass"
	switch {
	case len(vetoed) > 0 || beyondReach:
		outcome = "fail"
	case len(incomplete) > 0:
		outcome = "incomplete"
	case below:
		outcome = "fail"
	case len(doubtful) > 0:
		outcome = "review"
	}
	made.fields = []canonical.Member{
		{Name: "judges", Value: judgeRows(parts)},
		{Name: "trust", Value: trust},
		{Name: "trust_low", Value: low},
		{Name: "trust_high", Value: high},
		{Name: "coverage", Value: coverage},
		{Name: "outcome", Value: outcome},
		{Name: "reasons", Value: values(reasons)},
		{Name: "missed_targets", Value: values(missed)},
	}
	return made, nil
}

// judgedParts joins the rows to the policy's enabled parts, of which there must be exactly these.
func judgedParts(rows []canonical.Object, policy *Policy) ([]judgedPart, *Error) {
	at := make(map[string]canonical.Object, len(rows))
	names := make([]string, len(rows))
	for n, row := range rows {
		names[n] = text(row, "part")
		at[names[n]] = row
	}
	slices.Sort(names)
	if !slices.Equal(names, policy.names()) {
		return nil, &Error{"parts", shortened(fmt.Sprintf("the enabled parts of the policy (want exactly %s, got %s)",
			strings.Join(policy.names(), ", "), strings.Join(names, ", ")), 1000)}
	}
	parts := make([]judgedPart, len(policy.parts))
	for n, part := range policy.parts {
		row := at[part.name]
		parts[n] = judgedPart{policyPart: part, state: text(row, "state"), cause: text(row, "cause")}
		switch parts[n].state {
		case "scored":
			parts[n].score, parts[n].low, parts[n].high =
				units(text(row, "score")), units(text(row, "low")), units(text(row, "high"))
		case "failed":
			parts[n].high = one
		}
	}
	return parts, nil
}

// meetsTarget is whether a score meets its target (score > target, or a perfect score); nil without either.
func (part judgedPart) meetsTarget() any {
	if !isScored(part) || part.target == "" {
		return nil
	}
	return part.score > units(part.target) || part.score == one
}

func isScored(part judgedPart) bool  { return part.state == "scored" }
func isBounded(part judgedPart) bool { return part.state != "not_applicable" }

func inJudge(part judgedPart) *big.Int { return part.inJudge }
func inWhole(part judgedPart) *big.Int { return part.inWhole }

func score(part judgedPart) int64     { return part.score }
func lowBound(part judgedPart) int64  { return part.low }
func highBound(part judgedPart) int64 { return part.high }

func having(parts []judgedPart, wanted func(judgedPart) bool) []judgedPart {
	var made []judgedPart
	for _, part := range parts {
		if wanted(part) {
			made = append(made, part)
		}
	}
	return made
}

// judgeRows are the judges' own scores; parts are sorted by judge.
func judgeRows(parts []judgedPart) []any {
	made := []any{}
	for first := 0; first < len(parts); {
		judge, last := parts[first].judge, first
		for last < len(parts) && parts[last].judge == judge {
			last++
		}
		its := parts[first:last]
		scored := having(its, isScored)
		made = append(made, canonical.NewObject(
			canonical.Member{Name: "judge", Value: judge},
			canonical.Member{Name: "score", Value: mean(scored, inJudge, score)},
			canonical.Member{Name: "coverage", Value: share(scored, its, inJudge)},
		))
		first = last
	}
	return made
}

// mean is Σ weight·value / Σ weight, nil where the parts together weigh nothing.
func mean(parts []judgedPart, weight func(judgedPart) *big.Int, value func(judgedPart) int64) any {
	sum := new(big.Int)
	for _, part := range parts {
		sum.Add(sum, new(big.Int).Mul(weight(part), big.NewInt(value(part))))
	}
	total := weighing(parts, weight)
	if total.Sign() == 0 {
		return nil
	}
	return halfEven(sum, total)
}

// share is what some of the parts weigh in all of them, 0 where all of them weigh nothing.
func share(some, all []judgedPart, weight func(judgedPart) *big.Int) string {
	total := weighing(all, weight)
	if total.Sign() == 0 {
		total.SetInt64(1)
	}
	part := weighing(some, weight)
	return halfEven(part.Mul(part, big.NewInt(one)), total)
}

func weighing(parts []judgedPart, weight func(judgedPart) *big.Int) *big.Int {
	total := new(big.Int)
	for _, part := range parts {
		total.Add(total, weight(part))
	}
	return total
}

// halfEven is the figure dividend / divisor, counted in units, rounded half to even. Neither is negative.
func halfEven(dividend, divisor *big.Int) string {
	quotient, rest := new(big.Int).QuoRem(dividend, divisor, new(big.Int))
	order := rest.Lsh(rest, 1).Cmp(divisor)
	if order > 0 || order == 0 && quotient.Bit(0) == 1 {
		quotient.Add(quotient, big.NewInt(1))
	}
	made := quotient.Int64() // a mean of figures: at most 1.000000
	return fmt.Sprintf("%d.%06d", made/one, made%one)
}

// units are a decimal string of 6 places counted in its last; 0 for "".
func units(figure string) int64 {
	made := int64(0)
	for _, c := range figure {
		if c != '.' {
			made = made*10 + int64(c-'0')
		}
	}
	return made
}

// under compares a figure or nil with units; nil is under nothing.
func under(figure any, threshold int64) bool {
	made, some := figure.(string)
	return some && units(made) < threshold
}

// prefixed are those of some, sorted, that are also in list.
func prefixed(prefix string, some, list []string) []string {
	var made []string
	for _, name := range some {
		if slices.Contains(list, name) {
			made = append(made, prefix+name)
		}
	}
	return made
}

func values(texts []string) []any {
	made := make([]any, len(texts))
	for n, text := range texts {
		made[n] = text
	}
	return made
}
