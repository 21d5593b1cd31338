package record

import (
	"fmt"
	"slices"
	"strings"

	"glassbox/chaincode/canonical"
)

// SchemaVersion is the major version of the record; any other is refused.
const SchemaVersion = "1"

var (
	kinds    = []string{"scorecard", "run", "review", "policy"}
	reserved = []string{"run:", "review:", "policy:"}
)

var partFields = []field{
	{"judge", isCode},
	{"part", isCode},
	{"state", oneOf("scored", "not_applicable", "failed")},
	{"score", orNull(isFigure)},
	{"low", orNull(isFigure)},
	{"high", orNull(isFigure)},
	{"cause", orNull(isCode)},
	{"meets_target", oneOf(true, false, nil)},
	{"method_digest", orNull(isDigest)},
}

var scorecardFields = []field{
	{"kind", oneOf("scorecard")},
	{"schema_version", oneOf(SchemaVersion)},
	{"evaluation_id", isID},
	{"request_digest", isDigest},
	{"evidence_digest", isDigest},
	{"session", orNull(isDigest)},
	{"policy_digest", isDigest},
	{"model", orNull(object([]field{{"provider", isText}, {"name", isText}}))},
	{"requested_at", isTime},
	{"closed_at", isTime},
	{"parts", each(isPart)},
	{"judges", each(object([]field{{"judge", isCode}, {"score", orNull(isFigure)}, {"coverage", isFigure}}))},
	{"trust", orNull(isFigure)},
	{"trust_low", orNull(isFigure)},
	{"trust_high", orNull(isFigure)},
	{"coverage", isFigure},
	{"outcome", oneOf("pass", "review", "fail", "incomplete")},
	{"reasons", each(isReason)},
	{"missed_targets", each(isCode)},
	{"supersedes", orNull(isID)},
}

var referenceFields = []field{
	{"kind", oneOf("run", "review", "policy")},
	{"schema_version", oneOf(SchemaVersion)},
	{"evaluation_id", isID},
	{"digest", isDigest},
	{"refers_to", orNull(isID)},
	{"created_at", isTime},
}

// Record is a record whose shape holds: every field is there, and of its type, range, format and order.
type Record struct {
	Kind         string
	ID           string
	PolicyDigest string // "" except in a scorecard
	Session      string // "" where there is none
	Time         string // closed_at of a scorecard, else created_at
	Reference    string // the id in supersedes or refers_to, "" where there is none
	value        canonical.Object
}

// New reads a record from a JSON value, or says which rule of the shape it breaks.
func New(value any) (*Record, *Error) {
	made, ok := value.(canonical.Object)
	if !ok {
		return nil, &Error{"record", "an object"}
	}
	kind := text(made, "kind")
	if !slices.Contains(kinds, kind) {
		return nil, &Error{"kind", "one of " + strings.Join(kinds, ", ")}
	}
	r := &Record{Kind: kind, value: made}
	if kind != "scorecard" {
		if err := shape(made, referenceFields, ""); err != nil {
			return nil, err
		}
		r.ID, r.Time = text(made, "evaluation_id"), text(made, "created_at")
		if r.ID != kind+":"+text(made, "digest") {
			return nil, &Error{"evaluation_id", fmt.Sprintf("`%s:` followed by the digest", kind)}
		}
	} else {
		if err := shape(made, scorecardFields, ""); err != nil {
			return nil, err
		}
		r.ID, r.Time = text(made, "evaluation_id"), text(made, "closed_at")
		if err := scorecardOrder(r); err != nil {
			return nil, err
		}
	}
	r.PolicyDigest, r.Session = text(made, "policy_digest"), text(made, "session")
	r.Reference = text(made, r.ReferenceField())
	if r.Reference == r.ID {
		return nil, &Error{r.ReferenceField(), "another record"}
	}
	return r, nil
}

// Reference is a new run, review or policy record, cited by the digest of its content.
func Reference(kind, digest, createdAt string) (*Record, *Error) {
	return New(canonical.NewObject(
		canonical.Member{Name: "kind", Value: kind},
		canonical.Member{Name: "schema_version", Value: SchemaVersion},
		canonical.Member{Name: "evaluation_id", Value: kind + ":" + digest},
		canonical.Member{Name: "digest", Value: digest},
		canonical.Member{Name: "refers_to", Value: nil},
		canonical.Member{Name: "created_at", Value: createdAt},
	))
}

// ReferenceField is the name of the field in which this kind of record names another.
func (r *Record) ReferenceField() string {
	if r.Kind == "scorecard" {
		return "supersedes"
	}
	return "refers_to"
}

// Value is the record as JSON.
func (r *Record) Value() canonical.Object { return r.value }

// Bytes are what the ledger keeps: RFC 8785 of the record.
func (r *Record) Bytes() []byte { return canonical.Write(r.value) }

func scorecardOrder(r *Record) *Error {
	for _, prefix := range reserved {
		if strings.HasPrefix(r.ID, prefix) {
			return &Error{"evaluation_id", "not beginning " + strings.Join(reserved, ", ")}
		}
	}
	for _, list := range []struct {
		name string
		keys []string
	}{{"parts", []string{"judge", "part"}}, {"judges", []string{"judge"}}} {
		rows := objects(r.value, list.name)
		for n := 1; n < len(rows); n++ {
			if compareBy(rows[n-1], rows[n], list.keys) >= 0 {
				return &Error{list.name, fmt.Sprintf("sorted by %s, each once", strings.Join(list.keys, ", "))}
			}
		}
	}
	for _, name := range []string{"reasons", "missed_targets"} {
		texts := strs(r.value, name)
		for n := 1; n < len(texts); n++ {
			if texts[n-1] >= texts[n] {
				return &Error{name, "sorted, each once"}
			}
		}
	}
	return nil
}

func compareBy(a, b canonical.Object, keys []string) int {
	for _, key := range keys {
		if order := strings.Compare(text(a, key), text(b, key)); order != 0 {
			return order
		}
	}
	return 0
}

func isPart(value any, path string) *Error {
	if err := object(partFields)(value, path); err != nil {
		return err
	}
	row, _ := value.(canonical.Object)
	scored := text(row, "state") == "scored"
	for _, name := range []string{"score", "low", "high"} {
		if (text(row, name) != "") != scored {
			return &Error{path + "." + name, "a figure exactly where the part is scored"}
		}
	}
	if scored && (text(row, "low") > text(row, "score") || text(row, "score") > text(row, "high")) {
		return &Error{path + ".low", "low <= score <= high"}
	}
	if (text(row, "cause") == "") != scored {
		return &Error{path + ".cause", "a code exactly where the part is not scored"}
	}
	return nil
}

// text is the string under a name; "" where there is none. Only for what the shape has shown to be text or null, and
// no text that the shape allows is empty.
func text(value canonical.Object, name string) string {
	found, _ := value.Get(name)
	made, _ := found.(string)
	return made
}

func flag(value canonical.Object, name string) bool {
	found, _ := value.Get(name)
	made, _ := found.(bool)
	return made
}

func objectAt(value canonical.Object, name string) canonical.Object {
	found, _ := value.Get(name)
	made, _ := found.(canonical.Object)
	return made
}

func objects(value canonical.Object, name string) []canonical.Object {
	found, _ := value.Get(name)
	items, _ := found.([]any)
	made := make([]canonical.Object, len(items))
	for n, item := range items {
		made[n], _ = item.(canonical.Object)
	}
	return made
}

func strs(value canonical.Object, name string) []string {
	found, _ := value.Get(name)
	items, _ := found.([]any)
	made := make([]string, len(items))
	for n, item := range items {
		made[n], _ = item.(string)
	}
	return made
}
