/*
 * kernels.h: the arithmetic of a transformer on one CPU thread, as one table of functions.
 *
 * kernels_select() fills the table with the scalar references and then overwrites what the machine
 * has: AVX2, AVX-512, AVX-512 VNNI, AMX. INFER_CPU=ref|avx2|avx512|vnni|amx caps the choice.
 * Choosing happens once; after that the table is read-only.
 *
 * Every function is pure: it allocates nothing, keeps nothing, may run on any thread, and touches
 * only the range that its arguments name. Splitting work over threads is the caller's business.
 *
 * One summation order (design.md §3.2). Each output element is a function of its own inputs alone,
 * computed in an order that does not depend on how many tokens, rows, pages or threads take part,
 * and that *every* variant follows, the reference included: results are equal bit for bit across
 * n_tokens, chunking, threads and instruction sets. The orders:
 *
 *   quantized matmul
 *       blocks of 32 columns ascending; a block's dot is exact in int32; then
 *       acc = fma(scale_w * scale_x, (float) dot, acc), and where the type has a minimum
 *       acc = fma(min_w, scale_x * (float) sum_x, acc) (signs as the type has them)
 *   float matmul
 *       columns ascending, acc = fma(w, x, acc), one lane per output row
 *   sums over a vector (norms, softmax)
 *       16 partial sums, element i into partial i % 16, ascending; then halves are added: 8 + 8,
 *       4 + 4, 2 + 2, 1 + 1
 *   attention
 *       scores: head_dim ascending by fma; values: positions ascending by fma
 *   exp
 *       one polynomial (Cephes-style range reduction), the same operations in each variant
 *
 * Weights are repacked at load time ("packed"): 16 rows interleaved, one SIMD lane per row, so that
 * a matmul needs no shuffle and no horizontal sum. kernels/README.md draws the layouts.
 *
 * Vectors are f32. n_cols and head_dim are multiples of what the type's block demands; buffers are
 * 64-byte aligned where the contract says "aligned". Pointers never overlap unless the text says
 * so.
 */
#ifndef INFER_KERNELS_H
#define INFER_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_ROW_GROUP   16 /* rows interleaved in a packed matrix: one zmm of f32 */
#define KERNEL_BLOCK_ITEMS 32 /* activations that share a scale */
#define ACT_TILE_TOKENS	   16 /* tokens whose activations lie together */
#define KV_PAGE_TOKENS	   16 /* positions in a page of the KV cache: one zmm of f32 scores */

/* ---- packed weights ---- */

/*
 * A matrix [n_rows][n_cols] ready for the kernels. `type` is the GGUF type id it was made of.
 * Rows are padded to a multiple of 16 with zeros; data is 64-byte aligned.
 */
typedef struct PackedMatrix
{
	uint32_t type;
	int32_t n_rows;
	int32_t n_cols;
	const void *data;
	size_t n_bytes;
} PackedMatrix;

/* True when this type (GGUF id) can be packed and multiplied with rows of n_cols. */
extern bool packed_type_runs(uint32_t type, int64_t n_cols);

/* Bytes of the packed form, 0 on overflow or a type that does not run. */
extern size_t packed_bytes(uint32_t type, int64_t n_rows, int64_t n_cols);

/*
 * Packs row groups [first_group, first_group + n_groups) of a matrix whose rows lie at `rows` in
 * the file's format. Ranges are independent, so that loading can use all threads.
 */
extern void matrix_pack(uint32_t type, const void *rows, int32_t n_rows, int32_t n_cols,
						int32_t first_group, int32_t n_groups, void *packed);

/* Row of a packed matrix as f32, bit for bit what the format defines (embedding lookup). */
extern void packed_row(const PackedMatrix *m, int32_t row, float *out);

/* Row in the file's format as f32 (tests, and weights that are kept as f32: norms, biases). */
extern bool dequantize_row(uint32_t type, const void *row, int64_t n_cols, float *out);

/* ---- activations ---- */

typedef enum ActKind
{
	ACT_F32,  /* weights F32, F16, BF16 */
	ACT_CODES /* all quantized weights */
} ActKind;

/* What a packed matrix of this type multiplies with. */
extern ActKind packed_act_kind(uint32_t type);

/*
 * Activations of n_tokens rows, prepared once per matrix input and shared by all matrices that read
 * it (q, k and v; gate and up). The f32 pointer is always set; the rest only after quantize_acts.
 *
 *   f32    [n_tokens][n_cols]   aligned
 *
 * The rest is made of places, one for each token and block of 32 columns (acts_place_of says
 * which): tokens in tiles of ACT_TILE_TOKENS, in a tile block after block, in a block token after
 * token. So whatever a kernel takes together lies together, and a single token is one stream.
 *
 *   codes  [place][64]   32 high bytes, 32 low bytes; code = 128 high + low: round to nearest even
 *                        of 16256 x / max |x| of the block
 *   scale  [place]       max |x| / 16256 (0 for a block of zeros)
 *   sum    [place][2]    sums of codes over 16 columns: Q6_K has a scale per 16
 *   sum32  [place]       sum over the block
 *   offset [place]       scale * (float) sum32: what a type's minimum multiplies
 */
typedef struct Acts
{
	int32_t n_tokens;
	int32_t n_cols;
	const float *f32;
	int8_t *codes;
	float *scale;
	int32_t *sum;
	int32_t *sum32;
	float *offset;
} Acts;

/* Bytes that all but f32 of this shape needs together, each part aligned. */
extern size_t acts_bytes(int32_t n_tokens, int32_t n_cols);
/* Points them into memory of acts_bytes() bytes. */
extern void acts_place(Acts *acts, int32_t n_tokens, int32_t n_cols, const float *f32,
					   void *memory);

/* Tokens in the tile of this one: fewer in the last. */
static inline int32_t
acts_tile_tokens(const Acts *acts, int32_t token)
{
	int32_t left = acts->n_tokens - token / ACT_TILE_TOKENS * ACT_TILE_TOKENS;

	return left < ACT_TILE_TOKENS ? left : ACT_TILE_TOKENS;
}

/* Place of a token in a block; the next block of the same token is acts_tile_tokens() further. */
static inline size_t
acts_place_of(const Acts *acts, int32_t token, int32_t block)
{
	int32_t tile_start = token / ACT_TILE_TOKENS * ACT_TILE_TOKENS;

	return (size_t) tile_start * (size_t) (acts->n_cols / KERNEL_BLOCK_ITEMS) +
		   (size_t) block * (size_t) acts_tile_tokens(acts, token) + (size_t) (token - tile_start);
}

/* ---- attention ---- */

typedef enum KvType
{
	KV_F16,
	KV_F32
} KvType;

/*
 * The KV cache of one layer as the kernels see it. Page p of a sequence is block_table[p]; its K
 * and V of KV head h lie at
 *
 *   base + block_table[p] * page_bytes + h * head_bytes       K [head_dim][KV_PAGE_TOKENS]
 *                                            + head_bytes / 2 V [KV_PAGE_TOKENS][head_dim]
 */
typedef struct KvLayer
{
	char *base;
	size_t page_bytes;
	size_t head_bytes;
	KvType type;
	int32_t n_kv_heads;
	int32_t head_dim;
} KvLayer;

/*
 * Query rows of one KV head of one sequence: n_tokens consecutive positions starting at
 * first_position, n_group query heads each.
 *
 *   q    row (t, g) at q + t * token_stride + g * head_dim; out likewise
 *   row t attends to positions max(0, first_position + t - window + 1) .. first_position + t
 *   (window 0: from 0), whose K and V have been written before the call.
 */
typedef struct AttentionTask
{
	const KvLayer *kv;
	const int32_t *block_table;
	int32_t kv_head;
	int32_t n_group;
	int32_t n_tokens;
	int32_t first_position;
	int32_t window;
	float scale;
	float softcap; /* 0: none; else scores become softcap * tanh(score / softcap) */
	const float *q;
	float *out;
	int32_t token_stride; /* floats between token rows of q and of out */
} AttentionTask;

/* Scratch that attention needs for contexts up to n_positions: bytes per thread, aligned. */
extern size_t attention_scratch_bytes(int32_t n_positions, int32_t head_dim);

/* ---- the table ---- */

typedef struct Kernels
{
	const char *name; /* as kernel_isa_name() has it */

	/* Fills them for tokens [first, first + n): whole tiles. */
	void (*quantize_acts)(Acts *acts, int32_t first, int32_t n);

	/*
	 * out[t * out_stride + r] = dot(row r, acts row t) for all tokens and the rows of groups
	 * [first_group, first_group + n_groups); rows past n_rows are not written. Reads each weight
	 * once for all tokens (in token blocks of at most 64 kB of activations).
	 */
	void (*matmul)(const PackedMatrix *m, const Acts *acts, int32_t first_group, int32_t n_groups,
				   float *out, int64_t out_stride);

	/* out[i] = x[i] * rsqrt(mean(x^2) + eps) * weight[i]; x may be out. One row. */
	void (*rms_norm)(const float *x, const float *weight, int32_t n, float eps, float *out);

	/*
	 * Rotates pairs of one head in place. cos/sin [n_rot / 2] of this position. Interleaved: pairs
	 * (2i, 2i + 1); halves: (i, i + n_rot / 2). Elements from n_rot on stay.
	 */
	void (*rope)(float *head, const float *cos, const float *sin, int32_t n_rot, bool interleaved);

	/* out[i] = silu(gate[i]) * up[i]; out may be gate. */
	void (*swiglu)(const float *gate, const float *up, int32_t n, float *out);

	/* x[i] += y[i] */
	void (*add)(float *x, const float *y, int32_t n);

	/* Writes k and v [n_kv_heads][head_dim] of one position into its page, rounded to the cache's
	 * type. */
	void (*kv_write)(const KvLayer *kv, int32_t page, int32_t slot_in_page, const float *k,
					 const float *v);

	void (*attention)(const AttentionTask *task, void *scratch);

	/* Index of the largest element; the first of equals; NaN never wins. */
	int32_t (*argmax)(const float *x, int32_t n);

	/* out[i] = exp(x[i] - max); returns their sum. out may be x. */
	float (*exp_sum)(const float *x, int32_t n, float max, float *out);

	/* Largest element (a zero is +0; NaN never wins), and whether every element is finite. */
	float (*max_finite)(const float *x, int32_t n, bool *all_finite);
} Kernels;

typedef enum KernelIsa
{
	KERNEL_REF,
	KERNEL_AVX2,
	KERNEL_AVX512,
	KERNEL_VNNI,
	KERNEL_AMX,
	KERNEL_N_ISAS
} KernelIsa;

/* "ref", "avx2", ...; used by INFER_CPU and messages. */
extern const char *kernel_isa_name(KernelIsa isa);

/*
 * Best that this machine can run (cpuid and the OS's xgetbv). Where there is AMX it asks Linux for
 * its registers, which holds for the whole process.
 */
extern KernelIsa kernels_detect(void);

/* Table for exactly this ISA; false when the machine lacks it. */
extern bool kernels_for_isa(KernelIsa isa, Kernels *out);

/*
 * Table for this process: the best, capped by INFER_CPU. False (with the text of the valid
 * names in *problem) when INFER_CPU holds anything else.
 */
extern bool kernels_select(Kernels *out, const char **problem);

#endif
