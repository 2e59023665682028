# `make help` lists the targets. Nothing is needed but Python 3.11+, make and git; targets that talk to a cluster use the
# current kubeconfig (KUBECONFIG, or ~/.kube/config).

.DEFAULT_GOAL := help
SHELL := /bin/sh
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# `make install run` means one after the other.
.NOTPARALLEL:

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
SOURCES := $(wildcard operator hack examples bench e2e)
KUBECTL ?= hack/kubectl

# A week: a hijacked release is usually found within days.
LOCK = $(PY) -m uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --exclude-newer '7 days' --custom-compile-command 'make lock' --quiet $(if $(UPGRADE),--upgrade)
# Dependency groups of pyproject.toml, each with an environment of its own: they hold each other back.
TOOL_GROUPS := build sbom checkov hadolint

VERSION ?= $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' operator/memcached_operator/__init__.py)
IMAGE_TAG_BASE ?= example.com/memcached-operator
IMG ?= $(IMAGE_TAG_BASE):v$(VERSION)
# The image of every Memcached that names none.
MEMCACHED_IMAGE ?= docker.io/library/memcached:1.6.45

# For example: make test ARGS='-k paused -x'
ARGS ?=

##@ Start here

.PHONY: demo
demo: setup ## A real control plane, the operator on it, and its story on the terminal (KEEP=1 leaves it running)
	$(PY) hack/demo.py $(if $(KEEP),--keep)

.PHONY: test
test: setup ## All tests: unit, golden, property, scenario, integration (ARGS=... goes to pytest)
	$(PY) -m pytest $(ARGS)

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "; printf "usage: make TARGET\n"} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Development

.PHONY: setup
setup: $(READY) ## Make .venv from the locked packages (does nothing when nothing changed)

$(READY): pyproject.toml requirements-dev.txt hack/setup
	@hack/setup
	@touch $@

.PHONY: unit
unit: setup ## Tests without a cluster: unit, golden, property, scenario; seconds
	$(PY) -m pytest -m "not integration" $(ARGS)

.PHONY: integration
integration: setup ## Tests on a real kube-apiserver and etcd
	$(PY) -m pytest -m integration $(ARGS)

.PHONY: lint
lint: setup ## ruff, mypy --strict, import-linter
	$(PY) -m ruff check --output-format concise $(SOURCES)
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m mypy $(filter-out e2e,$(SOURCES))
	$(PY) -m mypy e2e
	$(VENV)/bin/lint-imports --no-logo

.PHONY: fmt
fmt: setup ## Format the code and mend what ruff can mend
	$(PY) -m ruff check --fix $(SOURCES)
	$(PY) -m ruff format $(SOURCES)

.PHONY: golden-update
golden-update: setup ## Write the golden manifests anew; read the diff before you commit it
	GOLDEN_UPDATE=1 $(PY) -m pytest operator/tests/golden $(ARGS)

.PHONY: lock
lock: setup ## Pin requirements*.txt and hack/requirements-*.txt anew, to releases a week old (UPGRADE=1: newest allowed)
	$(LOCK) pyproject.toml --extra otlp --output-file requirements.txt
	$(LOCK) pyproject.toml --extra otlp --extra dev --constraint requirements.txt --output-file requirements-dev.txt
	for group in $(TOOL_GROUPS); do $(LOCK) --group $$group --output-file hack/requirements-$$group.txt || exit; done

.PHONY: clean
clean: ## Remove .venv and the tools' caches (not the control plane's binaries)
	rm -rf $(VENV) .cache/env dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Benchmark

BENCH = PYTHONPATH=hack $(PY) -m

.PHONY: bench-check
bench-check: setup ## What no busy machine can blur: requests, bytes held, instructions, against bench/limits.json
	$(BENCH) bench.check $(ARGS)

.PHONY: bench
bench: setup ## One pair against a Go peer, 300 resources, minutes (NOISY=1: on a busy machine too; ARGS='--n 100 --peers go-best')
	$(BENCH) bench quick $(if $(NOISY),--noisy) $(ARGS)

.PHONY: bench-full
bench-full: setup ## Everything in docs/performance.md, hours; goes on where it was interrupted
	$(BENCH) bench full $(if $(NOISY),--noisy) $(ARGS)

.PHONY: bench-flame
bench-flame: setup ## Where the operator's CPU goes while resources are created, as an SVG; needs py-spy
	$(BENCH) bench.flame $(ARGS)

.PHONY: bench-report
bench-report: setup ## Write docs/performance.md anew from bench/results.jsonl
	$(BENCH) bench report $(ARGS)

##@ Faults

FAULTS = $(PY) -m pytest
SMOKE := A27,B01,C13,D04,E08,F06,G04,H03,K07,L12

.PHONY: faults
faults: setup ## Every fault of the catalogue, the kill matrix, seeded bugs (CASES=A,C01 BUDGET=60 SHARD=1/4 FRESH=1)
	CASES='$(CASES)' BUDGET='$(or $(BUDGET),0)' SHARD='$(or $(SHARD),1/1)' FRESH='$(FRESH)' \
	  $(FAULTS) $(if $(CASES),operator/tests/faults/test_faults_catalogue.py,operator/tests/faults) $(ARGS)

.PHONY: faults-smoke
faults-smoke: setup ## One case of each class, one story of the kill matrix and one seeded bug: minutes
	CASES=$(SMOKE) FRESH=1 $(FAULTS) operator/tests/faults/test_faults_catalogue.py \
	  'operator/tests/faults/test_faults_kills.py::test_ended_at_every_write[create-SIGKILL]' \
	  'operator/tests/faults/test_faults_seeds.py::test_a_seeded_bug_is_caught[the finalizer is never removed]' $(ARGS)

.PHONY: faults-page
faults-page: setup ## Write the results of `make faults` into docs/reliability.md
	PYTHONPATH=hack $(PY) -m faultrig.page

.PHONY: soak
soak: setup ## Ten edits a second for MINUTES=30, and what the operator holds meanwhile
	MINUTES=$(or $(MINUTES),30) FRESH=1 $(FAULTS) operator/tests/faults/test_faults_soak.py $(ARGS)
	PYTHONPATH=hack $(PY) -m faultrig.picture

##@ Generated files

.PHONY: generate
generate: setup ## Models and permissions -> CRD, RBAC, API reference: what is out of date is written anew
	$(PY) -m memcached_operator.codegen

.PHONY: manifests
manifests: generate ## The same, by the name that other operators give it

.PHONY: verify-generate
verify-generate: setup ## Fail when a generated file is out of date
	$(PY) -m memcached_operator.codegen --check

# What `make verify-packaging` asks for.
PACKAGING_TOOLS := go helm helm-docs kubeconform kustomize operator-sdk opm

.PHONY: packaging-tools
packaging-tools: ## Print where the programs of verify-packaging are, or how to get those that are missing
	@hack/tool $(PACKAGING_TOOLS)

.PHONY: verify-packaging
verify-packaging: setup packaging-tools ## Judge what is shipped: kustomize output, chart, bundle, catalog (ARGS=... goes to pytest)
	$(PY) -m pytest operator/tests/packaging $(ARGS)

##@ Image

CONTAINER_TOOL ?= docker
# Any base with Python 3.13 and pip, best pinned by its digest. Empty: the Dockerfile's.
BASE_IMAGE ?=
# For example linux/arm64. Empty: this machine's.
PLATFORM ?=
PLATFORMS ?= linux/amd64,linux/arm64
REVISION ?= $(or $(shell git describe --always --abbrev=40 --dirty --exclude '*' 2>/dev/null),unknown)
# The commit's time, not the clock's: the same commit has the same labels.
SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)
CREATED = $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%FT%TZ 2>/dev/null || date -u -r $(SOURCE_DATE_EPOCH) +%FT%TZ)
IMAGE_ARGS = --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) --build-arg CREATED=$(CREATED) \
  $(if $(BASE_IMAGE),--build-arg BASE_IMAGE=$(BASE_IMAGE))

.PHONY: docker-build
docker-build: ## Build the operator's image IMG (CONTAINER_TOOL=podman, PLATFORM=linux/arm64, BASE_IMAGE=...)
	$(CONTAINER_TOOL) build $(if $(PLATFORM),--platform $(PLATFORM)) $(IMAGE_ARGS) --tag $(IMG) .

.PHONY: docker-push
docker-push: ## Push the image IMG
	$(CONTAINER_TOOL) push $(IMG)

.PHONY: docker-buildx
docker-buildx: ## Build IMG for all of PLATFORMS and push it (emulated where the machine is another)
ifeq ($(notdir $(CONTAINER_TOOL)),podman)
	-$(CONTAINER_TOOL) manifest rm $(IMG) 2>/dev/null
	$(CONTAINER_TOOL) build --platform $(PLATFORMS) $(IMAGE_ARGS) --manifest $(IMG) .
	$(CONTAINER_TOOL) manifest push --all $(IMG) docker://$(IMG)
else
	@$(CONTAINER_TOOL) buildx version >/dev/null 2>&1 || { \
	  echo "make docker-buildx: $(CONTAINER_TOOL) has no buildx. Install it (docs.docker.com/go/buildx), or take" \
	  "CONTAINER_TOOL=podman, or make docker-build for one platform." >&2; exit 1; }
	$(CONTAINER_TOOL) buildx build --platform $(PLATFORMS) $(IMAGE_ARGS) --tag $(IMG) --push .
endif

# Environments of the dependency groups in pyproject.toml, locked in hack/requirements-GROUP.txt.
.cache/env/%/.ready: hack/requirements-%.txt | setup
	$(PY) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.PHONY: sbom
sbom: setup .cache/env/sbom/.ready ## Write dist/sbom.cdx.json: what the image holds beyond its base (CycloneDX)
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) hack/sbom dist/sbom.cdx.json

.PHONY: scan
scan: setup .cache/env/hadolint/.ready .cache/env/checkov/.ready ## hadolint and checkov over Dockerfiles, config and chart
	@KUSTOMIZE='$(KUSTOMIZE)' HELM='$(HELM)' $(PY) hack/scan.py

##@ OLM

BUNDLE_IMG ?= $(IMAGE_TAG_BASE)-bundle:v$(VERSION)
CATALOG_IMG ?= $(IMAGE_TAG_BASE)-catalog:v$(VERSION)
# Every bundle that the catalog offers.
BUNDLE_IMGS ?= $(BUNDLE_IMG)
CHANNELS ?= candidate
DEFAULT_CHANNEL ?= candidate
# true: the bundle names its images by digest; they have to be in their registry.
USE_IMAGE_DIGESTS ?= false
# Folder of bundle/ and bundle.Dockerfile. Another than this one leaves the committed bundle as it is.
BUNDLE_ROOT ?= .
CATALOG_BASE_IMG ?= quay.io/operator-framework/opm:v1.73.0
OPERATOR_SDK ?= operator-sdk
OPM ?= opm

.PHONY: bundle
bundle: setup manifests ## Make bundle/ anew for IMG and VERSION (CHANNELS, DEFAULT_CHANNEL, USE_IMAGE_DIGESTS=true)
	OPERATOR_SDK='$(OPERATOR_SDK)' KUSTOMIZE='$(KUSTOMIZE)' $(PY) hack/bundle.py --version $(VERSION) --image $(IMG) \
	  --memcached-image $(MEMCACHED_IMAGE) --channels $(CHANNELS) --default-channel '$(DEFAULT_CHANNEL)' \
	  --output '$(BUNDLE_ROOT)' $(if $(filter true,$(USE_IMAGE_DIGESTS)),--use-image-digests)

.PHONY: bundle-build
bundle-build: ## Build the bundle's image BUNDLE_IMG
	$(CONTAINER_TOOL) build -f '$(BUNDLE_ROOT)/bundle.Dockerfile' -t $(BUNDLE_IMG) '$(BUNDLE_ROOT)'

.PHONY: bundle-push
bundle-push: ## Push the bundle's image
	$(MAKE) docker-push IMG=$(BUNDLE_IMG)

.PHONY: catalog-build
catalog-build: setup ## Build the catalog CATALOG_IMG of the pushed bundles BUNDLE_IMGS (CATALOG_BASE_IMG=... with opm)
	OPM='$(OPM)' $(PY) hack/catalog.py $(BUNDLE_IMGS)
	$(CONTAINER_TOOL) build -f catalog.Dockerfile --build-arg CATALOG_BASE_IMG=$(CATALOG_BASE_IMG) -t $(CATALOG_IMG) .

.PHONY: catalog-push
catalog-push: ## Push the catalog's image
	$(MAKE) docker-push IMG=$(CATALOG_IMG)

.PHONY: previous-release
previous-release: setup ## Build the release before this one: chart, bundle, images (PUSH=true pushes them)
	CONTAINER_TOOL=$(CONTAINER_TOOL) IMAGE_TAG_BASE=$(IMAGE_TAG_BASE) MEMCACHED_IMAGE=$(MEMCACHED_IMAGE) \
	  PUSH=$(PUSH) hack/previous-release.sh

##@ Helm

HELM ?= helm
HELM_DOCS ?= helm-docs
CHART := helm/memcached-operator
RELEASE ?= memcached-operator
RELEASE_NAMESPACE ?= memcached-operator-system

.PHONY: helm-lint
helm-lint: ## helm lint --strict, with the default values and with each file of ci/
	@HELM='$(HELM)' hack/tool helm >/dev/null
	$(HELM) lint --strict $(CHART)
	for values in $(CHART)/ci/*-values.yaml; do $(HELM) lint --strict $(CHART) --values $$values || exit; done

.PHONY: helm-package
helm-package: ## Pack the chart into dist/, with IMG and MEMCACHED_IMAGE as its defaults
	HELM='$(HELM)' hack/package-chart $(VERSION) $(IMG) $(MEMCACHED_IMAGE)

.PHONY: helm-docs
helm-docs: ## Write the chart's README.md anew, from the comments of values.yaml
	@HELM_DOCS='$(HELM_DOCS)' hack/tool helm-docs >/dev/null
	$(HELM_DOCS) --chart-search-root $(CHART) --sort-values-order file --log-level warning

.PHONY: helm-install
helm-install: helm-package ## Install or upgrade RELEASE in RELEASE_NAMESPACE (ARGS='--set replicas=2')
	$(HELM) upgrade --install $(RELEASE) dist/memcached-operator-$(VERSION).tgz \
	  --namespace $(RELEASE_NAMESPACE) --create-namespace --wait $(ARGS)

.PHONY: helm-uninstall
helm-uninstall: ## Uninstall RELEASE; the CRD and every Memcached stay
	$(HELM) uninstall $(RELEASE) --namespace $(RELEASE_NAMESPACE) --wait $(ARGS)

##@ End to end, on a kind cluster

# manifests, helm, olm, ha or api-conformance; empty: all.
E2E ?=
KIND ?= kind
KIND_NODE_IMAGE ?=
E2E_CLUSTER ?= memcached-operator-e2e
# Three nodes. A suite that needs them says so on a smaller cluster.
E2E_CLUSTER_CONFIG ?= e2e/kind.yaml
E2E_KUBECONFIG ?= $(CURDIR)/.cache/e2e/$(E2E_CLUSTER).kubeconfig
E2E_KUBECTL ?= kubectl
# host:port/path of a registry that this machine pushes to and the cluster pulls from; for OLM, which pulls everything.
E2E_REGISTRY ?=
# Flags for operator-sdk where the cluster cannot pull the images that it names itself.
E2E_RUN_BUNDLE_FLAGS ?=
E2E_SCORECARD_FLAGS ?=
E2E_TOOLS = KIND='$(KIND)' KUBECTL='$(E2E_KUBECTL)' hack/tool
export E2E_REGISTRY E2E_RUN_BUNDLE_FLAGS E2E_SCORECARD_FLAGS

.PHONY: e2e
e2e: e2e-up ## Tests on a real cluster (E2E=manifests, helm, olm, ha or api-conformance for one suite; ARGS=... to pytest)
	MEMCACHED_IMAGE='$(MEMCACHED_IMAGE)' CONTAINER_TOOL='$(CONTAINER_TOOL)' HELM='$(HELM)' \
	$(PY) -m pytest $(if $(E2E),e2e/test_$(subst -,_,$(E2E)).py,e2e) --cluster-name $(E2E_CLUSTER) --keep-cluster \
	  --kubeconfig '$(E2E_KUBECONFIG)' --kind-bin "$$($(E2E_TOOLS) kind)" --kind-kubectl-bin "$$($(E2E_TOOLS) kubectl)" $(ARGS)

.PHONY: e2e-mutants
e2e-mutants: e2e-up ## Ten operators with one mistake each: which test notices? (ARGS='"UDP on"': only that one)
	CONTAINER_TOOL='$(CONTAINER_TOOL)' $(PY) hack/mutants.py $(ARGS)

.PHONY: e2e-up
e2e-up: setup ## Make the kind cluster of the end-to-end tests, unless it is there
	@$(E2E_TOOLS) kind kubectl $(notdir $(CONTAINER_TOOL)) >/dev/null
	@mkdir -p '$(dir $(E2E_KUBECONFIG))'
	@$(KIND) get clusters -q | grep -qx '$(E2E_CLUSTER)' || $(KIND) create cluster --name '$(E2E_CLUSTER)' \
	  --config '$(E2E_CLUSTER_CONFIG)' --kubeconfig '$(E2E_KUBECONFIG)' \
	  $(if $(KIND_NODE_IMAGE),--image '$(KIND_NODE_IMAGE)') --wait 120s

.PHONY: e2e-down
e2e-down: ## Delete that cluster
	$(KIND) delete cluster --name '$(E2E_CLUSTER)'

##@ Monitoring and releases

PROMTOOL ?= promtool

.PHONY: verify-alerts
verify-alerts: setup ## Test the alert rules of config/prometheus, and the dashboard's queries, with promtool
	@PROMTOOL='$(PROMTOOL)' hack/tool promtool >/dev/null
	$(PROMTOOL) check rules config/prometheus/alerts.yaml
	$(PROMTOOL) test rules config/prometheus/alerts_test.yaml
	mkdir -p .cache && $(PY) hack/monitoring.py >.cache/dashboard-rules.yaml
	$(PROMTOOL) check rules .cache/dashboard-rules.yaml

.PHONY: release
release: setup ## Write VERSION=x.y.z into every place, and the changelog's section (ARGS=--dry-run: only say what)
	OPERATOR_SDK='$(OPERATOR_SDK)' KUSTOMIZE='$(KUSTOMIZE)' $(PY) hack/release.py $(VERSION) $(ARGS)

##@ The current cluster

# Manifests with the images of IMG and MEMCACHED_IMAGE in them; no tracked file is changed.
RENDER = KUSTOMIZE='$(KUSTOMIZE)' IMG='$(IMG)' MEMCACHED_IMAGE='$(MEMCACHED_IMAGE)' hack/render
# Optional components of config/, for example: make deploy WITH='high-availability prometheus'
WITH ?=
# config/namespaced: rights in namespaces instead of the whole cluster.
OVERLAY ?= config/default
ignore-not-found ?= false

.PHONY: install
install: setup manifests ## Install the CRD
	$(RENDER) config/crd | $(KUBECTL) apply --server-side --force-conflicts -f -

.PHONY: uninstall
uninstall: setup ## Remove the CRD, and with it every Memcached (ignore-not-found=true: no error when it is not there)
	$(RENDER) config/crd | $(KUBECTL) delete --ignore-not-found=$(ignore-not-found) -f -

.PHONY: deploy
deploy: setup manifests ## Install CRD and operator: IMG=..., MEMCACHED_IMAGE=..., WITH='high-availability ...'
	$(RENDER) $(OVERLAY) $(WITH) | $(KUBECTL) apply --server-side --force-conflicts -f -

# The CRD goes first, while the operator runs: a Memcached with deletionPolicy Drain waits for it to be drained.
.PHONY: undeploy
undeploy: uninstall ## Remove CRD, every Memcached, and the operator (OVERLAY, WITH as in deploy; ignore-not-found=true)
	$(RENDER) $(OVERLAY) $(WITH) | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: build-installer
build-installer: setup manifests ## Write dist/install.yaml: CRD and operator in one file, for kubectl apply
	mkdir -p dist
	$(RENDER) $(OVERLAY) $(WITH) > dist/install.yaml.new
	mv dist/install.yaml.new dist/install.yaml

.PHONY: run
run: setup ## Run the operator here, outside the cluster (ARGS=... goes to it; --help lists the flags)
	$(PY) -m memcached_operator run --no-leader-elect \
	  --metrics-bind-address 127.0.0.1:8080 --health-probe-bind-address 127.0.0.1:8081 $(ARGS)
