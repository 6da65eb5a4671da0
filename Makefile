# `make` alone prints the targets. What each needs beyond Go is installed by none of them: see CONTRIBUTING.md.

SHELL       = /bin/bash
.SHELLFLAGS = -o pipefail -c

GO        ?= go
FUZZTIME  ?= 20s
BENCHTIME ?= 1s
SOAKFUZZ  ?= 10m
SEED      ?= 1
SEEDS     ?= 500
SOAKSEEDS ?= 2000

# Linters are pinned by a module file of their own, so that the broker's dependencies stay the broker's.
TOOL = $(GO) tool -modfile=$(CURDIR)/tools/go.mod

.PHONY: help build test race lint fuzz sim compat bench generate check soak

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the static binary ./weir
	CGO_ENABLED=0 $(GO) build -trimpath -o weir ./cmd/weir

test: ## all tests
	$(GO) test ./...

race: ## all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race ./...

lint: ## gofmt, go vet, staticcheck, tidy modules
	@files=$$(gofmt -l .); \
	  if [ -n "$$files" ]; then echo "not formatted by gofmt:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	cd compat-tests && $(GO) vet ./...
	$(TOOL) staticcheck ./...
	cd compat-tests && $(TOOL) staticcheck ./...
	$(GO) mod tidy -diff
	cd compat-tests && $(GO) mod tidy -diff

fuzz: ## every fuzz target for FUZZTIME (20s)
	@set -e; for dir in $$(grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do \
	  for target in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz' || true); do \
	    echo "== $$dir $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$dir; \
	  done; \
	done

sim: ## whole clusters in virtual time: SEEDS (500) from SEED (1) on, and every rule of replication left out once
	$(GO) test ./internal/sim -run 'TestSim$$' -count=1 -v -timeout 24h -args -seed $(SEED) -seeds $(SEEDS) | grep -v '^ *\(=== \|--- \)'
	$(GO) test -tags mutant ./internal/sim -run TestMutants -count=1 -v | grep -v '^ *=== '

compat: build ## public clients against the binary
	cd compat-tests && WEIR_BIN=$(CURDIR)/weir $(GO) run ./cmd/compat

bench: build ## benchmarks, and start time and memory of the binary
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) ./...
	cd compat-tests && WEIR_BIN=$(CURDIR)/weir $(GO) run ./cmd/measure

generate: ## generated files, anew
	$(GO) generate ./...

check: ## what CI runs: lint, build, test, race, sim, compat
	@set -e; for step in lint build test race sim compat; do \
	  echo "== make $$step"; start=$$(date +%s); \
	  $(MAKE) --no-print-directory $$step; \
	  echo "== make $$step: $$(($$(date +%s) - start)) s"; \
	done

soak: ## what takes hours: long fuzzing, many simulated days, the compatibility suites' long forms
	$(MAKE) fuzz FUZZTIME=$(SOAKFUZZ)
	$(MAKE) sim SEED=1000000 SEEDS=$(SOAKSEEDS)
	cd compat-tests && WEIR_BIN=$(CURDIR)/weir $(GO) run ./cmd/compat -soak
