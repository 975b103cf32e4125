# Everything on a fresh machine starts here: each target builds the virtual environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install run test lint docs bench evidence smoke clean

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

run: install
	$(BIN)/portfolio-dfl run configs/quickstart.yaml

# A process for each processor, and a file of tests in one process: its tests share studies, stores, clusters and browsers.
test: install
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Into build/site, without the network; any warning is an error.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/mkdocs.yml
	@echo "build/site/index.html"

bench: install
	$(BIN)/python -W ignore -m dxpp_core.benchmark
	for task in gradient-accuracy projection-simplex projection-chain runtime epoch smoothing sudoku; do \
		$(BIN)/portfolio-dfl task $$task --reduced || exit 1; done

.PHONY: install run test lint docs bench evidence smoke clean

clean:
	rm -rf $(VENV) runs build .pytest_cache .mypy_cache .ruff_cache
