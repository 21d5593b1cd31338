// Package canonical reads JSON strictly and writes it in the one form of RFC 8785.
//
// A value is nil, bool, string, Number, []any or Object. It repeats glassbox/contract/canonical.py; the golden vectors
// in tests/vectors/canonical.json bind both.
package canonical

import (
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MaxDepth is the deepest nesting of arrays and objects that Read accepts.
	MaxDepth = 32
	// MaxSafeInteger is the largest integer that survives an IEEE 754 double (RFC 8785 section 3.2.2.3).
	MaxSafeInteger = 1<<53 - 1
)

// Number is a JSON number. It is only carried from text to text: nothing is computed with it.
type Number float64

// Member is one name of an object with its value.
type Member struct {
	Name  string
	Value any
}

// Object is a JSON object: its members sorted by the UTF-16 code units of their names, each name once. A slice instead
// of a map, so that nothing can depend on an order that Go leaves open.
type Object []Member

// NewObject sorts members, whose names are distinct.
func NewObject(members ...Member) Object {
	slices.SortFunc(members, func(a, b Member) int { return compareNames(a.Name, b.Name) })
	return members
}

// Get returns the value under a name, and whether there is one.
func (o Object) Get(name string) (any, bool) {
	n, found := slices.BinarySearchFunc(o, name, func(m Member, name string) int { return compareNames(m.Name, name) })
	if !found {
		return nil, false
	}
	return o[n].Value, true
}

// compareNames orders by UTF-16 code units (RFC 8785 section 3.2.3). That is the order of code points, except that
// those beyond U+FFFF, being written as surrogates, come before U+E000 to U+FFFF.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		first, width := utf8.DecodeRuneInString(a)
		second, other := utf8.DecodeRuneInString(b)
		if first != second {
			if lead, its := leadUnit(first), leadUnit(second); lead != its {
				return int(lead) - int(its)
			}
			return int(first) - int(second)
		}
		a, b = a[width:], b[other:]
	}
	return len(a) - len(b)
}

func leadUnit(r rune) rune {
	if lead, _ := utf16.EncodeRune(r); lead != utf8.RuneError {
		return lead
	}
	return r
}
