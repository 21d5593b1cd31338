package contract

import (
	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
	"github.com/hyperledger/fabric-contract-api-go/v2/contractapi"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/record"
)

// ReadRecords answers a JSON array of ids with an array: null, or the record that stands there and the transaction that
// wrote it.
func (*Scorecards) ReadRecords(ctx contractapi.TransactionContextInterface, ids string) (string, error) {
	value, malformed := canonical.Read([]byte(ids))
	if malformed != nil {
		return "", failure(invalidArgument, "ids: %v", malformed)
	}
	items, ok := value.([]any)
	if !ok || len(items) < 1 || len(items) > maxRecords {
		return "", failure(invalidArgument, "ids: a JSON array of 1 to %d ids", maxRecords)
	}
	answers := make([]any, len(items))
	for n, item := range items {
		id, ok := item.(string)
		if !ok {
			return "", failure(invalidArgument, "ids[%d]: text", n)
		}
		if !record.IsID(id) {
			continue
		}
		found, err := readRecord(ctx.GetStub(), id)
		if err != nil {
			return "", err
		}
		if found != nil {
			answers[n] = found
		}
	}
	return answer(answers)
}

func readRecord(stub shim.ChaincodeStubInterface, id string) (canonical.Object, error) {
	raw, err := read(stub, recordKey(id))
	if err != nil || raw == nil {
		return nil, err
	}
	value, malformed := canonical.Read(raw)
	if malformed != nil {
		return nil, failure(ledgerTrouble, "the record %s on the ledger is damaged: %v", id, malformed)
	}
	made, broken := record.New(value)
	if broken != nil {
		return nil, failure(ledgerTrouble, "the record %s on the ledger is damaged: %v", id, broken)
	}
	txID, err := read(stub, timeKey(made))
	if err != nil {
		return nil, err
	}
	return canonical.NewObject(
		canonical.Member{Name: "record", Value: made.Value()},
		canonical.Member{Name: "tx_id", Value: string(txID)},
	), nil
}
