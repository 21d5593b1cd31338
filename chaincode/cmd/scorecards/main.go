// Command scorecards serves the chaincode to a peer.
package main

import (
	"log"
	"net"
	"os"

	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
	"github.com/hyperledger/fabric-protos-go-apiv2/peer"
	"google.golang.org/grpc"

	"glassbox/chaincode/contract"
)

func main() {
	chaincode, err := contract.New()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", os.Getenv("CHAINCODE_SERVER_ADDRESS"))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(100<<20), grpc.MaxSendMsgSize(100<<20))
	peer.RegisterChaincodeServer(server, &shim.ChaincodeServer{CCID: os.Getenv("CORE_CHAINCODE_ID_NAME"), CC: chaincode})
	log.Fatal(server.Serve(listener))
}
