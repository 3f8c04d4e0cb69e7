# Everything runs in an environment of its own, .venv, which is made on first use and brought up to date
# when pyproject.toml changes.
#
#   make test PYTHON=python3.13         another interpreter (after `make clean`)
#   make test ARGS="--fuzz 100000"      more options for pytest

PYTHON ?= python3
ARGS   ?=
MINUTES ?= 10
EVERY   ?= 16

VENV := .venv
PY   := $(VENV)/bin/python
# Python compiles the few modules that are imported; pip would compile all, one after the other. The build uses the environment's own
# setuptools: an environment for the build alone would install it once more.
PIP  := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile --no-build-isolation

# Stamps: what is installed, as of their time.
RUN   := $(VENV)/installed
TEST  := $(VENV)/installed-test
BENCH := $(VENV)/installed-bench
OTHERS := $(VENV)/installed-interop
DOCS   := $(VENV)/installed-docs

# Tests start hundreds of processes, which would each compile our sources and the tests' anew if they kept nothing.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo quick test test-interpreter test-as-installed interop elsewhere harden fuzz bench docs clean

help:
	@echo "make demo              the tour: views on one memory, then handwritten digits"
	@echo "make quick             some tests of every package, in about a minute"
	@echo "make test              the whole gate: ruff, mypy, tests and doctests"
	@echo "make test-interpreter  the tests of values, computed without a compiler"
	@echo "make test-as-installed  tests of values with what a wheel ships, and plans from the disk: made, then found"
	@echo "make interop           the tests beside other libraries, with all of these installed"
	@echo "make elsewhere THERE='qemu-aarch64 ... python3'   tests of what machines differ in, by another machine's Python"
	@echo "make harden            whatever can fail fails, call by call"
	@echo "make fuzz MINUTES=60   random programs, pickles, arrays, subscripts, entries of the cache, for so long"
	@echo "make bench             the benchmarks, beside NumPy, numexpr, PyTorch and JAX"
	@echo "make docs              the documentation site, in docs/_build/html; INTERSPHINX=1 links names of Python, NumPy and SciPy"
	@echo "make clean             remove what make has made"

demo: $(RUN)
	$(PY) -m tenxor

# Tests that take little time for what they look at, some of every package: whether something fundamental broke.
QUICK := $(addprefix tests/,test_architecture.py test_behaviours.py test_creation.py test_dtypes.py test_errata.py \
    test_errors.py test_argument_aliases.py test_knn.py test_plans.py fuzz/test_aliasing.py \
    $(addprefix layout/test_,coords.py diophantine.py explain.py indexing.py layout.py axes.py) \
    $(addprefix ops/test_,promotion.py complex_values.py) \
    $(addprefix memory/test_,limit.py memory.py pool.py) \
    $(addprefix lowering/test_,interchange.py lower.py patterns.py schedule_contraction.py split_loops.py scatter_loops.py) \
    $(addprefix codegen/test_,builder.py interpreter.py primitives.py agreement.py::test_back_ends_agree_on_every_kind_of_view llvm.py::TestFusion) \
    $(addprefix tensor/test_,complex.py elements.py masks.py view_methods.py join_pieces.py protocols.py write_methods.py) \
    $(addprefix api/test_,concatenation.py views.py softmax.py einops_patterns.py reduction_functions.py) \
    $(addprefix show/test_,html.py tensor_figures.py text.py) random/test_random.py) README.md docs

quick: $(TEST)
	$(PY) -m ruff check . && $(PY) -m ruff format --check .
	$(PY) -m pytest --numprocesses auto --dist worksteal --fuzz 250 $(QUICK) $(ARGS)

test: $(TEST)
	$(PY) -m ruff check . && $(PY) -m ruff format --check .
	$(PY) -m mypy > $(VENV)/mypy.txt & types=$$!; \
	$(PY) -m pytest --numprocesses auto --dist worksteal $(ARGS); tests=$$?; \
	wait $$types || { cat $(VENV)/mypy.txt; exit 1; }; exit $$tests
	TENXOR_FAST_PATH=0 $(PY) -m pytest --numprocesses auto --dist worksteal -m "values and not large" tests/tensor tests/ops tests/test_behaviours.py

test-interpreter: $(TEST)
	TENXOR_BACKEND=interpreter $(PY) -m pytest --numprocesses auto -m "values and not large" tests $(ARGS)

AS_INSTALLED = TENXOR_SHIPPED=$(CURDIR)/.kernels/shipped $(PY) -m pytest --numprocesses auto --dist worksteal --kept \
    -m "values and not large" tests/tensor tests/ops tests/test_behaviours.py $(ARGS)

test-as-installed: $(TEST)
	rm -rf .kernels
	$(PY) -m tenxor ship .kernels/shipped
	$(AS_INSTALLED)
	$(AS_INSTALLED)

# In the gate those whose library is not installed are skipped; here none is.
interop: $(OTHERS)
	$(PY) -m pytest --numprocesses auto tests/interop $(ARGS)

# Emulated, a test takes thirty times as long: these are the code of each instruction that differs, products, threads and convolutions,
# and one of EVERY.
ELSEWHERE := $(addprefix tests/,$(addprefix codegen/test_,primitives.py emit_contractions.py product_tiles.py worker_pool.py emit_scatters.py) \
    api/test_convolution.py tensor/test_elements.py test_plans.py)

elsewhere:
	$(THERE) -m pytest -q -p no:cacheprovider --every $(EVERY) $(ELSEWHERE) $(ARGS)

harden: $(TEST)
	$(PY) -m tests.harden $(ARGS)

fuzz: $(TEST)
	$(PY) -m tests.fuzz.nightly --minutes $(MINUTES) $(ARGS)

bench: $(BENCH)
	$(PY) -m benchmarks $(ARGS)

# Warnings are errors: a link without a target, a page in no table of contents. The cells of the pages run in `make test`, as doctests.
docs: $(DOCS)
	TENXOR_DOCS_INTERSPHINX=$(INTERSPHINX) $(PY) -m sphinx --quiet --fail-on-warning --jobs auto -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) build dist docs/_build docs/reference *.egg-info .hypothesis .kernels .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made:
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) 'setuptools>=77'
	touch $@

$(RUN): pyproject.toml | $(VENV)/made
	$(PIP) --editable .
	touch $@

# With the extras come the run-time dependencies, so there is no need to install twice.
$(TEST): pyproject.toml | $(VENV)/made
	$(PIP) --editable '.[test]'
	touch $(RUN) $@

$(OTHERS): pyproject.toml | $(VENV)/made
	$(PIP) --editable '.[test,interop]'
	touch $(RUN) $(TEST) $@

$(BENCH): pyproject.toml | $(VENV)/made
	$(PIP) --editable '.[bench]'
	touch $(RUN) $@

$(DOCS): pyproject.toml | $(VENV)/made
	$(PIP) --editable '.[docs]'
	touch $(RUN) $@
