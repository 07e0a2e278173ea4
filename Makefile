SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# tools/*/go.mod pins the version of each tool.
TOOLS := .tools/bin
CLUSTER_TOOLS := .tools/kubernetes.mod .tools/kwok.mod .tools/metrics-server.mod .tools/helm.mod .tools/helm3.mod
TEST_TOOLS := $(CLUSTER_TOOLS) .tools/prometheus.mod
CONTROLLER_GEN := $(TOOLS)/controller-gen
GOLANGCI_LINT := $(TOOLS)/golangci-lint
BENCHTABLE := $(TOOLS)/benchtable
# benchtable has its own go.mod: the main one does not need what only benchtable imports.
BENCHTABLE_MODULE := tools/benchtable
IMAGE_MODULE := tools/image
# A chart can only read files in its own folder, so generate copies what kustomize reads too.
CHART := deploy/charts/upright
PINNED_TOOLS := $(filter-out $(BENCHTABLE_MODULE)/go.mod,$(wildcard tools/*/go.mod))

# Tests start the API server and etcd from this folder.
export KUBEBUILDER_ASSETS := $(CURDIR)/$(TOOLS)

# A static binary starts in an image without libraries. -trimpath makes the build independent of its
# folder, and shares what is compiled with the image.
STATIC := CGO_ENABLED=0

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $$(go env CC)),-race)
# The tests of a package start their own control plane, which uses about two cores.
PARALLEL := -p $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores > 3 ? cores / 2 : 1)))
# -p limits compilation too. Therefore "make test" first compiles the packages that the tests
# import, with all cores. It leaves out packages that contain only tests: go build rejects them.
TEST_IMPORTS := go list -test -deps -f '{{if and (or .GoFiles .CgoFiles) (not (or .ForTest .Standard (eq .Name "main")))}}{{.ImportPath}}{{end}}' ./...
# One package at a time, so that no benchmark slows down another.
BENCH_FLAGS := -run '^$$' -bench . -benchmem -timeout 60m -p 1

##@ Run

.PHONY: demo
demo: build $(CLUSTER_TOOLS) bin/kubectl bin/helm bin/helm3 ## Start the cluster and the manager, create sample objects, and show them
	$(TOOLS)/local demo

.PHONY: down
down: $(TOOLS)/local ## Stop the cluster and the manager of demo or run
	$(TOOLS)/local down

.PHONY: cluster-up
cluster-up: $(TOOLS)/local $(CLUSTER_TOOLS) bin/kubectl bin/helm bin/helm3 ## Start only the cluster; its kubeconfig is .cluster/kubeconfig
	$(TOOLS)/local up

# An alias of down, because there is a cluster-up.
.PHONY: cluster-down
cluster-down: down

.PHONY: run
run: build $(CLUSTER_TOOLS) bin/kubectl ## Install Upright and run the manager in the foreground; starts the cluster if needed
	exec $(TOOLS)/local run

##@ Check

# -count=1 because the whole-cluster tests run a manager that they do not import: the go
# command would reuse their results after a change to it.
.PHONY: test
test: build $(TEST_TOOLS) ## Run all tests (unit, API server, whole cluster), then bench-short
	GOWORK=off go test -C $(BENCHTABLE_MODULE) $(RACE) ./...
	GOWORK=off go test -C $(IMAGE_MODULE) ./...
	go build $(RACE) $$($(TEST_IMPORTS))
	exec $(TOOLS)/local supervise go test -count=1 $(RACE) $(PARALLEL) -timeout 30m ./...
	$(MAKE) --no-print-directory bench-short

.PHONY: bench
bench: build $(TEST_TOOLS) $(BENCHTABLE) ## Run the benchmarks and compare them with the aims and with other projects
	exec $(TOOLS)/local supervise bash -o pipefail -c "go test $(BENCH_FLAGS) ./... | $(BENCHTABLE)"

.PHONY: bench-short
bench-short: build $(TEST_TOOLS) $(BENCHTABLE) ## Run each benchmark once, with few objects
	exec $(TOOLS)/local supervise bash -o pipefail -c "go test $(BENCH_FLAGS) -short -benchtime 1x ./... | $(BENCHTABLE)"

.PHONY: lint
lint: .tools/golangci-lint.mod ## Check style, formatting and the direction of imports
	$(GOLANGCI_LINT) run ./...
	cd $(BENCHTABLE_MODULE) && GOWORK=off ../../$(GOLANGCI_LINT) run ./...
	cd $(IMAGE_MODULE) && GOWORK=off ../../$(GOLANGCI_LINT) run ./...

.PHONY: verify
verify: .tools/controller-gen.mod ## Check that generated files are up to date and that go.mod files are tidy
	tools/verify

##@ Build

.PHONY: build
build: $(TOOLS)/local bin/manager ## Build bin/manager

.PHONY: image
image: ## Build the container image as an OCI layout in dist/image
	GOWORK=off go run -C $(IMAGE_MODULE) . -source $(CURDIR) -output $(CURDIR)/dist/image

.PHONY: image-push
image-push: ## Build the container image and push it: IMAGE=registry.example.com/upright:v0.2.0 make image-push
	@test -n "$(IMAGE)" || { echo 'image-push: set IMAGE, for example IMAGE=registry.example.com/upright:v0.2.0' >&2; exit 1; }
	GOWORK=off go run -C $(IMAGE_MODULE) . -source $(CURDIR) -output $(CURDIR)/dist/image -push $(IMAGE)

.PHONY: generate
generate: .tools/controller-gen.mod ## Generate deepcopy functions, CRDs and RBAC from the Go code
	$(CONTROLLER_GEN) object paths=./apis/...
	$(CONTROLLER_GEN) crd paths=./apis/... output:crd:dir=deploy/crds
	$(CONTROLLER_GEN) rbac:roleName=upright-manager paths=./controllers/... paths=./cmd/... output:rbac:dir=deploy/rbac
	@mkdir -p $(CHART)/files/crds
	cp deploy/crds/*_*.yaml $(CHART)/files/crds/
	cp deploy/admission/sizing.yaml deploy/rbac/{role,leader_election,user_roles,metrics_reader}.yaml $(CHART)/files/

.PHONY: tools
tools: $(patsubst tools/%/go.mod,.tools/%.mod,$(PINNED_TOOLS)) $(BENCHTABLE) bin/kubectl bin/helm bin/helm3 ## Build all tools

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Always run the go command, which rebuilds only what is out of date.
.PHONY: bin/manager $(TOOLS)/local $(BENCHTABLE)
bin/manager:
	$(STATIC) go build -trimpath -o $@ ./cmd/manager

$(TOOLS)/local:
	$(STATIC) go build -trimpath -o $@ ./e2e/local

$(BENCHTABLE):
	GOWORK=off go build -C $(BENCHTABLE_MODULE) -o ../../$@ .

.tools/%.mod: tools/%/go.mod tools/%/go.sum tools/build
	@tools/build $*

bin/kubectl: .tools/kubernetes.mod
bin/helm: .tools/helm.mod
bin/helm3: .tools/helm3.mod
bin/kubectl bin/helm bin/helm3:
	@mkdir -p bin && ln -sfn ../$(TOOLS)/$(@F) $@
