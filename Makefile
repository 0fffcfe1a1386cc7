# Two commands matter on a fresh machine: `make demo` and `make test`. Each sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# As many workers as cores. Each takes a run of neighboring tests, so that fits which tests share stay shared.
WORKERS ?= auto
# Compiled files are kept: without them every worker and every process of a test compiles everything anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal
JITTER := WIESEL_JITTER=1e-6 ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Nehalem \
	NPY_DISABLE_CPU_FEATURES=X86_V3 ONEDNN_MAX_CPU_ISA=SSE41
NUMERIC_TESTS := tests/contracts tests/parity tests/unit/analysis tests/unit/end_to_end \
	tests/unit/evaluation tests/unit/features tests/unit/label_models tests/unit/nn \
	tests/unit/training tests/unit/test_compare.py tests/unit/test_explain.py src/wiesel

.DEFAULT_GOAL := help
.PHONY: help setup demo test browser test-unit test-cost test-shuffled test-jitter fuzz mutants check format bench repro docs screenshots clean

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
	$(PIP) -e '.[demo,export,plots,text,transformers,ray,workbench,dev]'
	touch $(READY)

demo: $(DEMO_READY) ## train on 20,000 movie reviews without labels and explain what was learned
	$(BIN)/wiesel run examples/movies

# The workbench is tested in a real browser: Debian's chromium, or the one WIESEL_CHROMIUM names.
browser: ## install chromium for the tests of the workbench, where it is missing
	@if [ -n "$$WIESEL_CHROMIUM" ] || command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing chromium, which the tests of the workbench drive"; \
	  (apt-get update -qq && apt-get install -y -qq chromium >/dev/null) || \
	    echo "chromium could not be installed: the browser tests will be skipped"; \
	else echo "there is no chromium, and only root can install it (apt-get install chromium):" \
	  "the browser tests will be skipped"; fi

test: check browser ## lint, type-check and run every test
	$(PYTEST)

test-unit: $(READY) ## the fast tests only, under a minute
	$(PYTEST) -m "not slow and not data"

SEED ?= 1
test-shuffled: $(READY) browser ## every test, in an order and with initial weights that SEED=7 decides
	$(PYTEST) --shuffle $(SEED)

test-cost: $(READY) browser ## every test, and where the processor time goes
	$(PYTEST) -p benchmarks.suite_cost

# Another processor: noise on drawn inputs and weights, and the plainest code of each library.
test-jitter: $(READY) ## the numeric tests with noise and without vector instructions
	OMP_NUM_THREADS=1 $(JITTER) $(PYTEST) $(NUMERIC_TESTS)
	OMP_NUM_THREADS=2 $(JITTER) $(PYTEST) $(NUMERIC_TESTS)

FUZZ_SECONDS ?= 3600
fuzz: $(READY) ## hostile files, killed processes, any votes: an hour of them (FUZZ_SECONDS=300 for less)
	WIESEL_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest -q -s --timeout 0 tests/fuzz

MUTANTS ?= 300
mutants: $(READY) ## would a wrong line be seen? changes 300 tokens and prints what no test sees (hours; resumes)
	$(BIN)/python -m benchmarks.mutants --seed $(SEED) --size $(MUTANTS)

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

docs: $(READY) ## build the site into site/, and write the generated pages of docs/ anew
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html"

PROJECTS ?=
screenshots: $(READY) browser ## every page of the workbench, of hard projects, into out/screenshots (PROJECTS="intents rare" for some)
	$(BIN)/python -m benchmarks.screenshots $(PROJECTS)

clean: ## remove what the other targets created
	rm -rf $(VENV) out build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
