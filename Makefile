.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow check lock clean

# Where this is set, every process compiles torch, transformers and vLLM anew: half a minute each.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
PYTEST := $(BIN)/python -m pytest
# Engines and trainings use every core, and slow each other down many times over: only the other tests run in parallel.
PARALLEL := $(PYTEST) -n 2 --dist loadfile
QUICK := $(PARALLEL) -m "not e2e and not slow and not gpu and not browser"

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(INSTALLED) ## Make .venv and install everything

$(INSTALLED): requirements/cpu.txt requirements/gpu.txt requirements/install.sh pyproject.toml
	@echo "Installing into .venv (a few GB; under a minute from a warm package cache)"
	@bash requirements/install.sh $(PYTHON)
	@touch $@

demo: setup ## Train, prove and serve an adapter on this machine, then ask it something
	$(BIN)/turnout run
	$(BIN)/turnout ask incidents "Analyse this error log: nginx: worker_connections: accept4() failed (24: Too many open files)"

test: setup ## Every test but the slow ones, with real training and a real vLLM engine
	$(QUICK)
	$(PYTEST) -m "e2e and not slow and not gpu and not browser"

test-slow: setup ## Soaks and kills, up to 45 minutes
	$(PARALLEL) -m "not e2e and slow and not gpu"
	$(PYTEST) -m "e2e and slow and not gpu"

check: setup ## Format, lint, types and the quick tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(QUICK)

lock: setup ## Compile requirements/*.in again
	bash requirements/compile.sh

clean: ## Stop this project's engine and forget its state (not the cached bases)
	-$(BIN)/turnout down
	rm -rf .turnout
