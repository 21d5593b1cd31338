// Package vectors reads the golden vectors that bind the chaincode and the Python side (tests/vectors/README.md).
package vectors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Load fills into with a file of tests/vectors.
func Load(t testing.TB, name string, into any) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "..", "..", "tests", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// Edit is a refused vector: the accepted one named Base with the value at At set to Set, or removed where there is none.
// The refusal names Field.
type Edit struct {
	Base  string
	At    []any
	Set   json.RawMessage
	Field string
}

// Of is the edited JSON text of its base.
func (e Edit) Of(t testing.TB, base []byte) []byte {
	t.Helper()
	var value any
	if err := json.Unmarshal(base, &value); err != nil {
		t.Fatal(err)
	}
	made, err := json.Marshal(edited(value, e.At, e.Set))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func edited(value any, at []any, set json.RawMessage) any {
	if len(at) == 0 {
		return set
	}
	switch made := value.(type) {
	case map[string]any:
		name, _ := at[0].(string)
		if len(at) == 1 && set == nil {
			delete(made, name)
		} else {
			made[name] = edited(made[name], at[1:], set)
		}
	case []any:
		index, _ := at[0].(float64)
		made[int(index)] = edited(made[int(index)], at[1:], set)
	}
	return value
}
