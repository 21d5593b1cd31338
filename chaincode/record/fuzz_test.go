package record

import (
	"encoding/json"
	"slices"
	"testing"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/internal/vectors"
)

// FuzzRecord: any JSON is a record or is refused with a field and a rule, under any policy; what is a record comes back
// from its own bytes.
func FuzzRecord(f *testing.F) {
	var file struct {
		Policies map[string]json.RawMessage
		Accepted []struct{ Bytes string }
		Refused  []vectors.Edit
	}
	vectors.Load(f, "record.json", &file)
	policy := string(file.Policies["default"])
	for _, vector := range file.Accepted[:3] {
		f.Add([]byte(vector.Bytes), []byte(policy))
	}
	f.Add([]byte(file.Accepted[7].Bytes), []byte(`{"threshold":"0.000000"}`))
	f.Fuzz(func(t *testing.T, rawRecord, rawPolicy []byte) {
		value, malformed := canonical.Read(rawRecord)
		terms, malformedToo := canonical.Read(rawPolicy)
		if malformed != nil || malformedToo != nil {
			return
		}
		policy, broken := NewPolicy(terms)
		says(t, broken)
		made, broken := New(value)
		if says(t, broken); broken != nil {
			return
		}
		again, broken := New(read(t, made.Bytes()))
		if broken != nil || !slices.Equal(again.Bytes(), made.Bytes()) || again.ID != made.ID || !IsID(made.ID) {
			t.Fatalf("%s does not come back: %v", made.Bytes(), broken)
		}
		if policy == nil || made.Kind != "scorecard" {
			return
		}
		says(t, made.Follows(policy))
		policy.Digest = made.PolicyDigest
		says(t, made.Follows(policy)) // so that the arithmetic is reached too
	})
}

// says holds that a refusal names something.
func says(t *testing.T, broken *Error) {
	t.Helper()
	if broken != nil && (broken.Field == "" || broken.Rule == "") {
		t.Fatalf("a refusal that says nothing: %v", broken)
	}
}
