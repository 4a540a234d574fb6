#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Installs this checkout on the current cluster, and waits until it serves:
# until the API server trusts the webhook's certificate and gets an answer.
set -euo pipefail

ko=${1:?usage: $0 PATH_OF_KO}
: "${KO_DOCKER_REPO:?set it to a repository that you may push to and the cluster may pull from}"

"$ko" apply -f config/ >&2
kubectl -n entrypointer-system rollout status deployment/injector --timeout=120s >&2

deadline=$((SECONDS + 60))
until answer=$(kubectl create -f - --dry-run=server -o jsonpath='{.metadata.labels.entrypointer\.dev/inject}' 2>&1 <<'NAMESPACE'
apiVersion: v1
kind: Namespace
metadata:
  name: entrypointer-deploy-probe
  annotations:
    entrypointer.dev/inject: "true"
NAMESPACE
) && [ "$answer" = true ]; do
	if [ $SECONDS -ge $deadline ]; then
		echo "waiting for the webhook to answer: got \"$answer\"; see: kubectl -n entrypointer-system logs deployment/injector" >&2
		exit 1
	fi
	sleep 0.5
done
