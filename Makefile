# What a newcomer and CI type. Needs: Python >= 3.11 with venv, make, git.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
LOWEST := $(VENV)-lowest
WHEEL  := $(VENV)-wheel
INPUTS ?= 10000
FIRST  ?= 0

# Tests of what comes from other packages: operators, files, the command line.
LOWEST_TESTS := tests/cli/test_run.py tests/ops/test_decompositions.py tests/importing/test_opsets.py \
  tests/lower/test_lower_elementary.py tests/lower/test_signs_of_zeros.py \
  tests/run/onnxruntime/test_runtime_errors.py tests/results/test_saving.py tests/importing/test_onnx_cases.py \
  tests/test_versions.py tests/traps

PYTEST      := $(BIN)/pytest -n auto --dist worksteal
QUICK_TESTS := $(PYTEST) -m "not slow"

define LINT
$(BIN)/ruff check .
$(BIN)/ruff format --check .
$(BIN)/mypy
endef

# Debian keeps venv in a package of its own; root (a container, CI) can have it at once.
GET_VENV = { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
  apt-get update -qq && apt-get install -y -qq python3-venv; } >&2

.DEFAULT_GOAL := help
.PHONY: help demo quick test cover lowest soak docs release bench trampolines vendor fuzz clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

demo: $(VENV)/installed ## run and draw three models; results in demo-output/
	$(BIN)/mdf-loop demo

# Again and again while one works: seven minutes on two cores.
quick: $(VENV)/installed-dev ## lint, types, the tests that are not slow
	$(LINT)
	$(QUICK_TESTS)

test: $(VENV)/installed-dev ## lint, types, all tests (with documents and examples)
	$(LINT)
	$(PYTEST)

# Apart from the tests, since it doubles their time.
cover: $(VENV)/installed-dev ## which lines the tests run that are not slow; at least 95 %
	$(QUICK_TESTS) --cov --cov-report=term:skip-covered --cov-fail-under=95

lowest: $(LOWEST)/installed ## the demo and a part of the tests with the lowest versions that are allowed
	$(LOWEST)/bin/mdf-loop demo --output $(LOWEST)/demo-output
	$(LOWEST)/bin/pytest -q -n auto --dist worksteal -m "not slow" $(LOWEST_TESTS)

soak: $(VENV)/installed-dev ## try what can go wrong at any moment many times; takes an hour
	SOAK=1 $(PYTEST) -m soak

docs: $(VENV)/installed-dev ## write the generated parts of docs/reference/ anew, build the site in docs/_build/html
	$(BIN)/python docs/generate.py
	$(BIN)/python -m docs.site

# The last three lines try the wheel alone; PYTHON says with which Python.
release: $(VENV)/installed-dev ## wheel and sdist in dist/, checked; the demo of the wheel alone in a fresh environment
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv --clear $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	$(WHEEL)/bin/mdf-loop demo --output $(WHEEL)/demo-output

bench: $(VENV)/installed-dev ## measure and print; see docs/benchmarks.md
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

trampolines: $(VENV)/installed-dev ## write the files by which ONNX Runtime takes native loops
	$(BIN)/python .ci/trampolines.py

vendor: $(BIN)/python ## fetch elkjs, which lays out pages, from npm, and check its hash
	$(BIN)/python .ci/vendor.py

fuzz: $(VENV)/installed-dev ## break models, files and commands in 10 000 ways, or INPUTS=100000, from the seed FIRST=0 on
	$(BIN)/python -m tests.fuzz.run --stored --count $(INPUTS) --first $(FIRST)

clean: ## remove everything that was made here
	rm -rf $(VENV) $(LOWEST) $(WHEEL) demo-output dist build docs/_build .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp says which pyproject.toml was installed; a changed one is installed anew.

$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV), which takes a minute the first time"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV), which takes a minute the first time"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/installed

$(LOWEST)/installed: pyproject.toml .ci/lowest.py | $(BIN)/python
	@echo "installing into $(LOWEST), which takes a minute the first time"
	$(BIN)/python -m venv --clear $(LOWEST)
	$(BIN)/python .ci/lowest.py > $(LOWEST)/floors.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint $(LOWEST)/floors.txt --editable '.[dev]'
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || \
	  { echo "no '$(PYTHON)' here: install Python >= 3.11 (Debian: apt install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is too old: Python >= 3.11 is needed (make PYTHON=python3.12 ...)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(GET_VENV) || \
	  { echo "$(PYTHON) has no venv: install it first (Debian: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
