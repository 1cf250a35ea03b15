# horae: every common task. `make help` prints what follows a double hash.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup page types pictures run test browser size sim bug chaos soak bench fuzz rate check lint format lock

BIN := .venv/bin
SETUP := .venv/.setup-complete
# The first interpreter that is new enough; name another with `make setup PYTHON=/path/to/python3.12`.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)

# uv must use the interpreter of .venv, never fetch another from outside.
export UV_PYTHON_DOWNLOADS := never
UV := $(BIN)/uv
PIP_QUIET := --quiet --disable-pip-version-check

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) page ## The environment in .venv, exact versions, checked by hash, and the built page (needs Python 3.11+, nothing else)

# Looks at a hash of the sources: nothing to do costs a blink.
page: $(SETUP)
	@$(BIN)/python dashboard/build.py

types: setup ## The page's types, anew from the description of the API
	$(BIN)/python dashboard/api_types.py

pictures: setup ## The pictures in docs/images, taken of a real server by a real browser
	$(BIN)/python -m tests.browser.pictures

run: setup ## horae on this machine, in the foreground; more words through ARGS="--port 9000"
	$(BIN)/horae dev $(ARGS)

test: setup ## The whole suite, the pages in a real Chromium among it, with the servers it needs; words through ARGS="-k name"
	$(BIN)/python -m tests.services $(BIN)/python -m tests.whole $(ARGS)

browser: setup ## The pages in a real Chromium alone
	$(BIN)/python -m tests.services $(BIN)/pytest tests/browser $(ARGS)

size: setup ## Every list within a second, in a real Chromium over JOBS=100000 jobs and RUNS=5000000 runs; minutes
	$(BIN)/python -m tests.browser.size --jobs $(or $(JOBS),100000) --runs $(or $(RUNS),5000000) $(ARGS)

sim: setup ## Simulated fleets under faults; SEEDS=10000 for a long run
	HORAE_TEST_SIM_SEEDS=$(or $(SEEDS),1000) $(BIN)/pytest -n auto tests/sim $(ARGS)

bug: setup ## A bug of docs/bug-table.md once more, on the commit before its fix: N=3, or N=all
	$(BIN)/python -m tests.services $(BIN)/python -m tests.bugs $(or $(N),all)

chaos: setup ## Real processes under every fault, one table; narrow it with CASES=P01,K: and REPS=1, JOBS=4 at a time
	$(BIN)/python -m tests.chaos.run --cases "$(CASES)" $(if $(REPS),--reps $(REPS)) --jobs $(or $(JOBS),3) $(ARGS)

soak: setup ## Random faults for MINUTES=30: memory, backlog, processes, sockets and files stay where they are
	$(BIN)/python -m tests.chaos.soak --minutes $(or $(MINUTES),30) $(ARGS)

bench: setup ## How fast it is, beside the bare database and its peers; CASES=drain,plan picks, FULL=1 takes hours
	$(BIN)/python -m bench --cases "$(CASES)" --peers "$(PEERS)" $(if $(filter-out 0,$(FULL)),--full) $(if $(filter-out 0,$(QUICK)),--quick) \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(OUT),--out "$(OUT)") $(ARGS)

fuzz: setup ## schemathesis against a server on PostgreSQL, in every role, for MINUTES=10; a short run is part of `make test`
	$(BIN)/python -m tests.services $(BIN)/python -m tests.system.fuzz $(or $(MINUTES),10)

rate: setup ## How many jobs a second come in by batches, on a PostgreSQL that keeps what it is told; JOBS=50000 of each kind
	$(BIN)/python -m tests.system.batch_rate $(or $(JOBS),50000)

check: lint ## Format, lint, import rules, types, unit tests; under a minute
	$(BIN)/pytest tests/unit

lint: setup ## Format, lint, import rules and types alone
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python dashboard/build.py check

format: setup ## Put the code in form, and mend what can be mended without thought
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .

lock: $(UV) ## Resolve again and write requirements.txt; ARGS="--upgrade" takes newer versions
	$(UV) lock --quiet --python $(BIN)/python $(ARGS)
	$(UV) export --quiet --python $(BIN)/python --frozen --format requirements.txt --no-header --no-emit-project \
		--extra calendars --extra oidc --group dev --output-file requirements.txt

# pip reads settings that uv does not (a mirror, a certificate), so it gets a second try.
$(SETUP): requirements.txt pyproject.toml $(UV)
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.txt \
		|| $(BIN)/pip install $(PIP_QUIET) --require-hashes -r requirements.txt
	$(UV) pip install --quiet --python $(BIN)/python --offline --no-deps --no-build-isolation --editable . \
		|| $(BIN)/pip install $(PIP_QUIET) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src # where Python may not write beside the sources, every start would compile them anew
	@touch $@

$(UV):
	@test -n "$(PYTHON)" || { echo "horae needs Python 3.11 or newer; none was found on PATH." \
		"Give one with: make setup PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make environments (no ensurepip)." \
		"On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	awk '/^[^ ]/ { wanted = /^uv==/ } wanted' requirements.txt > .venv/uv.txt
	$(BIN)/pip install $(PIP_QUIET) --require-hashes -r .venv/uv.txt
