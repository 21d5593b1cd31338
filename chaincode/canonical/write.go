package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Write returns the RFC 8785 bytes of a value that Read returned or that is built of the same types.
func Write(value any) []byte {
	var out bytes.Buffer
	write(&out, value)
	return out.Bytes()
}

// Digest is the SHA-256 of data, 64 lower-case hexadecimal digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func write(out *bytes.Buffer, value any) {
	switch v := value.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case string:
		writeString(out, v)
	case Number:
		out.WriteString(v.String())
	case Object:
		out.WriteByte('{')
		for n, member := range v {
			if n > 0 {
				out.WriteByte(',')
			}
			writeString(out, member.Name)
			out.WriteByte(':')
			write(out, member.Value)
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for n, item := range v {
			if n > 0 {
				out.WriteByte(',')
			}
			write(out, item)
		}
		out.WriteByte(']')
	default:
		panic(fmt.Sprintf("a %T has no JSON form", value)) // a mistake in this program, never in what it reads
	}
}

func writeString(out *bytes.Buffer, text string) {
	out.WriteByte('"')
	for n := range len(text) {
		switch c := text[n]; c {
		case '"', '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case '\b':
			out.WriteString(`\b`)
		case '\t':
			out.WriteString(`\t`)
		case '\n':
			out.WriteString(`\n`)
		case '\f':
			out.WriteString(`\f`)
		case '\r':
			out.WriteString(`\r`)
		default:
			if c < 0x20 {
				fmt.Fprintf(out, `\u%04x`, c)
			} else {
				out.WriteByte(c)
			}
		}
	}
	out.WriteByte('"')
}

// String writes the number as ECMAScript does: the shortest digits that round-trip.
func (number Number) String() string {
	if number == 0 {
		return "0"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(float64(number), 'e', -1, 64), "e")
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	digits := strings.Replace(mantissa, ".", "", 1)
	point, _ := strconv.Atoi(exponent)
	point++ // the value is 0.digits × 10^point
	switch {
	case len(digits) <= point && point <= 21:
		return sign + digits + strings.Repeat("0", point-len(digits))
	case 0 < point && point <= 21:
		return sign + digits[:point] + "." + digits[point:]
	case -6 < point && point <= 0:
		return sign + "0." + strings.Repeat("0", -point) + digits
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return fmt.Sprintf("%s%se%+d", sign, digits, point-1)
}
