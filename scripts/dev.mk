# Targets of a developer; the Makefile includes this last. `make help` prints the comments behind ##.

help: ## what make can do
	@echo 'make                                   build the module and the engine'
	@echo 'make install | installcheck | clean    as for any PostgreSQL extension'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' scripts/dev.mk | expand -t 39
	@echo 'make check-engine [T=kv] [VARIANT=asan]      the engine'"'"'s unit tests, or those of one room'
	@echo 'make bench-kernels [T=matmul]          the kernels beside what the core can do'
	@echo 'make fuzz T=gguf SECONDS=60            fuzz one target'

demo: ## from nothing to a streamed answer out of SQL
	scripts/demo

ifneq ($(filter check,$(MAKECMDGOALS)),)
check: check-all
endif

check-all: ## everything that CI runs; so does make check
	scripts/check

check-sql: ## pg_regress, in a temporary server
	scripts/pg-test regress $(T)

check-isolation: ## isolation tests, in a temporary server
	scripts/pg-test isolation $(T)

check-tap: ## tests that start, kill and restart servers
	scripts/pg-test tap $(T)

asan: ## unit tests under ASan and UBSan
	$(MAKE) check-engine VARIANT=asan T=$(T)

tsan: ## unit tests under TSan
	$(MAKE) check-engine VARIANT=tsan T=$(T)

bench: ## our figures, llama.cpp's and the ratios (builds llama.cpp first)
	bench/decode
	bench/prefill
	bench/batch
	bench/sql_overhead

format: ## rewrite the C files as clang-format wants them
	.ci/check-format --fix

lint: ## every static check
	scripts/check style

dist: ## a release archive under build/
	git archive --format zip --prefix infer-$(VERSION)/ -o build/infer-$(VERSION).zip HEAD

.PHONY: help demo check-all check-sql check-isolation check-tap asan tsan bench format lint dist
