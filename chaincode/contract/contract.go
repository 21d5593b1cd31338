// Package contract is the ledger of scorecards as a Fabric chaincode: what may be written, by whom, and how it is read.
//
// Nothing here depends on a clock, on chance, on the order of a map or on another goroutine, so that every endorsing
// peer computes the same writes. docs/chaincode.md describes the functions.
package contract

import (
	"fmt"
	"regexp"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
	"github.com/hyperledger/fabric-contract-api-go/v2/contractapi"
	"github.com/hyperledger/fabric-protos-go-apiv2/peer"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/record"
)

// Scorecards is the contract. Its methods are the chaincode's functions: strings in, JSON text out, and errors of the
// form `CODE: sentence`.
type Scorecards struct{ contractapi.Contract }

// The codes with which an error begins.
const (
	invalidBatch    = "INVALID_BATCH"
	invalidRecord   = "INVALID_RECORD"
	invalidPolicy   = "INVALID_POLICY"
	invalidArgument = "INVALID_ARGUMENT"
	forbidden       = "FORBIDDEN"
	conflict        = "CONFLICT"
	ledgerTrouble   = "LEDGER"
	internalError   = "INTERNAL"
)

const maxRecords = 200 // of one batch or one read

// GetEvaluateTransactions names the functions that only read.
func (*Scorecards) GetEvaluateTransactions() []string {
	return []string{
		"ReadRecords", "ReadPolicy", "ReadCheckpoint", "History",
		"ListPolicies", "ListByPolicy", "ListBySession", "ListByPrefix", "ListReferring", "ListCheckpoints",
	}
}

// New is the chaincode that a peer talks to.
func New() (shim.Chaincode, error) {
	made, err := contractapi.NewChaincode(&Scorecards{})
	if err != nil {
		return nil, err
	}
	return recovering{made}, nil
}

// recovering answers a panic as an error: one transaction may fail, but never the process and with it every channel
// that it serves. What the panic said stays out of the answer, which all peers must give alike.
type recovering struct{ inner shim.Chaincode }

func (r recovering) Init(stub shim.ChaincodeStubInterface) *peer.Response {
	return recovered(r.inner.Init, stub)
}

func (r recovering) Invoke(stub shim.ChaincodeStubInterface) *peer.Response {
	return recovered(r.inner.Invoke, stub)
}

func recovered(call func(shim.ChaincodeStubInterface) *peer.Response, stub shim.ChaincodeStubInterface) (answer *peer.Response) {
	defer func() {
		if recover() != nil {
			answer = shim.Error(failure(internalError, "the chaincode broke on this call: report it with the arguments").Error())
		}
	}()
	return call(stub)
}

func failure(code, format string, arguments ...any) error {
	return fmt.Errorf(code+": "+format, arguments...)
}

// read is the value under a key, nil where there is none.
func read(stub shim.ChaincodeStubInterface, key string) ([]byte, error) {
	value, err := stub.GetState(key)
	if err != nil {
		return nil, failure(ledgerTrouble, "the peer could not read its state: %v", err)
	}
	if len(value) == 0 {
		return nil, nil
	}
	return value, nil
}

func write(stub shim.ChaincodeStubInterface, key string, value []byte) error {
	if err := stub.PutState(key, value); err != nil {
		return failure(ledgerTrouble, "the peer did not take a write: %v", err)
	}
	return nil
}

// announce sets the one event that a transaction has, named after its function.
func announce(stub shim.ChaincodeStubInterface, function string, members ...canonical.Member) error {
	payload := canonical.NewObject(append(members, canonical.Member{Name: "schema_version", Value: record.SchemaVersion})...)
	if err := stub.SetEvent(function, canonical.Write(payload)); err != nil {
		return failure(ledgerTrouble, "the peer did not take the event: %v", err)
	}
	return nil
}

func created(ids []string) canonical.Member {
	items := make([]any, len(ids))
	for n, id := range ids {
		items[n] = id
	}
	return canonical.Member{Name: "evaluation_ids", Value: items}
}

func result(value string, more ...canonical.Member) canonical.Object {
	return canonical.NewObject(append(more, canonical.Member{Name: "result", Value: value})...)
}

func answer(value any) (string, error) { return string(canonical.Write(value)), nil }

// fits checks an argument's form.
func fits(name, value string, form *regexp.Regexp, rule string) error {
	if form.MatchString(value) {
		return nil
	}
	return failure(invalidArgument, "%s: %s", name, rule)
}
