package record

import (
	"bytes"
	"fmt"

	"glassbox/chaincode/canonical"
)

// Follows returns an error unless a scorecard cites this policy, and its meets_target, judges, trust, bounds, coverage,
// outcome, reasons and missed targets follow from its parts by it.
func (r *Record) Follows(policy *Policy) *Error {
	if r.PolicyDigest != policy.Digest {
		return &Error{"policy_digest", "the digest of the policy at hand"}
	}
	rows := objects(r.value, "parts")
	want, err := compose(rows, policy)
	if err != nil {
		return err
	}
	for n, row := range rows {
		part := want.parts[text(row, "part")]
		for _, wanted := range []canonical.Member{
			{Name: "judge", Value: part.judge}, {Name: "meets_target", Value: part.meetsTarget},
		} {
			if err := equal(row, wanted, fmt.Sprintf("parts[%d].", n), "the policy"); err != nil {
				return err
			}
		}
	}
	for _, wanted := range want.fields {
		if err := equal(r.value, wanted, "", "arithmetic"); err != nil {
			return err
		}
	}
	return nil
}

func equal(value canonical.Object, wanted canonical.Member, prefix, by string) *Error {
	found, _ := value.Get(wanted.Name)
	if bytes.Equal(canonical.Write(found), canonical.Write(wanted.Value)) {
		return nil
	}
	return &Error{prefix + wanted.Name, fmt.Sprintf("%s by %s, not %s", shown(wanted.Value), by, shown(found))}
}
