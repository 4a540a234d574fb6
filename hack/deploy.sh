#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Installs this checkout on the current cluster, and waits until it serves:
# until the API server trusts the webhooks' certificate and gets an answer, and the
# log service is ready.
set -euo pipefail

ko=${1:?usage: $0 PATH_OF_KO}
: "${KO_DOCKER_REPO:?set it to a repository that you may push to and the cluster may pull from}"

# In this order: an injector that starts looks for the log service at once, and after
# that every ten seconds.
"$ko" apply -f config/logs >&2
kubectl -n entrypointer-logs rollout status deployment/logs --timeout=120s >&2
kubectl -n entrypointer-logs wait --for=create configmap/log-service --timeout=60s >&2
"$ko" apply -f config/webhook >&2
"$ko" apply -f config/auto -f config/claims >&2
kubectl -n entrypointer-system rollout status deployment/injector --timeout=120s >&2

trusts() { # the API server knows the CA of this webhook configuration
  [[ -n $(kubectl get "$1" -o jsonpath='{.webhooks[0].clientConfig.caBundle}') ]]
}

answers() { # a namespace that is annotated gets its label
  [[ all == $(kubectl create --dry-run=server -o jsonpath='{.metadata.labels.entrypointer\.dev/inject}' -f - <<'NAMESPACE'
apiVersion: v1
kind: Namespace
metadata:
  name: entrypointer-probe
  annotations:
    entrypointer.dev/inject: all
NAMESPACE
  ) ]]
}

alone() { # no replica of another release answers any more, as one may for half a minute
  [[ $(kubectl -n entrypointer-system get pods -l app.kubernetes.io/name=injector -o name | wc -l) == \
    "$(kubectl -n entrypointer-system get deployment injector -o jsonpath='{.spec.replicas}')" ]]
}

deadline=$((SECONDS + 120))
until alone && trusts mutatingwebhookconfiguration/pods.entrypointer.dev && trusts mutatingwebhookconfiguration/namespaces.entrypointer.dev &&
  trusts validatingwebhookconfiguration/workloads.entrypointer.dev && answers; do
  if ((SECONDS >= deadline)); then
    echo "waiting for the webhooks to answer: they don't, after 120 s; see: kubectl -n entrypointer-system logs deployment/injector" >&2
    exit 1
  fi
  sleep 0.5
done

# The injector looks up images of Docker Hub where the nodes pull them.
if [[ -n ${E2E_IMAGE_REGISTRY:-} ]]; then
  kubectl -n entrypointer-system patch configmap config-entrypointer --type merge \
    -p "{\"data\":{\"registry-mirrors\":\"docker.io: [$E2E_IMAGE_REGISTRY]\"}}" >&2
fi
