# Two commands matter on a fresh machine: `make demo` and `make test`. Each sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit check format bench repro docs clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: $(READY) ## create .venv and install Wiesel with everything the targets below need

# torch comes first and exactly: a looser request would fetch gigabytes of CUDA.
$(DEMO_READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) -e '.[demo]'
	touch $(DEMO_READY)

$(READY): $(DEMO_READY)
	$(PIP) -e '.[demo,plots,text,transformers,ray,dev]'
	touch $(READY)

demo: $(DEMO_READY) ## train WeaSEL on 20,000 movie reviews without labels and explain what it learned
	$(BIN)/wiesel run examples/movies

test: check ## lint, type-check and run every test
	$(BIN)/python -m pytest -q

test-unit: $(READY) ## the fast tests only, under a minute
	$(BIN)/python -m pytest -q -m "not slow and not data"

check: $(READY) ## format, lint and types, without the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## rewrite the files the way `make check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## time Wiesel beside its peers (installs them in an environment of their own)
	$(BIN)/python -m benchmarks

repro: $(READY) ## rerun every table and figure of the paper in its reduced form (about 2 hours on 2 cores)
	$(BIN)/python -m experiments all --jobs 2

docs: $(READY) ## regenerate the reference pages under docs/
	$(BIN)/python docs/generate.py

clean: ## remove what the other targets created
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
