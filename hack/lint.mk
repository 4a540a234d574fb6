# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Every check that needs no cluster and runs no test. "make lint" is all of
# them; each also stands alone. "make fmt" repairs what can be repaired.

include hack/tools.mk

# Modules that are linted. test/cluster/programs compiles Kubernetes and more, for
# short files: formatting and headers are enough for those that import it.
MODULES := . test/cluster test/apiserver test/monitoring test/chart test/stores test/stores/versitygw test/destinations test/destinations/collector test/page

# Architectures on which the binaries for the pods must at least compile: one
# with assembly of its own, and one without.
OTHER_ARCHITECTURES := arm64 s390x
POD_PACKAGES        := ./cmd/copier ./cmd/entrypoint ./internal/await ./internal/installer ./internal/order ./internal/proc ./internal/signals ./internal/supervisor/...

GO_FILES     = $(shell git ls-files '*.go')
SHELL_FILES  = $(shell git ls-files '*.sh' .ci/run)
HEADER_FILES := '*.go' '*.s' '*.sh' '*.mk' Makefile '*.yaml' '*.yml' '*.toml' .ci/run ':!*/testdata/*'

LINTS := lint-format lint-headers lint-tidy lint-vet lint-go lint-shell lint-workflows

.PHONY: lint $(LINTS) fmt
lint: $(LINTS)

lint-format: ## gofmt; lint-go is stricter where it looks
	@unformatted=$$(gofmt -l $(GO_FILES)) && test -z "$$unformatted" || \
		{ echo "not formatted (make fmt repairs it):" $$unformatted >&2; exit 1; }

lint-headers: ## the licence header in every source file
	@missing=$$(git grep -L --all-match -e 'Copyright The entrypointer Authors' \
		-e 'SPDX-License-Identifier: Apache-2.0' -- $(HEADER_FILES)); test -z "$$missing" || \
		{ echo "without the licence header:" $$missing >&2; exit 1; }

lint-tidy: ## go.mod and go.sum say what the code says
	@set -e; for module in $(MODULES); do echo "go mod tidy -diff in $$module"; (cd $$module && go mod tidy -diff); done

lint-vet: ## what go vet sees on architectures that golangci-lint doesn't look at
	@set -e; for arch in $(OTHER_ARCHITECTURES); do echo "go vet for $$arch"; \
		GOARCH=$$arch CGO_ENABLED=0 go vet $(POD_PACKAGES); done

lint-go: $(GOLANGCI_LINT) ## golangci-lint, go vet among the rest
	@set -e; for module in $(MODULES); do echo "golangci-lint in $$module"; (cd $$module && $(GOLANGCI_LINT) run); done
	@cd test/cluster/programs && $(GOLANGCI_LINT) run ./boundedrunc

lint-shell: ## shellcheck
	@command -v shellcheck >/dev/null || hack/apt-get.sh shellcheck
	shellcheck $(SHELL_FILES)

lint-workflows: $(ACTIONLINT) ## GitHub workflows
	$(ACTIONLINT)

fmt: $(GOLANGCI_LINT)
	@set -e; for module in $(MODULES); do (cd $$module && $(GOLANGCI_LINT) fmt); done
