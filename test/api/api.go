// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package api lists what the packages that other operators import export, a declaration a
// line: the files *.txt. So each change of it is seen in a review, and one that breaks a
// caller of the last release has to be in the changelog.
package api

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Packages are those that other operators import, directories in pkg.
var Packages = []string{"credentials", "lookup", "pod"}

// Of returns the exported declarations of the package in a directory, sorted. Constants have
// their values, as far as these are written out, structs a line for each field, and parameters
// no names.
func Of(directory string) ([]string, error) {
	found, err := build.ImportDir(directory, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the package in %s: %w", directory, err)
	}
	var all []string
	for _, name := range found.GoFiles {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(directory, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading the package in %s: %w", directory, err)
		}
		ast.FileExports(file)
		ast.Inspect(file, plain)
		for _, declaration := range file.Decls {
			all = append(all, lines(declaration)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// plain takes what callers don't see from a node: the names of parameters and results. Of an
// interface with methods that aren't exported, which callers can't implement, it leaves a
// word.
func plain(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.FuncType:
		withoutNames(node.Params)
		withoutNames(node.Results)
	case *ast.StructType:
		node.Incomplete = false
	case *ast.InterfaceType:
		if node.Incomplete {
			node.Methods.List = append(node.Methods.List, &ast.Field{Type: ast.NewIdent("unexported")})
		}
		node.Incomplete = false
	}
	return true
}

func withoutNames(list *ast.FieldList) {
	if list == nil {
		return
	}
	var unnamed []*ast.Field
	for _, field := range list.List {
		for range max(1, len(field.Names)) {
			unnamed = append(unnamed, &ast.Field{Type: field.Type})
		}
	}
	list.List = unnamed
}

// lines returns what a declaration exports.
func lines(declaration ast.Decl) (all []string) {
	if function, is := declaration.(*ast.FuncDecl); is {
		return ofFunction(function)
	}
	general := declaration.(*ast.GenDecl) // there is no third kind
	for _, spec := range general.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			all = append(all, ofType(spec)...)
		case *ast.ValueSpec:
			all = append(all, ofValues(general.Tok, spec)...)
		}
	}
	return all
}

func ofFunction(function *ast.FuncDecl) []string {
	function.Body = nil
	if function.Recv != nil {
		receiver := function.Recv.List[0]
		receiver.Names = nil
		if !ast.IsExported(strings.TrimLeft(text(receiver.Type), "*")) {
			return nil
		}
	}
	return []string{text(function)}
}

func ofValues(kind token.Token, spec *ast.ValueSpec) (all []string) {
	for at, name := range spec.Names {
		line := kind.String() + " " + name.Name
		if spec.Type != nil {
			line += " " + text(spec.Type)
		}
		if kind == token.CONST && at < len(spec.Values) {
			line += " = " + text(spec.Values[at])
		}
		all = append(all, line)
	}
	return all
}

func ofType(spec *ast.TypeSpec) []string {
	fields, is := spec.Type.(*ast.StructType)
	if !is {
		return []string{"type " + text(spec)}
	}
	head := "type " + spec.Name.Name
	if spec.TypeParams != nil {
		head = "type " + strings.TrimSuffix(text(&ast.TypeSpec{Name: spec.Name, TypeParams: spec.TypeParams, Type: ast.NewIdent("struct")}), " struct")
	}
	all := []string{head + " struct"}
	for _, field := range fields.Fields.List {
		if len(field.Names) == 0 {
			all = append(all, head+" struct, "+text(field.Type))
		}
		for _, name := range field.Names {
			line := head + " struct, " + name.Name + " " + text(field.Type)
			if field.Tag != nil {
				line += " " + field.Tag.Value
			}
			all = append(all, line)
		}
	}
	return all
}

// text prints a node in one line.
func text(node any) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), node); err != nil {
		panic(err) // the node is of the parser
	}
	line := strings.Join(strings.Fields(strings.ReplaceAll(b.String(), "\n", "; ")), " ")
	return strings.NewReplacer("{; ", "{ ", "; }", " }").Replace(line)
}

// Gone returns the declarations that a list no longer has.
func Gone(before, now []string) (gone []string) {
	for _, line := range before {
		if !slices.Contains(now, line) {
			gone = append(gone, line)
		}
	}
	return gone
}

// names finds in a line the name of what is declared, as callers write it without the
// package: Injector, Injector.Admit or Injector.ClaimName.
var (
	method = regexp.MustCompile(`^func \(\*?(\w+)[^)]*\) (\w+)`)
	field  = regexp.MustCompile(`^type (\w+)[^,]* struct, (\w+)`)
	other  = regexp.MustCompile(`^\w+ (\w+)`)
)

// NameOf returns the name of what a line declares.
func NameOf(line string) string {
	for _, names := range []*regexp.Regexp{method, field, other} {
		if found := names.FindStringSubmatch(line); found != nil {
			return strings.Join(found[1:], ".")
		}
	}
	return line
}

// IsAnnounced reports whether the section of what isn't released yet in a changelog names a
// declaration of a package: a line that begins with "- pkg/NAME:", and has it in backquotes.
func IsAnnounced(changelog, pkg, name string) bool {
	_, section, _ := strings.Cut("\n"+changelog, "\n## Unreleased\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "- pkg/"+pkg+":") && strings.Contains(line, "`"+name+"`") {
			return true
		}
	}
	return false
}
