// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"bytes"
	"strconv"
	"strings"
)

// A style is how text looks: its colours and its attributes, as SGR sets them (ECMA-48, 8.3.117).
// The zero value is plain.
type style struct {
	fg, bg     uint8 // 0 for none, or 1 + the number of one of the 16 colours
	attributes attribute
}

type attribute uint8

const (
	bold attribute = 1 << iota
	dim
	italic
	underline
	inverse
	strike
)

// attributeClasses are the classes of the attributes in the style sheet, in the order of their bits.
// Inverse has none: its colours are exchanged.
var attributeClasses = []string{"bo", "di", "it", "un", "", "st"}

// classes returns the classes of a style, "" for plain text.
func (s style) classes() string {
	if s == (style{}) {
		return ""
	}
	fg, bg := s.fg, s.bg
	var names []string
	if s.attributes&inverse != 0 {
		if fg, bg = bg, fg; bg == 0 {
			names = append(names, "iv")
		}
	}
	// A style sheet can't make each of 256 pairs of colours readable, so a background has its own
	// colour of text.
	switch {
	case bg > 0:
		names = append(names, "b"+strconv.Itoa(int(bg-1)))
	case fg > 0 && s.attributes&inverse == 0:
		names = append(names, "f"+strconv.Itoa(int(fg-1)))
	}
	for bit, class := range attributeClasses {
		if s.attributes&(1<<bit) != 0 && class != "" {
			names = append(names, class)
		}
	}
	return strings.Join(names, " ")
}

// pack and unpack convert a style to and from a number.
func (s style) pack() uint64 { return uint64(s.fg) | uint64(s.bg)<<5 | uint64(s.attributes)<<10 }

func unpack(n uint64) style {
	return style{uint8(n & 31), uint8(n >> 5 & 31), attribute(n >> 10 & 255)}
}

// apply returns the style after an SGR sequence with these parameters. It ignores what it
// doesn't know, as terminals do.
func (s style) apply(parameters []byte) style {
	p := sgr(parameters)
	for {
		s = s.set(p.next(), &p)
		if p == nil {
			return s
		}
	}
}

// attributesOf are the attributes that a parameter sets, and resets those that it takes back. A
// double underline (21) is one.
var (
	attributesOf = map[int]attribute{1: bold, 2: dim, 3: italic, 4: underline, 7: inverse, 9: strike, 21: underline}
	resets       = map[int]attribute{22: bold | dim, 23: italic, 24: underline, 27: inverse, 29: strike}
)

func (s style) set(code int, p *sgr) style {
	s.attributes = (s.attributes | attributesOf[code]) &^ resets[code]
	switch code {
	case 0:
		return style{}
	case 38:
		s.fg = p.color(s.fg)
	case 48:
		s.bg = p.color(s.bg)
	case 58: // the colour of underlines
		p.color(0)
	default:
		if color, is := basic(code); is {
			s.fg = color
		} else if color, is := basic(code - 10); is {
			s.bg = color
		}
	}
	return s
}

// basic returns which of the 16 colours a parameter gives to text, 0 for none.
func basic(code int) (color uint8, is bool) {
	switch {
	case code == 39:
		return 0, true
	case code >= 30 && code <= 37:
		return uint8(code - 29), true
	case code >= 90 && code <= 97:
		return uint8(code - 81), true
	}
	return 0, false
}

// sgr are the parameters that are left; nil if all were read.
type sgr []byte

// next returns the next parameter: 0 for one that is left out, -1 for what is no number.
func (p *sgr) next() int {
	text := []byte(*p)
	if end := bytes.IndexAny(text, ";:"); end >= 0 {
		*p, text = text[end+1:], text[:end]
	} else {
		*p = nil
	}
	code, err := strconv.Atoi(string(text))
	if err != nil && len(text) > 0 {
		return -1
	}
	return code
}

// color reads the rest of an extended colour, and returns the nearest one of the 16, or the
// former one if it isn't valid.
func (p *sgr) color(former uint8) uint8 {
	byColons := len(*p) > 0 && p.hasColons()
	switch p.next() {
	case 5:
		n := p.next()
		if n < 0 || n > 255 {
			return former
		}
		return nearest(indexed(n))
	case 2:
		if byColons {
			p.next() // the color space of 38:2::R:G:B
		}
		var c [3]int
		for at := range c {
			if c[at] = p.next(); c[at] < 0 || c[at] > 255 {
				return former
			}
		}
		return nearest(c)
	}
	return former
}

// hasColons reports whether the next parameters are one, with colons between its parts, of which
// one is empty for the color space.
func (p *sgr) hasColons() bool {
	own, _, _ := bytes.Cut(*p, []byte(";"))
	return bytes.Count(own, []byte(":")) > 3
}

// palette has the 16 colours as xterm shows them.
var palette = [16][3]int{
	{0, 0, 0},
	{205, 0, 0},
	{0, 205, 0},
	{205, 205, 0},
	{0, 0, 238},
	{205, 0, 205},
	{0, 205, 205},
	{229, 229, 229},
	{127, 127, 127},
	{255, 0, 0},
	{0, 255, 0},
	{255, 255, 0},
	{92, 92, 255},
	{255, 0, 255},
	{0, 255, 255},
	{255, 255, 255},
}

// indexed returns one of the 256 colours of xterm.
func indexed(n int) [3]int {
	switch {
	case n < 16:
		return palette[n]
	case n >= 232:
		grey := 8 + 10*(n-232)
		return [3]int{grey, grey, grey}
	}
	level := func(n int) int {
		if n == 0 {
			return 0
		}
		return 55 + 40*n
	}
	n -= 16
	return [3]int{level(n / 36), level(n / 6 % 6), level(n % 6)}
}

// nearest returns 1 + the number of the colour of the palette that is nearest.
func nearest(c [3]int) uint8 {
	best, distance := 0, 1<<30
	for at, p := range palette {
		r, g, b := c[0]-p[0], c[1]-p[1], c[2]-p[2]
		if d := 2*r*r + 4*g*g + 3*b*b; d < distance { // eyes see green best
			best, distance = at, d
		}
	}
	return uint8(best + 1)
}
