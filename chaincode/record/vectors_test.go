package record

import (
	"encoding/json"
	"testing"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/internal/vectors"
)

func read(t testing.TB, raw []byte) any {
	t.Helper()
	value, err := canonical.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func policyOf(t testing.TB, raw []byte) *Policy {
	t.Helper()
	policy, err := NewPolicy(read(t, raw))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

func TestComposite(t *testing.T) {
	var file struct {
		Policies map[string]json.RawMessage
		Cases    []struct {
			Name, Policy  string
			Parts, Expect json.RawMessage
		}
	}
	vectors.Load(t, "composite.json", &file)
	for _, vector := range file.Cases {
		t.Run(vector.Name, func(t *testing.T) {
			rows := objects(canonical.NewObject(canonical.Member{Name: "parts", Value: read(t, vector.Parts)}), "parts")
			made, err := compose(rows, policyOf(t, file.Policies[vector.Policy]))
			if err != nil {
				t.Fatal(err)
			}
			parts := []canonical.Member{}
			for name, part := range made.parts {
				parts = append(parts, canonical.Member{Name: name, Value: []any{part.judge, part.meetsTarget}})
			}
			fields := append(made.fields, canonical.Member{Name: "parts", Value: canonical.NewObject(parts...)})
			want := string(canonical.Write(read(t, vector.Expect)))
			if got := string(canonical.Write(canonical.NewObject(fields...))); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

type recordFile struct {
	Policies map[string]json.RawMessage
	Accepted []struct {
		Name, Bytes, Digest string
		Policy              *string
		Record              json.RawMessage
	}
	Refused []struct {
		Base  string
		At    []any
		Set   json.RawMessage
		Field string
	}
	Evidence []struct {
		ByKind json.RawMessage `json:"by_kind"`
		Digest string
	}
}

// verdict is what the ledger makes of a record under a policy, nil where it needs none.
func verdict(value any, policy *Policy) (*Record, *Error) {
	made, err := New(value)
	if err == nil && policy != nil {
		err = made.Follows(policy)
	}
	return made, err
}

func TestRecords(t *testing.T) {
	var file recordFile
	vectors.Load(t, "record.json", &file)
	bases := map[string]int{}
	policy := func(name *string) *Policy {
		if name == nil {
			return nil
		}
		return policyOf(t, file.Policies[*name])
	}
	for n, vector := range file.Accepted {
		bases[vector.Name] = n
		t.Run(vector.Name, func(t *testing.T) {
			made, err := verdict(read(t, vector.Record), policy(vector.Policy))
			if err != nil {
				t.Fatal(err)
			}
			if raw := made.Bytes(); string(raw) != vector.Bytes || canonical.Digest(raw) != vector.Digest {
				t.Errorf("%s\nwant %s", raw, vector.Bytes)
			}
		})
	}
	for _, vector := range file.Refused {
		base := file.Accepted[bases[vector.Base]]
		var value any
		if err := json.Unmarshal(base.Record, &value); err != nil {
			t.Fatal(err)
		}
		edited, err := json.Marshal(edit(value, vector.At, vector.Set))
		if err != nil {
			t.Fatal(err)
		}
		_, refused := verdict(read(t, edited), policy(base.Policy))
		switch {
		case refused == nil:
			t.Errorf("%s %v: accepted", vector.Base, vector.At)
		case refused.Field != vector.Field:
			t.Errorf("%s %v: %v, want the field %s", vector.Base, vector.At, refused, vector.Field)
		}
	}
	for _, vector := range file.Evidence {
		if digest := canonical.Digest(canonical.Write(read(t, vector.ByKind))); digest != vector.Digest {
			t.Errorf("%s: %s, want %s", vector.ByKind, digest, vector.Digest)
		}
	}
}

// edit sets the value at a path, or removes it where there is none.
func edit(value any, at []any, set json.RawMessage) any {
	if len(at) == 0 {
		return set
	}
	switch made := value.(type) {
	case map[string]any:
		name, _ := at[0].(string)
		if len(at) == 1 && set == nil {
			delete(made, name)
		} else {
			made[name] = edit(made[name], at[1:], set)
		}
	case []any:
		index, _ := at[0].(float64)
		made[int(index)] = edit(made[int(index)], at[1:], set)
	}
	return value
}

func TestShippedPolicies(t *testing.T) {
	var file struct {
		Shipped []struct{ Name, Bytes, Digest string }
	}
	vectors.Load(t, "policy.json", &file)
	for _, vector := range file.Shipped {
		policy := policyOf(t, []byte(vector.Bytes))
		if string(policy.Bytes) != vector.Bytes || policy.Digest != vector.Digest {
			t.Errorf("%s: %s, want %s", vector.Name, policy.Digest, vector.Digest)
		}
	}
}
