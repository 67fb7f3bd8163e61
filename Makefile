# Everything is installed into .venv on first use, and again only when the requirements change.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: test unit check lint types readme network reproduce clean

# One thread in each of the processes: more would only get in each other's way.
test: export OMP_NUM_THREADS = 1
test: $(READY)
	$(BIN)/pytest -n auto --dist worksteal

unit: export OMP_NUM_THREADS = 1
unit: $(READY)
	$(BIN)/pytest -n auto --dist worksteal -m "not miniature and not readme and not network"

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

reproduce: $(READY)
	$(BIN)/poise data get mnist
	$(BIN)/poise reproduce synthetic-mnist --quick --seeds 2 --method XE --method FCL --out runs
	$(BIN)/poise table runs/synthetic-mnist-quick
	$(BIN)/poise report runs/synthetic-mnist-quick

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache dist

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@
