// Package record holds Record v1: every rule that a record on the ledger must keep, and the arithmetic that its figures
// must follow from.
//
// It repeats glassbox/contract/record.py and composite.py; docs/ledger-schema.md describes the fields, and the golden
// vectors in tests/vectors bind both.
package record

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"glassbox/chaincode/canonical"
)

// Error is a record or policy that breaks a rule. Field is a path such as `parts[3].score`; Rule says what must hold.
type Error struct {
	Field string
	Rule  string
}

func (e *Error) Error() string { return e.Field + ": " + e.Rule }

// check looks at one value, which stands at path.
type check func(value any, path string) *Error

// field is one field of an object with its check.
type field struct {
	name  string
	check check
}

var (
	idForm     = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	figureForm = regexp.MustCompile(`^(0\.[0-9]{6}|1\.000000)$`)
	weightForm = regexp.MustCompile(`^[0-9]{1,4}\.[0-9]{6}$`)
	timeForm   = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z$`)
	codeForm   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	reasonForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}(:[a-z][a-z0-9_]{0,63})?$`)
)

var (
	isID     = matches(idForm, "1 to 128 of A-Z a-z 0-9 . _ : -")
	isDigest = matches(digestForm, "64 lower-case hexadecimal digits")
	isFigure = matches(figureForm, "a decimal string from 0.000000 to 1.000000 with 6 places")
	isWeight = matches(weightForm, "a decimal string from 0.000000 to 9999.999999 with 6 places")
	isCode   = matches(codeForm, "a code of lower-case letters, digits and _")
	isReason = matches(reasonForm, "CODE or CODE:part")
	isFlag   = oneOf(true, false)
	isTimely = matches(timeForm, "RFC 3339 UTC with milliseconds, such as 2026-01-31T09:30:00.000Z")
)

// IsID reports whether text has the form of an evaluation id.
func IsID(text string) bool { return idForm.MatchString(text) }

// CheckTime returns an error that names path unless text is a time in the form that records use.
func CheckTime(text, path string) *Error { return isTime(text, path) }

// IsDigest reports whether text is 64 lower-case hexadecimal digits.
func IsDigest(text string) bool { return digestForm.MatchString(text) }

func matches(form *regexp.Regexp, rule string) check {
	return func(value any, path string) *Error {
		if text, ok := value.(string); !ok || !form.MatchString(text) {
			return &Error{path, rule}
		}
		return nil
	}
}

func oneOf(values ...any) check {
	return func(value any, path string) *Error {
		switch value.(type) {
		case nil, bool, string:
			if slices.Contains(values, value) {
				return nil
			}
		}
		return &Error{path, "one of " + listed(values)}
	}
}

func listed(values []any) string {
	names := make([]string, len(values))
	for n, value := range values {
		if names[n] = string(canonical.Write(value)); value != nil {
			names[n] = fmt.Sprint(value)
		}
	}
	return strings.Join(names, ", ")
}

func orNull(inner check) check {
	return func(value any, path string) *Error {
		if value == nil {
			return nil
		}
		return inner(value, path)
	}
}

func each(inner check) check {
	return func(value any, path string) *Error {
		items, ok := value.([]any)
		if !ok {
			return &Error{path, "a list"}
		}
		for n, item := range items {
			if err := inner(item, fmt.Sprintf("%s[%d]", path, n)); err != nil {
				return err
			}
		}
		return nil
	}
}

func object(fields []field) check {
	return func(value any, path string) *Error {
		made, ok := value.(canonical.Object)
		if !ok {
			return &Error{path, "an object"}
		}
		return shape(made, fields, path+".")
	}
}

// shape demands every field and none besides.
func shape(value canonical.Object, fields []field, prefix string) *Error {
	for _, f := range fields {
		if _, present := value.Get(f.name); !present {
			return &Error{prefix + f.name, "present (null where there is nothing)"}
		}
	}
	if name, more := unknown(value, fields); more {
		return &Error{prefix + shortened(name, 80), "no such field in Record v1"}
	}
	for _, f := range fields {
		inner, _ := value.Get(f.name)
		if err := f.check(inner, prefix+f.name); err != nil {
			return err
		}
	}
	return nil
}

// unknown returns the first name, by code point, that is no field.
func unknown(value canonical.Object, fields []field) (string, bool) {
	first, more := "", false
	for _, member := range value {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == member.Name }) {
			if !more || member.Name < first {
				first, more = member.Name, true
			}
		}
	}
	return first, more
}

// table is an object of objects under codes, each with at least these fields.
func table(fields []field) check {
	return func(value any, path string) *Error {
		rows, ok := value.(canonical.Object)
		if !ok {
			return &Error{path, "an object"}
		}
		for _, row := range rows {
			if err := isCode(row.Name, path); err != nil {
				return err
			}
			where := path + "." + row.Name
			made, ok := row.Value.(canonical.Object)
			if !ok {
				return &Error{where, "an object"}
			}
			for _, f := range fields {
				inner, present := made.Get(f.name)
				if !present {
					return &Error{where + "." + f.name, "present"}
				}
				if err := f.check(inner, where+"."+f.name); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func isTime(value any, path string) *Error {
	if err := isTimely(value, path); err != nil {
		return err
	}
	text, _ := value.(string)
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", text); err != nil || strings.HasPrefix(text, "0000") {
		return &Error{path, "a time that exists"}
	}
	return nil
}

func isText(value any, path string) *Error {
	text, ok := value.(string)
	if count := utf8.RuneCountInString(text); !ok || count < 1 || count > 256 {
		return &Error{path, "text of 1 to 256 characters"}
	}
	return nil
}

// shortened cuts text at a number of characters.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most])
}

// shown is a value as a rule's sentence quotes it.
func shown(value any) string { return shortened(string(canonical.Write(value)), 160) }
