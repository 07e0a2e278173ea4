SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The tools, whose versions are pinned in tools/*/go.mod.
TOOLS := .tools/bin
CLUSTER_TOOLS := .tools/kubernetes.mod .tools/kwok.mod .tools/metrics-server.mod .tools/helm.mod .tools/helm3.mod
TEST_TOOLS := $(CLUSTER_TOOLS) .tools/prometheus.mod
CONTROLLER_GEN := $(TOOLS)/controller-gen
GOLANGCI_LINT := $(TOOLS)/golangci-lint

# Tests that start an API server take it from here.
export KUBEBUILDER_ASSETS := $(CURDIR)/$(TOOLS)

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $$(go env CC)),-race)
# A package's tests start a control plane of their own, which takes about two cores.
PARALLEL := -p $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores > 3 ? cores / 2 : 1)))
# Which would hold for compiling too, so that what the tests import is compiled first: all
# packages but those of tests alone, which the go command does not build.
TEST_IMPORTS := go list -test -deps -f '{{if and (or .GoFiles .CgoFiles) (not (or .ForTest .Standard (eq .Name "main")))}}{{.ImportPath}}{{end}}' ./...
# One benchmark at a time, so that none disturbs another.
BENCH_FLAGS := -run '^$$' -bench . -benchmem -timeout 60m -p 1

##@ Run

.PHONY: demo
demo: build $(CLUSTER_TOOLS) bin/kubectl bin/helm bin/helm3 ## Start a cluster, the manager and something to look at, and say what there is
	$(TOOLS)/local demo

.PHONY: down
down: $(TOOLS)/local ## Stop the manager and the cluster, leaving no process behind
	$(TOOLS)/local down

.PHONY: cluster-up
cluster-up: $(TOOLS)/local $(CLUSTER_TOOLS) bin/kubectl bin/helm bin/helm3 ## Start the cluster alone; its kubeconfig is .cluster/kubeconfig
	$(TOOLS)/local up

.PHONY: cluster-down
cluster-down: down ## The same as down

.PHONY: run
run: build $(CLUSTER_TOOLS) bin/kubectl ## Install Upright on the cluster and run the manager in the foreground
	exec $(TOOLS)/local run

##@ Check

# A cached result would do for a test that did not change, but the whole-cluster
# tests run a manager that they do not import (-count=1).
.PHONY: test
test: build $(TEST_TOOLS) ## Run every test: unit, API server, whole cluster; then the benchmarks in short
	go build $(RACE) $$($(TEST_IMPORTS))
	exec $(TOOLS)/local supervise go test -count=1 $(RACE) $(PARALLEL) -timeout 30m ./...
	$(MAKE) --no-print-directory bench-short

.PHONY: bench
bench: build $(TEST_TOOLS) ## Run the benchmarks and print them beside the peers' figures
	exec $(TOOLS)/local supervise bash -o pipefail -c "go test $(BENCH_FLAGS) ./... | go run ./e2e/benchtable"

.PHONY: bench-short
bench-short: build $(TEST_TOOLS) ## Run each benchmark once, on few objects
	exec $(TOOLS)/local supervise bash -o pipefail -c "go test $(BENCH_FLAGS) -short -benchtime 1x ./... | go run ./e2e/benchtable"

.PHONY: lint
lint: .tools/golangci-lint.mod ## Lint, which includes the direction of imports
	$(GOLANGCI_LINT) run ./...

.PHONY: verify
verify: .tools/controller-gen.mod ## Fail unless what is generated is current
	tools/verify

##@ Build

.PHONY: build
build: $(TOOLS)/local bin/manager ## Build the manager

.PHONY: generate
generate: .tools/controller-gen.mod ## Generate deepcopy functions, CRDs and RBAC from the Go code
	$(CONTROLLER_GEN) object paths=./apis/...
	$(CONTROLLER_GEN) crd paths=./apis/... output:crd:dir=deploy/crds
	$(CONTROLLER_GEN) rbac:roleName=upright-manager paths=./controllers/... output:rbac:dir=deploy/rbac

.PHONY: tools
tools: $(patsubst tools/%/go.mod,.tools/%.mod,$(wildcard tools/*/go.mod)) bin/kubectl bin/helm bin/helm3 ## Build every tool

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The go command knows best whether these are up to date.
.PHONY: bin/manager $(TOOLS)/local
bin/manager:
	go build -o $@ ./cmd/manager

$(TOOLS)/local:
	go build -o $@ ./e2e/local

.tools/%.mod: tools/%/go.mod tools/%/go.sum tools/build
	@tools/build $*

bin/kubectl: .tools/kubernetes.mod
bin/helm: .tools/helm.mod
bin/helm3: .tools/helm3.mod
bin/kubectl bin/helm bin/helm3:
	@mkdir -p bin && ln -sfn ../$(TOOLS)/$(@F) $@
