# Everything is installed into .venv on first use, and again only when the requirements change.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: test check lint types readme network clean

test: $(READY)
	$(BIN)/pytest

check: lint types test readme

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: $(READY)
	$(BIN)/mypy

readme: $(READY)
	$(BIN)/pytest -m readme

network: $(READY)
	$(BIN)/pytest -m network

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache dist

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@
