# Two programs come out of this file.
#
#   infer.so             the PostgreSQL module: src/pg + src/shared, built by PGXS with the server's flags
#   build/infer-engine   the engine: src/engine + src/shared + kernels, our own flags, no server header in sight
#
# PGXS cannot build a module and a program at once, so the engine has rules of its own, and they come first:
# they work where there is no PostgreSQL at all. `make help` lists what a developer needs.

# Builds in its own folder or in another one: make -f /path/to/Makefile.
SRC := $(patsubst %/,%,$(dir $(firstword $(MAKEFILE_LIST))))
ifneq ($(SRC),.)
VPATH := $(SRC)
endif
sources = $(patsubst $(SRC)/%,%,$(wildcard $(addprefix $(SRC)/,$(1))))

INFER_VERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(SRC)/infer.control)

# VARIANT names a set of flags and its folder, so that plain, asan and tsan objects never mix.
VARIANT ?= plain
B := build/$(VARIANT)

# ---- engine ----------------------------------------------------------------------------------------------

ENGINE_CC ?= $(CC)
ENGINE_LIBS := $(shell pkg-config --libs libpcre2-8 libutf8proc jansson libcrypto 2>/dev/null || echo -lpcre2-8 -lutf8proc -ljansson -lcrypto) -lm -lpthread
ENGINE_CPPFLAGS := -D_GNU_SOURCE -DINFER_VERSION='"$(INFER_VERSION)"' -I$(SRC)/src -I$(SRC) $(ENGINE_EXTRA_CPPFLAGS)
ENGINE_WARNINGS := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes $(WERROR)
ENGINE_CFLAGS_plain := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong
ENGINE_CFLAGS_debug := -O1 -g -DINFER_DEBUG -DINFER_TESTING
ENGINE_CFLAGS_testing := -O2 -g -DINFER_TESTING
ENGINE_CFLAGS_asan := -O2 -g -DINFER_DEBUG -DINFER_TESTING -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ENGINE_CFLAGS_tsan := -O2 -g -DINFER_DEBUG -DINFER_TESTING -fsanitize=thread
# -ffp-contract=off: an FMA happens where a kernel asks for it and nowhere else, or logits would depend on the compiler.
ENGINE_CFLAGS := -std=c11 $(ENGINE_CFLAGS_$(VARIANT)) -fvisibility=hidden -ffp-contract=off -fno-math-errno $(ENGINE_WARNINGS)

# Only these files may use the instructions; select.c calls them after cpuid has said yes.
ISA_FLAGS_avx2 := -mavx2 -mfma -mf16c
ISA_FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c
ISA_FLAGS_vnni := $(ISA_FLAGS_avx512) -mavx512vnni
ISA_FLAGS_amx := $(ISA_FLAGS_vnni) -mamx-tile -mamx-int8
# Without UBSan: it takes minutes for their unrolled loops; ASan watches them, and the references have both.
isa_flags = $(foreach isa,avx2 avx512 vnni amx,$(if $(filter %_$(isa).c,$(1)),$(ISA_FLAGS_$(isa)) -fno-sanitize=undefined))

KERNEL_SRCS := $(call sources,kernels/*.c kernels/cpu/*.c)
SHARED_SRCS := $(call sources,src/shared/*.c)
ENGINE_SRCS := $(call sources,src/engine/*.c src/engine/*/*.c)
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

UNIT_TESTS := $(patsubst test/unit/%_test.c,$(B)/unit/%,$(call sources,test/unit/*_test.c))
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

# ---- docs/settings.md, out of the tables that the programs run by -------------------------------------------------

$(B)/settings-doc: $(B)/scripts/settings_doc.o $(B)/src/pg/settings.o $(B)/src/shared/request.o $(B)/src/shared/status.o
	$(ENGINE_CC) $(ENGINE_CFLAGS) -o $@ $^ -lm

docs: $(B)/settings-doc
	$< > $(SRC)/docs/settings.md

.PHONY: docs

# ---- module ------------------------------------------------------------------------------------------------
#
# Objects lie under build/pg, with dependencies of their own: the server's packages are configured without.
# Where there is no pg_config only the engine is built.

PG_CONFIG ?= pg_config
# `make check` is ours (scripts/dev.mk): the one that PGXS has only says that there is none.
PGXS := $(if $(filter check,$(MAKECMDGOALS)),,$(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null)))

ifneq ($(PGXS),)
EXTENSION = infer
MODULE_big = infer
PG_SRCS := $(call sources,src/pg/*.c src/pg/*/*.c) $(SHARED_SRCS)
OBJS = $(PG_SRCS:%.c=build/pg/%.o)
DATA_built = infer--$(INFER_VERSION).sql
DATA = $(call sources,sql/install/infer--*--*.sql)
SHLIB_LINK = -lm
PG_CPPFLAGS = -I$(SRC)/src -DINFER_VERSION='"$(INFER_VERSION)"' $(MODULE_EXTRA_CPPFLAGS) \
	-D'PGDLLEXPORT=__attribute__((visibility("default")))'
# Up to version 15 the server's headers leave PGDLLEXPORT empty, and everything would be hidden.
PG_CFLAGS = -fvisibility=hidden -Wextra -Wno-unused-parameter -Wno-missing-field-initializers \
	-Wno-sign-compare -Wno-declaration-after-statement $(if $(findstring clang,$(CC)),$(CLANG_CFLAGS)) $(WERROR)
# the server was configured for gcc: its flags and headers hold things that clang warns about
CLANG_CFLAGS = -Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-ignored-attributes

REGRESS = $(sort $(patsubst sql/%.sql,%,$(call sources,sql/*.sql)))
REGRESS_OPTS = --inputdir=$(SRC) --load-extension=infer
ISOLATION = $(sort $(patsubst test/isolation/specs/%.spec,%,$(call sources,test/isolation/specs/*.spec)))
ISOLATION_OPTS = --inputdir=$(SRC)/test/isolation --load-extension=infer
TAP_TESTS = $(if $(call sources,test/tap/*.pl),1)
PROVE_TESTS = $(addprefix $(SRC)/,$(call sources,test/tap/*.pl))
EXTRA_CLEAN = build

# no clang is needed to build or install, and inlining our functions into queries gains nothing
override with_llvm = no
include $(PGXS)

build/pg/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

infer--$(INFER_VERSION).sql: sql/install/infer.sql infer.control
	cp $< $@

install: install-engine
uninstall: uninstall-engine

install-engine: $(ENGINE_PROGRAM)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_PROGRAM) $(ENGINE_PROGRAM) '$(DESTDIR)$(pkglibdir)/infer-engine'

uninstall-engine:
	rm -f '$(DESTDIR)$(pkglibdir)/infer-engine'

.PHONY: install-engine uninstall-engine
else
clean:
	rm -rf build
.PHONY: clean
endif

-include $(addprefix $(SRC)/,test/fuzz/fuzz.mk bench/bench.mk scripts/dev.mk)
