# Each target makes the virtual environment it needs; nothing else has to be installed by hand.
PYTHON ?= python3
VENV ?= .venv
PROCESSES ?= 2
TESTS ?=
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal

.PHONY: demo test check sweep explore clean

demo: $(VENV)/demo  ## Index the standard library's docstrings and search them.
	$(BIN)/slimdex demo

test: $(VENV)/ready  ## The core, and what a change since main affects; with TESTS, those.
	$(PYTEST) $(or $(TESTS),--affected)

check: $(VENV)/ready  ## What CI runs: style, types, every test, long sweeps sampled.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -m "" --durations 20 $(TESTS)

sweep: $(VENV)/ready  ## Long sweeps whole; counts go to bench-results/sweep-counts.jsonl.
	SLIMDEX_SWEEP=1 $(PYTEST) -m sweep $(TESTS)

# A seed is new and printed; `make explore SEED=n` tries the same again.
explore: SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
explore: $(VENV)/ready  ## What no run has tried: another seed, more random examples.
	SLIMDEX_EXPLORE=1 SLIMDEX_SEED=$(SEED) \
	  $(PYTEST) -m "hypothesis or sweep" --hypothesis-seed=$(SEED) $(TESTS)

clean:
	rm -rf $(VENV) slimdex-demo.index

$(VENV)/python: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	touch $@

# Without compiling: Python compiles the modules that it imports, and most are never imported.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

$(VENV)/demo: $(VENV)/python
	$(INSTALL) -e .
	touch $@

$(VENV)/ready: $(VENV)/python
	$(INSTALL) -e '.[test]'
	touch $@ $(VENV)/demo
