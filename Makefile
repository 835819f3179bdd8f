# Two programs come out of this file.
#
#   infer.so             the PostgreSQL module: src/pg + src/shared, built by PGXS with the server's flags
#   build/infer-engine   the engine: src/engine + src/shared + kernels, our own flags, no server header in sight
#
# PGXS cannot build a module and a program at once, so the engine has rules of its own, and they come first:
# they work where there is no PostgreSQL at all. `make help` lists what a developer needs.

VERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" infer.control)

# VARIANT names a set of flags and its folder, so that plain, asan and tsan objects never mix.
VARIANT ?= plain
B := build/$(VARIANT)

# ---- engine ----------------------------------------------------------------------------------------------

ENGINE_CC ?= $(CC)
ENGINE_LIBS := $(shell pkg-config --libs libpcre2-8 libutf8proc jansson 2>/dev/null || echo -lpcre2-8 -lutf8proc -ljansson) -lm -lpthread
ENGINE_CPPFLAGS := -D_GNU_SOURCE -DINFER_VERSION='"$(VERSION)"' -Isrc -I. $(ENGINE_EXTRA_CPPFLAGS)
ENGINE_WARNINGS := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes $(WERROR)
ENGINE_CFLAGS_plain := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong
ENGINE_CFLAGS_debug := -O1 -g -DINFER_DEBUG -DINFER_TESTING
ENGINE_CFLAGS_testing := -O2 -g -DINFER_TESTING
ENGINE_CFLAGS_asan := -O1 -g -DINFER_DEBUG -DINFER_TESTING -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ENGINE_CFLAGS_tsan := -O1 -g -DINFER_DEBUG -DINFER_TESTING -fsanitize=thread
# -ffp-contract=off: an FMA happens where a kernel asks for it and nowhere else, or logits would depend on the compiler.
ENGINE_CFLAGS := -std=c11 $(ENGINE_CFLAGS_$(VARIANT)) -fvisibility=hidden -ffp-contract=off -fno-math-errno $(ENGINE_WARNINGS)

# Only these files may use the instructions; select.c calls them after cpuid has said yes.
ISA_FLAGS_avx2 := -mavx2 -mfma -mf16c
ISA_FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c
ISA_FLAGS_vnni := $(ISA_FLAGS_avx512) -mavx512vnni
isa_flags = $(foreach isa,avx2 avx512 vnni,$(if $(filter %_$(isa).c,$(1)),$(ISA_FLAGS_$(isa))))

KERNEL_SRCS := $(wildcard kernels/*.c kernels/cpu/*.c)
SHARED_SRCS := $(wildcard src/shared/*.c)
ENGINE_SRCS := $(wildcard src/engine/*.c src/engine/*/*.c)
ENGINE_MAIN := src/engine/main.c
ENGINE_OBJS := $(patsubst %.c,$(B)/%.o,$(KERNEL_SRCS) $(SHARED_SRCS) $(filter-out $(ENGINE_MAIN),$(ENGINE_SRCS)))

ENGINE_PROGRAM := $(if $(filter plain,$(VARIANT)),build/infer-engine,$(B)/infer-engine)

.DEFAULT_GOAL := all
all: engine
engine: $(ENGINE_PROGRAM)

$(ENGINE_PROGRAM): $(ENGINE_OBJS) $(B)/src/engine/main.o
	$(ENGINE_CC) $(ENGINE_CFLAGS) -o $@ $^ $(ENGINE_LIBS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CPPFLAGS) $(ENGINE_CFLAGS) $(call isa_flags,$<) -MMD -MP -c -o $@ $<

-include $(shell find build -name '*.d' 2>/dev/null)

# ---- engine tests: test/unit/NAME_test.c is one program, cmocka ---------------------------------------------

UNIT_TESTS := $(patsubst test/unit/%_test.c,$(B)/unit/%,$(wildcard test/unit/*_test.c))
T ?=

$(B)/libengine.a: $(ENGINE_OBJS)
	@rm -f $@
	ar rcs $@ $^

$(B)/unit/%: $(B)/test/unit/%_test.o $(B)/libengine.a
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -o $@ $^ $(ENGINE_LIBS) -lcmocka

unit-tests: $(UNIT_TESTS)

# make check-engine [T=kv] [VARIANT=asan]
check-engine: $(if $(T),$(B)/unit/$(T),$(UNIT_TESTS)) $(ENGINE_PROGRAM)
	@for t in $(filter-out $(ENGINE_PROGRAM),$^); do $$t || exit 1; done

.PHONY: all engine unit-tests check-engine
.SECONDARY:

-include test/fuzz/fuzz.mk bench/bench.mk scripts/dev.mk
