# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# The two commands: "make demo" shows what this is for, "make test" is what CI runs.
# Both start a cluster if none is there.

# Where it runs:
#   source   a Kubernetes that test/cluster builds and starts on this machine
#   kind     three nodes of kind; where no images can be pulled, it makes its own
#   current  whatever kubectl talks to; Tekton and Knative are there, KO_DOCKER_REPO is set
CLUSTER ?= source

# The version of Kubernetes that test/cluster builds: 1.34, 1.35, 1.36 or 1.37. Without, the
# one that runs, or 1.36 if none does.
KUBERNETES ?=

# The same for Tekton, 1.0 or 1.9, and Knative Serving, 0.47.
TEKTON ?=
KNATIVE ?=

.DEFAULT_GOAL := help

include hack/lint.mk
include hack/go.mk

# A small /tmp doesn't matter.
$(shell mkdir -p $(CACHE)/tmp)
cluster-source  := GOTMPDIR=$(CACHE)/tmp go run -C test/cluster . $(addprefix -kubernetes ,$(KUBERNETES)) $(addprefix -tekton ,$(TEKTON)) $(addprefix -knative ,$(KNATIVE))
cluster-kind    := hack/kind.sh
cluster-current := hack/current.sh
cluster         := $(or $(cluster-$(CLUSTER)),$(error CLUSTER=$(CLUSTER) is none of source, kind, current))
$(if $(KUBERNETES)$(TEKTON)$(KNATIVE),$(if $(filter-out source,$(CLUSTER)),$(error KUBERNETES, TEKTON and KNATIVE are for CLUSTER=source: others have versions of their own)))

# In the environment of the cluster: KUBECONFIG, KO_DOCKER_REPO, and so on.
in-cluster = eval "$$($(cluster) env)" &&

.PHONY: help
help:
	@echo 'make demo    a cluster, entrypointer on it, and the examples with and without'
	@echo 'make examples  all of examples/ for tenants, applied as they are to the namespace "examples"'
	@echo 'make test    what CI runs: lint, unit, and of the longer ones a part that the commit chooses'
	@echo 'make test-all  before a release: everything, in about four hours'
	@echo 'make lint    formatting, vet, linters'
	@echo 'make unit    tests that need no cluster'
	@echo 'make destinations  that logs and traces arrive at a collector, and logs at Loki, which takes minutes to compile'
	@echo 'make neighbours  that proxies and agents of other projects end when the work has, which takes minutes to compile; VAULT=PATH names an installed program "vault", whose agent is one of them then'
	@echo 'make neighbours-webhooks  that cert-manager, Gatekeeper and Kyverno get along with entrypointer on the cluster, which takes half an hour to compile'
	@echo 'make grounds  grounds-arm64, grounds-cgroup2, neighbours, neighbours-webhooks, and e2e-versions: hours'
	@echo 'make grounds-cgroup2  the tests of containers that run out of memory, on cgroup v2: in a virtual machine with Debian'\''s kernel'
	@echo 'make grounds-arm64  the tests of what runs in pods, for arm64 in an emulator; as root'
	@echo 'make outage  what becomes of TaskRuns while no injector responds: policies in an API server of its own, of the programs that make up builds'
	@echo 'make stress  those of them that try random moments, eight times as long'
	@echo 'make e2e     end-to-end tests on the cluster; ARGS="-run TaskRun" picks some'
	@echo "make page    the page of the kubectl plugin, with runs of the cluster, in browsers; ARGS='-args -pictures ../../docs' writes docs/page.png"
	@echo 'make e2e-core  those of them that differ most between versions of Kubernetes'
	@echo 'make e2e-versions  the tests that differ most between versions, on a cluster with each of VERSIONS="1.34 tekton-1.0 ..."; ends the one that runs'
	@echo 'make e2e-slow  the longest end-to-end tests, half an hour in all'
	@echo 'make bench   what admission, the hand-off, deliveries, logs, order and the supervisor cost, into the docs'
	@echo 'make bench-handoff     the hand-off alone'
	@echo 'make bench-start       what each delivery adds to the start of a pod, alone'
	@echo 'make bench-logs        logs alone, and bench-bucket'
	@echo 'make bench-calls       what logs cost in an object store, which needs no cluster'
	@echo 'make bench-sweep       how long the log service takes to look at a million streams, which needs no cluster'
	@echo 'make bench-bucket      the same with an S3 server, and Loki beside, in half an hour; needs no cluster'
	@echo 'make bench-search      how fast logs are searched, which needs no cluster'
	@echo 'make bench-page        long logs in the page, beside Tekton Dashboard; as root; ARGS="-dashboard PATH -dashboard-files PATH" says where it is; needs no cluster'
	@echo 'make bench-supervisor  the supervisor alone, which needs no cluster'
	@echo 'make bench-order       the order of containers beside Argo'\''s and kubexit; as root; ARGS="-argoexec PATH -kubexit PATH" says where they are'
	@echo 'make bench-pipes       how fast two containers of a pod talk to each other'
	@echo 'make bench-waiters     what containers that wait cost their node'
	@echo 'make scale             how the injector grows with namespaces, pods, nodes, claims, images and admissions, and the log service with streams, which needs no cluster; as root; 25 minutes, or five with ARGS=-short'
	@echo 'make scale-sample      the smallest numbers of it, and an error if a request fails or memory grows as it should not; as root'
	@echo 'make chaos     what users notice while injectors, the log service and parts of the cluster fail, into docs/chaos.md with ARGS=-update; as root; ARGS=-short runs two faults'
	@echo 'make timeline          docs/order.svg, from a pod that starts and stops in order'
	@echo 'make equality  Tekton'\''s own examples without, and with, by each delivery and with logs; ARGS=-update writes the paragraph in README.md and docs/equality.md'
	@echo 'make mutants  what changes of the code no unit test notices; PACKAGES=./pkg/pod picks some'
	@echo 'make release VERSION=v0.1.0  images and a Helm chart in REPOSITORY, or the registry of the cluster, and a folder dist/VERSION; KEY=FILE signs them'
	@echo 'make e2e-release   installs releases by kubectl and by Helm; afterwards, make deploy installs this checkout'
	@echo 'make e2e-release-sample  those of them that need neither Helm nor cosign'
	@echo 'make release-twice  that two clones make the same release, which compiles everything once more'
	@echo 'make up      the cluster; eval "$$(make env)" lets kubectl find it; KUBERNETES=1.34, TEKTON=1.0 and KNATIVE=0.47 are other versions, for the other targets, too'
	@echo 'make down    no cluster, and nothing left of it'
	@echo 'make deploy  entrypointer as it is in this checkout, on the cluster'

.PHONY: demo
demo: deploy
	@$(in-cluster) go run ./test/demo $(ARGS)

.PHONY: examples
examples: deploy
	@command -v curl >/dev/null || hack/apt-get.sh curl
	@$(in-cluster) hack/examples.sh $(or $(ko),ko)

.PHONY: test test-all
test: lint unit e2e-sample outage-sample scale-sample page-sample equality-sample chaos-sample e2e-release-sample
test-all: lint unit destinations grounds-arm64 grounds-cgroup2 neighbours stress e2e chaos scale-sample outage page page-slow e2e-slow equality e2e-release

# Vetting a test reads all that it is compiled of, which takes as long as
# compiling it. The linters vet. On a busy machine, Go's ten minutes for a package
# are too few. With -short, tests with random moments try fewer of them. -race
# sees only the processes of tests, so the tests that start other processes, or need a
# cluster, go without. Go doesn't see what these processes are built of, so their
# results aren't taken from its cache.
without-race := ./test/... ./cmd/entrypoint ./cmd/withlogs/entrypoint

.PHONY: unit
unit:
	@command -v gcc >/dev/null || hack/apt-get.sh gcc libc6-dev  # for -race
	@for peer in tini dumb-init catatonit; do command -v $$peer >/dev/null || hack/apt-get.sh $$peer || \
		echo "the entrypoint is not compared with $$peer" >&2; done
	@command -v python3 >/dev/null || hack/apt-get.sh python3  # for commands that do to their pipes and files what no shell can
	@command -v strace >/dev/null || hack/apt-get.sh strace  # for errors of system calls that are rare
	go test -short -vet=off -count 1 -timeout 40m $(without-race)
	CGO_ENABLED=1 go test -short -race -vet=off -timeout 40m $$(go list ./... | grep -vxF "$$(go list $(without-race))")
	cd test/cluster && go test -vet=off -timeout 40m . ./internal/...
	cd test/cluster/programs && go test -vet=off ./boundedrunc
	cd test/apiserver && go test -vet=off -timeout 40m .
	cd test/monitoring && go test -vet=off -timeout 40m .
	cd test/chart && go test -vet=off -timeout 40m .
	cd test/stores && go test -vet=off -timeout 40m .
	cd test/destinations && go test -vet=off -timeout 40m .
	@$(with-browser)
	cd test/page && go test -vet=off -timeout 40m . ./bench

define with-browser
command -v chromium >/dev/null || hack/apt-get.sh chromium; \
command -v firefox-esr >/dev/null || command -v firefox >/dev/null || hack/apt-get.sh firefox-esr; \
command -v npm >/dev/null || hack/apt-get.sh npm  # for axe-core, which isn't compiled
endef

# With Loki as well, whose first build takes four to nine minutes on 2 cores.
.PHONY: destinations
destinations:
	cd test/destinations && go test -vet=off -count 1 -timeout 40m -tags loki . $(ARGS)

# The first time, it builds the proxies and agents of other projects, which takes minutes.
# Vault's agent isn't built, because its licence isn't an open-source one: VAULT is the path of an
# installed program "vault".
VAULT ?=

.PHONY: neighbours
neighbours:
	@$(if $(VAULT),,echo "Vault's agent isn't among the neighbours: VAULT=PATH names an installed program vault" >&2)
	go test -vet=off -count 1 -timeout 40m -tags neighbours ./test/neighbours $(addprefix -vault=,$(abspath $(VAULT))) $(ARGS)

# The same for projects that act on the whole cluster: they are installed one after the other.
.PHONY: neighbours-webhooks
neighbours-webhooks: deploy
	@$(in-cluster) go test -vet=off -tags e2e,neighbours -count 1 -timeout 2h ./test/e2e -run 'CertManager|Gatekeeper|Kyverno' $(ARGS)

# Unlike the rest of "make unit", it doesn't see races: qemu has no memory model but that of
# this machine.
.PHONY: grounds-arm64
grounds-arm64:
	@hack/emulated.sh arm64 $(ARGS)

# Needs Debian's packages. On two processors that qemu emulates, it takes three minutes, or ten if they are busy.
.PHONY: grounds-cgroup2
grounds-cgroup2:
	@hack/virtual.sh cgroup2 $(ARGS)

# What docs/compatibility.md says was run, but for what other targets run.
.PHONY: grounds
grounds: grounds-arm64 grounds-cgroup2 neighbours neighbours-webhooks e2e-versions

.PHONY: outage
outage:
	go test -vet=off -count 1 -timeout 10m -tags outage ./test/outage $(ARGS)

# After a target that has built the API server, with fewer examples and combinations.
.PHONY: outage-sample
outage-sample: ARGS = -short
outage-sample: outage

# The tests with random moments, at full extent.
.PHONY: stress
stress:
	go test -vet=off -count 1 -timeout 1h $$(grep -rl --include='*_test.go' 'testing[.]Short' cmd internal pkg | xargs -n 1 dirname | sort -u | sed 's|^|./|')

# Where a mistake is an outage or a leak. Takes hours, and fails on nothing. Of the
# supervisor, the tests that start processes are in cmd/entrypoint, and don't count.
PACKAGES ?= ./pkg/pod ./pkg/lookup ./internal/namespaces ./internal/config ./internal/supervisor

.PHONY: mutants
mutants: $(GREMLINS)
	@set -e; for package in $(PACKAGES); do \
		$(GREMLINS) unleash --invert-logical --output-statuses lt --timeout-coefficient 3 $$package; done

.PHONY: e2e
e2e: deploy fixtures
	@command -v curl >/dev/null || hack/apt-get.sh curl
	@$(in-cluster) go test -vet=off -tags e2e -count 1 -timeout 2h ./test/e2e $(ARGS)

# The page with runs of the cluster, in browsers. Two of its tests install the log service with the
# page for a team, and in the end without.
.PHONY: page
page: deploy
	@$(with-browser)
	@$(in-cluster) cd test/page && go test -vet=off -tags e2e -count 1 -timeout 30m -run Cluster . $(ARGS)

# Without a million lines, and without those that install the page for a team.
.PHONY: page-sample
page-sample: ARGS = -run 'TheCommandShows|TheListHas|StartsOfAContainer|WhatContainersOf'
page-sample: page

# What waits for the log service to join objects, which takes a quarter of an hour.
.PHONY: page-slow
page-slow: deploy
	@$(with-browser)
	@$(in-cluster) cd test/page && go test -vet=off -tags e2e,slow -count 1 -timeout 1h -run ClusterSurvivesTheJoining . $(ARGS)

# Tests of two to five minutes each, in which nothing else can run. Shorter tests have
# parts of them: claims and upgrades, a replica of the log service that is replaced, an
# outage of half a minute, and the examples of each option. "make e2e-slow" runs the
# examples twice.
longest := NoLineIsLostWhileThreeReplicas|AClaimIsFilledMountedAndReplaced|AMinuteWithoutTheLogServiceLosesNothing

# A fourth of the tests: for each commit others.
.PHONY: e2e-sample
e2e-sample: ARGS = -skip '$(longest)|EveryExampleRunsAsItIs$$' -run '$(shell hack/e2e-part.sh 4)'
e2e-sample: e2e

.PHONY: e2e-core
e2e-core:
	@$(MAKE) e2e ARGS="-run '$$(hack/e2e-core.sh)' $(ARGS)"

# Of Kubernetes, and with a name in front of Tekton and Knative Serving.
VERSIONS ?= 1.34 1.35 1.36 1.37 tekton-1.0 tekton-1.9 knative-0.47

.PHONY: e2e-versions
e2e-versions:
	@hack/e2e-versions.sh $(VERSIONS)

# What waits for a kubelet's clock, and the longest of the others.
.PHONY: e2e-slow
e2e-slow: deploy fixtures
	@$(in-cluster) go test -vet=off -tags e2e,slow -count 1 -timeout 1h ./test/e2e -run 'TokenIsStored|AsItIsAgain|OutageOfAMinute|TwoHundred|$(longest)' $(ARGS)

.PHONY: equality
equality: deploy fixtures
	@$(in-cluster) go test -vet=off -tags e2e -count 1 -timeout 90m ./test/equality $(ARGS)

# A sixth of the examples, each in one of the ways: other ones for each commit.
.PHONY: equality-sample
equality-sample: ARGS := -v -parts 6 -ways one
equality-sample: equality

# Before there is a cluster, if there is none yet: it would be heard.
.PHONY: bench
bench: bench-supervisor bench-calls bench-bucket bench-search bench-order deploy
	@$(in-cluster) go run ./test/bench -update
	@$(in-cluster) go run ./test/bench/handoff -update
	@$(in-cluster) go run ./test/bench/start -update
	@$(in-cluster) go run ./test/bench/logs -update
	@$(in-cluster) go run ./test/bench/pipes -update
	@$(in-cluster) go run ./test/bench/waiters -update
	@$(in-cluster) go run ./test/bench/timeline -update

.PHONY: bench-handoff
bench-handoff: deploy
	@$(in-cluster) go run ./test/bench/handoff -update $(ARGS)

.PHONY: bench-start
bench-start: deploy
	@$(in-cluster) go run ./test/bench/start -update

# The part without a cluster comes first: a cluster would be heard.
.PHONY: bench-logs
bench-logs: bench-bucket deploy
	@$(in-cluster) go run ./test/bench/logs -update

.PHONY: bench-calls
bench-calls:
	go test -count=1 ./test/bench/calls -update

.PHONY: bench-sweep
bench-sweep: # bench-calls has it as well
	go test -count=1 ./test/bench/calls -run TheFirstSweep -update

# The first time, it builds Loki, which takes four to nine minutes, unless ARGS has
# "-loki PATH" or -without-loki.
.PHONY: bench-bucket
bench-bucket:
	go run ./test/bench/bucket -update $(ARGS)

.PHONY: bench-search
bench-search:
	go run ./test/bench/search -update

# It writes no table without the peer, so "make bench" doesn't run it.
.PHONY: bench-page
bench-page:
	@command -v chromium >/dev/null || hack/apt-get.sh chromium
	@command -v unshare >/dev/null || hack/apt-get.sh util-linux
	cd test/page && go run ./bench $(if $(findstring -dashboard,$(ARGS)),-update) $(ARGS)

.PHONY: bench-supervisor
bench-supervisor:
	@for peer in tini dumb-init catatonit; do command -v $$peer >/dev/null || hack/apt-get.sh $$peer; done
	go run ./test/bench/supervisor -update

# The first time, it builds Argo's executor, which takes a quarter of an hour, unless
# ARGS names one.
.PHONY: bench-order
bench-order:
	@command -v setpriv >/dev/null || hack/apt-get.sh util-linux
	go run ./test/bench/order -update $(ARGS)

.PHONY: bench-pipes
bench-pipes: up $(ko)
	@$(in-cluster) go run ./test/bench/pipes -update $(ARGS)

# How the injector grows with a cluster: with a real API server and etcd, which are built
# with the cluster, in namespaces of the kernel, so it meets neither its ports nor those of
# others. As root. Without -short, it takes 25 minutes.
.PHONY: scale scale-sample
scale:
	@test -x $(CACHE)/bin/kube-apiserver || $(cluster-source) build
	go run ./test/scale -programs $(CACHE)/bin $(ARGS)

scale-sample: ARGS := -sample
scale-sample: scale

.PHONY: bench-waiters timeline
bench-waiters: deploy
	@$(in-cluster) go run ./test/bench/waiters -update $(ARGS)

timeline: deploy
	@$(in-cluster) go run ./test/bench/timeline -update

# It kills and stalls processes of the cluster, so nothing else should use it.
.PHONY: chaos
chaos: deploy
	@$(in-cluster) go run ./test/chaos $(ARGS)

# Two faults: for each commit others.
.PHONY: chaos-sample
chaos-sample: ARGS = -short -seed 0x$(shell git rev-parse --short=7 HEAD 2>/dev/null || echo 0)
chaos-sample: chaos

# The cluster that is built here has its own ko.
ko := $(if $(filter source,$(CLUSTER)),,$(KO))

.PHONY: deploy
deploy: up $(ko)
	@$(in-cluster) hack/deploy.sh $(or $(ko),ko)

# A registry of one's own needs no cluster, but ko. KEY is a file of cosign generate-key-pair,
# whose password is COSIGN_PASSWORD.
.PHONY: release
release: $(if $(REPOSITORY),$(KO),up $(ko)) $(if $(KEY),$(COSIGN))
	$(if $(VERSION),,$(error VERSION is missing: make release VERSION=v0.1.0))
	@$(if $(REPOSITORY),KO_DOCKER_REPO=$(REPOSITORY),$(in-cluster)) go run ./hack/release -version $(VERSION) \
		-folder $(or $(FOLDER),dist/$(VERSION)) -ko $(if $(REPOSITORY),$(KO),$(or $(ko),ko)) $(if $(KEY),-key $(KEY) -cosign $(COSIGN)) $(ARGS)

# Two releases of this commit in a folder RELEASES: (1) are further flags, (2) is a command before.
define two-releases
export RELEASES=$$(mktemp -d) && trap 'rm -r "$$RELEASES"' EXIT && $(2) for version in v0.0.0-rc.1 v0.0.0-rc.2; do \
	go run ./hack/release -version $$version -folder $$RELEASES/$$version -ko $(or $(ko),ko) -image-platforms linux/$$(go env GOARCH) -plugin-platforms linux/$$(go env GOARCH) $(1) || exit 1; done
endef

# They are signed, with a key that is made for it, and the tests install them in place of what is
# installed. Afterwards, the injector isn't installed.
.PHONY: e2e-release
e2e-release: up $(ko) $(COSIGN)
	go build -C test/chart -o $(CACHE)/tools/helm helm.sh/helm/v4/cmd/helm
	@$(in-cluster) export HELM=$(CACHE)/tools/helm COSIGN=$(COSIGN) COSIGN_PASSWORD=e2e && \
		$(call two-releases,-key $$RELEASES/cosign.key -cosign $(COSIGN),$(COSIGN) generate-key-pair --output-key-prefix $$RELEASES/cosign && ) && \
		go test -vet=off -tags e2e -count 1 -timeout 40m ./test/release $(ARGS)

# The way by YAML alone, which needs neither Helm nor cosign.
.PHONY: e2e-release-sample
e2e-release-sample: up $(ko)
	@$(in-cluster) $(two-releases) && go test -vet=off -tags e2e -count 1 -timeout 20m ./test/release -run AReleaseAlone $(ARGS)

.PHONY: release-twice
release-twice: up $(ko)
	@$(in-cluster) hack/release-twice.sh $(or $(ko),ko) $(ARGS)

.PHONY: up fixtures down status env
up:
	@test $(CLUSTER) != source || test -d $(CACHE)/logs || echo 'compiling what builds the cluster: a minute' >&2
	@$(cluster) $@

fixtures: up
fixtures down status env:
	@$(cluster) $@
