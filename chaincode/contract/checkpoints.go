package contract

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hyperledger/fabric-contract-api-go/v2/contractapi"

	"glassbox/chaincode/canonical"
)

const (
	maxOrigin    = 256       // characters
	maxSignature = 16 * 1024 // bytes: the 16 signatures that a reader of notes must accept, and more
	rootBytes    = 32
)

var sizeForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)

// AnchorCheckpoint keeps the head of a log outside it: the note is origin, size, root, an empty line and the signature
// lines (c2sp.org/tlog-checkpoint). Sizes of an origin only grow and a size has one root, for ever; an origin belongs to
// the organisation that anchored it first. Answers created or exists.
func (*Scorecards) AnchorCheckpoint(ctx contractapi.TransactionContextInterface, origin, size, root, signature string) (string, error) {
	stub := ctx.GetStub()
	who, err := permit(stub, "anchoring a checkpoint", admin, writer)
	if err != nil {
		return "", err
	}
	if err := checkNote(origin, size, root, signature); err != nil {
		return "", err
	}
	leaves, _ := strconv.ParseUint(size, 10, 64) // 19 digits at most
	head, err := readHead(ctx, origin)
	if err != nil {
		return "", err
	}
	if head.mspID != "" && head.mspID != who.mspID {
		return "", failure(forbidden, "the origin %s is anchored by %s, and this caller is of %s", origin, head.mspID, who.mspID)
	}
	standing, err := read(stub, checkpointKey(origin, leaves))
	if err != nil {
		return "", err
	}
	if standing != nil {
		if rootOf(standing) != root {
			return "", failure(conflict, "the origin %s has another root at size %s: its log was rewritten", origin, size)
		}
		return answer(result("exists"))
	}
	if head.mspID != "" && leaves < head.size {
		return "", failure(conflict, "the origin %s is anchored at size %d already: sizes only grow", origin, head.size)
	}
	made := canonical.NewObject(
		canonical.Member{Name: "origin", Value: origin},
		canonical.Member{Name: "size", Value: size},
		canonical.Member{Name: "root", Value: root},
		canonical.Member{Name: "signature", Value: signature},
		canonical.Member{Name: "msp_id", Value: who.mspID},
		canonical.Member{Name: "tx_id", Value: stub.GetTxID()},
	)
	if err := write(stub, checkpointKey(origin, leaves), canonical.Write(made)); err != nil {
		return "", err
	}
	newest := canonical.NewObject(
		canonical.Member{Name: "size", Value: size},
		canonical.Member{Name: "msp_id", Value: who.mspID},
	)
	if err := write(stub, originKey(origin), canonical.Write(newest)); err != nil {
		return "", err
	}
	err = announce(stub, "AnchorCheckpoint",
		canonical.Member{Name: "origin", Value: origin}, canonical.Member{Name: "size", Value: size})
	if err != nil {
		return "", err
	}
	return answer(result("created"))
}

// ReadCheckpoint answers the newest checkpoint of an origin, or null.
func (*Scorecards) ReadCheckpoint(ctx contractapi.TransactionContextInterface, origin string) (string, error) {
	head, err := readHead(ctx, origin)
	if err != nil || head.mspID == "" {
		return "null", err
	}
	newest, err := read(ctx.GetStub(), checkpointKey(origin, head.size))
	return string(newest), err
}

// head is the newest checkpoint's size, and whose the origin is; of nobody where it is new.
type head struct {
	mspID string
	size  uint64
}

func readHead(ctx contractapi.TransactionContextInterface, origin string) (head, error) {
	raw, err := read(ctx.GetStub(), originKey(origin))
	if err != nil || raw == nil {
		return head{}, err
	}
	size, err := strconv.ParseUint(member(raw, "size"), 10, 64)
	if err != nil {
		return head{}, failure(ledgerTrouble, "the head of the origin %s on the ledger is damaged", origin)
	}
	return head{member(raw, "msp_id"), size}, nil
}

func rootOf(checkpoint []byte) string { return member(checkpoint, "root") }

// member is a text in one of this file's own objects.
func member(raw []byte, name string) string {
	value, _ := canonical.Read(raw)
	object, _ := value.(canonical.Object)
	found, _ := object.Get(name)
	text, _ := found.(string)
	return text
}

// checkNote holds the arguments against the forms that ledger/checkpoint.py reads. Whose signature it is, and whether it
// verifies, is for those who know the log's key.
func checkNote(origin, size, root, signature string) error {
	if count := utf8.RuneCountInString(origin); count < 1 || count > maxOrigin || !utf8.ValidString(origin) ||
		strings.ContainsFunc(origin, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '+' }) {
		return failure(invalidArgument, "origin: 1 to %d characters without spaces, control characters and +", maxOrigin)
	}
	if err := fits("size", size, sizeForm, "a decimal number of leaves"); err != nil {
		return err
	}
	if decoded, ok := decode(root); !ok || len(decoded) != rootBytes {
		return failure(invalidArgument, "root: the base64 of %d bytes", rootBytes)
	}
	if len(signature) > maxSignature {
		return failure(invalidArgument, "signature: at most %d bytes", maxSignature)
	}
	for n, line := range strings.Split(signature, "\n") {
		if !isSignature(line) {
			return failure(invalidArgument, "signature: line %d is not a dash (U+2014), a name and base64, parted by one space", n+1)
		}
	}
	return nil
}

func isSignature(line string) bool {
	words := strings.Split(line, " ")
	if len(words) != 3 || words[0] != "—" || words[1] == "" || !utf8.ValidString(line) {
		return false
	}
	if strings.ContainsFunc(line, unicode.IsControl) {
		return false
	}
	decoded, ok := decode(words[2])
	return ok && len(decoded) >= 5 // 4 bytes of key id, then the signature
}

// decode reads base64 in its one canonical form: no line breaks, no stray bits.
func decode(text string) ([]byte, bool) {
	decoded, err := base64.StdEncoding.Strict().DecodeString(text)
	return decoded, err == nil && base64.StdEncoding.EncodeToString(decoded) == text
}
