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
LOCK = $(PY) -m uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --exclude-newer '7 days' --custom-compile-command 'make lock' --quiet $(if $(UPGRADE),--upgrade)

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
	  /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
	$(PY) -m mypy $(SOURCES)
	$(VENV)/bin/lint-imports --no-logo

.PHONY: fmt
fmt: setup ## Format the code and mend what ruff can mend
	$(PY) -m ruff check --fix $(SOURCES)
	$(PY) -m ruff format $(SOURCES)

.PHONY: golden-update
golden-update: setup ## Write the golden manifests anew; read the diff before you commit it
	GOLDEN_UPDATE=1 $(PY) -m pytest operator/tests/golden $(ARGS)

.PHONY: lock
lock: setup ## Pin requirements*.txt anew, with hashes, to packages at least a week old (UPGRADE=1: newest allowed)
	$(LOCK) --extra otlp --output-file requirements.txt
	$(LOCK) --extra otlp --extra dev --constraint requirements.txt --output-file requirements-dev.txt

.PHONY: clean
clean: ## Remove .venv and the tools' caches (not the control plane's binaries)
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Generated files

.PHONY: generate
generate: setup ## Models and permissions -> CRD, RBAC, API reference: what is out of date is written anew
	$(PY) -m memcached_operator.codegen

.PHONY: manifests
manifests: generate ## The same, by the name that other operators give it

.PHONY: verify-generate
verify-generate: setup ## Fail when a generated file is out of date
	$(PY) -m memcached_operator.codegen --check

##@ The current cluster

.PHONY: install
install: setup manifests ## Install the CRD
	$(KUBECTL) apply --server-side -k config/crd

.PHONY: uninstall
uninstall: setup ## Remove the CRD, and with it every Memcached
	$(KUBECTL) delete --ignore-not-found -k config/crd

.PHONY: run
run: setup ## Run the operator here, outside the cluster (ARGS=... goes to it; --help lists the flags)
	$(PY) -m memcached_operator run --no-leader-elect \
	  --metrics-bind-address 127.0.0.1:8080 --health-probe-bind-address 127.0.0.1:8081 $(ARGS)
