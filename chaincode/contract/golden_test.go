package contract_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/internal/vectors"
)

const someTime = "2026-01-31T09:00:00.000Z"

// golden are the records and policies of the golden vectors.
type golden struct {
	policies map[string]string // name -> canonical bytes
	records  map[string]string // name -> bytes
	refused  []vectors.Edit
}

func loadGolden(t testing.TB) golden {
	t.Helper()
	var file struct {
		Policies map[string]json.RawMessage
		Accepted []struct{ Name, Bytes string }
		Refused  []vectors.Edit
	}
	vectors.Load(t, "record.json", &file)
	made := golden{policies: map[string]string{}, records: map[string]string{}, refused: file.Refused}
	for name, raw := range file.Policies {
		made.policies[name] = compact(t, raw)
	}
	for _, record := range file.Accepted {
		made.records[record.Name] = record.Bytes
	}
	return made
}

func compact(t testing.TB, raw []byte) string {
	t.Helper()
	value, err := canonical.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(canonical.Write(value))
}

// digest is the SHA-256 of a canonical text.
func digest(text string) string { return canonical.Digest([]byte(text)) }

// changed is a JSON object with some members set to other JSON texts.
func changed(t testing.TB, object string, members ...string) string {
	t.Helper()
	var made map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &made); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(members); n += 2 {
		made[members[n]] = json.RawMessage(members[n+1])
	}
	raw, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	return compact(t, raw)
}

// scorecard is the golden record that passes, under another id.
func (g golden) scorecard(t testing.TB, id string, members ...string) string {
	t.Helper()
	return changed(t, g.records["pass"], append([]string{"evaluation_id", fmt.Sprintf("%q", id)}, members...)...)
}

// registered is a ledger on which the policies of the golden records stand.
func (g golden) registered(t testing.TB, who people) *ledger {
	t.Helper()
	made := newLedger(t)
	for _, name := range []string{"default", "direct"} {
		made.ok(who.admin, "RegisterPolicy", g.policies[name], someTime)
	}
	return made
}
