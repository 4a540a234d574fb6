// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A part of a stream is bytes, or a gap.
type part struct {
	data string
	gap  int64
}

// masked returns the masked stream, with dots in the place of gaps.
func masked(words []string, parts ...part) string {
	var list [][]byte
	for _, word := range words {
		list = append(list, []byte(word))
	}
	s := New(list).Stream(State{})
	var out strings.Builder
	for _, p := range parts {
		if p.gap > 0 {
			out.Write(s.Gap(p.gap))
			out.WriteString(strings.Repeat(".", int(p.gap)))
		}
		out.Write(s.Write([]byte(p.data)))
	}
	out.Write(s.End())
	return out.String()
}

func TestASecretBecomesAsterisks(t *testing.T) {
	for name, test := range map[string]struct {
		words []string
		parts []part
		want  string
	}{
		"in one chunk":                         {[]string{"secret"}, []part{{data: "a secret here"}}, "a ****** here"},
		"over chunks":                          {[]string{"secret"}, []part{{data: "a sec"}, {data: "r"}, {data: "et here"}}, "a ****** here"},
		"that begins again":                    {[]string{"aabaab"}, []part{{data: "xaaba"}, {data: "abaaby"}}, "x*********y"},
		"that overlaps itself":                 {[]string{"abcabc"}, []part{{data: "-abcabcabc-"}}, "-*********-"},
		"in another":                           {[]string{"1234567890", "456789"}, []part{{data: "x456789x1234567890x"}}, "x******x**********x"},
		"of which the longer fails":            {[]string{"1234567890", "456789"}, []part{{data: "x123456789x"}}, "x123******x"},
		"none":                                 {nil, []part{{data: "a secret"}}, "a secret"},
		"too short":                            {[]string{"short"}, []part{{data: "short"}}, "short"},
		"cut by a gap":                         {[]string{"secret"}, []part{{data: "a sec"}, {gap: 2, data: "t here"}}, "a ***..* here"},
		"cut at both ends":                     {[]string{"0123456789"}, []part{{data: "a 012"}, {gap: 2, data: "56"}, {gap: 1, data: "89b"}}, "a ***..**.**b"},
		"that may have been before a gap":      {[]string{"secret"}, []part{{gap: 2, data: "et no secr"}, {gap: 3, data: "x"}}, "..** no ****...x"},
		"of which a killed process had 4":      {[]string{"secret"}, []part{{data: "a secr"}}, "a ****"},
		"of which there is a letter at an end": {[]string{"secret"}, []part{{data: "yes"}}, "yes"},
	} {
		require.Equal(t, test.want, masked(test.words, test.parts...), name)
	}
}

// A small alphabet, so that secrets overlap, repeat and begin within each other.
var (
	someWords = []string{"aaaaaa", "aabaab", "abababab", "bbabba", "aabaabaab", "babbab"}
	seeds     = []string{"aabaabaab", "xaabbabbabab", "aaaaaaaaaaaa", "ab-aabaa.aab"}
)

// oracle masks a whole stream with knowledge of all its bytes, by brute force. A dot
// stands for a dropped byte.
func oracle(words []string, text string) string {
	out := []byte(text)
	for from := 0; from < len(text); {
		if text[from] == '.' {
			from++
			continue
		}
		to := from
		for to < len(text) && text[to] != '.' {
			to++
		}
		for _, word := range words {
			hide(out[from:to], text[from:to], word, from > 0, to < len(text))
		}
		from = to
	}
	return string(out)
}

// hide masks a word in what is between two gaps, or a gap and an end.
func hide(out []byte, text, word string, gapBefore, gapAfter bool) {
	cover := func(from, to int) { copy(out[from:to], strings.Repeat("*", to-from)) }
	least := minPartial
	if gapAfter {
		least = 1
	}
	for i := range text {
		if strings.HasPrefix(text[i:], word) {
			cover(i, i+len(word))
		}
		if len(text)-i >= least && strings.HasPrefix(word, text[i:]) {
			cover(i, len(text))
		}
		if gapBefore && strings.HasSuffix(word, text[:i+1]) {
			cover(0, i+1)
		}
	}
	if gapBefore && len(text) >= least && strings.Contains(word, text) {
		cover(0, len(text))
	}
}

// pieces cuts a text at random. Dots are gaps.
func pieces(random *rand.Rand, text string) (parts []part) {
	for text != "" {
		n := 1 + random.IntN(min(len(text), 7))
		if dots := len(text) - len(strings.TrimLeft(text, ".")); dots > 0 {
			parts, text = append(parts, part{gap: int64(dots)}), text[dots:]
			continue
		}
		if dot := strings.IndexByte(text[:n], '.'); dot > 0 {
			n = dot
		}
		parts, text = append(parts, part{data: text[:n]}), text[n:]
	}
	return parts
}

// restarted masks a stream with a masker that is replaced at random. Each one resumes
// from the state of the one before it.
func restarted(random *rand.Rand, m *Masker, text string) string {
	var out strings.Builder
	s := m.Stream(State{})
	for {
		state := s.state.At + int64(len(s.held)) // what it has read
		rest := text[state:]
		if rest == "" {
			out.Write(s.End())
			return out.String()
		}
		if random.IntN(4) == 0 {
			s = m.Stream(s.State())
			continue
		}
		p := pieces(random, rest)[0]
		if p.gap > 0 {
			out.Write(s.Gap(p.gap))
			out.WriteString(strings.Repeat(".", int(p.gap)))
		} else {
			out.Write(s.Write([]byte(p.data)))
		}
	}
}

func FuzzMasking(f *testing.F) {
	for i, seed := range seeds {
		f.Add(seed, byte(63), uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, which byte, chance uint64) {
		text = strings.ReplaceAll(text, "*", "-")
		if strings.HasPrefix(text, ".") {
			text = "x" + text // a stream begins with its first byte
		}
		var words []string
		var list [][]byte
		for i, word := range someWords {
			if which&(1<<i) != 0 {
				words, list = append(words, word), append(list, []byte(word))
			}
		}
		random := rand.New(rand.NewPCG(chance, 0))
		want := oracle(words, text)
		require.Equal(t, want, masked(words, pieces(random, text)...))
		require.Equal(t, want, restarted(random, New(list), text))
	})
}

func TestNoSecretPassesWhereverAStreamIsCut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	m := New(func() (list [][]byte) {
		for _, word := range someWords {
			list = append(list, []byte(word))
		}
		return list
	}())
	for range 20_000 {
		text := []byte("x")
		for range random.IntN(30) {
			text = append(text, "aaaabbbb.-"[random.IntN(10)])
		}
		want := oracle(someWords, string(text))
		require.Equal(t, want, masked(someWords, pieces(random, string(text))...), "of %q", text)
		require.Equal(t, want, restarted(random, m, string(text)), "of %q", text)
	}
}

// wrapped returns base64 in lines of a width.
func wrapped(secret string, width int) string {
	var lines []string
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString([]byte(secret))), width) {
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}

func TestTheLinesOfBase64AreMasked(t *testing.T) {
	for length := 40; length < 200; length++ {
		secret := strings.Repeat("0123456789abcdefghij#", 10)[:length]
		for _, width := range []int{lineOfMIME, lineOfPEM} {
			for _, printed := range []string{wrapped(secret, width), wrapped(secret+"\n", width)} {
				s := New(Forms([]byte(secret))).Stream(State{})
				out := string(s.Write([]byte("<"+printed+">"))) + string(s.End())
				if strings.Contains(printed, "\n") {
					require.Empty(t, strings.Trim(out, "<*\n=>"), "%d bytes: %s becomes %s", length, printed, out)
				}
			}
		}
	}
}

func TestSecretsInsideOfASecretAreMaskedByThemselves(t *testing.T) {
	const pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n"
	key, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "my-project", "private_key_id": "0123456789abcdef", "private_key": pem})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		secret string
		hidden []string
		shown  []string
	}{
		"a registry's password": {
			`{"auths":{"registry.example.com":{"username":"jane","password":"open sesame","auth":"amFuZTpvcGVuIHNlc2FtZQ=="}}}`,
			[]string{"open sesame", "amFuZTpvcGVuIHNlc2FtZQ=="},
			[]string{"registry.example.com", "jane"},
		},
		"a registry's auth alone": {`{"auths":{"r.example.com":{"auth":"amFuZTpvcGVuIHNlc2FtZQ=="}}}`, []string{"open sesame"}, []string{"r.example.com"}},
		"a key of Google": {
			string(key), []string{"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "KcwggSjAgEAAoIBAQC7", "0123456789abcdef"}, []string{"service_account", "my-project"},
		},
		"lines of variables": {
			"STAGE=production\nexport DB_PASSWORD='open sesame'\nAPI_KEY=\"0123 4567\"\nGITHUB_TOKEN=ghp_0123456789\n",
			[]string{"open sesame", "0123 4567", "ghp_0123456789"},
			[]string{"production", "DB_PASSWORD"},
		},
		"a URL":           {"postgres://jane:open%20sesame@db.example.com:5432/shop?sslmode=require", []string{"open%20sesame", "open sesame"}, []string{"db.example.com"}},
		"a variable's":    {"DATABASE_URL=postgres://jane:open@sesame@db.example.com/shop", []string{"open@sesame"}, []string{"db.example.com"}},
		"no document":     {`{"password": "open sesame"`, nil, []string{"open sesame"}},
		"a short value":   {"PASSWORD=12345", nil, []string{"12345"}},
		"no user, a port": {"http://db.example.com:8080/a@b", nil, []string{"8080/a@b"}},
	} {
		m := New(Patterns([][]byte{[]byte(test.secret)}))
		printed := func(text string) string {
			s := m.Stream(State{})
			return string(s.Write([]byte(text+" "))) + string(s.End())
		}
		for _, hidden := range test.hidden {
			require.Equal(t, strings.Repeat("*", len(hidden))+" ", printed(hidden), name)
		}
		for _, shown := range test.shown {
			require.Equal(t, shown+" ", printed(shown), name)
		}
	}
	require.Nil(t, Parts([]byte("PASSWORD="+strings.Repeat("x", maxDocument))), "of a document that is too long")
}

func FuzzParts(f *testing.F) {
	for _, secret := range []string{`{"auth":"YTpi"}`, "A_TOKEN=\"", "https://a:b@", `{"password":["a",{"b":null}]}`, "export ="} {
		f.Add([]byte(secret))
	}
	f.Fuzz(func(t *testing.T, secret []byte) {
		total := 0
		for _, part := range Parts(secret) {
			require.GreaterOrEqual(t, len(part), minSecret)
			total += len(part)
		}
		require.LessOrEqual(t, total, 4*len(secret))
	})
}

func TestASecretIsMaskedInWhateverFormItIsPrinted(t *testing.T) {
	const several = "  pä$$ w/rd+<&>\"\\\n-----BEGIN\nq83/+ba98765\n}\n"
	trimmed := strings.TrimSpace(several)
	document, err := json.Marshal(several)
	require.NoError(t, err)
	for name, test := range map[string]struct{ secret, printed string }{
		"as it is":                      {several, strings.TrimRight(several, "\n")},
		"trimmed":                       {several, trimmed},
		"a line of it":                  {several, "q83/+ba98765"},
		"in JSON, by Go":                {several, string(document[1 : len(document)-1])},
		"in a query, by Go":             {several, url.QueryEscape(trimmed)},
		"in a path, by Go":              {several, url.PathEscape(trimmed)},
		"in a URL, by Python":           {"q83/ba98+7AAa65=", "q83/ba98%2B7AAa65%3D"},
		"in a URL, in small letters":    {"q83/ba98+7AAa65=", "q83%2fba98%2b7AAa65%3d"},
		"in a URL, by JavaScript":       {"pass!word/Zq83ba9", "pass!word%2FZq83ba9"},
		"in a URL, by the standard":     {"my pass$Zq83ba987", "my%20pass%24Zq83ba987"},
		"in JSON, by PHP":               {"q83/bä98+7AAa65=", `q83\/b\u00e498+7AAa65=`},
		"in JSON, by Python":            {"passwört-Zq83ba9😀", `passw\u00f6rt-Zq83ba9\ud83d\ude00`},
		"in JSON, by Gson":              {"pa'ss&Zq83ba987", `pa\u0027ss\u0026Zq83ba987`},
		"traced by bash":                {"it's 5 o'clock", `it'\''s 5 o'\''clock`},
		"traced by dash and BusyBox":    {"it's 5 o'clock", `it'"'"'s 5 o'"'"'clock`},
		"traced, with two quotes":       {"it''s 5", `it'"''"'s 5`},
		"traced by bash, with lines":    {"it's \"5\"\no\\clock", `it\'s "5"\no\\clock`},
		"in HTML, by Go":                {`<it's "5" & 6>`, `&lt;it&#39;s &#34;5&#34; &amp; 6&gt;`},
		"in HTML, by Python":            {`<it's "5" & 6>`, `&lt;it&#x27;s &quot;5&quot; &amp; 6&gt;`},
		"in HTML, by PHP":               {`<it's "5" & 6>`, `&lt;it&#039;s &quot;5&quot; &amp; 6&gt;`},
		"in HTML, by JavaScript":        {`<it's "5" & 6>`, `&lt;it&#39;s &quot;5&quot; &amp; 6&gt;`},
		"in the text of HTML":           {`<it's "5" & 6>`, `&lt;it's "5" &amp; 6&gt;`},
		"in JSON in JSON":               {"it's \"5\"\no\\clock", `it's \\\"5\\\"\\no\\\\clock`},
		"in JSON of Go in JSON":         {"<it's \"5\">", `\\u003cit's \\\"5\\\"\\u003e`},
		"a short line with a digit":     {"jane\nhunter2\n", "hunter2"},
		"in JSON, with control letters": {"a\tb\nc\x01dEfgh", `a\tb\nc\u0001dEfgh`},
	} {
		s := New(Forms([]byte(test.secret))).Stream(State{})
		out := string(s.Write([]byte("<"+test.printed+">"))) + string(s.End())
		require.Equal(t, "<"+strings.Repeat("*", len(test.printed))+">", out, name)
	}
}

// digitsOf returns the range of base64 characters that have a bit of a secret. The first
// is left out if it has bits of what comes before the secret.
func digitsOf(before, secret int) (from, to int) {
	return (before*8 + 5) / 6, ((before+secret)*8 + 5) / 6
}

// Only what surrounds the secret remains, and up to four of its bits in the character before.
func TestASecretIsMaskedInTheBase64OfSomethingLonger(t *testing.T) {
	const secret = "q83/+ba98765-Zq83ba9"
	for length := len(secret) - 3; length <= len(secret); length++ {
		s := New(Forms([]byte(secret[:length]))).Stream(State{})
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			for _, before := range []string{"", "u", "u:", "user:", "abcdef"} {
				for _, after := range []string{"", "@", "\n", ":x/y", "\xff\xff"} {
					encoded := encoding.EncodeToString([]byte(before + secret[:length] + after))
					from, to := digitsOf(len(before), length)
					require.Equal(t, encoded[:from]+strings.Repeat("*", to-from)+encoded[to:]+" ", string(s.Write([]byte(encoded+" "))))
				}
			}
		}
	}
}

func FuzzMaskingOfBase64(f *testing.F) {
	f.Add([]byte("open sesame"), []byte("user:"), []byte("@host"), byte(0), uint64(1))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00"), []byte("\x00"), []byte("\x00\x00"), byte(1), uint64(2))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff"), []byte(""), []byte("\n"), byte(2), uint64(3))
	encodings := []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding}
	f.Fuzz(func(t *testing.T, secret, before, after []byte, which byte, chance uint64) {
		if len(secret) < minSecret || len(secret) > 64 || len(before)+len(after) > 64 {
			return
		}
		encoded := encodings[int(which)%len(encodings)].EncodeToString(slices.Concat(before, secret, after))
		forms := Forms(secret)
		var words []string
		for _, form := range forms {
			words = append(words, string(form))
		}
		random := rand.New(rand.NewPCG(chance, 0))
		text := "<" + encoded + ">"
		if at := random.IntN(2 * len(text)); at > 0 && at < len(text) {
			text = text[:at] + "..." + text[min(at+3, len(text)):] // a gap
		}
		want := oracle(words, text)
		require.Equal(t, want, masked(words, pieces(random, text)...))
		require.Equal(t, want, restarted(random, New(forms), text))
		if !strings.Contains(text, ".") {
			from, to := digitsOf(len(before), len(secret))
			require.Empty(t, strings.Trim(want[1+from:1+to], "*"), "%q in %q", secret, text)
		}
	})
}

// The memory of the container belongs to the tenant's program.
func TestFormsOfALargeSecretAreFew(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789+/<>\x00\n"), 8<<10)
	var length int
	for _, form := range Forms(large) {
		length += len(form)
	}
	require.LessOrEqual(t, length, 3*len(large))
	s := New(Forms(large)).Stream(State{})
	out := append(bytes.Clone(s.Write(large)), s.End()...)
	require.Equal(t, bytes.Repeat([]byte("*"), len(large)), out)
}

func TestShortLinesAreNoSecrets(t *testing.T) {
	m := New(Forms([]byte("{\n  \"key\": \"0123456789\"\n}\n")))
	s := m.Stream(State{})
	require.Equal(t, "{ } a\n}\n{\n", string(s.Write([]byte("{ } a\n}\n{\n")))+string(s.End()))
}

func TestShortLinesWithoutADigitAreWordsThatOccurElsewhere(t *testing.T) {
	s := New(Forms([]byte("export\n[core]\nsecret\n012345\n"))).Stream(State{})
	require.Equal(t, "export [core] secret ****** ", string(s.Write([]byte("export [core] secret 012345 ")))+string(s.End()))
}

// The next line would otherwise be printed behind the asterisks.
func TestTheLineBreaksAroundASecretStay(t *testing.T) {
	for _, secret := range []string{"open sesame\n", "\r\nopen sesame\r\n", "open sesame"} {
		s := New(Forms([]byte(secret))).Stream(State{})
		out := string(s.Write([]byte("one\nopen sesame\r\nopen sesame\nnext\n"))) + string(s.End())
		require.Equal(t, "one\n***********\r\n***********\nnext\n", out)
	}
	s := New(Forms([]byte("12345\n"))).Stream(State{})
	require.Equal(t, "******", string(s.Write([]byte("12345\n")))+string(s.End()), "what is left would be too short")
}

func TestFewerBytesAreHeldBackThanASecretHas(t *testing.T) {
	s := New([][]byte{[]byte("secret")}).Stream(State{})
	var out bytes.Buffer
	for range 1000 {
		out.Write(s.Write([]byte("secresecre")))
		require.LessOrEqual(t, len(s.held), 5)
	}
	out.Write(s.End())
	require.Equal(t, 10_000, out.Len())
}

// Each zero may be the last byte of the secret.
func BenchmarkMaskingWhatRepeatsItself(b *testing.B) {
	zeros := make([]byte, 64<<10)
	m := New([][]byte{zeros[:8<<10]})
	b.SetBytes(int64(len(zeros)))
	for b.Loop() {
		s := m.Stream(State{AfterGap: true})
		s.Write(zeros)
		s.End()
	}
}

func BenchmarkMasking(b *testing.B) {
	var words [][]byte
	random := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		secret := make([]byte, 40)
		for i := range secret {
			secret[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[random.IntN(36)]
		}
		words = append(words, Forms(secret)...)
	}
	s := New(words).Stream(State{})
	log := []byte(strings.Repeat("2026-11-22T17:00:00Z level=info msg=\"request served\" path=/healthz status=200 took=1.2ms\n", 700))
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		s.Write(log)
	}
}

func TestTheMemoryForManyLongSecretsIsBounded(t *testing.T) {
	var secrets [][]byte
	plain := 0
	for i := range 20 {
		secret := make([]byte, 4096)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(secret) // never fails
		secrets = append(secrets, secret)
		plain += len(secret)
	}
	secrets = append(secrets, []byte("short & sweet"))
	words := Patterns(secrets)
	require.LessOrEqual(t, countNodes(words), maxNodes+2*plain, "plain ones are there with the space around them, and without")
	stream := New(words).Stream(State{})
	masked := stream.Write(slices.Concat(secrets[19], []byte(" short%20%26%20sweet")))
	require.NotContains(t, string(masked)+string(stream.End()), "short")
	require.Empty(t, strings.Trim(string(masked[:4096]), "*"))
}

func TestASecretThatIsNotUTF8HasNoFormsOfText(t *testing.T) {
	binary := bytes.Repeat([]byte{0xff, 0x00, 0x81}, 1000)
	require.Less(t, countNodes(Forms(binary)), 12*len(binary))
}
