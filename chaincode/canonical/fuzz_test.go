package canonical_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"glassbox/chaincode/canonical"
)

// FuzzRead holds the strict reader against two others: it reads nothing that encoding/json does not, says "not JSON" of
// nothing that encoding/json reads, and what it reads it writes as the jcs package does.
func FuzzRead(f *testing.F) {
	vectors := load(f)
	for _, vector := range vectors.Values {
		f.Add([]byte(vector.JSON))
	}
	for _, vector := range vectors.Refused {
		raw, _ := hex.DecodeString(vector.Hex)
		f.Add(raw)
	}
	for _, text := range malformed {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		value, refused := canonical.Read(raw)
		if refused != nil {
			if json.Valid(raw) && strings.Contains(refused.Reason, "not JSON") {
				t.Fatalf("%q: %s", raw, refused)
			}
			if refused.Error() == "" || len([]rune(refused.Field)) > 160 {
				t.Fatalf("%q: %s", raw, refused)
			}
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q is not JSON, and was read as %v", raw, value)
		}
		made := canonical.Write(value)
		again, refused := canonical.Read(made)
		if refused != nil || string(canonical.Write(again)) != string(made) {
			t.Fatalf("%q was written as %q, which does not come back: %v", raw, made, refused)
		}
		oracle, err := jcs.Transform(append(append([]byte("["), raw...), ']')) // it takes no bare values
		if err != nil || string(oracle) != "["+string(made)+"]" {
			t.Fatalf("%q was written as %q, by jcs as %q: %v", raw, made, oracle, err)
		}
	})
}

// malformed are JSON texts broken at each place that the grammar has.
var malformed = []string{
	"", " ", "nul", "tru", "fals", "x", "[", "[1", "[1,", "[1,]", "[1 2]", "[,]", "{", "{a", `{"a`, `{"a"`, `{"a" 1}`,
	`{"a":`, `{"a":}`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a":1,2}`, `"`, `"\`, `"\x"`, `"\u12"`,
	`"\u12g4"`, `"\u`, "\"\x1f\"", "\"\n\"", "-", "+1", "01", "-01", ".5", "1.", "1.e1", "1e", "1e+", "0x10", "1_000",
	"--1", "-x", "1]", "[]]", "{}}", "[1]x", "\u00a0[]", "[]\x00", "nullx", "'a'",
}

func TestMalformed(t *testing.T) {
	for _, text := range malformed {
		value, refused := canonical.Read([]byte(text))
		if refused == nil || refused.Field != "" || !strings.HasPrefix(refused.Reason, "not JSON: ") {
			t.Errorf("%q: read as %v, %v", text, value, refused)
		}
		if json.Valid([]byte(text)) {
			t.Errorf("%q is JSON", text)
		}
	}
}

func TestPathOfAnError(t *testing.T) {
	long := strings.Repeat("é", 200)
	for text, want := range map[string]string{
		`{"a":[{"":{"b":NaN}}]}`:        "a[0]..b",
		`{"":NaN}`:                      "",
		`{"` + long + `":NaN}`:          long[:320],
		`{"a\u0007\n\u007f":[1,1e400]}`: "a\ufffd\ufffd\ufffd[1]",
		`[[1,1],[2,{"b":2,"b":3}]]`:     "[1][1].b",
	} {
		if _, refused := canonical.Read([]byte(text)); refused == nil || refused.Field != want {
			t.Errorf("%s: %v, want %s", text, refused, want)
		}
	}
}

// TestHostileSizes: what is long or deep costs time in proportion to its length, and no stack.
func TestHostileSizes(t *testing.T) {
	key := strings.Repeat("k", 1<<20)
	for _, text := range []string{
		strings.Repeat("[", 1<<22),
		strings.Repeat(`{"a":`, 1<<20),
		`{"` + key + `":[` + strings.Repeat("0,", 1<<20) + `NaN]}`, // a path of a mebibyte, a million times
		"[" + strings.Repeat("9", 1<<20) + "]",
		"[1e" + strings.Repeat("9", 1<<20) + "]",
	} {
		if _, refused := canonical.Read([]byte(text)); refused == nil {
			t.Errorf("%.40s: read", text)
		}
	}
}

func TestWriteRefusesOtherTypes(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an int was written")
		}
	}()
	canonical.Write([]any{1})
}
