#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# A cluster for the demo and the end-to-end tests: a control plane and two workers of
# kind, with an image registry, Tekton, Knative Serving and an ingress. It takes Linux,
# where a container's address can be reached from outside.
#
#   hack/kind.sh up              create it, or complete it
#   eval "$(hack/kind.sh env)"   point this shell to it
#   hack/kind.sh fixtures        add what only tests need
#   hack/kind.sh status          show what runs
#   hack/kind.sh down            delete it, and the registry
#
# The images come from where KIND_IMAGES says:
#   pulled   the projects' releases; takes a Docker daemon, and a way to the registries
#   made     this machine: test/cluster builds them from source, as root, and starts a
#            Docker daemon of its own
# Without KIND_IMAGES, they are pulled if Docker can pull one, and else made.
set -euo pipefail

# The versions that test/cluster installs, so that both clusters test the same.
readonly kind_version=v0.33.0
readonly tekton=https://github.com/tektoncd/pipeline/releases/download/v1.15.0
readonly serving=https://github.com/knative/serving/releases/download/knative-v1.23.0 # serving v0.50.0
readonly kourier=https://github.com/knative-extensions/net-kourier/releases/download/knative-v1.23.0

readonly cluster=entrypointer
readonly registry=entrypointer-registry
readonly registry_image=registry:3
readonly made=/var/lib/entrypointer-kind/pids # of the cluster whose images are made
readonly ingress_port=31080
readonly namespaces=(knative-serving kourier-system tekton-pipelines)
readonly cache="${ENTRYPOINTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/entrypointer}"
export KUBECONFIG="$cache/kind.kubeconfig"

fail() {
  echo "$0: $*" >&2
  exit 1
}

check_programs() {
  command -v kubectl >/dev/null || fail "kubectl is not on the PATH; see https://kubernetes.io/docs/tasks/tools/"
  command -v docker >/dev/null || fail "docker is not on the PATH; install it, or set KIND_IMAGES=made"
  docker info >/dev/null || fail "docker doesn't answer; start its daemon, or set KIND_IMAGES=made"
  kind=$("$(dirname "$0")/go-tool.sh" "sigs.k8s.io/kind@$kind_version")
}

# The registry is known by its address on kind's network, to this machine, to
# the nodes and to pods alike. "localhost", as in kind's documentation, would be
# another place in a pod, and Tekton, Knative and we look up images from pods.
registry_address() {
  docker inspect -f '{{.NetworkSettings.Networks.kind.IPAddress}}:5000' "$registry"
}

start_registry() {
  docker inspect "$registry" >/dev/null 2>&1 ||
    docker create --restart=always --name "$registry" --network kind "$registry_image" >/dev/null
  docker start "$registry" >/dev/null
}

start_nodes() {
  mkdir -p "$cache"
  if grep -qx "$cluster" <<<"$("$kind" get clusters -q)"; then
    "$kind" export kubeconfig --name "$cluster" --kubeconfig "$KUBECONFIG"
  else
    "$kind" create cluster --name "$cluster" --kubeconfig "$KUBECONFIG" --wait 3m --config - <<YAML
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
  - role: control-plane
    extraPortMappings:
      - {containerPort: $ingress_port, hostPort: $ingress_port, listenAddress: 127.0.0.1}
  - role: worker
  - role: worker
YAML
  fi
}

# Says where the images of the cluster that runs come from, or those of the next one.
source_of_images() {
  if [[ -n ${KIND_IMAGES:-} ]]; then
    echo "$KIND_IMAGES"
  elif [[ -d $made ]]; then
    echo made
  elif [[ $1 == up ]] && ! pulls; then
    echo made
  elif docker info >/dev/null 2>&1; then
    echo pulled
  else
    echo made
  fi
}

# Tries to pull an image that is needed anyway.
pulls() {
  local trouble
  docker image inspect "$registry_image" >/dev/null 2>&1 && return
  trouble=$(timeout 60 docker pull --quiet "$registry_image" 2>&1) && return
  echo "pulling $registry_image: ${trouble:-no answer within a minute}; making the images on this machine, which takes minutes (KIND_IMAGES=pulled: not to)" >&2
  return 1
}

# Lets the nodes pull without TLS.
configure_nodes() {
  local node address hosts
  address=$(registry_address)
  hosts=/etc/containerd/certs.d/$address
  for node in $("$kind" get nodes --name "$cluster" -q); do
    docker exec -i "$node" sh -c "mkdir -p $hosts && cat >$hosts/hosts.toml" <<<"server = \"http://$address\""
  done
}

# Tries again: the webhooks of what is there already may need a moment.
apply() {
  local try
  for try in {1..6}; do
    kubectl apply --server-side --force-conflicts -f "$1" >/dev/null && return
    echo "applying $1 failed ($try of 6)" >&2
    sleep 5
  done
  fail "applying $1 failed; see above"
}

install_releases() {
  apply "$serving/serving-crds.yaml"
  kubectl wait --for=condition=Established --timeout=1m crd --all >/dev/null
  apply "$serving/serving-core.yaml"
  apply "$kourier/kourier.yaml"
  apply "$tekton/release.yaml"
  local namespace
  for namespace in "${namespaces[@]}"; do
    echo "waiting for the deployments in $namespace"
    kubectl wait --for=condition=Available --timeout=5m deployment --all -n "$namespace" >/dev/null
  done
  # The least that Knative allows: a test shouldn't wait for a minute to see a
  # service scale to zero.
  kubectl patch configmap config-autoscaler -n knative-serving --type merge \
    -p '{"data":{"stable-window":"6s","scale-to-zero-grace-period":"6s"}}'
  kubectl patch configmap config-network -n knative-serving --type merge \
    -p '{"data":{"ingress-class":"kourier.ingress.networking.knative.dev"}}'
  kubectl patch configmap config-domain -n knative-serving --type merge \
    -p '{"data":{"example.test":""}}'
  kubectl patch service kourier -n kourier-system \
    -p "{\"spec\":{\"type\":\"NodePort\",\"ports\":[{\"port\":80,\"nodePort\":$ingress_port}]}}"
}

case $(source_of_images "${1:-}") in
  pulled) ;;
  made)
    mkdir -p "$cache/tmp"
    GOTMPDIR=$cache/tmp exec go run -C "$(dirname "$0")/../test/cluster" . -kind "$@"
    ;;
  *) fail "KIND_IMAGES=${KIND_IMAGES:-} is neither pulled nor made" ;;
esac

case ${1:-} in
  up) check_programs; start_nodes; start_registry; configure_nodes; install_releases ;;
  fixtures) ;;
  env)
    printf 'export %q\n' "KUBECONFIG=$KUBECONFIG" "KO_DOCKER_REPO=$(registry_address)/entrypointer" \
      "KO_DEFAULTPLATFORMS=linux/$(go env GOARCH)" "E2E_INGRESS=127.0.0.1:$ingress_port"
    ;;
  status) for namespace in "${namespaces[@]}"; do kubectl get deployments -n "$namespace"; done ;;
  down) check_programs; "$kind" delete cluster --name "$cluster" --kubeconfig "$KUBECONFIG"; docker rm -f "$registry" ;;
  *) fail "usage: $0 up|fixtures|env|status|down" ;;
esac
