# Strop: `make help` lists what there is. Needs Python 3.11 or newer, make and git; uv is used when it is there.
#
#   PYTHON=…  the interpreter that makes the virtual environment     VENV=…  where it goes
#   JOBS=…    processes that run tests                               ARGS=…  handed to pytest
#   MODEL=smollm2  a small real model on the processor instead of the demo's scripted one
#   ALL=1     the demo installs and plays every environment of this repository

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
JOBS ?= 2
ARGS ?=
MODEL ?=
ALL ?=
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$name; break; fi; done)

# Installed once for each content of pyproject.toml, whatever a checkout does to its time.
DIGEST := $(shell git hash-object pyproject.toml | cut -c1-12)
HUB := $(VENV)/.installed-hub-$(DIGEST)
LOCAL := $(VENV)/.installed-local-$(DIGEST)
DEV := $(VENV)/.installed-dev-$(DIGEST)
BIN := $(VENV)/bin
INSTALL := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install -qq)
CHECKED := sdk hub_server environments migrations demo tests

.PHONY: help demo hub test test-all check fix bench docs clean

help: ## what there is
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

demo: $(HUB) $(if $(MODEL),$(LOCAL)) ## the whole journey on this machine: push, resolve, install, 64 rollouts
	@$(BIN)/python -m $(if $(ALL),demo.every,demo.run) $(MODEL)

hub: $(HUB) ## serve the hub that the demo filled
	@$(BIN)/python -m demo.serve

test: $(DEV) ## the daily tests, with the coverage of what has a floor
	@rm -f $(VENV)/.coverage* $(VENV)/unsteady.xml .pytest_cache/v/cache/lastfailed
	@status=0; export COVERAGE_FILE=$(abspath $(VENV))/.coverage; \
	COVERAGE_PROCESS_START=$(abspath pyproject.toml) $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup \
		-m 'not slow' -p tests.architecture.measuring $(ARGS) || \
		$(BIN)/python -m tests.architecture.unsteady $$? $(VENV)/unsteady.xml || status=1; \
	$(BIN)/coverage combine -q; \
	$(BIN)/coverage json -q -o $(VENV)/coverage.json 2>/dev/null; \
	$(BIN)/python -m tests.architecture.coverage_floors $(VENV)/coverage.json || status=1; \
	exit $$status

test-all: $(DEV) ## every test, the slow ones too
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

check: $(DEV) ## style, types, who may import whom, sizes
	@status=0; \
	$(BIN)/ruff check $(CHECKED) || status=1; \
	$(BIN)/ruff format --check $(CHECKED) || status=1; \
	$(BIN)/mypy || status=1; \
	$(BIN)/lint-imports --no-logo || status=1; \
	$(BIN)/python -m tests.architecture.sizes || status=1; \
	$(BIN)/python -m tests.architecture.hygiene || status=1; \
	exit $$status

fix: $(DEV) ## mend what can be mended without thinking
	@$(BIN)/ruff check --fix $(CHECKED)
	@$(BIN)/ruff format $(CHECKED)

bench: $(DEV) ## every benchmark, one after the other
	@$(BIN)/python -m tests.benchmarks

docs: $(DEV) ## whether the documentation names everything, and its examples run
	@$(BIN)/python -m pytest tests/architecture/test_documentation.py $(ARGS)

clean: ## the virtual environment and everything that the demo left
	@rm -rf $(VENV) .strop dist build

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "Strop needs Python 3.11 or newer and found none. Install one, or name it: make PYTHON=/path/to/python3.12 …" >&2; exit 2; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than Python 3.11, or does not run. Name another: make PYTHON=/path/to/python3.12 …" >&2; exit 2; }
	@if command -v uv >/dev/null; then uv venv --quiet --seed --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV); \
	else $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: its modules venv and ensurepip are missing. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }; \
	$(PYTHON) -m venv $(VENV); fi

$(HUB): | $(BIN)/python
	@echo "Installing strop[hub] into $(VENV)"
	@# A hub publishes the checkout that it runs from, which needs the build backend.
	@$(INSTALL) -e '.[hub]' 'hatchling>=1.27'
	@touch $@

$(LOCAL): | $(HUB)
	@echo "Installing strop[local] into $(VENV)"
	@$(INSTALL) -e '.[local]'
	@touch $@

$(DEV): | $(BIN)/python
	@echo "Installing strop[dev] into $(VENV)"
	@$(INSTALL) -e '.[dev]'
	@touch $(HUB) $@
