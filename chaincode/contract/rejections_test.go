package contract_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"

	"glassbox/chaincode/internal/vectors"
)

const root = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

const signature = "— log.example/a AAAAAAAA"

// answered is a refused record's answer.
type answered struct {
	EvaluationID *string `json:"evaluation_id"`
	Result       string
	Code         string
	Field        string
	Rule         string
}

// TestRejectedCalls holds every error of a whole call against its sentence. `go test -v -run TestReject ./contract`
// prints all that the chaincode refuses.
func TestRejectedCalls(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	pass, run := golden.records["pass"], golden.records["run"]
	other := changed(t, golden.policies["default"], "threshold", `"0.700000"`)
	stranger := identity(t, "Org1MSP", "")
	idless := serialized(t, "Org1MSP", []byte("no certificate"))
	spoiled := identity(t, "Org1MSP", "no JSON", "client")
	many := "[" + strings.Repeat("0,", 200) + "0]"
	deep := strings.Repeat("[", 33) + strings.Repeat("]", 33)
	anchor := []string{"log.example/a", "5", root, signature}
	with := func(n int, text string) []string {
		made := slices.Clone(anchor)
		made[n] = text
		return made
	}
	type rejection struct {
		caller   []byte
		function string
		given    []string
		want     string
	}
	hexadecimal := "64 lower-case hexadecimal digits"
	id := "1 to 128 of A-Z a-z 0-9 . _ : -"
	rejections := []rejection{
		{who.writer, "CommitScorecards", []string{"{"}, "INVALID_BATCH: not JSON: a key in double quotes is missing at byte 1"},
		{who.writer, "CommitScorecards", []string{"\xff"}, "INVALID_BATCH: not UTF-8 at byte 0"},
		{who.writer, "CommitScorecards", []string{`[{"a":"\u0000"}]`}, "INVALID_BATCH: [0].a: NUL character"},
		{who.writer, "CommitScorecards", []string{`[{"a":"\ud800"}]`}, "INVALID_BATCH: [0].a: lone surrogate"},
		{who.writer, "CommitScorecards", []string{`[{"a":1,"a":2}]`}, "INVALID_BATCH: [0].a: duplicated key"},
		{who.writer, "CommitScorecards", []string{`[NaN]`}, "INVALID_BATCH: [0]: a number that is not finite"},
		{who.writer, "CommitScorecards", []string{`[9007199254740993]`}, "INVALID_BATCH: [0]: integer beyond 2^53 - 1"},
		{who.writer, "CommitScorecards", []string{deep}, "INVALID_BATCH: " + strings.Repeat("[0]", 32) + ": nested deeper than 32 levels"},
		{who.writer, "CommitScorecards", []string{"[]"}, "INVALID_BATCH: a JSON array of 1 to 200 records"},
		{who.writer, "CommitScorecards", []string{many}, "INVALID_BATCH: a JSON array of 1 to 200 records"},
		{who.writer, "CommitScorecards", []string{pass}, "INVALID_BATCH: a JSON array of 1 to 200 records"},
		{who.writer, "CommitRun", []string{""}, "INVALID_RECORD: not JSON: a value is missing at byte 0"},
		{who.writer, "CommitReview", []string{"{} {}"}, "INVALID_RECORD: not JSON: more than one value at byte 3"},
		{who.reader, "CommitScorecards", []string{"[" + pass + "]"}, `FORBIDDEN: committing needs the role admin or writer, and this caller of Org1MSP has the role "reader": see glassbox.role in its certificate`},
		{stranger, "CommitRun", []string{run}, `FORBIDDEN: committing needs the role admin or writer, and this caller of Org1MSP has the role "reader": see glassbox.role in its certificate`},
		{identity(t, "Org1MSP", role("king"), "admin"), "CommitReview", []string{run}, `FORBIDDEN: committing needs the role admin or writer, and this caller of Org1MSP has the role "king": see glassbox.role in its certificate`},
		{idless, "CommitRun", []string{run}, "FORBIDDEN: the caller's certificate cannot be read: identity bytes are neither"},
		{spoiled, "CommitRun", []string{run}, "FORBIDDEN: the caller's certificate cannot be read: failed to get attributes"},
		{nil, "CommitRun", []string{run}, "FORBIDDEN: the caller's certificate cannot be read: failed to get transaction invoker's identity"},
		{who.admin, "RegisterPolicy", []string{"?", someTime}, "INVALID_POLICY: policy: not JSON: a value is missing at byte 0"},
		{who.admin, "RegisterPolicy", []string{"[]", someTime}, "INVALID_POLICY: policy: an object"},
		{who.admin, "RegisterPolicy", []string{"{}", someTime}, "INVALID_POLICY: policy.threshold: present"},
		{who.admin, "RegisterPolicy", []string{other, "yesterday"}, "INVALID_POLICY: created_at: RFC 3339 UTC with milliseconds, such as 2026-01-31T09:30:00.000Z"},
		{who.admin, "RegisterPolicy", []string{other, "2026-02-30T09:30:00.000Z"}, "INVALID_POLICY: created_at: a time that exists"},
		{who.admin, "RegisterPolicy", []string{changed(t, other, "note", fmt.Sprintf("%q", strings.Repeat("x", 65536))), someTime}, "INVALID_POLICY: policy: at most 65536 bytes in canonical form, not "},
		{who.writer, "RegisterPolicy", []string{other, someTime}, `FORBIDDEN: registering a policy needs the role admin, and this caller of Org1MSP has the role "writer": see glassbox.role in its certificate`},
		{who.reader, "AnchorCheckpoint", anchor, `FORBIDDEN: anchoring a checkpoint needs the role admin or writer, and this caller of Org1MSP has the role "reader": see glassbox.role in its certificate`},
		{who.other, "AnchorCheckpoint", []string{"log.example/b", "9", root, signature}, "FORBIDDEN: the origin log.example/b is anchored by Org1MSP, and this caller is of Org2MSP"},
		{who.writer, "AnchorCheckpoint", []string{"log.example/b", "7", root, signature}, "CONFLICT: the origin log.example/b is anchored at size 8 already: sizes only grow"},
		{who.writer, "AnchorCheckpoint", []string{"log.example/b", "8", strings.Replace(root, "A", "B", 1), signature}, "CONFLICT: the origin log.example/b has another root at size 8: its log was rewritten"},
		{who.writer, "AnchorCheckpoint", with(0, ""), "INVALID_ARGUMENT: origin: 1 to 256 characters without spaces, control characters and +"},
		{who.writer, "AnchorCheckpoint", with(0, "a b"), "INVALID_ARGUMENT: origin: 1 to 256 characters without spaces, control characters and +"},
		{who.writer, "AnchorCheckpoint", with(0, "a\xff"), "INVALID_ARGUMENT: origin: 1 to 256 characters without spaces, control characters and +"},
		{who.writer, "AnchorCheckpoint", with(1, "05"), "INVALID_ARGUMENT: size: a decimal number of leaves"},
		{who.writer, "AnchorCheckpoint", with(1, "18446744073709551616"), "INVALID_ARGUMENT: size: a decimal number of leaves"},
		{who.writer, "AnchorCheckpoint", with(2, "AAAA"), "INVALID_ARGUMENT: root: the base64 of 32 bytes"},
		{who.writer, "AnchorCheckpoint", with(2, "\n"+root), "INVALID_ARGUMENT: root: the base64 of 32 bytes"},
		{who.writer, "AnchorCheckpoint", with(3, ""), "INVALID_ARGUMENT: signature: line 1 is not a dash (U+2014), a name and base64, parted by one space"},
		{who.writer, "AnchorCheckpoint", with(3, signature+"\n- a AAAAAAAA"), "INVALID_ARGUMENT: signature: line 2 is not a dash (U+2014), a name and base64, parted by one space"},
		{who.writer, "AnchorCheckpoint", with(3, "— a\tb AAAAAAAA"), "INVALID_ARGUMENT: signature: line 1 is not a dash (U+2014), a name and base64, parted by one space"},
		{who.writer, "AnchorCheckpoint", with(3, "— a AAAA"), "INVALID_ARGUMENT: signature: line 1 is not a dash (U+2014), a name and base64, parted by one space"},
		{who.writer, "AnchorCheckpoint", with(3, strings.Repeat("—", 6000)), "INVALID_ARGUMENT: signature: at most 16384 bytes"},
		{who.reader, "ReadRecords", []string{"golden-1"}, "INVALID_ARGUMENT: ids: not JSON: a value is missing at byte 0"},
		{who.reader, "ReadRecords", []string{"[]"}, "INVALID_ARGUMENT: ids: a JSON array of 1 to 200 ids"},
		{who.reader, "ReadRecords", []string{many}, "INVALID_ARGUMENT: ids: a JSON array of 1 to 200 ids"},
		{who.reader, "ReadRecords", []string{`["a",1]`}, "INVALID_ARGUMENT: ids[1]: text"},
		{who.reader, "ReadPolicy", []string{"x"}, "INVALID_ARGUMENT: digest: " + hexadecimal},
		{who.reader, "History", []string{"a b"}, "INVALID_ARGUMENT: id: " + id},
		{who.reader, "ListReferring", []string{"", "1", ""}, "INVALID_ARGUMENT: id: " + id},
		{who.reader, "ListByPrefix", []string{"a/", "1", ""}, "INVALID_ARGUMENT: prefix: 0 to 128 of A-Z a-z 0-9 . _ : -"},
		{who.reader, "ListByPolicy", []string{"x", "", "", "1", ""}, "INVALID_ARGUMENT: policy_digest: " + hexadecimal},
		{who.reader, "ListByPolicy", []string{digest(pass), "2026", "", "1", ""}, "INVALID_ARGUMENT: from: RFC 3339 UTC with milliseconds, such as 2026-01-31T09:30:00.000Z"},
		{who.reader, "ListByPolicy", []string{digest(pass), "", "0000-01-31T09:30:00.000Z", "1", ""}, "INVALID_ARGUMENT: to: a time that exists"},
		{who.reader, "ListBySession", []string{strings.ToUpper(digest(pass)), "1", ""}, "INVALID_ARGUMENT: session: " + hexadecimal},
		{who.reader, "ListPolicies", []string{"0", ""}, "INVALID_ARGUMENT: page_size: a number from 1 to 1000"},
		{who.reader, "ListPolicies", []string{"1001", ""}, "INVALID_ARGUMENT: page_size: a number from 1 to 1000"},
		{who.reader, "ListCheckpoints", []string{"log.example/b", "ten", ""}, "INVALID_ARGUMENT: page_size: a number from 1 to 1000"},
		{who.reader, "ListPolicies", []string{"1", "record/golden-1"}, "INVALID_ARGUMENT: bookmark: as the page before gave it, for the same list"},
		{who.reader, "ListByPrefix", []string{"golden", "1", "record/z"}, "INVALID_ARGUMENT: bookmark: as the page before gave it, for the same list"},
		{who.writer, "DeleteRecord", []string{"golden-1"}, "Function DeleteRecord not found in contract Scorecards"},
		{who.writer, "CommitScorecards", nil, "incorrect number of params. Expected 1, received 0"},
	}
	ledger := golden.registered(t, who)
	ledger.ok(who.writer, "CommitScorecards", "["+pass+"]")
	ledger.ok(who.writer, "AnchorCheckpoint", "log.example/b", "8", root, signature)
	for _, r := range rejections {
		tx := ledger.call(r.caller, r.function, r.given...)
		if tx.answer.GetStatus() == shim.OK || !strings.HasPrefix(tx.answer.GetMessage(), r.want) {
			t.Errorf("%s %.80q: %d %s, want %s", r.function, r.given, tx.answer.GetStatus(), tx.answer.GetMessage(), r.want)
		}
		if len(tx.writes) > 0 || tx.event != "" {
			t.Errorf("%s %.80q: refused, and wrote %s %s", r.function, r.given, tx.writes, tx.event)
		}
		t.Logf("%s: %s", r.function, tx.answer.GetMessage())
	}
}

// TestPeerTrouble: what the peer cannot do is said as such, and a panic is an answer like any other.
func TestPeerTrouble(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	standing := golden.registered(t, who)
	standing.ok(who.writer, "CommitScorecards", "["+golden.records["pass"]+"]")
	standing.ok(who.writer, "AnchorCheckpoint", "log.example/a", "1", root, signature)
	cited := golden.scorecard(t, "new", "supersedes", `"golden-1"`)
	calls := [][]string{
		{"CommitScorecards", "[" + cited + "]"},
		{"CommitRun", golden.records["run"]},
		{"RegisterPolicy", changed(t, golden.policies["default"], "threshold", `"0.700000"`), someTime},
		{"AnchorCheckpoint", "log.example/a", "2", root, signature},
		{"ReadRecords", `["golden-1"]`},
		{"ReadPolicy", digest(golden.policies["default"])},
		{"ReadCheckpoint", "log.example/a"},
		{"History", "golden-1"},
		{"ListPolicies", "10", ""},
	}
	sentences := map[string]string{
		"GetState":                      "LEDGER: the peer could not read its state: disk full",
		"PutState":                      "LEDGER: the peer did not take a write: disk full",
		"SetEvent":                      "LEDGER: the peer did not take the event: disk full",
		"GetStateByRangeWithPagination": "LEDGER: the peer could not read its state: disk full",
		"GetHistoryForKey":              "LEDGER: the peer could not read its history: disk full",
		"Next":                          "LEDGER: the peer could not read its ",
	}
	const broke = "INTERNAL: the chaincode broke on this call: report it with the arguments"
	seen := map[string]bool{}
	for _, call := range calls {
		for function, sentence := range sentences {
			for broken, want := range map[string]string{function: sentence, "panic in " + function: broke} {
				for sound := range 8 { // the first use fails, the second, …
					ledger := standing.copy()
					ledger.broken, ledger.sound = broken, sound
					tx := ledger.call(who.admin, call[0], call[1:]...)
					if tx.answer.GetStatus() == shim.OK {
						break // it uses that function no more often
					}
					if seen[broken] = true; !strings.HasPrefix(tx.answer.GetMessage(), want) {
						t.Errorf("%s without %s: %s, want %s", call[0], function, tx.answer.GetMessage(), want)
					}
				}
			}
		}
	}
	if len(seen) != 2*len(sentences) {
		t.Errorf("only seen: %v", seen)
	}
}

// TestRejectedPolicies holds every refusal of a policy, and nothing is written.
func TestRejectedPolicies(t *testing.T) {
	who, ledger := newPeople(t), newLedger(t)
	var file struct {
		Shipped []struct{ Name, Bytes string }
		Refused []vectors.Edit
	}
	vectors.Load(t, "policy.json", &file)
	for _, edit := range file.Refused {
		for _, base := range file.Shipped {
			if base.Name != edit.Base {
				continue
			}
			tx := ledger.call(who.admin, "RegisterPolicy", string(edit.Of(t, []byte(base.Bytes))), someTime)
			if message := tx.answer.GetMessage(); !strings.HasPrefix(message, "INVALID_POLICY: "+edit.Field+": ") || len(tx.writes) > 0 {
				t.Errorf("%v: %s, want the field %s", edit.At, message, edit.Field)
			}
			t.Logf("RegisterPolicy: %s", tx.answer.GetMessage())
		}
	}
}

// TestRejectedRecords holds every refusal of a record in a batch against its sentence, and its neighbours are written
// all the same.
func TestRejectedRecords(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	start, good := golden.registered(t, who), golden.scorecard(t, "good")
	refused := func(function, text string) answered {
		ledger := start.copy()
		if function == "CommitScorecards" {
			text = "[" + good + "," + text + "]"
		}
		tx := ledger.call(who.writer, function, text)
		if tx.answer.GetStatus() != shim.OK {
			t.Fatalf("%s: %s", text, tx.answer.GetMessage())
		}
		var made answered
		if function != "CommitScorecards" {
			decode(t, tx.answer.GetPayload(), &made)
			if len(tx.writes) > 0 || tx.event != "" {
				t.Errorf("refused, and wrote %s %s", tx.writes, tx.event)
			}
			return made
		}
		var answers []answered
		decode(t, tx.answer.GetPayload(), &answers)
		if answers[0].Result != "created" || string(tx.pending["record/good"]) != good {
			t.Errorf("the neighbour: %v", answers[0])
		}
		return answers[1]
	}
	for _, edit := range golden.refused {
		function := map[string]string{"run": "CommitRun"}[edit.Base]
		if function == "" {
			function = "CommitScorecards"
		}
		made := refused(function, string(edit.Of(t, []byte(golden.records[edit.Base]))))
		wrongPolicy := edit.Field == "policy_digest" && made.Code == "unknown_policy"
		if made.Result != "refused" || made.Field != edit.Field || made.Code != "invalid" && !wrongPolicy {
			t.Errorf("%s %v: %v, want %s", edit.Base, edit.At, made, edit.Field)
		}
		t.Logf("%s: %s: %s", made.Code, made.Field, made.Rule)
	}
	pass, review := golden.records["pass"], golden.records["review"]
	for _, c := range []struct {
		function, text string
		want           answered
	}{
		{"CommitScorecards", "7", answered{Code: "invalid", Field: "record", Rule: "an object"}},
		{"CommitScorecards", golden.records["run"], answered{Code: "invalid", Field: "kind", Rule: "scorecard in this function; a policy goes on the ledger with its content"}},
		{"CommitRun", pass, answered{Code: "invalid", Field: "kind", Rule: "run in this function; a policy goes on the ledger with its content"}},
		{"CommitReview", changed(t, golden.records["policy"], "digest", fmt.Sprintf("%q", digest("other")), "evaluation_id", fmt.Sprintf("%q", "policy:"+digest("other"))), answered{Code: "invalid", Field: "kind", Rule: "review in this function; a policy goes on the ledger with its content"}},
		{"CommitScorecards", changed(t, pass, "zzz", "1", "\uffff", "1", "\U00010000", "1"), answered{Code: "invalid", Field: "zzz", Rule: "no such field in Record v1"}},
		{"CommitScorecards", changed(t, pass, "\uffff", "1", "\U00010000", "1"), answered{Code: "invalid", Field: "\uffff", Rule: "no such field in Record v1"}},
		{"CommitScorecards", changed(t, pass, strings.Repeat("é", 90), "1"), answered{Code: "invalid", Field: strings.Repeat("é", 80), Rule: "no such field in Record v1"}},
		{"CommitScorecards", changed(t, pass, "policy_digest", fmt.Sprintf("%q", digest("no policy"))), answered{Code: "unknown_policy", Field: "policy_digest", Rule: "a policy that is on the ledger: register it (RegisterPolicy)"}},
		{"CommitScorecards", changed(t, pass, "supersedes", `"golden-0"`), answered{Code: "unknown_reference", Field: "supersedes", Rule: "the id of a record that is on the ledger"}},
		{"CommitScorecards", changed(t, pass, "supersedes", `"golden-1"`), answered{Code: "invalid", Field: "supersedes", Rule: "another record"}},
		{"CommitReview", review, answered{Code: "unknown_reference", Field: "refers_to", Rule: "the id of a record that is on the ledger"}},
		{"CommitScorecards", changed(t, pass, "trust", `"0.999999"`), answered{Code: "invalid", Field: "trust", Rule: `"1.000000" by arithmetic, not "0.999999"`}},
	} {
		made := refused(c.function, c.text)
		made.EvaluationID = nil
		if c.want.Result = "refused"; made != c.want {
			t.Errorf("%s: %v, want %v", c.function, made, c.want)
		}
		t.Logf("%s: %s: %s", made.Code, made.Field, made.Rule)
	}
}

func decode(t testing.TB, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}
