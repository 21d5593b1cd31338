package contract_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
	"github.com/hyperledger/fabric-protos-go-apiv2/ledger/queryresult"
	"github.com/hyperledger/fabric-protos-go-apiv2/msp"
	"github.com/hyperledger/fabric-protos-go-apiv2/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"glassbox/chaincode/contract"
)

// ledger is a peer in memory: what the chaincode writes is seen by the next transaction, never by the same one.
type ledger struct {
	t       testing.TB
	cc      shim.Chaincode
	state   map[string][]byte
	history map[string][]string // key -> ids of the transactions that wrote it
	calls   int
	broken  string // the stub function that fails, if any, or "panic in " it
	sound   int    // how often it still works in a transaction
}

func newLedger(t testing.TB) *ledger {
	t.Helper()
	cc, err := contract.New()
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{t: t, cc: cc, state: map[string][]byte{}, history: map[string][]string{}}
}

// transaction is what one call asked of the peer.
type transaction struct {
	shim.ChaincodeStubInterface // whatever is not below is not used, and panics
	ledger                      *ledger
	id                          string
	creator                     []byte
	arguments                   []string
	writes                      []string // "key = value", in order
	pending                     map[string][]byte
	event, payload              string
	answer                      *peer.Response
	used                        int // how often the broken function was called
}

// call runs a function as a caller does, and commits what it wrote where it succeeded.
func (l *ledger) call(creator []byte, function string, arguments ...string) *transaction {
	l.calls++
	tx := &transaction{
		ledger: l, id: fmt.Sprintf("%064x", l.calls), creator: creator,
		arguments: append([]string{function}, arguments...), pending: map[string][]byte{},
	}
	tx.answer = l.cc.Invoke(tx)
	if tx.answer.GetStatus() == shim.OK {
		for key, value := range tx.pending {
			l.state[key] = value
			l.history[key] = append(l.history[key], tx.id)
		}
	}
	return tx
}

// ok runs a function that must succeed and returns its JSON text.
func (l *ledger) ok(creator []byte, function string, arguments ...string) string {
	l.t.Helper()
	tx := l.call(creator, function, arguments...)
	if tx.answer.GetStatus() != shim.OK {
		l.t.Fatalf("%s: %s", function, tx.answer.GetMessage())
	}
	return string(tx.answer.GetPayload())
}

func (l *ledger) copy() *ledger {
	made := *l
	made.state, made.history = maps.Clone(l.state), maps.Clone(l.history)
	return &made
}

func (tx *transaction) fault(function string) error {
	if strings.TrimPrefix(tx.ledger.broken, "panic in ") != function {
		return nil
	}
	if tx.used++; tx.used <= tx.ledger.sound {
		return nil
	}
	if tx.ledger.broken != function {
		panic("hostile")
	}
	return errors.New("disk full")
}

func (tx *transaction) GetTxID() string { return tx.id }

func (tx *transaction) GetCreator() ([]byte, error) { return tx.creator, nil }

func (tx *transaction) GetFunctionAndParameters() (string, []string) {
	return tx.arguments[0], tx.arguments[1:]
}

func (tx *transaction) GetState(key string) ([]byte, error) {
	return tx.ledger.state[key], tx.fault("GetState")
}

func (tx *transaction) PutState(key string, value []byte) error {
	tx.writes = append(tx.writes, fmt.Sprintf("%s = %s", key, value))
	tx.pending[key] = bytes.Clone(value)
	return tx.fault("PutState")
}

func (tx *transaction) SetEvent(name string, payload []byte) error {
	if tx.event != "" {
		tx.ledger.t.Errorf("a second event %s after %s", name, tx.event)
	}
	tx.event, tx.payload = name, string(payload)
	return tx.fault("SetEvent")
}

func (tx *transaction) GetStateByRangeWithPagination(start, end string, size int32, bookmark string) (
	shim.StateQueryIteratorInterface, *peer.QueryResponseMetadata, error,
) {
	if bookmark != "" {
		start = bookmark
	}
	page, next := &iterator{broken: tx.fault("Next")}, ""
	for _, key := range slices.Sorted(maps.Keys(tx.ledger.state)) {
		if key < start || key >= end {
			continue
		}
		if len(page.keys) == int(size) {
			next = key
			break
		}
		page.keys = append(page.keys, &queryresult.KV{Key: key, Value: tx.ledger.state[key]})
	}
	return page, &peer.QueryResponseMetadata{Bookmark: next}, tx.fault("GetStateByRangeWithPagination")
}

func (tx *transaction) GetHistoryForKey(key string) (shim.HistoryQueryIteratorInterface, error) {
	found := &history{broken: tx.fault("Next")}
	for _, id := range tx.ledger.history[key] {
		found.entries = append(found.entries, &queryresult.KeyModification{TxId: id, Timestamp: stamp(id)})
	}
	return found, tx.fault("GetHistoryForKey")
}

// stamp is the time that the client of a transaction gave: some of them nonsense.
func stamp(id string) *timestamppb.Timestamp {
	if strings.HasSuffix(id, "f") {
		return &timestamppb.Timestamp{Seconds: -1 << 62}
	}
	return timestamppb.New(time.Date(2001, 2, 3, 4, 5, 6, 7_000_000, time.UTC))
}

type iterator struct {
	keys   []*queryresult.KV
	broken error
}

func (i *iterator) HasNext() bool { return len(i.keys) > 0 }
func (i *iterator) Close() error  { return nil }
func (i *iterator) Next() (*queryresult.KV, error) {
	first := i.keys[0]
	i.keys = i.keys[1:]
	return first, i.broken
}

type history struct {
	entries []*queryresult.KeyModification
	broken  error
}

func (h *history) HasNext() bool { return len(h.entries) > 0 }
func (h *history) Close() error  { return nil }
func (h *history) Next() (*queryresult.KeyModification, error) {
	first := h.entries[0]
	h.entries = h.entries[1:]
	return first, h.broken
}

// identity is a creator as a peer passes it on: an organisation, organisational units and, where not empty, the JSON of
// the certificate attributes that Fabric's certificate authority writes.
func identity(t testing.TB, organisation, attributes string, units ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "someone", OrganizationalUnit: units},
		NotAfter:     time.Now().Add(time.Hour),
	}
	if attributes != "" {
		template.ExtraExtensions = []pkix.Extension{{
			Id: asn1.ObjectIdentifier{1, 2, 3, 4, 5, 6, 7, 8, 1}, Value: []byte(attributes),
		}}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return serialized(t, organisation, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func serialized(t testing.TB, organisation string, certificate []byte) []byte {
	t.Helper()
	made, err := proto.Marshal(&msp.SerializedIdentity{Mspid: organisation, IdBytes: certificate})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func role(name string) string { return fmt.Sprintf(`{"attrs":{"glassbox.role":%q}}`, name) }

// people are the callers of the tests.
type people struct{ admin, writer, reader, other []byte }

func newPeople(t testing.TB) people {
	t.Helper()
	return people{
		admin:  identity(t, "Org1MSP", "", "admin"),
		writer: identity(t, "Org1MSP", "", "client"),
		reader: identity(t, "Org1MSP", role("reader"), "client"),
		other:  identity(t, "Org2MSP", "", "client"),
	}
}
