# Every target makes its own environment: `make demo` and `make test` are all a new machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A moved or upgraded interpreter leaves a .venv that looks installed and cannot run.
VENV_RUNS := $(shell $(BIN)/python -c "import pip" 2>/dev/null && echo yes)

# Files side by side, in the order of tests/conftest.py.
BY_FILE := -n 3 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format bench clean FORCE

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/installed ## Install, train a small voice on the CPU, and hear it
	@$(BIN)/python -m myxtts demo

test: $(VENV)/installed ## Run the tests (a few minutes)
	@$(BIN)/python -m pytest $(BY_FILE) -m "not slow"

test-all: $(VENV)/installed ## Run the tests and the slow, thorough checks
	@$(BIN)/python -m pytest $(BY_FILE)

check: $(VENV)/installed ## Lint, check formatting, types and imports
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports

format: $(VENV)/installed ## Format the code and mend what the linter can
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

bench: $(VENV)/installed ## Measure all that can be measured here, and read what a GPU would do
	@$(BIN)/python -m benchmarks.startup
	@$(BIN)/python -m benchmarks.engine
	@$(BIN)/python -m benchmarks.overlap
	@$(BIN)/python -m benchmarks.data
	@$(BIN)/python -m benchmarks.lost_clips
	@$(BIN)/python -m benchmarks.train
	@$(BIN)/python -m benchmarks.memory
	@$(BIN)/python -m benchmarks.estimate
	@$(BIN)/python -m benchmarks.advice
	@$(BIN)/python -m benchmarks.scale
	@$(BIN)/python -m benchmarks.persian
	@$(BIN)/python -m benchmarks.gpu_readiness

clean: ## Remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info

$(VENV)/installed: pyproject.toml constraints.txt $(if $(VENV_RUNS),,FORCE)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "MyXTTS needs Python 3.10 to 3.13, and $(PYTHON) is `$(PYTHON) --version 2>&1`"; \
	  echo "  try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Installing MyXTTS into $(VENV) (about 2 GB, once) ..."
	@$(if $(VENV_RUNS),:,$(PYTHON) -m venv --clear $(VENV)) || { \
	  echo "  try: install your system's venv package, for example: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --editable ".[dev,demo,eval,persian,studio,serve,export]"
	@touch $@

FORCE:
