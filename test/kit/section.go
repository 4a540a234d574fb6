// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"os"
	"strings"
)

// ReplaceSection replaces what stands in a Markdown file between the lines
// "<!-- begin NAME -->" and "<!-- end NAME -->".
func ReplaceSection(path, name, content string) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", name), fmt.Sprintf("<!-- end %s -->\n", name)
	before, rest, ok1 := strings.Cut(string(file), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return fmt.Errorf("updating %s: it has no lines %q and %q, in this order", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+content+end+after), 0o644)
}
