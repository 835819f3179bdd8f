/*
 * kernels: each kernel of each instruction set this machine has, on one thread: is it equal to the
 * reference, how fast is it, and how near to what the core can do at most. The ceilings are
 * measured in the same run: bandwidth of memory and of the first cache, f32 and int8 MAC/s.
 *
 * Usage: build/bench/kernels [NAME]        those whose name begins with NAME
 *
 * A share above 100 % means that the ceiling's loop is not the best one, not that physics gave way.
 */
#include "kernels/kernels.h"
#include "kernels/blocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench/ceiling.h"

#define MEMORY_BYTES	((size_t) 256 << 20) /* past every cache */
#define HUGE_PAGE_BYTES ((size_t) 2 << 20)
#define CACHE_BYTES		((size_t) 16 << 10) /* inside the first */
#define STREAM_BYTES	((size_t) 96 << 20) /* packed matrix that a single token reads */
#define SECONDS_EACH	0.02
#define N_REPETITIONS	5
#define N_COLS			1024
#define N_ROWS			256
#define N_BATCH_TOKENS	16
#define N_VECTOR		2048

typedef enum Bound
{
	BOUND_MEMORY,
	BOUND_CACHE,
	BOUND_FMA,
	BOUND_DOT,
	N_BOUNDS
} Bound;

static const char *const bound_names[N_BOUNDS] = { "memory", "cache", "f32 peak", "int8 peak" };

/* One operation on prepared inputs. A run writes everything it computes to `out`. */
typedef struct Job
{
	char name[32];
	size_t entry; /* of Kernels: which function it calls */
	void (*run)(const Kernels *kernels, const struct Job *job, float *out);
	bool is_slow; /* too slow for the reference, and covered by a smaller one */
	double n_mac;
	double n_bytes;
	Bound bound;

	/* inputs, as far as the operation has them */
	PackedMatrix matrix;
	Acts acts;
	const float *x;
	const float *y;
	AttentionTask attention;
	void *scratch;

	/* state */
	size_t out_bytes;
	float *out;
	float *expected; /* what the reference wrote */
} Job;

static double ceilings[KERNEL_N_ISAS][N_BOUNDS];
volatile float bench_sink; /* results go here, so that nothing is left out */

static void *
take(size_t n_bytes)
{
	size_t alignment = n_bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 64;
	void *memory = aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment);

	if (memory == NULL)
	{
		fprintf(stderr, "bench: no memory for %zu bytes\n", n_bytes);
		exit(1);
	}
	if (n_bytes >= HUGE_PAGE_BYTES)
		(void) madvise(memory, n_bytes, MADV_HUGEPAGE); /* as the engine does with weights */
	memset(memory, 0, n_bytes);
	return memory;
}

static uint32_t
random_next(void)
{
	static uint32_t state = 1;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static float *
random_floats(size_t n)
{
	float *x = take(n * sizeof(float));

	for (size_t i = 0; i < n; i++)
		x[i] = (float) (random_next() >> 8) / 8388608.0f - 1.0f;
	return x;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* ---- ceilings ---- */

static const Ceiling *
ceiling_of(KernelIsa isa)
{
#if defined(__x86_64__)
	if (isa == KERNEL_AVX2)
		return &ceiling_avx2;
	if (isa == KERNEL_AVX512)
		return &ceiling_avx512;
	if (isa == KERNEL_VNNI)
		return &ceiling_vnni;
#endif
	(void) isa;
	return NULL;
}

static void
best_keep(double *best, double rate)
{
	if (rate > *best)
		*best = rate;
}

static void
ceilings_measure(KernelIsa isa)
{
	const Ceiling *ceiling = ceiling_of(isa);
	int64_t n_steps = 1 << 20;
	double n_mac;
	float *memory;

	if (ceiling == NULL)
		return;
	n_mac = (double) n_steps * CEILING_CHAINS * ceiling->lanes;
	memory = random_floats(MEMORY_BYTES / sizeof(float));
	for (int r = 0; r < N_REPETITIONS; r++)
	{
		double t0 = now(), t1, t2, t3;

		bench_sink = ceiling->read(memory, MEMORY_BYTES / sizeof(float), 1);
		t1 = now();
		bench_sink = ceiling->read(memory, CACHE_BYTES / sizeof(float), MEMORY_BYTES / CACHE_BYTES);
		t2 = now();
		bench_sink = ceiling->fma(n_steps);
		t3 = now();
		bench_sink = (float) ceiling->dot(n_steps);
		best_keep(&ceilings[isa][BOUND_MEMORY], (double) MEMORY_BYTES / (t1 - t0));
		best_keep(&ceilings[isa][BOUND_CACHE], (double) MEMORY_BYTES / (t2 - t1));
		best_keep(&ceilings[isa][BOUND_FMA], n_mac / (t3 - t2));
		best_keep(&ceilings[isa][BOUND_DOT], 4 * n_mac / (now() - t3));
	}
	free(memory);
	printf("ceiling %-8s memory %5.1f GB/s   cache %6.1f GB/s   f32 %6.1f GMAC/s   int8 %6.1f "
		   "GMAC/s\n",
		   kernel_isa_name(isa), ceilings[isa][BOUND_MEMORY] / 1e9,
		   ceilings[isa][BOUND_CACHE] / 1e9, ceilings[isa][BOUND_FMA] / 1e9,
		   ceilings[isa][BOUND_DOT] / 1e9);
}

/* ---- measuring a job ---- */

/* In-place operations begin with x in out. */
static void
out_reset(const Job *job)
{
	memset(job->out, 0, job->out_bytes);
	if (job->x != NULL)
		memcpy(job->out, job->x, N_VECTOR * sizeof(float));
}

static double
seconds_per_call(const Kernels *kernels, const Job *job)
{
	double best = 1e9;
	int64_t n = 1;

	for (int r = 0; r < N_REPETITIONS;)
	{
		double start = now();
		double seconds;

		for (int64_t i = 0; i < n; i++)
			job->run(kernels, job, job->out);
		seconds = now() - start;
		if (seconds < SECONDS_EACH && n < INT64_C(1) << 40)
		{
			n = seconds > SECONDS_EACH / 100 ? (int64_t) ((double) n * 1.2 * SECONDS_EACH / seconds)
											 : n * 10;
			n++;
			continue;
		}
		if (seconds / (double) n < best)
			best = seconds / (double) n;
		r++;
	}
	return best;
}

static bool
entry_is_same(const Kernels *a, const Kernels *b, size_t entry)
{
	return memcmp((const char *) a + entry, (const char *) b + entry, sizeof(void (*)(void))) == 0;
}

static bool
job_compare(const Kernels *kernels, const Job *job, KernelIsa isa)
{
	out_reset(job);
	job->run(kernels, job, job->out);
	if (isa == KERNEL_REF)
		memcpy(job->expected, job->out, job->out_bytes);
	return memcmp(job->expected, job->out, job->out_bytes) == 0;
}

/* False when a result was not the reference's. */
static bool
job_measure(const Job *job)
{
	double ref_seconds = 0;
	Kernels before;
	bool all_equal = true;

	for (KernelIsa isa = KERNEL_REF; isa < KERNEL_N_ISAS; isa++)
	{
		Kernels kernels;
		double seconds;
		double rate;
		bool is_equal;
		bool is_new;

		if (!kernels_for_isa(isa, &kernels))
			break;
		is_new = isa == KERNEL_REF ? !job->is_slow : !entry_is_same(&kernels, &before, job->entry);
		before = kernels;
		if (!is_new)
			continue;
		is_equal = job->is_slow || job_compare(&kernels, job, isa);
		all_equal = all_equal && is_equal;
		seconds = seconds_per_call(&kernels, job);
		if (isa == KERNEL_REF)
			ref_seconds = seconds;
		rate = (job->bound == BOUND_DOT || job->bound == BOUND_FMA ? job->n_mac : job->n_bytes) /
			   seconds;
		printf("%-24s %-7s %-7s %10.2f us", job->name, kernel_isa_name(isa),
			   job->is_slow ? ""
			   : is_equal	? "equal"
							: "DIFFERS",
			   seconds * 1e6);
		if (job->n_mac > 0)
			printf(" %8.2f GMAC/s", job->n_mac / seconds / 1e9);
		else
			printf("%16s", "");
		printf(" %8.2f GB/s", job->n_bytes / seconds / 1e9);
		if (ceilings[isa][job->bound] > 0)
			printf(" %5.0f %% of %-9s", 100 * rate / ceilings[isa][job->bound],
				   bound_names[job->bound]);
		if (isa > KERNEL_REF && ref_seconds > 0)
			printf(" %6.1f x ref", ref_seconds / seconds);
		printf("\n");
	}
	return all_equal;
}

/* ---- matrix products ---- */

static const struct
{
	const char *name;
	uint32_t type;
	size_t row_bytes; /* of N_COLS columns in the file */
} types[] = {
	{ "f32", BLOCK_F32, 4 * N_COLS },
	{ "f16", BLOCK_F16, 2 * N_COLS },
	{ "bf16", BLOCK_BF16, 2 * N_COLS },
	{ "q4_0", BLOCK_Q4_0, sizeof(BlockQ4_0) * N_COLS / 32 },
	{ "q4_1", BLOCK_Q4_1, sizeof(BlockQ4_1) * N_COLS / 32 },
	{ "q5_0", BLOCK_Q5_0, sizeof(BlockQ5_0) * N_COLS / 32 },
	{ "q5_1", BLOCK_Q5_1, sizeof(BlockQ5_1) * N_COLS / 32 },
	{ "q8_0", BLOCK_Q8_0, sizeof(BlockQ8_0) * N_COLS / 32 },
	{ "q4_k", BLOCK_Q4_K, sizeof(BlockQ4_K) * N_COLS / 256 },
	{ "q5_k", BLOCK_Q5_K, sizeof(BlockQ5_K) * N_COLS / 256 },
	{ "q6_k", BLOCK_Q6_K, sizeof(BlockQ6_K) * N_COLS / 256 },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

/*
 * Random bytes that are neither infinite nor NaN nor too small for a normal number, in the element
 * or scale of every format: bit 14 of each half is clear and bit 13 set.
 */
static void
rows_fill(uint32_t type, unsigned char *rows, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		rows[i] = (unsigned char) ((random_next() & 0xBF) | 0x20);
	for (size_t i = 3; type == BLOCK_F32 && i < n_bytes; i += 4)
		rows[i] |= 0x38;
	for (size_t i = 1; type == BLOCK_BF16 && i < n_bytes; i += 2)
		rows[i] |= 0x38;
}

/* N_ROWS random rows, repeated until the packed matrix has at least min_bytes. */
static PackedMatrix
matrix_random(size_t which, size_t min_bytes)
{
	uint32_t type = types[which].type;
	size_t n_bytes = types[which].row_bytes * N_ROWS;
	size_t packed = packed_bytes(type, N_ROWS, N_COLS);
	size_t n_copies = min_bytes / packed + 1;
	unsigned char *rows = take(n_bytes);
	char *data = take(packed * n_copies);

	rows_fill(type, rows, n_bytes);
	matrix_pack(type, rows, N_ROWS, N_COLS, 0, N_ROWS / KERNEL_ROW_GROUP, data);
	for (size_t i = 1; i < n_copies; i++)
		memcpy(data + i * packed, data, packed);
	free(rows);
	return (PackedMatrix){ type, (int32_t) (N_ROWS * n_copies), N_COLS, data, packed * n_copies };
}

static void
matmul_run(const Kernels *kernels, const Job *job, float *out)
{
	kernels->matmul(&job->matrix, &job->acts, 0, job->matrix.n_rows / KERNEL_ROW_GROUP, out,
					job->matrix.n_rows);
}

static Acts
acts_random(int32_t n_tokens)
{
	Acts acts;
	Kernels ref;

	kernels_for_isa(KERNEL_REF, &ref);
	acts_place(&acts, n_tokens, N_COLS, random_floats((size_t) n_tokens * N_COLS),
			   take(acts_bytes(n_tokens, N_COLS)));
	ref.quantize_acts(&acts, 0, n_tokens);
	return acts;
}

/* One token streams a large matrix from memory; a batch has a small one in the cache. */
static Job
matmul_job(size_t which, int32_t n_tokens)
{
	Job job = { .entry = offsetof(Kernels, matmul), .run = matmul_run, .is_slow = n_tokens == 1 };

	snprintf(job.name, sizeof(job.name), "matmul %s, %d token%s", types[which].name, n_tokens,
			 n_tokens == 1 ? "" : "s");
	job.matrix = matrix_random(which, n_tokens == 1 ? STREAM_BYTES : 0);
	job.acts = acts_random(n_tokens);
	job.n_mac = (double) n_tokens * job.matrix.n_rows * N_COLS;
	job.n_bytes = (double) job.matrix.n_bytes;
	job.bound = n_tokens == 1									  ? BOUND_MEMORY
				: packed_act_kind(types[which].type) == ACT_CODES ? BOUND_DOT
																  : BOUND_FMA;
	job.out_bytes = (size_t) n_tokens * (size_t) job.matrix.n_rows * sizeof(float);
	return job;
}

/* ---- vectors ---- */

static void
quantize_run(const Kernels *kernels, const Job *job, float *out)
{
	Acts acts;

	acts_place(&acts, 1, N_VECTOR, job->y, out);
	kernels->quantize_acts(&acts, 0, 1);
}

static void
rms_norm_run(const Kernels *kernels, const Job *job, float *out)
{
	kernels->rms_norm(job->y, job->y + N_VECTOR, N_VECTOR, 1e-5f, out);
}

/* 32 heads of 64, turned by an angle each pair */
static void
rope_run(const Kernels *kernels, const Job *job, float *out)
{
	static float cos_of[32];
	static float sin_of[32];

	for (int i = 0; i < 32 && cos_of[31] == 0.0f; i++)
	{
		cos_of[i] = cosf((float) i);
		sin_of[i] = sinf((float) i);
	}
	for (int h = 0; h < N_VECTOR / 64; h++)
		kernels->rope(out + 64 * h, cos_of, sin_of, 64, job->name[5] == 'i');
}

static void
swiglu_run(const Kernels *kernels, const Job *job, float *out)
{
	kernels->swiglu(job->y, job->y + N_VECTOR, N_VECTOR, out);
}

static void
add_run(const Kernels *kernels, const Job *job, float *out)
{
	kernels->add(out, job->y, N_VECTOR);
}

static void
argmax_run(const Kernels *kernels, const Job *job, float *out)
{
	out[0] = (float) kernels->argmax(job->y, N_VECTOR);
}

static void
exp_sum_run(const Kernels *kernels, const Job *job, float *out)
{
	out[N_VECTOR] = kernels->exp_sum(job->y, N_VECTOR, 1.0f, out);
}

static void
max_finite_run(const Kernels *kernels, const Job *job, float *out)
{
	bool finite;

	out[0] = kernels->max_finite(job->y, N_VECTOR, &finite);
	out[1] = finite;
}

/* 16 heads of 64 each for keys and values, slot 5 of one page that is `out` */
static void
kv_write_run(const Kernels *kernels, const Job *job, float *out)
{
	bool is_f32 = strstr(job->name, "f32") != NULL;
	size_t head_bytes = (size_t) 2 * 64 * KV_PAGE_TOKENS * (is_f32 ? 4 : 2);
	KvLayer kv = { (char *) out, 16 * head_bytes, head_bytes, is_f32 ? KV_F32 : KV_F16, 16, 64 };

	kernels->kv_write(&kv, 0, 5, job->y, job->y + N_VECTOR / 2);
}

static const struct
{
	const char *name;
	size_t entry;
	void (*run)(const Kernels *kernels, const Job *job, float *out);
	int n_in; /* floats read and written, in units of the vector */
	int n_out;
	bool in_place;
} vectors[] = {
	{ "quantize_acts", offsetof(Kernels, quantize_acts), quantize_run, 1, 0, false },
	{ "rms_norm", offsetof(Kernels, rms_norm), rms_norm_run, 3, 1, false },
	{ "rope interleaved", offsetof(Kernels, rope), rope_run, 1, 1, true },
	{ "rope halves", offsetof(Kernels, rope), rope_run, 1, 1, true },
	{ "swiglu", offsetof(Kernels, swiglu), swiglu_run, 2, 1, false },
	{ "add", offsetof(Kernels, add), add_run, 2, 1, true },
	{ "argmax", offsetof(Kernels, argmax), argmax_run, 1, 0, false },
	{ "exp_sum", offsetof(Kernels, exp_sum), exp_sum_run, 1, 1, false },
	{ "max_finite", offsetof(Kernels, max_finite), max_finite_run, 1, 0, false },
	{ "kv_write f16", offsetof(Kernels, kv_write), kv_write_run, 1, 1, false },
	{ "kv_write f32", offsetof(Kernels, kv_write), kv_write_run, 1, 1, false },
};
#define N_VECTORS (sizeof(vectors) / sizeof(vectors[0]))

static Job
vector_job(size_t which)
{
	Job job = { .entry = vectors[which].entry, .run = vectors[which].run, .bound = BOUND_CACHE };

	snprintf(job.name, sizeof(job.name), "%s", vectors[which].name);
	job.x = vectors[which].in_place ? random_floats(N_VECTOR) : NULL;
	job.y = random_floats(2 * N_VECTOR);
	job.n_bytes = 4.0 * N_VECTOR * (vectors[which].n_in + vectors[which].n_out);
	job.out_bytes = (size_t) 16 * 2 * 64 * KV_PAGE_TOKENS * 4; /* the largest: f32 pages */
	return job;
}

/* ---- attention: one new token of 4 query heads a KV head, over 4096 positions ---- */

#define N_POSITIONS 4096
#define N_KV_HEADS	8
#define N_GROUP		4
#define HEAD_DIM	64

static void
attention_run(const Kernels *kernels, const Job *job, float *out)
{
	for (int h = 0; h < N_KV_HEADS; h++)
	{
		AttentionTask task = job->attention;

		task.kv_head = h;
		task.q += (size_t) h * N_GROUP * HEAD_DIM;
		task.out = out + (size_t) h * N_GROUP * HEAD_DIM;
		kernels->attention(&task, job->scratch);
	}
}

static Job
attention_job(KvType type)
{
	static KvLayer kv;
	static int32_t block_table[N_POSITIONS / KV_PAGE_TOKENS];
	size_t item = type == KV_F32 ? 4 : 2;
	size_t head_bytes = 2 * HEAD_DIM * KV_PAGE_TOKENS * item;
	Job job = { .entry = offsetof(Kernels, attention), .run = attention_run };
	Kernels ref;

	kernels_for_isa(KERNEL_REF, &ref);
	snprintf(job.name, sizeof(job.name), "attention %s", type == KV_F32 ? "f32" : "f16");
	kv = (KvLayer){ NULL, N_KV_HEADS * head_bytes, head_bytes, type, N_KV_HEADS, HEAD_DIM };
	kv.base = take(kv.page_bytes * (N_POSITIONS / KV_PAGE_TOKENS));
	for (int32_t p = 0; p < N_POSITIONS; p++)
	{
		float *row = random_floats((size_t) 2 * N_KV_HEADS * HEAD_DIM);

		/* pages lie scattered, as they do after some hours */
		block_table[p / KV_PAGE_TOKENS] = p / KV_PAGE_TOKENS * 37 % (N_POSITIONS / KV_PAGE_TOKENS);
		ref.kv_write(&kv, block_table[p / KV_PAGE_TOKENS], p % KV_PAGE_TOKENS, row,
					 row + (size_t) N_KV_HEADS * HEAD_DIM);
		free(row);
	}
	job.attention = (AttentionTask){ .kv = &kv,
									 .block_table = block_table,
									 .n_group = N_GROUP,
									 .n_tokens = 1,
									 .first_position = N_POSITIONS - 1,
									 .scale = 0.125f,
									 .q = random_floats((size_t) N_KV_HEADS * N_GROUP * HEAD_DIM),
									 .token_stride = N_KV_HEADS * N_GROUP * HEAD_DIM };
	job.scratch = take(attention_scratch_bytes(N_POSITIONS, HEAD_DIM));
	job.n_mac = 2.0 * N_KV_HEADS * N_GROUP * HEAD_DIM * N_POSITIONS;
	job.n_bytes = (double) kv.page_bytes * (N_POSITIONS / KV_PAGE_TOKENS);
	job.bound = BOUND_FMA;
	job.out_bytes = (size_t) N_KV_HEADS * N_GROUP * HEAD_DIM * sizeof(float);
	return job;
}

/* ---- all of them ---- */

/* Jobs in turn: matrix products by type, vectors, attention. False past the last. */
static bool
job_make(size_t index, Job *out)
{
	if (index < 2 * N_TYPES)
		*out = matmul_job(index / 2, index % 2 == 0 ? 1 : N_BATCH_TOKENS);
	else if (index < 2 * N_TYPES + N_VECTORS)
		*out = vector_job(index - 2 * N_TYPES);
	else if (index < 2 * N_TYPES + N_VECTORS + 2)
		*out = attention_job(index % 2 == (2 * N_TYPES + N_VECTORS) % 2 ? KV_F16 : KV_F32);
	else
		return false;
	out->out = take(out->out_bytes);
	out->expected = take(out->out_bytes);
	return true;
}

static void
job_free(Job *job)
{
	free((void *) job->matrix.data);
	free((void *) job->acts.f32);
	free(job->acts.codes);
	free((void *) job->x);
	free((void *) job->y);
	free(job->attention.kv != NULL ? job->attention.kv->base : NULL);
	free((void *) job->attention.q);
	free(job->scratch);
	free(job->out);
	free(job->expected);
}

int
main(int argc, char **argv)
{
	const char *prefix = argc > 1 ? argv[1] : "";
	bool all_equal = true;
	Job job;

	for (KernelIsa isa = KERNEL_REF; isa <= kernels_detect(); isa++)
		ceilings_measure(isa);
	for (size_t i = 0; job_make(i, &job); i++)
	{
		if (strncmp(job.name, prefix, strlen(prefix)) == 0)
			all_equal = job_measure(&job) && all_equal;
		job_free(&job);
	}
	if (!all_equal)
		printf("A kernel DIFFERS from the reference.\n");
	return all_equal ? 0 : 1;
}
