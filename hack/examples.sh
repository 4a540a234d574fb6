#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Applies the examples for tenants, as they are, to a namespace that opts in, waits until
# each has ended or serves as its file says, and shows them. A second run deletes
# and applies them again.
#
#   hack/examples.sh PATH_OF_KO [NAMESPACE]
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ko=${1:?usage: $0 PATH_OF_KO [NAMESPACE]}
readonly namespace=${2:-examples}
readonly limit=300 # seconds
readonly entrypoint=/entrypointer/bin/entrypoint
readonly config=(configmap/config-entrypointer -n entrypointer-system)

fail() {
  echo "examples: $*" >&2
  exit 1
}

# Shows a command as a person types it, and runs it.
run() {
  echo "\$ $*"
  "$@"
}

# Prints -f for each file, for kubectl and ko.
flags() {
  printf -- '-f\n%s\n' "$@"
}

opt_in() {
  kubectl get namespace "$namespace" >/dev/null 2>&1 || run kubectl create namespace "$namespace"
  run kubectl annotate namespace "$namespace" --overwrite entrypointer.dev/inject=true
}

# Has the operator offer the tool that options/tools.yaml asks for.
offer_ni() {
  local offered image
  offered=$(kubectl get "${config[@]}" -o 'jsonpath={.data.tools}')
  if [[ -z $offered ]]; then
    image=$("$ko" build ./examples/ni)
    run kubectl patch "${config[@]}" --type merge -p "{\"data\":{\"tools\":\"ni: {image: $image, path: /ko-app/ni}\"}}"
  elif ! grep -q '^ni:' <<<"$offered"; then
    fail "examples/options/tools.yaml asks for the tool ni, and config-entrypointer offers other tools: add ni to them (docs/tools.md)"
  fi
  local deadline=$((SECONDS + 60)) error
  until error=$(ask_for_ni 2>&1); do
    ((SECONDS < deadline)) || fail "waiting for the injector to offer the tool ni: $error"
    sleep 0.5
  done
}

ask_for_ni() {
  kubectl -n "$namespace" create --dry-run=server -o name -f - <<'POD'
apiVersion: v1
kind: Pod
metadata:
  name: asks-for-ni
  annotations: {entrypointer.dev/inject: "true", entrypointer.dev/tools: ni}
spec:
  containers: [{name: main, image: "busybox:1.37", command: ["true"]}]
POD
}

# Sorts the files: Go programs of this repository (ko://) are built by ko, which then
# calls kubectl.
list_files() {
  files=(examples/*.yaml examples/options/*.yaml examples/order/*.yaml)
  if kubectl get storageclass shared >/dev/null 2>&1; then
    files+=(examples/delivery/claim.yaml)
  else
    echo "leaving out examples/delivery/claim.yaml: this cluster has no storage class \"shared\""
  fi
  built=() plain=()
  local file
  for file in "${files[@]}"; do
    if grep -q 'ko://' "$file"; then built+=("$file"); else plain+=("$file"); fi
  done
  mapfile -t all_flags < <(flags "${files[@]}")
  mapfile -t built_flags < <(flags "${built[@]}")
  mapfile -t plain_flags < <(flags "${plain[@]}")
}

apply_files() {
  # In the foreground: a TaskRun takes the pod that one of its name has left for its own.
  kubectl -n "$namespace" delete --ignore-not-found --cascade=foreground "${all_flags[@]}"
  run kubectl -n "$namespace" apply "${plain_flags[@]}"
  run "$ko" apply "${built_flags[@]}" -- -n "$namespace"
  case " ${files[*]} " in
    *delivery/claim.yaml*) run kubectl annotate namespace "$namespace" --overwrite entrypointer.dev/delivery=claim ;;
  esac
}

# Prints each object in a line: API version, kind/name, conditions.
objects() {
  kubectl -n "$namespace" get "${all_flags[@]}" \
    -o 'jsonpath={range .items[*]}{.apiVersion} {.kind}/{.metadata.name} {range .status.conditions[*]}{.type}={.status} {end}{"\n"}{end}'
}

# Says whether an object is as its file says: finished, failed or waiting.
verdict() {
  case $1 in
    *' TaskRun/debugging '*) held tekton.dev/taskRun=debugging step-holds ;;
    'serving.knative.dev/'*' Service/debugging '*) held serving.knative.dev/service=debugging user-container ;;
    # Their limits end them.
    *' TaskRun/timeout '*Succeeded=False* | *' Job/timeout '*Failed=True*) echo finished ;;
    *' TaskRun/timeout '*Succeeded=True* | *' Job/timeout '*Complete=True*) echo failed ;;
    *Run/*Succeeded=True* | *' Job/'*Complete=True* | *' Deployment/'*Available=True*) echo finished ;;
    'serving.knative.dev/'*' Ready=True'* | *' SupervisorVolume/'*Ready=True*) echo finished ;;
    *Run/*Succeeded=False* | *' Job/'*Failed=True*) echo failed ;;
    'v1 Secret/'* | 'v1 Service/'* | *' Pipeline/'*) echo finished ;; # nothing happens to these
    *) echo waiting ;;
  esac
}

# The supervisor holds a container of the pod with this label before its start.
held() {
  local pod
  pod=$(kubectl -n "$namespace" get pods -l "$1" -o name | head -n 1)
  if [[ -n $pod ]] && kubectl -n "$namespace" exec "$pod" -c "$2" -- "$entrypoint" status 2>/dev/null | grep -q '"phase":"Paused"'; then
    echo finished
  else
    echo waiting
  fi
}

# Names an object as kubectl takes it: Service/hello of Knative is ksvc/hello.
named() {
  local name=${1#* }
  name=${name%% *}
  case $1 in
    'serving.knative.dev/'*) echo "ksvc/${name#*/}" ;;
    *) echo "${name,,}" ;;
  esac
}

explain() {
  local name=$1
  kubectl -n "$namespace" get "$name" \
    -o 'jsonpath={range .status.conditions[*]}  {.type}={.status} {.reason}: {.message}{"\n"}{end}' >&2
  echo "  see: kubectl -n $namespace describe $name" >&2
}

await() {
  local deadline=$((SECONDS + limit)) said=$SECONDS all object waiting
  while true; do
    waiting=()
    all=$(objects)
    while read -r object; do
      case $(verdict "$object ") in
        failed)
          explain "$(named "$object ")"
          fail "$(named "$object ") failed"
          ;;
        waiting) waiting+=("$(named "$object ")") ;;
      esac
    done <<<"$all"
    ((${#waiting[@]})) || return 0
    if ((SECONDS >= deadline)); then
      for object in "${waiting[@]}"; do explain "$object"; done
      fail "waiting for ${waiting[*]}: not there after $limit s"
    fi
    if ((SECONDS >= said + 15)); then
      said=$SECONDS
      echo "waiting for ${waiting[*]}"
    fi
    sleep 1
  done
}

show() {
  local kinds=taskruns,pipelineruns,jobs,deployments,ksvc url
  [[ " ${files[*]} " != *delivery/claim.yaml* ]] || kinds+=,supervisorvolumes
  run kubectl -n "$namespace" get "$kinds" -l '!serving.knative.dev/service' # without what Knative makes
  echo
  run kubectl -n "$namespace" get pods -o 'custom-columns=POD:.metadata.name,PHASE:.status.phase,ENTRYPOINTER:.metadata.annotations.entrypointer\.dev/status'
  echo
  url=$(kubectl -n "$namespace" get ksvc hello -o 'jsonpath={.status.url}')
  # The domain of Knative's URLs may be unknown to this machine's DNS.
  run curl -sS --fail --retry 5 --retry-all-errors ${E2E_INGRESS:+--connect-to "::$E2E_INGRESS"} "$url"
  cat <<END

Every example is as its file says: timeout has failed, because its limit ended it, and debugging is held:
  kubectl -n $namespace exec debugging-pod -c step-holds -- $entrypoint continue
To remove them: kubectl delete namespace $namespace
END
}

opt_in
list_files
offer_ni
apply_files
await
show
