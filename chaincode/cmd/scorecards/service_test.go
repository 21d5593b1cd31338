package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hyperledger/fabric-protos-go-apiv2/peer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"glassbox/chaincode/contract"
)

func TestSettings(t *testing.T) {
	folder := t.TempDir()
	certificate, key := pair(t, folder)
	address, id := "CHAINCODE_SERVER_ADDRESS=127.0.0.1:0", "CORE_CHAINCODE_ID_NAME=scorecards:1"
	for _, c := range []struct {
		environment []string
		want        string // the error, or "" for none
	}{
		{nil, "CHAINCODE_SERVER_ADDRESS is not set: name the address to listen on"},
		{[]string{address}, "CORE_CHAINCODE_ID_NAME is not set: name the package id"},
		{[]string{address, id}, ""},
		{[]string{address, id, "CORE_PEER_TLS_ENABLED=true"}, ""},
		{[]string{address, id, "CORE_PEER_TLS_ENABLED=nonsense"}, ""},
		{[]string{address, id, "CHAINCODE_TLS_CERT=" + certificate, "CHAINCODE_TLS_KEY=" + key}, ""},
		{[]string{address, id, "CHAINCODE_TLS_CERT=" + certificate}, "TLS needs both CHAINCODE_TLS_CERT and CHAINCODE_TLS_KEY"},
		{[]string{address, id, "CHAINCODE_CLIENT_CA_CERT=" + certificate}, "TLS needs both"},
		{[]string{address, id, "CHAINCODE_TLS_CERT=" + key, "CHAINCODE_TLS_KEY=" + key}, "CHAINCODE_TLS_CERT and CHAINCODE_TLS_KEY cannot be used: "},
		{[]string{address, id, "CHAINCODE_TLS_CERT=" + certificate, "CHAINCODE_TLS_KEY=" + key, "CHAINCODE_CLIENT_CA_CERT=/absent"}, "CHAINCODE_CLIENT_CA_CERT cannot be read: "},
		{[]string{address, id, "CHAINCODE_TLS_CERT=" + certificate, "CHAINCODE_TLS_KEY=" + key, "CHAINCODE_CLIENT_CA_CERT=" + key}, "CHAINCODE_CLIENT_CA_CERT: " + key + " holds no PEM certificate"},
	} {
		_, err := fromEnvironment(environment(c.environment...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.environment, err, c.want)
		}
	}
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, pair := range pairs {
			if key, value, _ := strings.Cut(pair, "="); key == name {
				return value
			}
		}
		return ""
	}
}

// pair writes a certificate for 127.0.0.1 that signs itself, and its key.
func pair(t *testing.T, folder string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// service is one that runs, with what ends it.
type service struct {
	address string
	stop    context.CancelFunc
	ended   chan error
}

func started(t *testing.T, environmentPairs ...string) service {
	t.Helper()
	made, err := fromEnvironment(environment(append(environmentPairs,
		"CHAINCODE_SERVER_ADDRESS=127.0.0.1:0", "CORE_CHAINCODE_ID_NAME=scorecards:1")...))
	if err != nil {
		t.Fatal(err)
	}
	chaincode, err := contract.New()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", made.address)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(context.Background())
	s := service{listener.Addr().String(), stop, make(chan error, 1)}
	go func() { s.ended <- serve(stopped, listener, made, chaincode) }()
	t.Cleanup(stop)
	return s
}

// ends waits until the service has ended well.
func (s service) ends(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience / 2):
		t.Fatal("the service did not end")
	}
}

// connected is a peer's side of the stream, ready to send transactions.
func (s service) connected(t *testing.T, how credentials.TransportCredentials) peer.Chaincode_ConnectClient {
	t.Helper()
	connection, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(how))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	stream, err := peer.NewChaincodeClient(connection).Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	register := receive(t, stream, peer.ChaincodeMessage_REGISTER)
	var id peer.ChaincodeID
	if err := proto.Unmarshal(register.GetPayload(), &id); err != nil || id.GetName() != "scorecards:1" {
		t.Fatal(register, err)
	}
	send(t, stream, &peer.ChaincodeMessage{Type: peer.ChaincodeMessage_REGISTERED})
	send(t, stream, &peer.ChaincodeMessage{Type: peer.ChaincodeMessage_READY})
	return stream
}

func send(t *testing.T, stream peer.Chaincode_ConnectClient, message *peer.ChaincodeMessage) {
	t.Helper()
	if err := stream.Send(message); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, stream peer.Chaincode_ConnectClient, want peer.ChaincodeMessage_Type) *peer.ChaincodeMessage {
	t.Helper()
	message, err := stream.Recv()
	if err != nil || message.GetType() != want {
		t.Fatalf("%v, %v, want %s", message, err, want)
	}
	return message
}

// ask sends a call that reads one record, which the service then asks the peer for.
func ask(t *testing.T, stream peer.Chaincode_ConnectClient, txID string) {
	t.Helper()
	input, err := proto.Marshal(&peer.ChaincodeInput{Args: [][]byte{[]byte("ReadRecords"), []byte(`["a"]`)}})
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, &peer.ChaincodeMessage{Type: peer.ChaincodeMessage_TRANSACTION, ChannelId: "ch", Txid: txID, Payload: input})
}

// tell answers what a call asked for: there is no such record.
func tell(t *testing.T, stream peer.Chaincode_ConnectClient, txID string) {
	t.Helper()
	send(t, stream, &peer.ChaincodeMessage{Type: peer.ChaincodeMessage_RESPONSE, ChannelId: "ch", Txid: txID})
	message := receive(t, stream, peer.ChaincodeMessage_COMPLETED)
	var answer peer.Response
	if err := proto.Unmarshal(message.GetPayload(), &answer); err != nil || string(answer.GetPayload()) != "[null]" {
		t.Fatal(&answer, err)
	}
}

func TestServiceEndsWhenItsCallsAreAnswered(t *testing.T) {
	s := started(t)
	first, second := s.connected(t, insecure.NewCredentials()), s.connected(t, insecure.NewCredentials())
	for _, stream := range []peer.Chaincode_ConnectClient{first, second} { // two organisations' peers endorse one transaction
		ask(t, stream, "tx")
		receive(t, stream, peer.ChaincodeMessage_GET_STATE)
	}
	s.stop()
	tell(t, first, "tx")
	select {
	case err := <-s.ended:
		t.Fatalf("ended within a call: %v", err)
	case <-time.After(50 * time.Millisecond): // not a wait for something: nothing may happen
	}
	ask(t, first, "late")
	tell(t, second, "tx")
	s.ends(t)
	if message, err := first.Recv(); err == nil {
		t.Errorf("a call that came too late was taken up: %v", message)
	}
}

func TestServiceEndsWithoutCalls(t *testing.T) {
	s := started(t)
	stream := s.connected(t, insecure.NewCredentials())
	ask(t, stream, "tx")
	receive(t, stream, peer.ChaincodeMessage_GET_STATE)
	tell(t, stream, "tx")
	s.stop()
	s.ends(t)
}

func TestServiceForgetsTheCallsOfAPeerThatIsGone(t *testing.T) {
	s := started(t)
	stream := s.connected(t, insecure.NewCredentials())
	ask(t, stream, "tx")
	receive(t, stream, peer.ChaincodeMessage_GET_STATE)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Fatal("the stream goes on")
	}
	s.stop()
	s.ends(t)
}

func TestServiceWithTLS(t *testing.T) {
	certificate, key := pair(t, t.TempDir())
	s := started(t, "CHAINCODE_TLS_CERT="+certificate, "CHAINCODE_TLS_KEY="+key, "CHAINCODE_CLIENT_CA_CERT="+certificate)
	root := x509.NewCertPool()
	raw, err := os.ReadFile(certificate)
	if err != nil || !root.AppendCertsFromPEM(raw) {
		t.Fatal(err)
	}
	client, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	stream := s.connected(t, credentials.NewTLS(&tls.Config{RootCAs: root, Certificates: []tls.Certificate{client}}))
	ask(t, stream, "tx")
	receive(t, stream, peer.ChaincodeMessage_GET_STATE)
	tell(t, stream, "tx")
	for name, how := range map[string]credentials.TransportCredentials{
		"plain text": insecure.NewCredentials(), "no certificate": credentials.NewTLS(&tls.Config{RootCAs: root}),
	} {
		connection, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(how))
		if err != nil {
			t.Fatal(err)
		}
		if stream, err := peer.NewChaincodeClient(connection).Connect(context.Background()); err == nil {
			if message, err := stream.Recv(); err == nil {
				t.Errorf("%s: served %v", name, message)
			}
		}
		_ = connection.Close()
	}
}
