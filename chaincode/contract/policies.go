package contract

import (
	"github.com/hyperledger/fabric-contract-api-go/v2/contractapi"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/record"
)

// RegisterPolicy puts a canonical policy on the ledger, once a digest, with a record `policy:DIGEST` dated createdAt. It
// answers created or exists; to register a new one takes an admin.
func (*Scorecards) RegisterPolicy(ctx contractapi.TransactionContextInterface, policy, createdAt string) (string, error) {
	stub := ctx.GetStub()
	value, malformed := canonical.Read([]byte(policy))
	if malformed != nil {
		return "", failure(invalidPolicy, "policy: %v", malformed)
	}
	made, broken := record.NewPolicy(value)
	if broken != nil {
		return "", failure(invalidPolicy, "%v", broken)
	}
	announced, broken := record.Reference("policy", made.Digest, createdAt)
	if broken != nil {
		return "", failure(invalidPolicy, "%v", broken)
	}
	id := canonical.Member{Name: "evaluation_id", Value: announced.ID}
	standing, err := read(stub, policyKey(made.Digest))
	if err != nil {
		return "", err
	}
	if standing != nil {
		return answer(result("exists", id))
	}
	if _, err := permit(stub, "registering a policy", admin); err != nil {
		return "", err
	}
	if err := write(stub, policyKey(made.Digest), made.Bytes); err != nil {
		return "", err
	}
	commit := newCommit(stub, announced.Kind)
	if err := commit.write(announced); err != nil {
		return "", err
	}
	if err := commit.announce("RegisterPolicy"); err != nil {
		return "", err
	}
	return answer(result("created", id))
}

// ReadPolicy answers the policy with this digest, or null.
func (*Scorecards) ReadPolicy(ctx contractapi.TransactionContextInterface, digest string) (string, error) {
	if !record.IsDigest(digest) {
		return "", failure(invalidArgument, "digest: 64 lower-case hexadecimal digits")
	}
	policy, err := read(ctx.GetStub(), policyKey(digest))
	if err != nil || policy == nil {
		return "null", err
	}
	return string(policy), nil
}
