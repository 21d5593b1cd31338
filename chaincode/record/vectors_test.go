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

// refuses holds a refusal against its vector.
func refuses(t *testing.T, e vectors.Edit, refused *Error) {
	t.Helper()
	if refused == nil {
		t.Errorf("%s %v: accepted", e.Base, e.At)
	} else if refused.Field != e.Field {
		t.Errorf("%s %v: %v, want the field %s", e.Base, e.At, refused, e.Field)
	}
}

func TestRecords(t *testing.T) {
	var file struct {
		Policies map[string]json.RawMessage
		Accepted []struct {
			Name, Bytes, Digest string
			Policy              *string
			Record              json.RawMessage
		}
		Refused  []vectors.Edit
		Evidence []struct {
			ByKind json.RawMessage `json:"by_kind"`
			Digest string
		}
	}
	vectors.Load(t, "record.json", &file)
	verdict := func(value any, policy *string) (*Record, *Error) {
		made, err := New(value)
		if err == nil && policy != nil {
			err = made.Follows(policyOf(t, file.Policies[*policy]))
		}
		return made, err
	}
	bases := map[string]int{}
	for n, vector := range file.Accepted {
		bases[vector.Name] = n
		made, err := verdict(read(t, vector.Record), vector.Policy)
		if err != nil {
			t.Fatalf("%s: %v", vector.Name, err)
		}
		if raw := made.Bytes(); string(raw) != vector.Bytes || canonical.Digest(raw) != vector.Digest {
			t.Errorf("%s: %s\nwant %s", vector.Name, raw, vector.Bytes)
		}
	}
	for _, vector := range file.Refused {
		base := file.Accepted[bases[vector.Base]]
		_, refused := verdict(read(t, vector.Of(t, base.Record)), base.Policy)
		refuses(t, vector, refused)
	}
	for _, vector := range file.Evidence {
		if digest := canonical.Digest(canonical.Write(read(t, vector.ByKind))); digest != vector.Digest {
			t.Errorf("%s: %s, want %s", vector.ByKind, digest, vector.Digest)
		}
	}
}

func TestPolicies(t *testing.T) {
	type cited struct{ Name, Bytes, Digest string }
	var file struct {
		Shipped, Accepted []cited
		Refused           []vectors.Edit
	}
	vectors.Load(t, "policy.json", &file)
	bases := map[string]string{}
	for _, vector := range append(file.Shipped, file.Accepted...) {
		bases[vector.Name] = vector.Bytes
		policy := policyOf(t, []byte(vector.Bytes))
		if string(policy.Bytes) != vector.Bytes || policy.Digest != vector.Digest {
			t.Errorf("%s: %s, want %s", vector.Name, policy.Digest, vector.Digest)
		}
	}
	for _, vector := range file.Refused {
		_, refused := NewPolicy(read(t, vector.Of(t, []byte(bases[vector.Base]))))
		refuses(t, vector, refused)
	}
}
