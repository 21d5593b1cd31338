// Command scorecards serves the chaincode to peers that run it as an external service. It ends on SIGTERM or SIGINT once
// the calls in progress are answered; a supervisor is expected to start it again whenever it ends.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"glassbox/chaincode/contract"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	settings, err := fromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	chaincode, err := contract.New()
	if err != nil {
		return fmt.Errorf("the contract cannot be served: %w", err)
	}
	listener, err := net.Listen("tcp", settings.address)
	if err != nil {
		return fmt.Errorf("CHAINCODE_SERVER_ADDRESS cannot be listened on: %w", err)
	}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return serve(stopped, listener, settings, chaincode)
}
