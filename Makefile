# Each target makes the virtual environment it needs; nothing else has to be installed by hand.
PYTHON ?= python3
VENV ?= .venv
# One more than slow cores: tests also wait, for locks and other processes.
PROCESSES ?= 3
TESTS ?=
# Exact versions of everything that is installed, also of what builds packages; none: the newest.
LOCK ?= constraints.txt
UPGRADE ?= --upgrade
BIN := $(VENV)/bin
# The hundreds of processes of the tests compile a library once.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal
# Take long and rarely fail alone: `make check` runs them, and `make test` those that TESTS names.
LONG := bench docs_site test_docs.py $(addprefix retrieval/,cluster crashes exporting integrations \
  server test_remote_collection.py collection/test_forks.py ingest/test_batches.py \
  ingest/test_moments.py ingest/test_preparing.py ingest/test_undoing.py \
  search/test_level_of_cosines.py store/test_rebuilding.py store/test_trailing.py)
SMALL := $(addprefix indexes/,codes search vectors) $(addprefix retrieval/,lexical sources store) system

.PHONY: demo test check style compiled small sweep explore newest lock manual pictures docs api dist sbom clean

demo: $(VENV)/demo  ## Index the standard library's docstrings and search them.
	$(BIN)/slimdex demo

test: $(VENV)/ready  ## The core, without examples of docstrings; with TESTS, those.
	$(PYTEST) $(or $(TESTS),tests $(LONG:%=--ignore=tests/%))

check: $(VENV)/ready  ## What CI runs: style, imports, dead code, types, every test, sampled sweeps.
	$(MAKE) --jobs 2 style compiled
	$(PYTEST) -m "" --durations 20 $(TESTS)

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/mypy
	$(BIN)/mypy docs/site/*.py

# What tests import is compiled once, on the core that `style` leaves idle, and not by each process.
compiled:
	-$(BIN)/python -m pytest -q --collect-only -m "" >/dev/null

small: $(VENV)/small  ## What reads and stores, without encoders: for another Python.
	$(PYTEST) $(SMALL:%=tests/%)

sweep: $(VENV)/ready  ## Long sweeps whole; counts go to bench-results/sweep-counts.jsonl.
	SLIMDEX_SWEEP=1 $(PYTEST) -m sweep $(TESTS)

# A seed is new and printed; `make explore SEED=n` tries the same again.
explore: SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
explore: $(VENV)/ready  ## What no run has tried: another seed, more random examples.
	SLIMDEX_EXPLORE=1 SLIMDEX_SEED=$(SEED) \
	  $(PYTEST) -m "hypothesis or sweep" --hypothesis-seed=$(SEED) $(TESTS)

newest:  ## The core tests with the newest releases that pyproject.toml allows.
	rm -rf $(VENV)-newest
	$(MAKE) test VENV=$(VENV)-newest LOCK=

lock: $(VENV)/python  ## Renew constraints.txt: the newest releases, on every system.
	$(INSTALL) uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-annotate \
	  --custom-compile-command "make lock" --no-emit-package slimdex $(UPGRADE) \
	  --output-file $(LOCK) pyproject.toml

manual: $(VENV)/ready  ## The manual page, docs/slimdex.1, which wheels install.
	$(BIN)/python docs/site/manual.py

pictures: $(VENV)/ready  ## The pictures in docs/pictures, of slimdex as it is now.
	PYTHONPATH=. $(BIN)/python docs/site/pictures.py
	PYTHONPATH=. $(BIN)/python docs/site/screens.py

docs: $(VENV)/docs  ## A site that needs no server: build/site/index.html; llms.txt.
	$(BIN)/python docs/site/build.py build

# A patch release must have lost nothing.
api: $(VENV)/docs  ## What the public names, slimdex.__all__, have lost since the last tag.
	$(BIN)/python docs/site/api_changes.py

# Two builds of one commit give the same wheel, byte for byte: files have the time of the commit.
dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
dist: $(VENV)/python  ## A source archive and a wheel, in dist/.
	$(INSTALL) build
	rm -rf dist build
	$(BIN)/python -m build

# Of a new environment: the wheel, and the libraries that it brings on this system.
sbom: dist  ## A software bill of materials (CycloneDX), in build/sbom/.
	$(INSTALL) cyclonedx-bom
	$(PYTHON) -m venv build/bare
	build/bare/bin/python -m pip install --quiet --no-compile dist/*.whl
	mkdir -p build/sbom
	$(BIN)/cyclonedx-py environment --output-reproducible \
	  --output-file build/sbom/slimdex.cdx.json build/bare

clean:
	rm -rf $(VENV) dist build slimdex-demo.index

$(VENV)/python: pyproject.toml $(LOCK)
	$(PYTHON) -m venv $(VENV)
	touch $@

# Without compiling: Python compiles the modules that it imports, and most are never imported.
INSTALL := PIP_CONSTRAINT=$(LOCK) $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

$(VENV)/demo: $(VENV)/python
	$(INSTALL) -e .
	touch $@

$(VENV)/docs: $(VENV)/python
	$(INSTALL) -e '.[docs]'
	touch $@ $(VENV)/demo

# Pip brings torch, of which a machine may have a build of its own, and uv what is left: it takes
# fifteen seconds, and pip two minutes.
$(VENV)/ready: $(VENV)/python
	$(INSTALL) uv torch
	UV_CONSTRAINT=$(LOCK) UV_BUILD_CONSTRAINT=$(LOCK) \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[test]'
	touch $@ $(VENV)/demo $(VENV)/docs

$(VENV)/small: $(VENV)/python
	$(INSTALL) -e '.[small]'
	touch $@ $(VENV)/demo
