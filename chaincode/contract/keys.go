package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"glassbox/chaincode/record"
)

// State keys are plain text, so that key ranges serve every list; ids, digests and times hold no slash. The keys of a
// record: record/ID for its bytes, and indexes whose value is the id of the transaction that wrote it.

func recordKey(id string) string { return "record/" + id }

func policyKey(digest string) string { return "policy/" + digest }

func timeKey(r *record.Record) string {
	scope := r.Kind
	if r.PolicyDigest != "" {
		scope = r.PolicyDigest
	}
	return indexKey("time", scope, r)
}

// indexKeys are all the keys, besides its own, under which a record is found.
func indexKeys(r *record.Record) []string {
	keys := []string{timeKey(r)}
	if r.Session != "" {
		keys = append(keys, indexKey("session", r.Session, r))
	}
	if r.Reference != "" {
		keys = append(keys, indexKey("refers", r.Reference, r))
	}
	return keys
}

func indexKey(index, scope string, r *record.Record) string {
	return strings.Join([]string{index, scope, r.Time, r.ID}, "/")
}

// originKey holds the newest checkpoint's size and the organisation that anchors this origin. Of the keys here it is the
// only one that is ever written again.
func originKey(origin string) string { return "origin/" + hexadecimal(origin) }

func checkpointKey(origin string, size uint64) string {
	return fmt.Sprintf("%s%020d", checkpointPrefix(origin), size)
}

func checkpointPrefix(origin string) string { return "checkpoint/" + hexadecimal(origin) + "/" }

func hexadecimal(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:])
}

// after is the first key behind all that begin with prefix, which is not empty and ends in ASCII.
func after(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(prefix[last]+1)
}
