PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help install demo test

help:            ## say what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(VENV)/installed   ## make the environment with every extra

$(VENV)/installed: pyproject.toml constraints.txt hatch_build.py $(wildcard src/ndr/*/*.cpp src/ndr/*/*.h)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

demo: install    ## train a router here and now and show what it does
	$(BIN)/ndr demo

test: install    ## lint, types and every test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/view/find_browser.py
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile
