package canonical_test

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"testing"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/internal/vectors"
)

type file struct {
	Numbers []struct{ IEEE754, Canonical string }
	Values  []struct{ Name, JSON, Canonical, Digest string }
	Refused []struct{ Name, Hex, Field, Reason string }
}

func load(t testing.TB) (made file) {
	vectors.Load(t, "canonical.json", &made)
	if len(made.Numbers) == 0 || len(made.Values) == 0 || len(made.Refused) == 0 {
		t.Fatal("a section is empty")
	}
	return made
}

func TestNumbers(t *testing.T) {
	for _, vector := range load(t).Numbers {
		bits, err := strconv.ParseUint(vector.IEEE754, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if made := canonical.Number(math.Float64frombits(bits)).String(); made != vector.Canonical {
			t.Errorf("%s: %s, want %s", vector.IEEE754, made, vector.Canonical)
		}
	}
}

func TestValues(t *testing.T) {
	for _, vector := range load(t).Values {
		t.Run(vector.Name, func(t *testing.T) {
			value, err := canonical.Read([]byte(vector.JSON))
			if err != nil {
				t.Fatal(err)
			}
			made := canonical.Write(value)
			if string(made) != vector.Canonical || canonical.Digest(made) != vector.Digest {
				t.Errorf("%s, want %s", made, vector.Canonical)
			}
			again, err := canonical.Read(made)
			if err != nil || string(canonical.Write(again)) != string(made) {
				t.Errorf("%s does not come back: %v", made, err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, vector := range load(t).Refused {
		t.Run(vector.Name, func(t *testing.T) {
			raw, err := hex.DecodeString(vector.Hex)
			if err != nil {
				t.Fatal(err)
			}
			value, refused := canonical.Read(raw)
			if refused == nil {
				t.Fatalf("read as %v", value)
			}
			if refused.Field != vector.Field || !strings.Contains(refused.Reason, vector.Reason) {
				t.Errorf("%q: %s, want %q: %s", refused.Field, refused.Reason, vector.Field, vector.Reason)
			}
		})
	}
}
