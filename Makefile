PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TOOLS  := $(VENV)/tools

.PHONY: help install demo test faults fuzz load dist lock audit sbom

help:            ## say what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(VENV)/installed   ## make the environment with every extra

# Everything by its hash; then torch, by its version (supply/torch.txt says why), with what only its build needs.
$(VENV)/installed: pyproject.toml supply/development.txt supply/torch.txt hatch_build.py \
                   $(wildcard src/ndr/*/*.cpp src/ndr/*/*.h)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --no-deps --require-hashes -r supply/development.txt
	$(BIN)/pip install -q -r supply/torch.txt
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

$(TOOLS)/installed: supply/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install -q --no-deps --require-hashes -r supply/tools.txt
	@touch $@

demo: install    ## train a router here and now and show what it does
	$(BIN)/ndr demo

test: install    ## lint, types and every test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/view/find_browser.py
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

# The long ones put what they found into docs/reliability.md.
faults: install  ## harm commands 200 times; nothing may be lost
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --count 200 --page $(ARGUMENTS)

fuzz: install    ## a million hostile inputs for every parser
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --count 1000000 --guided --page $(ARGUMENTS)

load: install    ## 64 clients of every manner on the explorer for a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.load --clients 64 --seconds 60 --page $(ARGUMENTS)

# The time of the commit, so that nothing in the files depends on when they were built.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: install    ## build the wheel and the source archive, the same bytes every time
	$(BIN)/python -m build --no-isolation

lock: $(TOOLS)/installed   ## write the locks anew; UPGRADE=1 takes newer versions
	PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH" $(PYTHON) supply/lock.py $(if $(UPGRADE),--upgrade)

audit: $(TOOLS)/installed  ## look the locked versions up among the known vulnerabilities
	$(TOOLS)/bin/python supply/audit.py

sbom: install    ## write the bill of materials
	$(BIN)/python supply/bill.py dist/ndr.cdx.json
