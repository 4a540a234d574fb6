#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Prints the packages whose tests "make unit" runs with the race detector (with), or those
# that it runs without it (without). The detector finds something only where goroutines
# run, so a package is tested without it if
#   - its tests start no goroutine, aren't parallel, and start no HTTP server, and
#   - neither it nor what it imports starts goroutines: no package of this module does, and
#     of others it imports only golang.org/x/sys and the standard library without net/http.
# Packages below test/ must meet the first condition only: their goroutines need a cluster,
# which no unit test has.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! [[ $# = 1 && $1 =~ ^with(out)?$ ]]; then
	echo "usage: $0 with|without" >&2
	exit 2
fi

module=$(go list -m)

# Its tests start processes and call nothing of the package, so only the second condition
# counts.
processes=" $module/cmd/entrypoint "

starts='(^|[{;])[[:space:]]*go[[:space:]]+[A-Za-z(]|\.Go\(|AfterFunc\('
declare -A starting dependencies tests foreign
all=()
while IFS='|' read -r package dir files test_files imports test_imports; do
	all+=("$package")
	read -ra files <<<"$files"
	read -ra test_files <<<"$test_files"
	cd "$dir"
	if test ${#files[@]} != 0 && grep -qE "$starts" "${files[@]}"; then starting[$package]=yes; fi
	if test ${#test_files[@]} != 0 && { grep -qE "$starts|\.Parallel\(" "${test_files[@]}" || [[ " $test_imports " == *" net/http"* ]]; }; then
		tests[$package]=start
	fi
	cd - >/dev/null
	dependencies[$package]=$package
	for import in $imports; do
		case $import in
			"$module"/*) dependencies[$package]+=" $import" ;;
			net/http) foreign[$package]=yes ;;
			golang.org/x/sys/* | vendor/*) ;;
			*) [[ ${import%%/*} != *.* ]] || foreign[$package]=yes ;;
		esac
	done
done < <(go list -f '{{.ImportPath}}|{{.Dir}}|{{join .GoFiles " "}}|{{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}|{{join .Deps " "}}|{{join .TestImports " "}} {{join .XTestImports " "}}' ./...)
test ${#all[@]} != 0

# detects succeeds if the race detector can find something in a package's tests.
detects() {
	[[ -z ${tests[$1]:-} || $processes == *" $1 "* ]] || return 0
	[[ $1 != "$module"/test/* ]] || return 1
	[[ -z ${foreign[$1]:-} ]] || return 0
	for dependency in ${dependencies[$1]}; do
		[[ -z ${starting[$dependency]:-} ]] || return 0
	done
	return 1
}

for package in "${all[@]}"; do
	if detects "$package"; then way=with; else way=without; fi
	test $way != "$1" || echo "$package"
done
