# Fuzz targets: test/fuzz/NAME.c defines LLVMFuzzerTestOneInput, its corpus is test/fuzz/corpus/NAME/.
#
#   make fuzz T=gguf SECONDS=60      clang's libFuzzer with ASan and UBSan; new inputs go to build/fuzz/NAME
#   make fuzz-replay [T=gguf]        the same targets with gcc and replay.c: corpora as ordinary tests
#
# An input that once broke something is added to the corpus, and is replayed ever after.

FUZZ_NAMES := $(filter-out replay,$(patsubst test/fuzz/%.c,%,$(wildcard test/fuzz/*.c)))
SECONDS ?= 60

FUZZ_CC ?= clang-14
FUZZ_CFLAGS := -std=c11 -O1 -g -DINFER_DEBUG -DINFER_TESTING -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -ffp-contract=off
FUZZ_SRCS := $(KERNEL_SRCS) $(SHARED_SRCS) $(filter-out $(ENGINE_MAIN),$(ENGINE_SRCS))
FUZZ_OBJS := $(patsubst %.c,build/fuzz-clang/%.o,$(FUZZ_SRCS))

build/fuzz-clang/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(ENGINE_CPPFLAGS) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link $(call isa_flags,$<) -MMD -MP -c -o $@ $<

# An archive, so that a target may bring its own stand-in for a part (region: the engine).
build/fuzz-clang/libengine.a: $(FUZZ_OBJS)
	@rm -f $@
	ar rcs $@ $^

build/fuzz-clang/bin/%: build/fuzz-clang/test/fuzz/%.o build/fuzz-clang/libengine.a
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^ $(ENGINE_LIBS)

# New findings stay outside the repository until somebody looks at them; the corpus is read only.
fuzz: build/fuzz-clang/bin/$(T)
	@mkdir -p build/fuzz/$(T) test/fuzz/corpus/$(T)
	ASAN_SYMBOLIZER_PATH=$$(command -v llvm-symbolizer-14) build/fuzz-clang/bin/$(T) -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=4096 \
		-max_len=65536 -print_final_stats=1 -artifact_prefix=build/fuzz/$(T)- build/fuzz/$(T) test/fuzz/corpus/$(T)

$(B)/fuzz/%: $(B)/test/fuzz/%.o $(B)/test/fuzz/replay.o $(B)/libengine.a
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -o $@ $^ $(ENGINE_LIBS)

FUZZ_REPLAYS := $(addprefix $(B)/fuzz/,$(if $(T),$(T),$(FUZZ_NAMES)))
fuzz-binaries: $(FUZZ_REPLAYS)
fuzz-replay: $(FUZZ_REPLAYS)
	@for t in $(if $(T),$(T),$(FUZZ_NAMES)); do $(B)/fuzz/$$t test/fuzz/corpus/$$t || exit 1; done

.PHONY: fuzz fuzz-binaries fuzz-replay
