package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// settings are what the environment says. tls is nil for a service in plain text.
type settings struct {
	address string
	id      string
	tls     *tls.Config
}

// fromEnvironment reads the names that Fabric's own samples use. CORE_PEER_TLS_ENABLED is the peer's and means nothing
// here, even where it leaks in.
func fromEnvironment(value func(name string) string) (settings, error) {
	made := settings{address: value("CHAINCODE_SERVER_ADDRESS"), id: value("CORE_CHAINCODE_ID_NAME")}
	if made.address == "" {
		return made, errors.New("CHAINCODE_SERVER_ADDRESS is not set: name the address to listen on, such as 127.0.0.1:9999")
	}
	if made.id == "" {
		return made, errors.New("CORE_CHAINCODE_ID_NAME is not set: name the package id that the peer gave when it installed the package, LABEL:HASH")
	}
	var err error
	made.tls, err = tlsFrom(value("CHAINCODE_TLS_CERT"), value("CHAINCODE_TLS_KEY"), value("CHAINCODE_CLIENT_CA_CERT"))
	return made, err
}

// tlsFrom reads PEM files: the service's certificate and key, and the root of the peers that may connect, if any.
func tlsFrom(certificate, key, clientRoot string) (*tls.Config, error) {
	if certificate == "" && key == "" && clientRoot == "" {
		return nil, nil
	}
	if certificate == "" || key == "" {
		return nil, errors.New("TLS needs both CHAINCODE_TLS_CERT and CHAINCODE_TLS_KEY: name the two files, or none")
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("CHAINCODE_TLS_CERT and CHAINCODE_TLS_KEY cannot be used: %w", err)
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if clientRoot == "" {
		return made, nil
	}
	root, err := os.ReadFile(clientRoot)
	if err != nil {
		return nil, fmt.Errorf("CHAINCODE_CLIENT_CA_CERT cannot be read: %w", err)
	}
	made.ClientCAs, made.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !made.ClientCAs.AppendCertsFromPEM(root) {
		return nil, fmt.Errorf("CHAINCODE_CLIENT_CA_CERT: %s holds no PEM certificate", clientRoot)
	}
	return made, nil
}
