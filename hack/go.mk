# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# How make compiles Go: as test/cluster compiles the cluster's programs
# (internal/tools/golang.go), so that a package that both use is compiled once.

export CGO_ENABLED := 0
export GOFLAGS     := -buildvcs=false -trimpath -gcflags=all=-dwarf=false
