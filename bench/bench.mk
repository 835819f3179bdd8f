# Benchmarks that are programs of ours; the others are scripts.

KERNEL_BENCH_SRCS := bench/kernels.c $(if $(filter x86_64,$(shell uname -m)),bench/ceiling_avx2.c bench/ceiling_avx512.c bench/ceiling_vnni.c)

build/bench/kernels: $(patsubst %.c,build/plain/%.o,$(KERNEL_BENCH_SRCS) $(KERNEL_SRCS))
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -o $@ $^ -lm

# make bench-kernels [T=matmul]: those whose name begins so
bench-kernels: build/bench/kernels
	$< $(T)

.PHONY: bench-kernels
