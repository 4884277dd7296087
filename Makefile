# Two verbs do everything on a fresh machine: `make demo` and `make test`. Each makes or updates .venv itself.
VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready
ROOT   ?= runs
ARGS   ?=
WORKERS ?= $(shell nproc)

.PHONY: help demo test test-slow test-slurm bench lint format clean

help:
	@echo "make demo        compare GRPO, RLOO, Dr. GRPO and GAGAR on this machine; ends with the report's address"
	@echo "                 ARGS='budget=smoke seed=0,1' for less, ROOT=DIR for elsewhere"
	@echo "make test        the test suite"
	@echo "make test-slow   the slow lane    make test-slurm   a real Slurm cluster on this machine (root, apt)"
	@echo "make bench       speed figures    make lint         ruff and mypy --strict    make format"

$(READY): pyproject.toml constraints.txt
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	@$(PYTHON) -c "from gagar_core.sandbox import open_sandbox; open_sandbox().close()"  # prints its level
	$(PYTHON) -m sweeps submit demo root=$(ROOT) --wait $(ARGS)
	$(PYTHON) -m analysis table $(ROOT)/demo --what cost
	$(PYTHON) -m analysis report $(ROOT)/demo

test: $(READY)
	$(PYTHON) -m pytest -n $(WORKERS) --durations 10

test-slow: $(READY)
	$(PYTHON) -m pytest -m slow

test-slurm: $(READY)
	bash tests/slurm/run.sh $(PYTHON)

bench: $(READY)
	for file in tests/bench/bench_*.py; do $(PYTHON) $$file || exit 1; done

lint: $(READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

format: $(READY)
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
