#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Stands in for the program that makes a cluster when there is one already:
# nothing is started, ended or set. make ... CLUSTER=current
set -euo pipefail

case "${1:-}" in
up | status) kubectl version >/dev/null || { echo "reaching the current cluster: set KUBECONFIG, or start one with: make up" >&2; exit 1; } ;;
env | fixtures) ;;
down) echo "this cluster was not started from here; nothing is ended" >&2 ;;
*) echo "usage: $0 up|fixtures|down|status|env" >&2; exit 2 ;;
esac
