# make run      sets up .venv, runs every chapter and builds the book in _build/html
# make test     sets up .venv and runs lint, format, types, every test, and `make masked`
# make masked   what depends on the CPU, on hosts that hide part of what theirs has
# make lab      JupyterLab on the chapters
# make bench    minimlc and its peers side by side, and the tables of figures
# make refresh  re-executes the chapters in place and stores their outputs
#
# PYTHON chooses the interpreter (3.11 or newer), VENV the folder of the environment.

PYTHON ?= python3
VENV ?= .venv
BENCH ?= all
PYTEST_ARGS ?=
# Processes that share the tests; what PYTEST_ARGS says comes later and wins. A process that dies
# ends the run: xdist 3.8 can wait forever for the rest of its tests.
JOBS ?= 3
SHARED = -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# A name from `qemu-x86_64 -cpu help`, for `make emulated`.
CPU ?= Nehalem

# Chapters and tests start hundreds of processes: each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

PY := $(VENV)/bin/python
# To run the chapters, to work in them, and to test as well. Each is brought up to date for another
# lock, and the environment is made anew for another Python.
RUN_LOCK := requirements-run.lock
LAB_LOCK := requirements-lab.lock
TEST_LOCK := requirements.lock
KEYS := $(shell $(PYTHON) -c 'import sys, zlib; v = sys.version_info; assert v >= (3, 11); \
	print(*["%d.%d-%08x" % (v[0], v[1], zlib.crc32(open(name, "rb").read())) \
	for name in sys.argv[1:]])' $(RUN_LOCK) $(LAB_LOCK) $(TEST_LOCK) 2>/dev/null)
RUNS := $(VENV)/runs-$(word 1,$(KEYS))
LABS := $(VENV)/labs-$(word 2,$(KEYS))
TESTS := $(VENV)/tests-$(word 3,$(KEYS))

.DEFAULT_GOAL := run
.PHONY: run test masked lab bench refresh setup lint types quick emulated lock clean

run: $(RUNS)
	$(PY) -m notebooks

# Types are checked beside the tests, which do not keep all processors busy to the end.
test: lint
	@$(PY) -m mypy & types=$$!; \
		$(PY) -m pytest $(SHARED) $(PYTEST_ARGS); tests=$$?; \
		wait $$types && exit $$tests
	$(on_masked_hosts)

# On hosts that hide part of what their CPU has, as virtual machines do, what depends on the CPU once
# more: code for more than the host has is refused there, on whatever machine this runs. A few of many
# cases each, and nothing is required that `make test` has not required already.
MASKS = no-avx512 x86-64-v2
MASKED = tests/recipes tests/codegen tests/runtime tests/tune \
	tests/homework/test_submission.py tests/homework/test_search.py \
	"tests/notebooks/test_chapters.py::test_outputs_are_the_stored_ones[03_schedules]" \
	"tests/notebooks/test_chapters.py::test_outputs_are_the_stored_ones[02_tensor_programs]"
UNMASKED = recipes/test_gpu codegen/test_python codegen/test_out_of_range codegen/test_new_target \
	runtime/test_hostile_arguments runtime/test_cache runtime/test_kept runtime/test_views \
	runtime/test_process tune/test_database tune/test_distributed tune/test_model
masked: $(TESTS)
	$(on_masked_hosts)

define on_masked_hosts
	@case "$$(uname -m)" in x86_64|amd64) ;; *) echo "masked hosts are x86-64 ones"; exit 0;; esac; \
	for host in $(MASKS); do \
		echo "== what depends on the CPU, on the host $$host"; \
		MINIMLC_TEST_HOST=$$host MINIMLC_REQUIRE= \
			$(PY) -m pytest $(SHARED) -m "not slow" $(UNMASKED:%=--ignore=tests/%.py) $(MASKED) \
			|| exit 1; \
	done
endef

# Everything but the notebooks and the browser: minutes, while developing.
quick: $(TESTS)
	$(PY) -m pytest $(SHARED) --ignore=tests/notebooks --ignore=tests/browser \
		--ignore=tests/homework/test_notebooks.py --ignore=tests/homework/test_nbgrader.py $(PYTEST_ARGS)

# On another CPU, the tests whose results could depend on it. Left out are the one that measures how
# fast the machine is and one in which qemu 7.2 ends with an assertion of its own: threads that a
# forked process starts after it forked. Needs qemu-user.
EMULATED = tests/codegen tests/recipes tests/runtime tests/passes tests/graph/test_ops.py \
	tests/test_target.py tests/test_run.py tests/tir/test_te.py
emulated: $(TESTS)
	@command -v qemu-x86_64 >/dev/null || { echo "make emulated needs qemu-x86_64" \
		"(on Debian: apt-get install qemu-user)" >&2; exit 1; }
	@sed -e 's|@CPU@|$(CPU)|g' -e 's|@HERE@|$(CURDIR)/tests/emulated|' \
		-e "s|@PYTHON@|$$(realpath $(PY))|" tests/emulated/python.in > $(VENV)/bin/python-$(CPU)
	@chmod +x $(VENV)/bin/python-$(CPU)
	$(VENV)/bin/python-$(CPU) -m pytest $(SHARED) -m "not slow" --timeout 3600 \
		--ignore-glob="*fuzz*" --ignore=tests/runtime/test_peaks.py \
		--deselect "tests/runtime/test_parallel.py::test_a_forked_child_can_have_threads_again[pool]" \
		$(PYTEST_ARGS) $(EMULATED)

# JupyterLab runs as root only if it is told to: in a container there is nobody else.
lab: $(LABS)
	$(PY) -m jupyterlab $$(test "$$(id -u)" -ne 0 || echo --allow-root) notebooks

bench: $(TESTS)
	$(PY) -m benchmarks $(BENCH)

refresh: $(RUNS)
	$(PY) -m notebooks refresh

lint: $(TESTS)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(TESTS)
	$(PY) -m mypy

setup: $(TESTS)

$(RUNS): pyproject.toml
	$(call install,$(RUN_LOCK))
	@touch $(RUNS)

$(LABS): pyproject.toml
	$(call install,$(LAB_LOCK))
	@touch $(RUNS) $(LABS)

$(TESTS): pyproject.toml
	$(call install,$(TEST_LOCK))
	@touch $(RUNS) $(LABS) $(TESTS)

# Modules are compiled when they are first imported: most never are. A lock lists all that its
# packages need, so nothing is left to resolve; two halves of it are installed side by side. What
# every chapter imports is compiled (and matplotlib's list of fonts made) beside the last step.
define install
	@test -n "$(KEYS)" || { echo "minimlc needs Python 3.11 or newer; $(PYTHON) is not:" \
		"try make PYTHON=python3.11" >&2; exit 1; }
	@test "$$($(PY) -c $(VERSION) 2>/dev/null)" = "$$($(PYTHON) -c $(VERSION))" || { \
		echo "[1/3] making $(VENV) with $$($(PYTHON) --version)"; \
		$(PYTHON) -m venv --clear $(VENV); }
	@echo "[2/3] installing what $(1) lists: about $$(grep -c '^[^ #].*==' $(1)) packages," \
		"a minute or two"
	@halves=$$(mktemp -d); awk -v to="$$halves/" '/^[^ #]/ { n++ } { print > (to n % 2 "-$(1)") }' $(1); \
		for half in 0 1; do \
			{ $(PIP) --no-compile --progress-bar off --require-hashes --no-deps -r $$halves/$$half-$(1); \
				echo "ended $$?"; } & \
		done | awk $(PROGRESS); status=$$?; rm -r "$$halves"; exit $$status
	@echo "[3/3] installing minimlc itself"
	@$(PY) -c $(COMMON) & $(PIP) --quiet --no-deps --no-build-isolation -e . && wait
	@rm -f $(VENV)/runs-* $(VENV)/labs-* $(VENV)/tests-*
endef

PIP = $(PY) -m pip install --disable-pip-version-check
VERSION := 'import sys; print(sys.version_info[:2])'
COMMON := 'import ipykernel.kernelapp, llvmlite.binding, matplotlib.pyplot, nbclient, nbconvert, \
	sklearn.ensemble, minimlc.loops.llvm.emit, minimlc.tune'
PROGRESS := '/^Collecting/ && ++count % 20 == 0 { print "      " count " fetched" } \
	/^Installing/ && ++halves == 2 { print "      " count " fetched; unpacking them" } \
	/^ended/ { failed += $$2 } { fflush() } END { exit failed }'

# Needs uv (https://docs.astral.sh/uv/). What running needs is pinned as it is for testing, with
# its extras, for those who install without --no-deps.
COMPILE = uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-strip-extras --no-emit-index-url --custom-compile-command "make lock"
lock:
	$(COMPILE) --extra dev --extra browser --extra onnx --extra homework -o $(TEST_LOCK)
	$(COMPILE) --extra run --constraint $(TEST_LOCK) -o $(RUN_LOCK)
	$(COMPILE) --extra lab --constraint $(TEST_LOCK) -o $(LAB_LOCK)

clean:
	rm -rf _build build dist .venv .mypy_cache .pytest_cache .ruff_cache *.egg-info
