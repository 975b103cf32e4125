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

# A process more than processors, since some wait for servers, clusters and browsers; and a file of tests in one process:
# its tests share studies and stores.  Bytecode is kept even where the environment says not to: dozens of processes would
# each compile the packages anew.
test: install
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )) --maxprocesses 8 \
		--dist loadfile --no-loadscope-reorder

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

# The evidence page: known markets, the paper's tables in small, then each universe selected, frozen and judged. DATA is
# the folder of the price files; a broken-off run goes on where it stopped.
DATA ?= ../shared/data
evidence: install
	for task in gradient-accuracy projection-simplex projection-chain runtime sudoku; do \
		$(BIN)/portfolio-dfl task $$task --reduced || exit 1; done
	$(BIN)/portfolio-dfl task mechanism
	$(BIN)/portfolio-dfl task evidence --set etf7=$(DATA)/etf7_adj_close.csv \
		--set etfs=$(DATA)/universe_etf_adj_close.csv.gz --set stocks=$(DATA)/universe_stock_adj_close.csv.gz

# The two wheels in empty environments, away from the checkout; needs the network, some 4 GB in build/smoke, and minutes.
smoke: SMOKE := $(CURDIR)/build/smoke
smoke:
	rm -rf $(SMOKE)
	for part in tools core whole; do $(PYTHON) -m venv $(SMOKE)/$$part || exit 1; done
	mkdir $(SMOKE)/away
	$(SMOKE)/tools/bin/pip install --quiet build
	for project in . dxpp_core; do $(SMOKE)/tools/bin/python -m build --outdir $(SMOKE)/dist $$project || exit 1; done
	$(SMOKE)/core/bin/pip install --quiet $(SMOKE)/dist/dxpp_core-*.whl
	sed -n '/^```python/,/^```/{/^```/!p}' dxpp_core/README.md | (cd $(SMOKE)/away && $(SMOKE)/core/bin/python -)
	$(SMOKE)/whole/bin/pip install --quiet $(SMOKE)/dist/portfolio_dfl-*.whl
	cd $(SMOKE)/away && for verb in --help config doctor "run $(CURDIR)/configs/quickstart.yaml"; do \
		$(SMOKE)/whole/bin/portfolio-dfl $$verb || exit 1; done
	du -sh $(SMOKE)/core $(SMOKE)/whole

clean:
	rm -rf $(VENV) runs build .pytest_cache .mypy_cache .ruff_cache
