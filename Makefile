# `make` without a target lists the targets.
PYTHON ?= python3.11
BIN := .venv/bin
# The whole suite goes to two processes, file by file in the order of tests/conftest.py.
TESTS ?= --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: help env repro book test extended pairs check lab bench format lock clean

help:           ## list the targets
	@grep -E '^[a-z]+: .*##|^[a-z]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

env:            ## create the environments whose lock has changed; WITHOUT=mxnet excludes one
	@command -v $(PYTHON) >/dev/null || \
		{ echo "error: $(PYTHON) not found; install Python 3.11, or set PYTHON=..." >&2; exit 2; }
	@$(PYTHON) tools/environment.py $(WITHOUT:%=--without %)

repro: env      ## run the study and build the report; PROFILE=name for another profile
	@$(BIN)/horizont repro $(if $(PROFILE),--profile $(PROFILE))

book: env       ## build the book from the executed notebooks, without measuring
	@$(BIN)/horizont book

test: env       ## lint, types, and the test suite; TESTS=path for some tests
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest $(TESTS)

pairs: env      ## compare models of published packages, in environments of their own
	@$(BIN)/python tools/pairs.py
	@$(BIN)/python -m pytest --numprocesses 2 tests/modeldiff/test_published_pairs.py tests/modeldiff/test_planted_faults.py tests/modeldiff/test_noise.py

extended: env   ## what repeats for one more system, build or engine what `make test` covers
	@$(BIN)/python -m pytest -m extended $(TESTS)

check: env      ## lint and types only
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "run make format"; exit 1; }
	@$(BIN)/mypy

lab: env        ## open JupyterLab on the start notebook
	@$(BIN)/horizont lab

bench: env      ## benchmarks, for a quiet machine; ONLY="loops wire" for some of them
	@$(BIN)/python -m bench $(ONLY)

format: env     ## format the code, and remove the outputs of notebooks
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .
	@$(BIN)/python tools/notebooks.py --strip

lock: env       ## resolve pyproject.toml into locks/
	@$(BIN)/python tools/lock.py

clean:          ## remove caches, but not data, records and reports
	@rm -rf .mypy_cache .ruff_cache .pytest_cache
	@find src tests bench tools -name __pycache__ -prune -exec rm -rf {} +
