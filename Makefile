# Works from any directory: make -C path/to/rota test
ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
CARGO ?= cargo
SEEDS ?= 100000
CASES ?= 5000
BENCH ?= sustained
.DEFAULT_GOAL := help

.PHONY: help
help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(ROOT)/Makefile | expand -t 14

.PHONY: dev
dev: ## build what is missing, and start a server with demo jobs
	@cd $(ROOT) && $(CARGO) build --locked --package rota && exec $(CARGO) run --quiet --locked --package rota -- dev

# The order is that of their speed: what is told in seconds is told first.
.PHONY: test
test: fmt tidy alerts clippy unit sim-ci docs schemathesis ## all that CI runs
	@echo "make test: all is well"

.PHONY: fmt
fmt:
	cd $(ROOT) && $(CARGO) fmt --all --check

.PHONY: tidy
tidy: ## layering, links of documents, the largest files and functions
	cd $(ROOT) && $(CARGO) xtask tidy

.PHONY: alerts
alerts:
	@command -v promtool >/dev/null || { echo "make alerts: promtool is missing; on Debian: apt-get install prometheus" >&2; exit 1; }
	cd $(ROOT)/dist && promtool check rules alerts.yml && promtool test rules alerts_test.yml

.PHONY: clippy
clippy:
	cd $(ROOT) && $(CARGO) clippy --workspace --all-targets --features rota/otlp --locked --quiet -- -D warnings

# With traces, as `make dist` ships it; `docs` builds without. The simulation has its own step, in release.
# Laws are tried with the same cases each time, so that a run says something of the change before it; `make laws` tries others.
.PHONY: unit
unit:
	cd $(ROOT) && PROPTEST_RNG_SEED=1 $(CARGO) test --workspace --exclude rota-cluster --features rota/otlp --locked --quiet

.PHONY: sim-ci
sim-ci:
	cd $(ROOT) && $(CARGO) test --package rota-cluster --release --locked
	cd $(ROOT) && $(CARGO) test --package rota-cluster --release --locked --features mutants --test mutants

.PHONY: docs
docs:
	cd $(ROOT) && RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked --quiet

.PHONY: dist
dist: ## make a static tarball with everything that is shipped
	@CARGO="$(CARGO)" $(ROOT)/dist/build.sh

.PHONY: dist-check
dist-check: dist ## unpack the tarball, and try all that is in it
	@$(ROOT)/dist/check.sh $(ROOT)/target/dist/rota-*.tar.gz

.PHONY: sim
sim: ## simulate many more seeds: make sim SEEDS=1000000
	cd $(ROOT) && $(CARGO) run --package rota-cluster --release --locked -- --seeds $(SEEDS)

.PHONY: laws
laws: ## try the laws with many more cases, others each time: make laws CASES=20000
	cd $(ROOT) && PROPTEST_CASES=$(CASES) $(CARGO) test --workspace --exclude rota-cluster --features rota/otlp --locked --lib --bins
	cd $(ROOT) && PROPTEST_CASES=$(CASES) $(CARGO) test --package rota-cron --package rota-store --locked

.PHONY: bench
bench: ## measure a server under load: make bench BENCH="burst --burst 1000"
	cd $(ROOT) && $(CARGO) run --release --locked --package rota -- bench $(BENCH)

.PHONY: openapi
openapi: ## write docs/openapi.json anew, after a change of the API
	cd $(ROOT) && $(CARGO) run --quiet --locked --package rota-api --example openapi > docs/openapi.json.new
	cd $(ROOT) && mv docs/openapi.json.new docs/openapi.json

# Calls a real server with what its OpenAPI document allows and with what it does not, for about two minutes.
.PHONY: schemathesis
schemathesis: ## hold a real server to its OpenAPI document
	cd $(ROOT) && $(CARGO) build --locked --quiet --package rota
	cd $(ROOT) && python3 tests/schemathesis/check.py target/debug/rota target

# Hands mails to a real SMTP server in every way in which alerts can, and in those in which they must not.
.PHONY: smtp
smtp: ## try the mails of alerts on a real mail server
	cd $(ROOT) && $(CARGO) build --locked --quiet --package rota-net --example mail
	cd $(ROOT) && python3 tests/smtp/check.py target/debug/examples/mail target
