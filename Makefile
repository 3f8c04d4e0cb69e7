# Everything runs in an environment of its own, .venv, which is made on first use and brought up to date
# when pyproject.toml changes.
#
#   make test PYTHON=python3.13         another interpreter (after `make clean`)
#   make test ARGS="--fuzz 100000"      more options for pytest

PYTHON ?= python3
ARGS   ?=

VENV := .venv
PY   := $(VENV)/bin/python
PIP  := $(PY) -m pip install --quiet --disable-pip-version-check

# Stamps: what is installed, as of their time.
RUN   := $(VENV)/installed
TEST  := $(VENV)/installed-test
BENCH := $(VENV)/installed-bench

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-interpreter bench clean

help:
	@echo "make demo              the tour: views on one memory, then handwritten digits"
	@echo "make test              the whole gate: ruff, mypy, tests and doctests"
	@echo "make test-interpreter  the tests of values, computed without a compiler"
	@echo "make bench             the benchmarks, beside NumPy, numexpr, PyTorch and JAX"
	@echo "make clean             remove what make has made"

demo: $(RUN)
	$(PY) -m tenxor

test: $(TEST)
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest --numprocesses auto --dist loadgroup $(ARGS)

test-interpreter: $(TEST)
	TENXOR_BACKEND=interpreter $(PY) -m pytest --numprocesses auto -m "values and not large" tests $(ARGS)

bench: $(BENCH)
	$(PY) -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made:
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(RUN): pyproject.toml | $(VENV)/made
	$(PIP) --editable .
	touch $@

# With the extras come the run-time dependencies, so there is no need to install twice.
$(TEST): pyproject.toml | $(VENV)/made
	$(PIP) --editable '.[test]'
	touch $(RUN) $@

$(BENCH): pyproject.toml | $(VENV)/made
	$(PIP) --editable '.[bench]'
	touch $(RUN) $@
