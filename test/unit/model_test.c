/*
 * What a damaged or unusual file says about its shape ends in a clean refusal that names the key or
 * the tensor: real files of golden/models with a few bytes changed.
 */
#include "engine/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "golden.h"

typedef struct File
{
	char *bytes;
	size_t n_bytes;
} File;

static File
file_read(const char *path)
{
	File file = { 0 };
	FILE *stream = fopen(path, "rb");

	assert_non_null(stream);
	fseek(stream, 0, SEEK_END);
	file.n_bytes = (size_t) ftell(stream);
	rewind(stream);
	file.bytes = malloc(file.n_bytes);
	assert_non_null(file.bytes);
	assert_int_equal(fread(file.bytes, 1, file.n_bytes, stream), file.n_bytes);
	fclose(stream);
	return file;
}

/* The place behind the first occurrence of a text in the file. */
static char *
file_after(const File *file, const char *text)
{
	char *at = memmem(file->bytes, file->n_bytes, text, strlen(text));

	assert_non_null(at);
	return at + strlen(text);
}

static bool
file_load(const File *file, Model **model, InferError *err)
{
	Gguf *gguf = NULL;
	bool done;

	*model = NULL;
	if (!gguf_open_memory(file->bytes, file->n_bytes, "patched.gguf", &gguf, err))
		return false;
	done = model_load(gguf, NULL, NULL, NULL, model, err);
	gguf_close(gguf);
	return done;
}

/* Everything that a person gets to read. */
static bool
error_mentions(const InferError *err, const char *text)
{
	return strstr(err->message, text) != NULL || strstr(err->detail, text) != NULL ||
		   strstr(err->hint, text) != NULL;
}

static void
assert_refused(const File *file, const char *mentioned)
{
	InferError err;
	Model *model;

	if (file_load(file, &model, &err))
		fail_msg("a file was loaded that should be refused for %s", mentioned);
	assert_int_equal(err.code, INFER_BAD_MODEL);
	assert_non_null(strstr(err.message, "patched.gguf"));
	if (!error_mentions(&err, mentioned))
		fail_msg("expected \"%s\" in: %s / %s", mentioned, err.message, err.detail);
}

/* A key's value is its type (4 bytes) and 4 bytes for the types that are patched here. */
static void
assert_patched_key_refused(const char *path, const char *key, uint32_t bits)
{
	File file = file_read(path);

	memcpy(file_after(&file, key) + 4, &bits, 4);
	assert_refused(&file, key);
	free(file.bytes);
}

#define F32_NAN		 0x7fc00000u
#define F32_INFINITY 0x7f800000u
#define F32_NEGATIVE 0xbf800000u

static void
test_numbers_out_of_range_are_refused(void **state)
{
	static const struct
	{
		const char *key;
		uint32_t bits;
	} patches[] = {
		{ "llama.block_count", 0 },
		{ "llama.block_count", UINT32_MAX },
		{ "llama.block_count", 1 << 20 },
		{ "llama.embedding_length", 0 },
		{ "llama.embedding_length", UINT32_MAX },
		{ "llama.feed_forward_length", 0 },
		{ "llama.context_length", 0 },
		{ "llama.context_length", 1u << 31 },
		{ "llama.attention.head_count", 0 },
		{ "llama.attention.head_count_kv", 0 },
		{ "llama.attention.head_count_kv", 5 },
		{ "llama.attention.key_length", 0 },
		{ "llama.attention.key_length", 1 << 30 },
		{ "llama.attention.layer_norm_rms_epsilon", F32_NAN },
		{ "llama.attention.layer_norm_rms_epsilon", F32_NEGATIVE },
		{ "llama.rope.dimension_count", 0 },
		{ "llama.rope.dimension_count", 64 },
		{ "llama.rope.freq_base", F32_NAN },
		{ "llama.rope.freq_base", F32_INFINITY },
		{ "llama.rope.freq_base", F32_NEGATIVE },
	};

	(void) state;
	SKIP_WITHOUT(golden_path("models/llama-dense.gguf"));
	for (size_t i = 0; i < sizeof(patches) / sizeof(patches[0]); i++)
		assert_patched_key_refused(golden_path("models/llama-dense.gguf"), patches[i].key,
								   patches[i].bits);
}

/* Each number may be right for itself and wrong beside the others. */
static void
test_numbers_that_contradict_each_other_are_refused(void **state)
{
	static const struct
	{
		const char *key;
		uint32_t bits;
		const char *mentioned;
	} patches[] = {
		{ "llama.attention.head_count_kv", 3, "do not go together" },
		{ "llama.attention.value_length", 16, "do not go together" },
		{ "llama.attention.head_count", 2, "attn_q.weight" },
		{ "llama.embedding_length", 64, "token_embd.weight" },
		{ "llama.feed_forward_length", 96, "ffn_gate.weight" },
		{ "llama.block_count", 3, "blk.2.attn_norm.weight" },
		{ "llama.block_count", 1, "blk.1." },
		{ "llama.rope.dimension_count", 31, "odd" },
	};

	(void) state;
	SKIP_WITHOUT(golden_path("models/llama-dense.gguf"));
	for (size_t i = 0; i < sizeof(patches) / sizeof(patches[0]); i++)
	{
		File file = file_read(golden_path("models/llama-dense.gguf"));

		memcpy(file_after(&file, patches[i].key) + 4, &patches[i].bits, 4);
		assert_refused(&file, patches[i].mentioned);
		free(file.bytes);
	}
}

static void
test_other_architectures_are_refused_by_name(void **state)
{
	static const char *const names[] = { "gemma2", "gpt2", "falcon", "phi3" };

	(void) state;
	SKIP_WITHOUT(golden_path("models/gemma2-dense.gguf"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		char path[64];
		InferError err;
		Gguf *gguf;
		ModelConfig config;

		snprintf(path, sizeof(path), "models/%s-dense.gguf", names[i]);
		assert_true(gguf_open(golden_path(path), &gguf, &err));
		assert_false(model_config_read(gguf, &config, &err));
		assert_int_equal(err.code, INFER_BAD_MODEL);
		assert_true(error_mentions(&err, names[i]));
		assert_true(error_mentions(&err, "llama, qwen2, qwen3"));
		gguf_close(gguf);
	}
}

static void
test_mixtures_of_experts_are_refused(void **state)
{
	InferError err;
	Model *model;
	File file;

	(void) state;
	SKIP_WITHOUT(golden_path("models/llama-moe.gguf"));
	file = file_read(golden_path("models/llama-moe.gguf"));
	assert_false(file_load(&file, &model, &err));
	assert_true(error_mentions(&err, "experts"));
	free(file.bytes);
}

static void
test_missing_tensors_are_named(void **state)
{
	static const char *const names[] = { "token_embd.weight", "output_norm.weight",
										 "blk.1.ffn_down.weight", "blk.0.attn_k.weight" };

	(void) state;
	SKIP_WITHOUT(golden_path("models/llama-dense.gguf"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		File file = file_read(golden_path("models/llama-dense.gguf"));

		file_after(&file, names[i])[-1] = 'X';
		assert_refused(&file, names[i]);
		free(file.bytes);
	}
}

static void
test_tensors_that_would_be_left_out_are_refused(void **state)
{
	File file;

	(void) state;
	SKIP_WITHOUT(golden_path("models/v-llama-ropefreqs.gguf"));
	file = file_read(golden_path("models/v-llama-ropefreqs.gguf"));
	file_after(&file, "rope_freqs.weight")[-1] = 'X';
	assert_refused(&file, "rope_freqs.weighX");
	free(file.bytes);
}

static void
test_norms_that_are_not_numbers_are_refused(void **state)
{
	uint32_t bits = F32_NAN;
	InferError err;
	Gguf *gguf;
	File file;
	const GgufTensor *norm;

	(void) state;
	SKIP_WITHOUT(golden_path("models/llama-dense.gguf"));
	file = file_read(golden_path("models/llama-dense.gguf"));
	assert_true(gguf_open_memory(file.bytes, file.n_bytes, "patched.gguf", &gguf, &err));
	norm = gguf_tensor_find(gguf, "blk.1.ffn_norm.weight");
	memcpy((char *) (uintptr_t) norm->data + 12, &bits, 4);
	gguf_close(gguf);
	assert_refused(&file, "blk.1.ffn_norm.weight");
	free(file.bytes);
}

static void
test_the_fingerprint_is_that_of_the_whole_file(void **state)
{
	InferError err;
	Model *a;
	Model *b;
	File file;

	(void) state;
	SKIP_WITHOUT(golden_path("models/llama-dense.gguf"));
	file = file_read(golden_path("models/llama-dense.gguf"));
	assert_true(file_load(&file, &a, &err));
	file.bytes[file.n_bytes - 2] ^= 1;
	assert_true(file_load(&file, &b, &err));
	assert_memory_not_equal(a->fingerprint, b->fingerprint, sizeof(a->fingerprint));
	model_free(a);
	model_free(b);
	free(file.bytes);
}

static bool
progress_stop(void *context, float done)
{
	int *n_calls = context;

	assert_true(done >= 0.0f && done <= 1.0f);
	return ++*n_calls < 3;
}

static void
test_loading_can_be_stopped(void **state)
{
	int n_calls = 0;
	InferError err;
	Model *model;
	Gguf *gguf;

	(void) state;
	SKIP_WITHOUT(golden_path("models/llama-dense.gguf"));
	assert_true(gguf_open(golden_path("models/llama-dense.gguf"), &gguf, &err));
	assert_false(model_load(gguf, NULL, progress_stop, &n_calls, &model, &err));
	assert_int_equal(err.code, INFER_CANCELLED);
	assert_int_equal(n_calls, 3);
	gguf_close(gguf);
}

static void
test_a_real_file_reads_as_its_publisher_made_it(void **state)
{
	InferError err;
	Model *model;
	Gguf *gguf;
	size_t n_bytes = 0;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	assert_true(gguf_open(REAL_MODEL, &gguf, &err));
	assert_true(model_weight_bytes(gguf, &n_bytes, &err));
	assert_true(model_load(gguf, NULL, NULL, NULL, &model, &err));
	gguf_close(gguf);
	assert_string_equal(model->config.arch->name, "llama");
	assert_int_equal(model->config.n_layers, 30);
	assert_int_equal(model->config.n_heads, 9);
	assert_int_equal(model->config.n_kv_heads, 3);
	assert_int_equal(model->config.n_vocab, 49152);
	assert_int_equal(model->n_parameters, 134515008);
	assert_string_equal(model->type_name, "Q4_1");
	assert_int_equal(model->weight_bytes, n_bytes);
	assert_ptr_equal(model->weights.output.data, model->weights.token_embd.data);
	model_free(model);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_out_of_range_are_refused),
		cmocka_unit_test(test_numbers_that_contradict_each_other_are_refused),
		cmocka_unit_test(test_other_architectures_are_refused_by_name),
		cmocka_unit_test(test_mixtures_of_experts_are_refused),
		cmocka_unit_test(test_missing_tensors_are_named),
		cmocka_unit_test(test_tensors_that_would_be_left_out_are_refused),
		cmocka_unit_test(test_norms_that_are_not_numbers_are_refused),
		cmocka_unit_test(test_the_fingerprint_is_that_of_the_whole_file),
		cmocka_unit_test(test_loading_can_be_stopped),
		cmocka_unit_test(test_a_real_file_reads_as_its_publisher_made_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
