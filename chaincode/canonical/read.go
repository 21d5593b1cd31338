package canonical

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const maxField = 160

// Error says why bytes have no canonical form. Field is a path such as `parts[3].score`, or empty for the whole. Names
// come from outside, so it is cut at 160 characters, without control characters.
type Error struct {
	Field  string
	Reason string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

func refused(where *place, format string, arguments ...any) *Error {
	return &Error{Field: showable(where.String()), Reason: fmt.Sprintf(format, arguments...)}
}

// place is where a value stands: below outer, under a name or, in a list, at an index; nil is the whole. The path is
// written out only for an error, since a name may be as long as the input and have as many values below it.
type place struct {
	outer *place
	name  string
	list  bool
	index int
}

func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.list:
		return fmt.Sprintf("%s[%d]", p.outer, p.index)
	}
	if outer := p.outer.String(); outer != "" {
		return outer + "." + p.name
	}
	return p.name
}

func showable(path string) string {
	if utf8.RuneCountInString(path) > maxField {
		path = string([]rune(path)[:maxField])
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, path)
}

// Read parses UTF-8 JSON and refuses what parsers disagree on: invalid UTF-8 or JSON, duplicated keys, NaN and
// infinities (written or overflowing), integers that a double does not hold, lone surrogates, NUL characters and nesting
// deeper than MaxDepth.
func Read(raw []byte) (any, *Error) {
	if !utf8.Valid(raw) {
		return nil, refused(nil, "not UTF-8 at byte %d", invalidAt(raw))
	}
	r := &reader{raw: raw}
	value, err := r.value(nil, 0)
	if err != nil {
		return nil, err
	}
	if r.space(); r.at < len(raw) {
		return nil, r.malformed("more than one value")
	}
	return value, nil
}

func invalidAt(raw []byte) int {
	at := 0
	for at < len(raw) {
		r, width := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && width == 1 {
			break
		}
		at += width
	}
	return at
}

type reader struct {
	raw []byte
	at  int
}

func (r *reader) malformed(what string) *Error {
	return refused(nil, "not JSON: %s at byte %d", what, r.at)
}

func (r *reader) space() {
	for r.at < len(r.raw) && strings.IndexByte(" \t\r\n", r.raw[r.at]) >= 0 {
		r.at++
	}
}

// next returns the first byte after space without taking it; 0, which begins nothing in JSON, at the end.
func (r *reader) next() byte {
	if r.space(); r.at < len(r.raw) {
		return r.raw[r.at]
	}
	return 0
}

// take reports whether text follows, and steps over it.
func (r *reader) take(text string) bool {
	found := bytes.HasPrefix(r.raw[r.at:], []byte(text))
	if found {
		r.at += len(text)
	}
	return found
}

func (r *reader) value(where *place, depth int) (any, *Error) {
	switch c := r.next(); {
	case (c == '{' || c == '[') && depth == MaxDepth:
		return nil, refused(where, "nested deeper than %d levels", MaxDepth)
	case c == '{':
		return r.object(where, depth)
	case c == '[':
		return r.array(where, depth)
	case c == '"':
		return r.text(where)
	case r.take("null"):
		return nil, nil
	case r.take("true"):
		return true, nil
	case r.take("false"):
		return false, nil
	case r.take("NaN"), r.take("Infinity"), r.take("-Infinity"):
		return nil, refused(where, "a number that is not finite")
	case c == '-' || '0' <= c && c <= '9':
		return r.number(where)
	}
	return nil, r.malformed("a value is missing")
}

func (r *reader) object(where *place, depth int) (any, *Error) {
	r.at++
	var members []Member
	if r.next() == '}' {
		r.at++
		return Object(members), nil
	}
	for {
		if r.next() != '"' {
			return nil, r.malformed("a key in double quotes is missing")
		}
		name, err := r.text(where)
		if err != nil {
			return nil, err
		}
		if r.next() != ':' {
			return nil, r.malformed("a colon is missing")
		}
		r.at++
		value, err := r.value(&place{outer: where, name: name}, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, Member{Name: name, Value: value})
		switch r.next() {
		case ',':
			r.at++
		case '}':
			r.at++
			made := NewObject(members...)
			for n := 1; n < len(made); n++ {
				if made[n].Name == made[n-1].Name {
					return nil, refused(&place{outer: where, name: made[n].Name}, "duplicated key")
				}
			}
			return made, nil
		default:
			return nil, r.malformed("a comma or a closing brace is missing")
		}
	}
}

func (r *reader) array(where *place, depth int) (any, *Error) {
	r.at++
	items := []any{}
	if r.next() == ']' {
		r.at++
		return items, nil
	}
	for {
		value, err := r.value(&place{outer: where, list: true, index: len(items)}, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, value)
		switch r.next() {
		case ',':
			r.at++
		case ']':
			r.at++
			return items, nil
		default:
			return nil, r.malformed("a comma or a closing bracket is missing")
		}
	}
}

// text reads the string that begins here: the value at where, or a key of the object there.
func (r *reader) text(where *place) (string, *Error) {
	r.at++
	var made []byte
	for {
		if r.at == len(r.raw) {
			return "", r.malformed("a string does not end")
		}
		c := r.raw[r.at]
		switch {
		case c == '"':
			r.at++
			return string(made), nil
		case c < 0x20:
			return "", r.malformed("a control character in a string")
		case c != '\\':
			made = append(made, c)
			r.at++
		case r.take(`\u`):
			r.at -= 2
			char, err := r.escaped(where)
			if err != nil {
				return "", err
			}
			made = utf8.AppendRune(made, char)
		default:
			n := -1
			if r.at+1 < len(r.raw) {
				n = strings.IndexByte(`"\/bfnrt`, r.raw[r.at+1])
			}
			if n < 0 {
				return "", r.malformed("no such escape")
			}
			made = append(made, "\"\\/\b\f\n\r\t"[n])
			r.at += 2
		}
	}
}

// escaped reads \uXXXX, or two of them that are a pair of surrogates.
func (r *reader) escaped(where *place) (rune, *Error) {
	char, ok := r.unit()
	if !ok {
		return 0, r.malformed("four hexadecimal digits are missing")
	}
	if char == 0 {
		return 0, refused(where, "NUL character")
	}
	if !utf16.IsSurrogate(char) {
		return char, nil
	}
	second, ok := r.unit()
	if pair := utf16.DecodeRune(char, second); ok && pair != utf8.RuneError {
		return pair, nil
	}
	return 0, refused(where, "lone surrogate")
}

func (r *reader) unit() (rune, bool) {
	if !r.take(`\u`) || r.at+4 > len(r.raw) {
		return 0, false
	}
	digits := string(r.raw[r.at : r.at+4])
	if strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return 0, false
	}
	unit, err := strconv.ParseUint(digits, 16, 16)
	r.at += 4
	return rune(unit), err == nil
}

func (r *reader) number(where *place) (any, *Error) {
	start := r.at
	r.take("-")
	if !r.take("0") && r.digits() == 0 {
		return nil, r.malformed("a digit is missing")
	}
	integer := string(r.raw[start:r.at])
	if r.take(".") && r.digits() == 0 {
		return nil, r.malformed("a digit is missing")
	}
	if r.take("e") || r.take("E") {
		if !r.take("+") {
			r.take("-")
		}
		if r.digits() == 0 {
			return nil, r.malformed("a digit is missing")
		}
	}
	text := string(r.raw[start:r.at])
	made, _ := strconv.ParseFloat(text, 64) // out of range: an infinity
	number := Number(made)
	if text == integer && math.Abs(made) > MaxSafeInteger && number.String() != text {
		return nil, refused(where, "integer beyond 2^53 - 1") // but RFC 8785's own form of a large double comes back
	}
	if math.IsInf(made, 0) {
		return nil, refused(where, "a number that is not finite")
	}
	return number, nil
}

// digits steps over decimal digits and counts them.
func (r *reader) digits() int {
	n := slices.IndexFunc(r.raw[r.at:], func(c byte) bool { return c < '0' || c > '9' })
	if n < 0 {
		n = len(r.raw) - r.at
	}
	r.at += n
	return n
}
