package contract

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
	"github.com/hyperledger/fabric-contract-api-go/v2/contractapi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"glassbox/chaincode/canonical"
	"glassbox/chaincode/record"
)

const maxPage = 1000

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{0,128}$`)

// Every list answers {"items": […], "bookmark": "…"}: at most pageSize items in the order of their keys, and where to go
// on, empty at the end.

// ListPolicies lists the registered policies by time.
func (*Scorecards) ListPolicies(ctx contractapi.TransactionContextInterface, pageSize, bookmark string) (string, error) {
	return list(ctx, below("time/policy/"), pageSize, bookmark, indexed)
}

// ListByPolicy lists the scorecards under a policy that were closed in [from, to), either of them empty for open.
func (*Scorecards) ListByPolicy(ctx contractapi.TransactionContextInterface, policyDigest, from, to, pageSize, bookmark string) (string, error) {
	if !record.IsDigest(policyDigest) {
		return "", failure(invalidArgument, "policy_digest: 64 lower-case hexadecimal digits")
	}
	prefix := "time/" + policyDigest + "/"
	span := below(prefix)
	if from != "" {
		if broken := record.CheckTime(from, "from"); broken != nil {
			return "", failure(invalidArgument, "%v", broken)
		}
		span.start = prefix + from
	}
	if to != "" {
		if broken := record.CheckTime(to, "to"); broken != nil {
			return "", failure(invalidArgument, "%v", broken)
		}
		span.end = prefix + to
	}
	return list(ctx, span, pageSize, bookmark, indexed)
}

// ListBySession lists the scorecards of a session, named by its HMAC, by time.
func (*Scorecards) ListBySession(ctx contractapi.TransactionContextInterface, session, pageSize, bookmark string) (string, error) {
	if !record.IsDigest(session) {
		return "", failure(invalidArgument, "session: 64 lower-case hexadecimal digits")
	}
	return list(ctx, below("session/"+session+"/"), pageSize, bookmark, indexed)
}

// ListReferring lists the records that supersede a record or refer to it, by time.
func (*Scorecards) ListReferring(ctx contractapi.TransactionContextInterface, id, pageSize, bookmark string) (string, error) {
	if !record.IsID(id) {
		return "", failure(invalidArgument, "id: 1 to 128 of A-Z a-z 0-9 . _ : -")
	}
	return list(ctx, below("refers/"+id+"/"), pageSize, bookmark, indexed)
}

// ListByPrefix lists the records whose id begins with a prefix, by id.
func (*Scorecards) ListByPrefix(ctx contractapi.TransactionContextInterface, prefix, pageSize, bookmark string) (string, error) {
	if err := fits("prefix", prefix, prefixForm, "0 to 128 of A-Z a-z 0-9 . _ : -"); err != nil {
		return "", err
	}
	return list(ctx, below(recordKey(prefix)), pageSize, bookmark, func(key string, _ []byte) any {
		return canonical.NewObject(canonical.Member{Name: "evaluation_id", Value: strings.TrimPrefix(key, recordKey(""))})
	})
}

// ListCheckpoints lists the checkpoints of an origin by size, each whole.
func (*Scorecards) ListCheckpoints(ctx contractapi.TransactionContextInterface, origin, pageSize, bookmark string) (string, error) {
	return list(ctx, below(checkpointPrefix(origin)), pageSize, bookmark, func(_ string, value []byte) any {
		made, _ := canonical.Read(value)
		return made
	})
}

// History lists the transactions that wrote the record with this id: one, or none. The timestamp is the client's word.
func (*Scorecards) History(ctx contractapi.TransactionContextInterface, id string) (string, error) {
	if !record.IsID(id) {
		return "", failure(invalidArgument, "id: 1 to 128 of A-Z a-z 0-9 . _ : -")
	}
	found, err := ctx.GetStub().GetHistoryForKey(recordKey(id))
	if err != nil {
		return "", failure(ledgerTrouble, "the peer could not read its history: %v", err)
	}
	defer closing(found)
	items := []any{}
	for found.HasNext() {
		entry, err := found.Next()
		if err != nil {
			return "", failure(ledgerTrouble, "the peer could not read its history: %v", err)
		}
		items = append(items, canonical.NewObject(
			canonical.Member{Name: "tx_id", Value: entry.GetTxId()},
			canonical.Member{Name: "timestamp", Value: written(entry.GetTimestamp())},
		))
	}
	return answer(items)
}

func written(stamp *timestamppb.Timestamp) any {
	if !stamp.IsValid() {
		return nil
	}
	return stamp.AsTime().UTC().Format("2006-01-02T15:04:05.000Z")
}

// span is the keys from start to before end.
type span struct{ start, end string }

// below is all keys that begin with a prefix.
func below(prefix string) span { return span{prefix, after(prefix)} }

func list(
	ctx contractapi.TransactionContextInterface, keys span, pageSize, bookmark string, item func(key string, value []byte) any,
) (string, error) {
	size, err := strconv.ParseUint(pageSize, 10, 31)
	if err != nil || size < 1 || size > maxPage {
		return "", failure(invalidArgument, "page_size: a number from 1 to %d", maxPage)
	}
	if bookmark != "" && (bookmark < keys.start || bookmark >= keys.end) {
		return "", failure(invalidArgument, "bookmark: as the page before gave it, for the same list")
	}
	items, next := []any{}, ""
	if keys.start < keys.end {
		found, page, err := ctx.GetStub().GetStateByRangeWithPagination(keys.start, keys.end, int32(size), bookmark)
		if err != nil {
			return "", failure(ledgerTrouble, "the peer could not read its state: %v", err)
		}
		defer closing(found)
		for found.HasNext() {
			entry, err := found.Next()
			if err != nil {
				return "", failure(ledgerTrouble, "the peer could not read its state: %v", err)
			}
			items = append(items, item(entry.GetKey(), entry.GetValue()))
		}
		next = page.GetBookmark()
	}
	return answer(canonical.NewObject(
		canonical.Member{Name: "items", Value: items},
		canonical.Member{Name: "bookmark", Value: next},
	))
}

// indexed is the item of a key INDEX/SCOPE/TIME/ID.
func indexed(key string, txID []byte) any {
	steps := strings.Split(key, "/")
	last := len(steps) - 1
	return canonical.NewObject(
		canonical.Member{Name: "evaluation_id", Value: steps[last]},
		canonical.Member{Name: "time", Value: steps[max(last-1, 0)]},
		canonical.Member{Name: "tx_id", Value: string(txID)},
	)
}

func closing(iterator shim.CommonIteratorInterface) { _ = iterator.Close() }
