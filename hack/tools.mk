# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# The programs that development needs, at fixed versions. A target that needs
# one names it as a prerequisite ("deploy: $(KO)") and runs it by that name.
# They are built when first needed, into a cache outside the checkout.

export ENTRYPOINTER_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/entrypointer
CACHE := $(ENTRYPOINTER_CACHE)

GOLANGCI_LINT := $(CACHE)/tools/golangci-lint@v2.15.0/golangci-lint
ACTIONLINT    := $(CACHE)/tools/actionlint@v1.7.12/actionlint
KO            := $(CACHE)/tools/ko@v0.19.1/ko
GREMLINS      := $(CACHE)/tools/gremlins@v0.6.0/gremlins
COSIGN        := $(CACHE)/tools/cosign@v3.1.3/cosign

$(GOLANGCI_LINT): package := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(ACTIONLINT):    package := github.com/rhysd/actionlint/cmd/actionlint
$(KO):            package := github.com/google/ko
$(GREMLINS):      package := github.com/go-gremlins/gremlins/cmd/gremlins
$(COSIGN):        package := github.com/sigstore/cosign/v3/cmd/cosign

# The version is what the directory's name says after the @.
$(GOLANGCI_LINT) $(ACTIONLINT) $(KO) $(GREMLINS) $(COSIGN):
	@hack/go-tool.sh $(package)@$(lastword $(subst @, ,$(@D))) >/dev/null
