# The two commands, quickstart and test, and their parts. Each is a script that says what it does.

.DEFAULT_GOAL := help
.PHONY: help quickstart test setup image sandbox-image build clean-sandboxes

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 26

quickstart: ## set this machine up, build, answer the bundled questions (OPENAI_API_KEY, OPENAI_BASE_URL, GAIA_MODEL)
	@.ci/quickstart

test: ## set this machine up, build, run every test
	@.ci/test

setup: ## only install what is missing and start Docker
	@.ci/setup

image: ## only obtain the sandbox image, and print its name
	@configs/sandbox/image

sandbox-image: ## build and check the image with tools for every kind of file (USE=1: gaia and the presets take it)
	@configs/sandbox/full
	@configs/sandbox/check
	@if [ "$(USE)" = 1 ]; then configs/sandbox/full --use >/dev/null; fi

build: ## only build the programs (GAIA_PROFILE=release for fast ones)
	@bash -c 'source .ci/lib.sh; build_programs'

clean-sandboxes: ## remove every sandbox container of this machine
	@.ci/clean-sandboxes
