# make run      sets up .venv, runs every chapter and builds the book in _build/html
# make test     sets up .venv and runs lint, format, types and every test
# make lab      JupyterLab on the chapters
# make bench    minimlc and its peers side by side, and the README's table of figures
# make refresh  re-executes the chapters in place and stores their outputs
#
# PYTHON chooses the interpreter (3.11 or newer), VENV the folder of the environment.

PYTHON ?= python3
VENV ?= .venv
BENCH ?= all
PYTEST_ARGS ?=

PY := $(VENV)/bin/python
# The environment is made anew for another Python, and brought up to date for another lock.
KEY := $(shell $(PYTHON) -c 'import sys, zlib; v = sys.version_info; assert v >= (3, 11); \
	print("%d.%d-%08x" % (v[0], v[1], zlib.crc32(open("requirements.lock", "rb").read())))' \
	2>/dev/null)
LOCKED := $(VENV)/locked-$(KEY)
READY := $(VENV)/ready-$(KEY)

.DEFAULT_GOAL := run
.PHONY: run test lab bench refresh setup lint types quick lock clean

run: $(READY)
	$(PY) -m notebooks

test: lint types
	$(PY) -m pytest $(PYTEST_ARGS)

# Everything but the notebooks and the browser: the seconds-long loop while developing.
quick: $(READY)
	$(PY) -m pytest --ignore=tests/notebooks --ignore=tests/browser \
		--ignore=tests/homework/test_notebooks.py --ignore=tests/homework/test_nbgrader.py $(PYTEST_ARGS)

lab: $(READY)
	$(PY) -m jupyterlab notebooks

bench: $(READY)
	$(PY) -m benchmarks $(BENCH)

refresh: $(READY)
	$(PY) -m notebooks refresh

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(READY)
	$(PY) -m mypy

setup: $(READY)

$(LOCKED):
	@test -n "$(KEY)" || { echo "minimlc needs Python 3.11 or newer; $(PYTHON) is not:" \
		"try make PYTHON=python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $$(test "$$($(PY) -c $(VERSION) 2>/dev/null)" = "$$($(PYTHON) -c $(VERSION))" \
		|| echo --clear) $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@rm -f $(VENV)/locked-* $(VENV)/ready-*
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

VERSION := 'import sys; print(sys.version_info[:2])'

# Needs uv (https://docs.astral.sh/uv/).
lock:
	uv pip compile pyproject.toml --extra dev --extra browser --extra onnx --extra homework --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" -o requirements.lock

clean:
	rm -rf _build build dist .venv .mypy_cache .pytest_cache .ruff_cache *.egg-info
