# `make help` lists the targets. Everything is installed below this directory: .venv, build; kcat, a KDC, Prometheus, systemd, mmdebstrap and Chromium are system packages.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# Tests start hundreds of processes: without bytecode each of them compiles everything
export PYTHONDONTWRITEBYTECODE :=

# The first Python that is new enough; `make PYTHON=...` takes another
PYTHON ?= $(shell for one in python3.11 python3.12 python3.13 python3; do \
	if $$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$one; exit; fi; done; echo python3)
BIN := .venv/bin
# One run at a time installs; others wait
LOCK := $(if $(shell command -v flock),flock --close build/install.lock)
install = @mkdir -p build; $(if $(LOCK),flock --nonblock build/install.lock true || echo "install: another run installs: waiting for its end" >&2; )$(LOCK) \
	$(MAKE) --silent --no-print-directory --file tools/development/install.mk PYTHON=$(PYTHON)
SOURCES := src/headgate/__init__.py src/headgate/__main__.py protocol storage gateway tools spark compat_tests conftest.py
UNITS := src/headgate
# In several processes; ARGS="-n 0 --pdb" has one, to look into a test
SIDE_BY_SIDE := -n auto --maxprocesses 4
# Tests with sockets and processes wait as well: two processes leave two cores idle for a third of the time
WITH_SOCKETS := -n $(if $(filter 1 2 3,$(shell nproc 2>/dev/null)),3,4)
# The compat tests wait more than they compute: four processes keep two cores busy. Tests that measure follow, alone
COMPAT_SIDE_BY_SIDE := -n 4
# pytest ends with 5 where ARGS="-k ..." selects no test of a run
MAY_BE_EMPTY = $(if $(strip $(ARGS)),|| test $$? -eq 5)
define compat_tests
$(BIN)/pytest $(COMPAT_SIDE_BY_SIDE) -m "not alone" compat_tests $(ARGS) $(MAY_BE_EMPTY)
$(BIN)/pytest -m alone compat_tests $(ARGS) $(MAY_BE_EMPTY)
endef

.PHONY: help
help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 16

.PHONY: serve
serve: ## run the broker on 127.0.0.1:9092 with its data in ./data; ARGS="--override listeners=..." is passed on
	$(install) runtime console
	@exec $(BIN)/headgate serve $(ARGS)

.PHONY: cluster
cluster: ## run ZooKeeper and three brokers on 127.0.0.1:9092 to 9094 with their data in build/cluster, until Ctrl-C
	$(install) runtime console jars
	@exec $(BIN)/python -m compat_tests.cluster.serve $(ARGS)

.PHONY: orders
orders: ## append 100,000 made-up orders to the topic orders of the broker of `make serve`; ARGS="--count 10" is passed on
	$(install) runtime
	@$(BIN)/headgate spark sample orders --table $(ARGS)

# A JVM that works for seconds: to optimize its code takes longer than the code runs (18 CPU s in place of 25)
SHORT_JVM := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
.PHONY: table
table: ## load the topic orders into Parquet in build/tables/orders, check it, and show it; a second run adds what is new
	$(install) runtime spark
	@mkdir -p build/tables && $(BIN)/headgate spark sample --schema >build/tables/orders.ddl
	@$(BIN)/headgate spark load orders build/tables/orders --bootstrap-server 127.0.0.1:9092 --master 'local[2]' --table \
		--format json --schema build/tables/orders.ddl --conf 'spark.driver.extraJavaOptions=$(SHORT_JVM)' $(ARGS)
	@$(BIN)/headgate spark verify build/tables/orders --table
	@$(BIN)/headgate spark sample --show build/tables/orders --table

.PHONY: test
test: ## install what every test needs, then run them all; ARGS="-k produce" is passed on to pytest
	$(install) test spark connect jars kcat kerberos prometheus systemd chromium go node old
	$(BIN)/pytest $(WITH_SOCKETS) $(UNITS) $(ARGS) $(MAY_BE_EMPTY)
	$(compat_tests)

.PHONY: unit
unit: ## the tests without sockets, two minutes on two cores
	$(install) test
	$(BIN)/pytest $(SIDE_BY_SIDE) --hypothesis-profile=unit -m "not sockets and not seeds" $(UNITS) $(ARGS)

.PHONY: compat
compat: ## the tests with stock clients and Spark only; ARGS="-k sarama" for one family
	$(install) test spark connect jars kcat kerberos prometheus systemd chromium go node old
	$(compat_tests)

RECORDED := $(addprefix compat_tests/,matrix/test_matrix.py matrix/test_transactions.py tools/test_kafka_tools.py)
.PHONY: protocol
protocol: ## run the named clients, note what they use, and make docs/protocol.md; ARGS="-k java" for some of them
	$(install) test spark connect jars kcat kerberos prometheus systemd chromium go node old
	HEADGATE_RECORD=1 $(BIN)/pytest $(RECORDED) $(ARGS)
	$(BIN)/python -m compat_tests.matrix.protocol

.PHONY: soak
soak: ## the long runs: every test that is slow, and the property tests with many more examples; ARGS="-k across_kills" for a part
	$(install) test spark connect sparks jars kcat kerberos prometheus systemd chromium go node old
	HEADGATE_SOAK=1 $(BIN)/pytest --hypothesis-profile=soak $(UNITS) $(ARGS) $(MAY_BE_EMPTY)
	HEADGATE_SOAK=1 $(BIN)/pytest --hypothesis-profile=soak compat_tests $(ARGS) $(MAY_BE_EMPTY)

.PHONY: check format-check lint types law tidy package
check: ## format, lint, types, import law, tidy, what is installed
	$(install) test
	@$(MAKE) --no-print-directory --keep-going --jobs 2 types format-check lint law tidy package

format-check:
	$(BIN)/ruff format --check $(SOURCES)

lint:
	$(BIN)/ruff check $(SOURCES)

types:
	$(BIN)/mypy -p headgate -p compat_tests -m conftest

law:
	$(BIN)/lint-imports

tidy:
	$(BIN)/python -m headgate.tools.development.tidy

package:
	$(BIN)/python -m headgate.tools.development.package

.PHONY: format
format: ## format the code, and mend what ruff can mend
	$(install) test
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

.PHONY: map
map: ## write the map in docs/architecture.md again, from the heads of the modules
	$(install) runtime
	$(BIN)/python -m headgate.tools.development.tidy map

.PHONY: bench
bench: ## Headgate beside Apache Kafka, in ratios; QUICK=1 for a short run
	$(install) test jars
	$(BIN)/python -m headgate.tools.bench $(ARGS)

.PHONY: bench-spark
bench-spark: ## Spark's ways to topics beside its kafka format on Apache Kafka; ARGS="--records 1000000 files wire"
	$(install) test spark jars
	$(BIN)/python -m headgate.spark.bench $(ARGS)

.PHONY: jars
jars: ## the jars of the compat tests and the bench, from Maven Central into build/jars
	$(install) jars

.PHONY: install
install: ## everything that the other targets would install
	$(install) test spark connect jars kcat kerberos prometheus systemd chromium go node old

.PHONY: lock
lock: ## make requirements/*.txt again from pyproject.toml; ARGS=--upgrade takes the newest versions
	$(install) lock
	$(call pin,test,pyproject.toml --extra test --group check --group build)
	$(call pin,runtime,pyproject.toml --group build --constraints requirements/test.txt)
	$(call pin,console,pyproject.toml --extra console --constraints requirements/test.txt)
	$(call pin,spark,pyproject.toml --extra spark --extra connect --extra decode --extra plot --constraints requirements/test.txt)
	$(call pin,lock,--group lock)

# For every platform and Python version at once; no index address, and no path of this machine
pin = PYTHON=$(PYTHON) tools/development/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" --output-file requirements/$(1).txt $(2) $(ARGS)

.PHONY: clean
clean: ## remove what was installed and built; ./data, the broker's, stays
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
