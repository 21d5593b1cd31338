package contract_test

import (
	"strings"
	"testing"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
)

// FuzzBatch: no text given to CommitScorecards is answered by the panic's answer, a refused call writes nothing, and a
// record is answered created exactly where it is written.
func FuzzBatch(f *testing.F) {
	golden, who := loadGolden(f), newPeople(f)
	start := golden.registered(f, who)
	f.Add("[" + golden.records["pass"] + "," + golden.records["mixed"] + "]")
	f.Add("[" + golden.records["pass"] + "," + golden.records["pass"] + "]")
	f.Add("[" + golden.scorecard(f, "a") + "," + golden.scorecard(f, "b", "supersedes", `"a"`) + "]")
	for _, text := range []string{"", "[]", "[7]", "{}", "[null,{}]", `[{"evaluation_id":"a","kind":"scorecard"}]`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, batch string) {
		ledger := start.copy()
		tx := ledger.call(who.writer, "CommitScorecards", batch)
		if message := tx.answer.GetMessage(); strings.HasPrefix(message, "INTERNAL") {
			t.Fatalf("%q: %s", batch, message)
		}
		if tx.answer.GetStatus() != shim.OK {
			if len(tx.writes) > 0 || !strings.HasPrefix(tx.answer.GetMessage(), "INVALID_BATCH: ") {
				t.Fatalf("%q: %s, wrote %s", batch, tx.answer.GetMessage(), tx.writes)
			}
			return
		}
		var answers []answered
		decode(t, tx.answer.GetPayload(), &answers)
		created := 0
		for _, answer := range answers {
			if answer.Result == "created" {
				created++
				if ledger.state["record/"+*answer.EvaluationID] == nil {
					t.Fatalf("%q: %s was not written", batch, *answer.EvaluationID)
				}
			}
		}
		if records := len(ledger.state) - len(start.state); (created > 0) != (records > 0) || (created > 0) != (tx.event != "") {
			t.Fatalf("%q: %d created, wrote %s, event %s", batch, created, tx.writes, tx.event)
		}
	})
}

// FuzzCall: no arguments of any function are answered by the panic's answer.
func FuzzCall(f *testing.F) {
	golden, who := loadGolden(f), newPeople(f)
	start := golden.registered(f, who)
	start.ok(who.writer, "CommitScorecards", "["+golden.records["pass"]+"]")
	start.ok(who.writer, "AnchorCheckpoint", "log", "1", root, signature)
	f.Add("RegisterPolicy", golden.policies["default"], someTime, "", "", "", uint8(2))
	f.Add("CommitRun", golden.records["run"], "", "", "", "", uint8(1))
	f.Add("CommitReview", golden.records["review"], "", "", "", "", uint8(1))
	f.Add("AnchorCheckpoint", "log", "2", root, signature, "", uint8(4))
	f.Add("ReadRecords", `["golden-1","x"]`, "", "", "", "", uint8(1))
	f.Add("ListByPolicy", digest(golden.policies["default"]), someTime, "", "1", "time/", uint8(5))
	f.Add("ListByPrefix", "golden", "2", "record/golden-1", "", "", uint8(3))
	f.Add("ListBySession", digest(""), "2", "", "", "", uint8(3))
	f.Add("ListCheckpoints", "log", "1000", "", "", "", uint8(3))
	for _, function := range []string{"ReadPolicy", "ReadCheckpoint", "History", "listPolicies", ":", "", "org.hyperledger.fabric:GetMetadata"} {
		f.Add(function, "golden-1", "", "", "", "", uint8(1))
	}
	f.Fuzz(func(t *testing.T, function, a, b, c, d, e string, count uint8) {
		tx := start.copy().call(who.admin, function, []string{a, b, c, d, e}[:count%6]...)
		if message := tx.answer.GetMessage(); strings.HasPrefix(message, "INTERNAL") {
			t.Fatalf("%s: %s", function, message)
		}
		if tx.answer.GetStatus() != shim.OK && (len(tx.writes) > 0 || tx.event != "") {
			t.Fatalf("%s: %s, wrote %s", function, tx.answer.GetMessage(), tx.writes)
		}
	})
}
