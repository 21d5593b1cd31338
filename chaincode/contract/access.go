package contract

import (
	"slices"
	"strings"

	"github.com/hyperledger/fabric-chaincode-go/v2/pkg/cid"
	"github.com/hyperledger/fabric-chaincode-go/v2/shim"
)

// roleAttribute is the certificate attribute that gives a role; without it the certificate's organisational unit does.
const roleAttribute = "glassbox.role"

const (
	admin  = "admin"
	writer = "writer"
	reader = "reader"
)

// caller is who submitted the transaction. The peer has checked the certificate against the channel's organisations.
type caller struct{ mspID, role string }

func callerOf(stub shim.ChaincodeStubInterface) (caller, error) {
	identity, err := cid.New(stub) // not the transaction context's, which hides that there is none
	if err != nil {
		return caller{}, failure(forbidden, "the caller's certificate cannot be read: %v", err)
	}
	made := caller{role: reader}
	made.mspID, _ = identity.GetMSPID()
	if given, found, err := identity.GetAttributeValue(roleAttribute); err == nil && found {
		made.role = given
		return made, nil
	}
	if certificate, err := identity.GetX509Certificate(); err == nil && certificate != nil {
		units := certificate.Subject.OrganizationalUnit
		if slices.Contains(units, "admin") {
			made.role = admin
		} else if slices.Contains(units, "client") {
			made.role = writer
		}
	}
	return made, nil
}

// permit refuses a caller that has none of the roles.
func permit(stub shim.ChaincodeStubInterface, what string, roles ...string) (caller, error) {
	who, err := callerOf(stub)
	if err != nil {
		return who, err
	}
	if !slices.Contains(roles, who.role) {
		return who, failure(forbidden, "%s needs the role %s, and this caller of %s has the role %q: see %s in its certificate",
			what, strings.Join(roles, " or "), who.mspID, who.role, roleAttribute)
	}
	return who, nil
}
