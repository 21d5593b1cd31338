package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
	"github.com/hyperledger/fabric-contract-api-go/v2/contractapi"

	"glassbox/chaincode/contract"
)

func TestContractIsAccepted(t *testing.T) {
	if _, err := contractapi.NewChaincode(&contract.Scorecards{}); err != nil {
		t.Fatal(err)
	}
	ledger := newLedger(t)
	tx := &transaction{ledger: ledger, arguments: []string{""}}
	if answer := ledger.cc.Init(tx); answer.GetStatus() != shim.OK {
		t.Error(answer.GetMessage())
	}
	for _, name := range new(contract.Scorecards).GetEvaluateTransactions() {
		if !strings.Contains(ledger.ok(nil, "org.hyperledger.fabric:GetMetadata"), fmt.Sprintf("%q", name)) {
			t.Errorf("there is no function %s", name)
		}
	}
}

// results are the answers of a batch, one word each.
func results(t testing.TB, payload string) string {
	t.Helper()
	var answers []answered
	decode(t, []byte(payload), &answers)
	words := make([]string, len(answers))
	for n, answer := range answers {
		words[n] = answer.Result
		if answer.Result == "refused" {
			words[n] += " " + answer.Code
		}
	}
	return strings.Join(words, ", ")
}

func TestCommit(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	ledger := golden.registered(t, who)
	a, b := golden.scorecard(t, "a"), golden.scorecard(t, "b", "supersedes", `"a"`)
	other := golden.scorecard(t, "a", "session", "null")
	spaced := strings.ReplaceAll(a, `":`, "\" :\n")
	broken := golden.scorecard(t, "c", "trust", "null")
	lost := golden.scorecard(t, "d", "supersedes", `"c"`)
	batch := "[" + strings.Join([]string{a, b, spaced, other, broken, lost, `{"evaluation_id":5}`}, ",") + "]"
	tx := ledger.call(who.writer, "CommitScorecards", batch)
	want := `[{"evaluation_id":"a","result":"created"},{"evaluation_id":"b","result":"created"},` +
		`{"evaluation_id":"a","result":"exists"},{"evaluation_id":"a","result":"conflict"},` +
		`{"code":"invalid","evaluation_id":"c","field":"trust","result":"refused","rule":"\"1.000000\" by arithmetic, not null"},` +
		`{"code":"unknown_reference","evaluation_id":"d","field":"supersedes","result":"refused","rule":"the id of a record that is on the ledger"},` +
		`{"code":"invalid","evaluation_id":null,"field":"kind","result":"refused","rule":"one of scorecard, run, review, policy"}]`
	if got := string(tx.answer.GetPayload()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	policy := digest(golden.policies["default"])
	session := strings.Split(strings.Split(a, `"session":"`)[1], `"`)[0]
	closed := "2026-01-31T09:30:04.217Z"
	wrote := []string{
		"record/a = " + a,
		"time/" + policy + "/" + closed + "/a = " + tx.id,
		"session/" + session + "/" + closed + "/a = " + tx.id,
		"record/b = " + b,
		"time/" + policy + "/" + closed + "/b = " + tx.id,
		"session/" + session + "/" + closed + "/b = " + tx.id,
		"refers/a/" + closed + "/b = " + tx.id,
	}
	if !slices.Equal(tx.writes, wrote) {
		t.Errorf("%s\nwant %s", strings.Join(tx.writes, "\n"), strings.Join(wrote, "\n"))
	}
	if tx.event != "CommitScorecards" || tx.payload != `{"evaluation_ids":["a","b"],"schema_version":"1"}` {
		t.Errorf("%s %s", tx.event, tx.payload)
	}

	again := ledger.call(who.admin, "CommitScorecards", "["+spaced+","+other+","+b+","+`{"evaluation_id":"b"}`+"]")
	if got := results(t, string(again.answer.GetPayload())); got != "exists, conflict, exists, conflict" {
		t.Error(got)
	}
	if len(again.writes) > 0 || again.event != "" {
		t.Errorf("nothing was created, and wrote %s %s", again.writes, again.event)
	}
	later := golden.scorecard(t, "e", "supersedes", `"b"`)
	if got := results(t, ledger.ok(who.writer, "CommitScorecards", "["+later+"]")); got != "created" {
		t.Error(got)
	}
}

func TestWholeBatch(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	ledger := golden.registered(t, who)
	var records []string
	for n := range 200 {
		records = append(records, golden.scorecard(t, fmt.Sprint("e-", n)))
	}
	if got := results(t, ledger.ok(who.writer, "CommitScorecards", "["+strings.Join(records, ",")+"]")); got !=
		strings.TrimSuffix(strings.Repeat("created, ", 200), ", ") {
		t.Error(got)
	}
}

func TestRunsAndReviews(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	ledger := golden.registered(t, who)
	ledger.ok(who.writer, "CommitScorecards", "["+golden.records["pass"]+"]")
	for function, name := range map[string]string{"CommitRun": "run", "CommitReview": "review"} {
		record := golden.records[name]
		tx := ledger.call(who.writer, function, record)
		var made answered
		decode(t, tx.answer.GetPayload(), &made)
		if made.Result != "created" || !strings.HasPrefix(*made.EvaluationID, name+":") {
			t.Errorf("%s: %s", function, tx.answer.GetPayload())
		}
		if want := fmt.Sprintf(`{"evaluation_ids":[%q],"schema_version":"1"}`, *made.EvaluationID); tx.event != function || tx.payload != want {
			t.Errorf("%s %s", tx.event, tx.payload)
		}
		decode(t, []byte(ledger.ok(who.writer, function, record)), &made)
		if made.Result != "exists" {
			t.Error(made)
		}
		decode(t, []byte(ledger.ok(who.writer, function, changed(t, record, "created_at", fmt.Sprintf("%q", someTime)))), &made)
		if made.Result != "conflict" {
			t.Error(made)
		}
		found := ledger.ok(who.reader, "ReadRecords", fmt.Sprintf("[%q]", *made.EvaluationID))
		if want := fmt.Sprintf(`[{"record":%s,"tx_id":%q}]`, record, tx.id); found != want {
			t.Errorf("%s\nwant %s", found, want)
		}
	}
	if got := ledger.ok(who.reader, "ListReferring", "golden-1", "10", ""); !strings.Contains(got, `"review:`) {
		t.Error(got)
	}
}

func TestPolicyRegistry(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	ledger := newLedger(t)
	policy := golden.policies["default"]
	id := "policy:" + digest(policy)
	created := fmt.Sprintf(`{"evaluation_id":%q,"result":"created"}`, id)
	exists := strings.Replace(created, "created", "exists", 1)
	if got := ledger.ok(who.reader, "ReadPolicy", digest(policy)); got != "null" {
		t.Error(got)
	}
	tx := ledger.call(who.admin, "RegisterPolicy", " "+policy+"\n", someTime)
	if got := string(tx.answer.GetPayload()); got != created {
		t.Error(got)
	}
	record := fmt.Sprintf(`{"created_at":%q,"digest":%q,"evaluation_id":%q,"kind":"policy","refers_to":null,"schema_version":"1"}`,
		someTime, digest(policy), id)
	wrote := []string{
		"policy/" + digest(policy) + " = " + policy,
		"record/" + id + " = " + record,
		"time/policy/" + someTime + "/" + id + " = " + tx.id,
	}
	if !slices.Equal(tx.writes, wrote) || tx.event != "RegisterPolicy" ||
		tx.payload != fmt.Sprintf(`{"evaluation_ids":[%q],"schema_version":"1"}`, id) {
		t.Errorf("%s %s %s", tx.writes, tx.event, tx.payload)
	}
	for _, anybody := range [][]byte{who.reader, who.other, who.admin} {
		again := ledger.call(anybody, "RegisterPolicy", policy, "2027-01-01T00:00:00.000Z")
		if got := string(again.answer.GetPayload()); got != exists || len(again.writes) > 0 || again.event != "" {
			t.Error(got, again.writes)
		}
	}
	if got := ledger.ok(who.other, "ReadPolicy", digest(policy)); got != policy {
		t.Error(got)
	}
	if got, want := ledger.ok(who.reader, "ListPolicies", "10", ""), fmt.Sprintf(
		`{"bookmark":"","items":[{"evaluation_id":%q,"time":%q,"tx_id":%q}]}`, id, someTime, tx.id); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestRoles(t *testing.T) {
	golden := loadGolden(t)
	for _, c := range []struct {
		attributes string
		units      []string
		may        string // commit and register | commit | read
	}{
		{"", []string{"admin"}, "commit and register"},
		{"", []string{"client", "admin"}, "commit and register"},
		{"", []string{"client"}, "commit"},
		{"", []string{"peer"}, "read"},
		{"", nil, "read"},
		{role("admin"), []string{"client"}, "commit and register"},
		{role("writer"), []string{"admin"}, "commit"},
		{role("writer"), nil, "commit"},
		{role("reader"), []string{"admin"}, "read"},
		{role(""), []string{"admin"}, "read"},
		{`{"attrs":{"other":"admin"}}`, []string{"client"}, "commit"},
	} {
		ledger, caller := newLedger(t), identity(t, "Org1MSP", c.attributes, c.units...)
		registered := ledger.call(caller, "RegisterPolicy", golden.policies["default"], someTime).answer.GetStatus() == shim.OK
		committed := ledger.call(caller, "CommitRun", golden.records["run"]).answer.GetStatus() == shim.OK
		anchored := ledger.call(caller, "AnchorCheckpoint", "log", "1", root, signature).answer.GetStatus() == shim.OK
		ledger.ok(caller, "ReadRecords", `["golden-1"]`)
		if want := c.may != "read"; committed != want || anchored != want || registered != (c.may == "commit and register") {
			t.Errorf("%s %s: registered %t, committed %t, anchored %t", c.attributes, c.units, registered, committed, anchored)
		}
	}
}

func TestCheckpoints(t *testing.T) {
	who, ledger := newPeople(t), newLedger(t)
	if got := ledger.ok(who.reader, "ReadCheckpoint", "log.example/a"); got != "null" {
		t.Error(got)
	}
	var all []string
	for n, size := range []string{"0", "5", "9223372036854775807"} {
		tx := ledger.call(who.writer, "AnchorCheckpoint", "log.example/a", size, root, signature+"\n— other AAAAAAAA")
		if got := string(tx.answer.GetPayload()); got != `{"result":"created"}` {
			t.Error(got, tx.answer.GetMessage())
		}
		if tx.event != "AnchorCheckpoint" || tx.payload != fmt.Sprintf(`{"origin":"log.example/a","schema_version":"1","size":%q}`, size) {
			t.Error(tx.event, tx.payload)
		}
		newest := fmt.Sprintf(`{"msp_id":"Org1MSP","origin":"log.example/a","root":%q,"signature":"%s\n— other AAAAAAAA","size":%q,"tx_id":%q}`,
			root, signature, size, tx.id)
		if all = append(all, newest); !slices.Contains(tx.writes, fmt.Sprintf("checkpoint/%s/%020s = %s", digest("log.example/a"), size, newest)) {
			t.Error(tx.writes)
		}
		if got := ledger.ok(who.reader, "ReadCheckpoint", "log.example/a"); got != newest {
			t.Errorf("%d: %s\nwant %s", n, got, newest)
		}
	}
	again := ledger.call(who.admin, "AnchorCheckpoint", "log.example/a", "5", root, "— another AAAAAAAA")
	if got := string(again.answer.GetPayload()); got != `{"result":"exists"}` || len(again.writes) > 0 || again.event != "" {
		t.Error(got, again.writes)
	}
	ledger.ok(who.other, "AnchorCheckpoint", "log.example/b", "1", root, signature)
	if got, want := ledger.ok(who.reader, "ListCheckpoints", "log.example/a", "10", ""),
		`{"bookmark":"","items":[`+strings.Join(all, ",")+`]}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

type page struct {
	Items []struct {
		EvaluationID string `json:"evaluation_id"`
		Time         string
		TxID         string `json:"tx_id"`
	}
	Bookmark string
}

// pages reads a list to its end, and returns the ids.
func (l *ledger) pages(size int, function string, arguments ...string) []string {
	l.t.Helper()
	ids, bookmark := []string{}, ""
	for {
		var made page
		decode(l.t, []byte(l.ok(nil, function, append(slices.Clone(arguments), fmt.Sprint(size), bookmark)...)), &made)
		for _, item := range made.Items {
			ids = append(ids, item.EvaluationID)
			if function != "ListByPrefix" && (item.Time == "" || item.TxID == "") {
				l.t.Errorf("%s: %v", function, item)
			}
		}
		if bookmark = made.Bookmark; bookmark == "" {
			return ids
		}
		if len(made.Items) != size {
			l.t.Fatalf("%s: a page of %d with more to come", function, len(made.Items))
		}
	}
}

func TestLists(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	ledger := golden.registered(t, who)
	day := func(n int) string {
		return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
	}
	sessions := []string{digest("one"), digest("two")}
	var byTime []string
	for n := range 9 {
		id := fmt.Sprintf("e-%d.x:%d", 9-n, n)
		byTime = append(byTime, id)
		ledger.ok(who.writer, "CommitScorecards", "["+golden.scorecard(t, id,
			"closed_at", fmt.Sprintf("%q", day(n+1)), "session", fmt.Sprintf("%q", sessions[n%2]))+"]")
	}
	direct := golden.records["a judge disabled"]
	ledger.ok(who.writer, "CommitScorecards", "["+golden.scorecard(t, "golden-0", "closed_at", `"2025-06-01T00:00:00.000Z"`)+","+direct+"]")
	ledger.ok(who.writer, "CommitRun", golden.records["run"])
	policy := digest(golden.policies["default"])
	first := append([]string{"golden-0"}, byTime...)
	byID := slices.Sorted(slices.Values(byTime))
	for _, size := range []int{1, 2, 3, 100} {
		for _, c := range []struct {
			want      []string
			function  string
			arguments []string
		}{
			{first, "ListByPolicy", []string{policy, "", ""}},
			{byTime, "ListByPolicy", []string{policy, day(1), day(10)}},
			{byTime[2:5], "ListByPolicy", []string{policy, day(3), day(6)}},
			{byTime[5:], "ListByPolicy", []string{policy, day(6), ""}},
			{first[:3], "ListByPolicy", []string{policy, "", day(3)}},
			{nil, "ListByPolicy", []string{policy, day(3), day(3)}},
			{nil, "ListByPolicy", []string{policy, day(3), day(1)}},
			{[]string{"golden-1"}, "ListByPolicy", []string{digest(golden.policies["direct"]), "", ""}},
			{nil, "ListByPolicy", []string{digest("none"), "", ""}},
			{[]string{byTime[0], byTime[2], byTime[4], byTime[6], byTime[8]}, "ListBySession", []string{sessions[0]}},
			{nil, "ListBySession", []string{policy}},
			{[]string{"golden-1"}, "ListReferring", []string{"golden-0"}},
			{nil, "ListReferring", []string{"golden"}},
			{byID, "ListByPrefix", []string{"e-"}},
			{byID[:1], "ListByPrefix", []string{"e-1.x:8"}},
			{nil, "ListByPrefix", []string{"e-10"}},
			{[]string{"golden-0", "golden-1"}, "ListByPrefix", []string{"golden"}},
		} {
			if got := ledger.pages(size, c.function, c.arguments...); !slices.Equal(got, c.want) {
				t.Errorf("%s %s, pages of %d: %s, want %s", c.function, c.arguments, size, got, c.want)
			}
		}
	}
	if got := ledger.pages(4, "ListByPrefix", ""); len(got) != 9+2+1+2 {
		t.Error(got)
	}
	if got := ledger.pages(1, "ListPolicies"); len(got) != 2 || !strings.HasPrefix(got[0], "policy:") {
		t.Error(got)
	}
}

func TestReadsAndHistory(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	ledger := golden.registered(t, who)
	pass := golden.records["text beyond ASCII"]
	tx := ledger.call(who.writer, "CommitScorecards", "["+pass+"]")
	want := fmt.Sprintf(`[null,{"record":%s,"tx_id":%q},null]`, pass, tx.id)
	if got := ledger.ok(who.reader, "ReadRecords", `["golden-2","golden-1","no/id"]`); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := ledger.ok(who.reader, "History", "golden-1"),
		fmt.Sprintf(`[{"timestamp":"2001-02-03T04:05:06.007Z","tx_id":%q}]`, tx.id); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := ledger.ok(who.reader, "History", "golden-2"); got != "[]" {
		t.Error(got)
	}
	odd := strings.Repeat("f", 64)
	ledger.history["record/golden-1"] = []string{odd}
	if got, want := ledger.ok(who.reader, "History", "golden-1"), fmt.Sprintf(`[{"timestamp":null,"tx_id":%q}]`, odd); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDamagedState: what other code wrote under the chaincode's keys is named, and never a panic.
func TestDamagedState(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	sound := golden.registered(t, who)
	sound.ok(who.writer, "CommitScorecards", "["+golden.records["pass"]+"]")
	sound.ok(who.writer, "AnchorCheckpoint", "log", "1", root, signature)
	policy := digest(golden.policies["default"])
	for _, c := range []struct {
		key  string
		call []string
		want string
	}{
		{"policy/" + policy, []string{"CommitScorecards", "[" + golden.scorecard(t, "x") + "]"}, "LEDGER: the policy " + policy + " on the ledger is damaged: "},
		{"record/golden-1", []string{"ReadRecords", `["golden-1"]`}, "LEDGER: the record golden-1 on the ledger is damaged: "},
		{"origin/" + digest("log"), []string{"ReadCheckpoint", "log"}, "LEDGER: the head of the origin log on the ledger is damaged"},
	} {
		for _, damage := range []string{"{", "[]", "7"} {
			ledger := sound.copy()
			ledger.state[c.key] = []byte(damage)
			if tx := ledger.call(who.admin, c.call[0], c.call[1:]...); !strings.HasPrefix(tx.answer.GetMessage(), c.want) {
				t.Errorf("%s: %s, want %s", c.key, tx.answer.GetMessage(), c.want)
			}
		}
	}
}

// TestDeterminism: Go shuffles its maps at every run, so whatever depended on their order would differ between runs.
func TestDeterminism(t *testing.T) {
	golden, who := loadGolden(t), newPeople(t)
	start := golden.registered(t, who)
	var records []string
	for n := range 30 {
		id := fmt.Sprint("e-", n)
		before := fmt.Sprintf("%q", fmt.Sprint("e-", n-1))
		records = append(records, golden.scorecard(t, id, "supersedes", map[bool]string{true: before, false: "null"}[n%3 == 2]))
	}
	for _, edit := range golden.refused {
		records = append(records, string(edit.Of(t, []byte(golden.records[edit.Base]))))
	}
	batch := "[" + strings.Join(records, ",") + "]"
	outcome := func() string {
		tx := start.copy().call(who.writer, "CommitScorecards", batch)
		return strings.Join(append(tx.writes, tx.event, tx.payload, tx.answer.String()), "\n")
	}
	want := outcome()
	for range 50 {
		if got := outcome(); got != want {
			t.Fatalf("%s\nand at another run\n%s", want, got)
		}
	}
}
