package contract

import (
	"bytes"
	"fmt"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
	"github.com/hyperledger/fabric-contract-api-go/v2/contractapi"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/record"
)

// What a refused record is refused for: for good, or until what it cites is on the ledger.
const (
	invalid          = "invalid"
	unknownPolicy    = "unknown_policy"
	unknownReference = "unknown_reference"
)

// CommitScorecards writes each scorecard of a JSON array whose id is new, and answers each in its place: created, exists
// (the same bytes stand), conflict (others do) or refused. The call fails only where the text is no such array.
func (*Scorecards) CommitScorecards(ctx contractapi.TransactionContextInterface, batch string) (string, error) {
	stub := ctx.GetStub()
	if _, err := permit(stub, "committing", admin, writer); err != nil {
		return "", err
	}
	value, malformed := canonical.Read([]byte(batch))
	if malformed != nil {
		return "", failure(invalidBatch, "%v", malformed)
	}
	items, ok := value.([]any)
	if !ok || len(items) < 1 || len(items) > maxRecords {
		return "", failure(invalidBatch, "a JSON array of 1 to %d records", maxRecords)
	}
	commit := newCommit(stub, "scorecard")
	answers := make([]any, len(items))
	for n, item := range items {
		made, err := commit.record(item)
		if err != nil {
			return "", err
		}
		answers[n] = made
	}
	if err := commit.announce("CommitScorecards"); err != nil {
		return "", err
	}
	return answer(answers)
}

// CommitRun writes the record of a replay's run and answers as CommitScorecards does for one record.
func (*Scorecards) CommitRun(ctx contractapi.TransactionContextInterface, record string) (string, error) {
	return commitOne(ctx, "CommitRun", "run", record)
}

// CommitReview writes the record of a review and answers as CommitScorecards does for one record.
func (*Scorecards) CommitReview(ctx contractapi.TransactionContextInterface, record string) (string, error) {
	return commitOne(ctx, "CommitReview", "review", record)
}

func commitOne(ctx contractapi.TransactionContextInterface, function, kind, text string) (string, error) {
	stub := ctx.GetStub()
	if _, err := permit(stub, "committing", admin, writer); err != nil {
		return "", err
	}
	value, malformed := canonical.Read([]byte(text))
	if malformed != nil {
		return "", failure(invalidRecord, "%v", malformed)
	}
	commit := newCommit(stub, kind)
	made, err := commit.record(value)
	if err != nil {
		return "", err
	}
	if err := commit.announce(function); err != nil {
		return "", err
	}
	return answer(made)
}

// commit is one transaction that writes records. A transaction does not read its own writes, so they are kept here; the
// maps are only ever looked up in.
type commit struct {
	stub     shim.ChaincodeStubInterface
	kind     string
	fresh    map[string][]byte
	order    []string // the ids in fresh
	policies map[string]*record.Policy
}

func newCommit(stub shim.ChaincodeStubInterface, kind string) *commit {
	return &commit{stub: stub, kind: kind, fresh: map[string][]byte{}, policies: map[string]*record.Policy{}}
}

// refusal is why a record is not written.
type refusal struct {
	code string
	record.Error
}

// record writes one record where it may be written, and returns its answer.
func (c *commit) record(value any) (canonical.Object, error) {
	id := canonical.Member{Name: "evaluation_id"}
	object, _ := value.(canonical.Object)
	given, _ := object.Get(id.Name)
	name, ok := given.(string)
	if ok {
		id.Value = name
	}
	made, refused, err := c.put(name, value)
	if err != nil {
		return nil, err
	}
	if refused == nil {
		return result(made, id), nil
	}
	return result("refused", id,
		canonical.Member{Name: "code", Value: refused.code},
		canonical.Member{Name: "field", Value: refused.Field},
		canonical.Member{Name: "rule", Value: refused.Rule},
	), nil
}

func (c *commit) put(id string, value any) (string, *refusal, error) {
	if record.IsID(id) {
		standing, err := c.standing(id)
		if err != nil {
			return "", nil, err
		}
		switch {
		case standing == nil:
		case bytes.Equal(standing, canonical.Write(value)):
			return "exists", nil, nil
		default:
			return "conflict", nil, nil
		}
	}
	made, broken := record.New(value)
	if broken == nil && made.Kind != c.kind {
		broken = &record.Error{Field: "kind", Rule: fmt.Sprintf("%s in this function; a policy goes on the ledger with its content", c.kind)}
	}
	if broken != nil {
		return "", &refusal{invalid, *broken}, nil
	}
	if refused, err := c.check(made); refused != nil || err != nil {
		return "", refused, err
	}
	return "created", nil, c.write(made)
}

// check holds a record against what stands on the ledger: the policy that it cites, and the record that it refers to.
func (c *commit) check(made *record.Record) (*refusal, error) {
	if made.PolicyDigest != "" {
		policy, err := c.policy(made.PolicyDigest)
		if err != nil {
			return nil, err
		}
		if policy == nil {
			return &refusal{unknownPolicy, record.Error{
				Field: "policy_digest", Rule: "a policy that is on the ledger: register it (RegisterPolicy)",
			}}, nil
		}
		if broken := made.Follows(policy); broken != nil {
			return &refusal{invalid, *broken}, nil
		}
	}
	if made.Reference != "" {
		standing, err := c.standing(made.Reference)
		if err != nil {
			return nil, err
		}
		if standing == nil {
			return &refusal{unknownReference, record.Error{
				Field: made.ReferenceField(), Rule: "the id of a record that is on the ledger",
			}}, nil
		}
	}
	return nil, nil
}

func (c *commit) standing(id string) ([]byte, error) {
	if fresh, ok := c.fresh[id]; ok {
		return fresh, nil
	}
	return read(c.stub, recordKey(id))
}

func (c *commit) policy(digest string) (*record.Policy, error) {
	if known, ok := c.policies[digest]; ok {
		return known, nil
	}
	raw, err := read(c.stub, policyKey(digest))
	if err != nil {
		return nil, err
	}
	var policy *record.Policy
	if raw != nil {
		value, malformed := canonical.Read(raw)
		if malformed != nil {
			return nil, failure(ledgerTrouble, "the policy %s on the ledger is damaged: %v", digest, malformed)
		}
		made, broken := record.NewPolicy(value)
		if broken != nil {
			return nil, failure(ledgerTrouble, "the policy %s on the ledger is damaged: %v", digest, broken)
		}
		policy = made
	}
	c.policies[digest] = policy
	return policy, nil
}

// write puts a record and its indexes into the transaction.
func (c *commit) write(made *record.Record) error {
	raw := made.Bytes()
	c.fresh[made.ID] = raw
	c.order = append(c.order, made.ID)
	if err := write(c.stub, recordKey(made.ID), raw); err != nil {
		return err
	}
	for _, key := range indexKeys(made) {
		if err := write(c.stub, key, []byte(c.stub.GetTxID())); err != nil {
			return err
		}
	}
	return nil
}

// announce sets the transaction's event where something was created.
func (c *commit) announce(function string) error {
	if len(c.order) == 0 {
		return nil
	}
	return announce(c.stub, function, created(c.order))
}
