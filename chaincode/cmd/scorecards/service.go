package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
	"github.com/hyperledger/fabric-protos-go-apiv2/peer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	maxMessage = 100 << 20 // bytes, as the peer's
	patience   = 10 * time.Second
)

// serve answers peers until stopped is done, then lets the calls in progress end, for as long as patience lasts.
func serve(stopped context.Context, listener net.Listener, s settings, chaincode shim.Chaincode) error {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Minute, PermitWithoutStream: true}),
	}
	how := "without TLS"
	if s.tls != nil {
		how, options = "with TLS", append(options, grpc.Creds(credentials.NewTLS(s.tls)))
	}
	server := grpc.NewServer(options...)
	draining := &draining{
		server:  &shim.ChaincodeServer{CCID: s.id, CC: chaincode},
		running: map[call]bool{},
		idle:    make(chan struct{}),
	}
	peer.RegisterChaincodeServer(server, draining)
	log.Printf("serving %s at %s %s", s.id, listener.Addr(), how)

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("the service ended: %w", err)
	case <-stopped.Done():
	}
	select {
	case <-draining.drain():
		time.AfterFunc(patience, server.Stop)
		server.GracefulStop() // what was answered is still on its way
		log.Print("stopped: every call in progress was answered")
	case <-time.After(patience):
		server.Stop()
		log.Printf("stopped: calls were still in progress after %s; their clients try again", patience)
	}
	return nil
}

// draining knows which calls are in progress, from the messages that pass. Once told to drain it takes no new ones, and
// ends the streams when the last call is answered: by themselves they never end, and gRPC's graceful stop waits for that.
type draining struct {
	server *shim.ChaincodeServer

	mutex   sync.Mutex
	running map[call]bool
	ending  bool
	idle    chan struct{}
}

// call is one transaction of one peer; two peers may ask for the same transaction.
type call struct {
	stream        peer.Chaincode_ConnectServer
	channel, txID string
}

// Connect serves one peer, until it goes or the service has drained.
func (d *draining) Connect(stream peer.Chaincode_ConnectServer) error {
	defer d.end(func(running call) bool { return running.stream == stream })
	gone := make(chan error, 1)
	go func() { gone <- d.server.Connect(watched{stream, d}) }()
	select {
	case err := <-gone:
		return err
	case <-d.idle:
		return nil
	}
}

// drain returns a channel that is closed once nothing is running.
func (d *draining) drain() <-chan struct{} {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.ending = true
	if len(d.running) == 0 {
		close(d.idle)
	}
	return d.idle
}

// begin reports whether the call is taken up.
func (d *draining) begin(one call) bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.ending {
		d.running[one] = true
	}
	return !d.ending
}

// end forgets the calls that are over.
func (d *draining) end(over func(call) bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	before := len(d.running)
	maps.DeleteFunc(d.running, func(one call, _ bool) bool { return over(one) })
	if d.ending && before > 0 && len(d.running) == 0 {
		close(d.idle)
	}
}

// watched is a peer's stream.
type watched struct {
	peer.Chaincode_ConnectServer
	draining *draining
}

// Recv passes messages on, except calls that come too late: their peer sees the stream end.
func (w watched) Recv() (*peer.ChaincodeMessage, error) {
	for {
		message, err := w.Chaincode_ConnectServer.Recv()
		if err != nil {
			return nil, err
		}
		switch message.GetType() {
		case peer.ChaincodeMessage_TRANSACTION, peer.ChaincodeMessage_INIT:
			if !w.draining.begin(w.call(message)) {
				continue
			}
		}
		return message, nil
	}
}

// Send passes an answer to the peer, and only then is its call over.
func (w watched) Send(message *peer.ChaincodeMessage) error {
	err := w.Chaincode_ConnectServer.Send(message)
	switch message.GetType() {
	case peer.ChaincodeMessage_COMPLETED, peer.ChaincodeMessage_ERROR:
		answered := w.call(message)
		w.draining.end(func(running call) bool { return running == answered })
	}
	return err
}

func (w watched) call(message *peer.ChaincodeMessage) call {
	return call{w.Chaincode_ConnectServer, message.GetChannelId(), message.GetTxid()}
}
