/*
 * Token ids against the reference tokenizers, and texts that nobody writes in good faith.
 */
#include "engine/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "golden.h"

typedef struct Fixture
{
	Tokenizer *tokenizer;
	Arena arena;
} Fixture;

static void
fixture_open(Fixture *fixture, const char *path)
{
	InferError err;
	Gguf *gguf;

	assert_true(gguf_open(path, &gguf, &err));
	if (!tokenizer_create(gguf, &fixture->tokenizer, &err))
		fail_msg("%s: %s", err.message, err.detail);
	gguf_close(gguf);
	arena_init(&fixture->arena, 0);
}

static void
fixture_close(Fixture *fixture)
{
	arena_reset(&fixture->arena);
	tokenizer_destroy(fixture->tokenizer);
}

static TokenList
ids_of(Fixture *fixture, const char *text, size_t n_bytes, bool special)
{
	TokenizePart part = { text, n_bytes, special };
	TokenList list = { NULL, 0 };
	InferError err;

	if (!tokenize_parts(fixture->tokenizer, &fixture->arena, &part, 1, NULL, &list, &err))
		fail_msg("%s", err.message);
	return list;
}

/* `got`, with `before` in front unless it is -1, and `after` behind, is the array of the line. */
static bool
ids_equal(const json_t *expected, TokenList got, int32_t before, int32_t after)
{
	size_t n = 0;
	size_t n_all = got.n_ids + (before >= 0) + (after >= 0);

	if (json_array_size(expected) != n_all)
		return false;
	if (before >= 0 && json_integer_value(json_array_get(expected, n++)) != before)
		return false;
	for (size_t i = 0; i < got.n_ids; i++)
		if (json_integer_value(json_array_get(expected, n++)) != got.ids[i])
			return false;
	return after < 0 || json_integer_value(json_array_get(expected, n)) == after;
}

static int
line_check(Fixture *fixture, const char *name, const json_t *line)
{
	const Tokenizer *t = fixture->tokenizer;
	const json_t *text = json_object_get(line, "text");
	const char *bytes = json_string_value(text);
	size_t n_bytes = json_string_length(text);
	bool plain =
		ids_equal(json_object_get(line, "ids"), ids_of(fixture, bytes, n_bytes, false), -1, -1);
	bool special =
		ids_equal(json_object_get(line, "ids_special"), ids_of(fixture, bytes, n_bytes, true),
				  tokenizer_adds_bos(t) ? tokenizer_bos_id(t) : -1,
				  tokenizer_adds_eos(t) ? tokenizer_eos_id(t) : -1);

	if (!plain || !special)
		print_message("%s: %s differs: %.60s\n", name, plain ? "ids_special" : "ids", bytes);
	return plain && special;
}

static void
golden_check(const char *name, const char *model)
{
	static char buffer[1 << 20];
	char path[128];
	Fixture fixture;
	FILE *file;
	int n_lines = 0;
	int n_same = 0;

	snprintf(path, sizeof(path), "tokenizers/%s.jsonl", name);
	fixture_open(&fixture, model);
	file = fopen(golden_path(path), "r");
	assert_non_null(file);
	while (fgets(buffer, sizeof(buffer), file) != NULL)
	{
		json_t *line = json_loads(buffer, JSON_ALLOW_NUL, NULL);

		assert_non_null(line);
		n_lines++;
		n_same += line_check(&fixture, name, line);
		json_decref(line);
	}
	fclose(file);
	fixture_close(&fixture);
	print_message("%-16s %d of %d texts the same\n", name, n_same, n_lines);
	assert_int_equal(n_same, n_lines);
}

static void
test_vocabularies_of_others_give_the_reference_ids(void **state)
{
	static const char *const names[] = { "gpt-2", "llama-bpe", "qwen2", "falcon",
										 "deepseek-coder" };

	(void) state;
	SKIP_WITHOUT(golden_path("tokenizers/gpt-2.gguf"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		char path[128];

		snprintf(path, sizeof(path), "tokenizers/%s.gguf", names[i]);
		golden_check(names[i], golden_path(path));
	}
}

static void
test_the_real_model_gives_the_reference_ids(void **state)
{
	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	SKIP_WITHOUT(golden_path("tokenizers/smollm2.jsonl"));
	golden_check("smollm2", REAL_MODEL);
}

static void
test_kinds_that_do_not_run_are_refused_by_name(void **state)
{
	static const char *const files[] = { "tokenizers/bert-bge.gguf", "tokenizers/llama-spm.gguf" };
	static const char *const kinds[] = { "\"bert\"", "\"llama\"" };

	(void) state;
	SKIP_WITHOUT(golden_path(files[0]));
	for (int i = 0; i < 2; i++)
	{
		Tokenizer *tokenizer;
		InferError err;
		Gguf *gguf;

		assert_true(gguf_open(golden_path(files[i]), &gguf, &err));
		assert_false(tokenizer_create(gguf, &tokenizer, &err));
		assert_int_equal(err.code, INFER_BAD_MODEL);
		assert_non_null(strstr(err.message, kinds[i]));
		gguf_close(gguf);
	}
}

/* Every byte sequence comes back as it was, as far as it is text. */
static void
assert_round_trip(Fixture *fixture, const char *text, size_t n_bytes)
{
	TokenList list = ids_of(fixture, text, n_bytes, false);
	InferError err;
	size_t n_back;
	char *back;

	assert_true(detokenize(fixture->tokenizer, &fixture->arena, list.ids, list.n_ids, false, &back,
						   &n_back, &err));
	assert_int_equal(n_back, n_bytes);
	assert_memory_equal(back, text, n_bytes);
}

static void
test_texts_come_back_as_they_were(void **state)
{
	static const char *const texts[] = {
		"",
		" ",
		"  \n\t ",
		"Hello, world!",
		"don't I'LL we've",
		"1234567 12,345.67",
		"na\xc3\xafve caf\xc3\xa9 \xe2\x82\xac",
		"\xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80 mix",
		"<|im_start|>user\n<|im_end|>",
		"\xef\xbf\xbd",
		"a\r\n\r\nb   c",
	};
	Fixture fixture;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	fixture_open(&fixture, REAL_MODEL);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_round_trip(&fixture, texts[i], strlen(texts[i]));
	assert_round_trip(&fixture, "nul \0 inside", 12);
	fixture_close(&fixture);
}

static void
test_user_text_never_becomes_a_control_token(void **state)
{
	Fixture fixture;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	fixture_open(&fixture, REAL_MODEL);
	for (int32_t id = 0; id < (int32_t) tokenizer_vocab_size(fixture.tokenizer); id++)
	{
		size_t n_bytes;
		const char *text = tokenizer_token_text(fixture.tokenizer, id, &n_bytes);
		TokenList plain;
		TokenList special;

		if (!tokenizer_is_special(fixture.tokenizer, id))
			continue;
		plain = ids_of(&fixture, text, n_bytes, false);
		for (size_t i = 0; i < plain.n_ids; i++)
			assert_false(tokenizer_is_special(fixture.tokenizer, plain.ids[i]));
		special = ids_of(&fixture, text, n_bytes, true);
		assert_int_equal(special.n_ids, 1);
		assert_int_equal(special.ids[0], id);
	}
	fixture_close(&fixture);
}

/* A control token may not be put together from template text and what a user wrote. */
static void
test_a_control_token_lies_in_template_text_wholly(void **state)
{
	static const TokenizePart halves[] = { { "<|im_", 5, true }, { "end|>", 5, false } };
	static const TokenizePart whole[] = { { "<|im_", 5, true }, { "end|>", 5, true } };
	TokenList list;
	InferError err;
	Fixture fixture;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	fixture_open(&fixture, REAL_MODEL);
	assert_true(tokenize_parts(fixture.tokenizer, &fixture.arena, halves, 2, NULL, &list, &err));
	assert_true(list.n_ids > 1);
	for (size_t i = 0; i < list.n_ids; i++)
		assert_false(tokenizer_is_special(fixture.tokenizer, list.ids[i]));
	assert_true(tokenize_parts(fixture.tokenizer, &fixture.arena, whole, 2, NULL, &list, &err));
	assert_int_equal(list.n_ids, 1);
	assert_true(tokenizer_is_end(fixture.tokenizer, list.ids[0]));
	fixture_close(&fixture);
}

static void
test_parts_that_meet_are_one_text(void **state)
{
	static const char text[] = "The quick brown fox's 1234 jumps,\n\nover it.";
	Fixture fixture;
	TokenList whole;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	fixture_open(&fixture, REAL_MODEL);
	whole = ids_of(&fixture, text, strlen(text), false);
	for (size_t cut = 0; cut <= strlen(text); cut++)
	{
		TokenizePart parts[] = { { text, cut, true }, { text + cut, strlen(text) - cut, false } };
		TokenList list;
		InferError err;

		assert_true(tokenize_parts(fixture.tokenizer, &fixture.arena, parts, 2, NULL, &list, &err));
		assert_int_equal(list.n_ids, whole.n_ids);
		assert_memory_equal(list.ids, whole.ids, whole.n_ids * sizeof(int32_t));
	}
	fixture_close(&fixture);
}

#define HUGE_BYTES (1 << 20)

static void
test_a_megabyte_of_anything_is_tokenized(void **state)
{
	static const char *const units[] = { "a",	 " ",	 "\n",
										 "1",	 "!",	 "ab",
										 " \n",	 "'s",	 "\xf0\x9f\x98\x80",
										 "\xff", "\xc3", "\xe4\xb8\xad" };
	static const char *const files[] = { "tokenizers/llama-bpe.gguf", "tokenizers/gpt-2.gguf",
										 "tokenizers/deepseek-coder.gguf" };
	char *text = malloc(HUGE_BYTES + 8);

	(void) state;
	SKIP_WITHOUT(golden_path(files[0]));
	assert_non_null(text);
	for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++)
	{
		Fixture fixture;

		fixture_open(&fixture, golden_path(files[f]));
		for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++)
		{
			size_t n = 0;

			while (n < HUGE_BYTES)
			{
				memcpy(text + n, units[u], strlen(units[u]));
				n += strlen(units[u]);
			}
			assert_true(ids_of(&fixture, text, n, false).n_ids > 0);
			arena_reset(&fixture.arena);
		}
		fixture_close(&fixture);
	}
	free(text);
}

/* Bytes that are no text get ids all the same, and come back. */
static void
test_bytes_that_are_no_text_are_kept(void **state)
{
	char bytes[512];
	char raw[1024];
	TokenList list;
	size_t n_raw = 0;
	Fixture fixture;

	(void) state;
	SKIP_WITHOUT(golden_path("tokenizers/gpt-2.gguf"));
	fixture_open(&fixture, golden_path("tokenizers/gpt-2.gguf"));
	for (int i = 0; i < 512; i++)
		bytes[i] = (char) (i * 37 + i / 256);
	list = ids_of(&fixture, bytes, sizeof(bytes), false);
	for (size_t i = 0; i < list.n_ids; i++)
	{
		size_t n_piece;
		const char *piece = tokenizer_piece(fixture.tokenizer, list.ids[i], false, &n_piece);

		assert_true(n_raw + n_piece <= sizeof(raw));
		memcpy(raw + n_raw, piece, n_piece);
		n_raw += n_piece;
	}
	assert_int_equal(n_raw, sizeof(bytes));
	assert_memory_equal(raw, bytes, sizeof(bytes));
	fixture_close(&fixture);
}

static void
test_max_ids_stops_early_and_shows(void **state)
{
	static const TokenizeLimits few = { .max_ids = 10 };
	TokenizePart part = { NULL, 100000, false };
	char *text = malloc(100000);
	TokenList list;
	InferError err;
	Fixture fixture;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	assert_non_null(text);
	fixture_open(&fixture, REAL_MODEL);
	for (int i = 0; i < 100000; i++)
		text[i] = i % 5 == 0 ? ' ' : 'x';
	part.text = text;
	assert_true(tokenize_parts(fixture.tokenizer, &fixture.arena, &part, 1, &few, &list, &err));
	assert_in_range(list.n_ids, 11, 20);
	fixture_close(&fixture);
	free(text);
}

/* Also in the middle of a word: it is the only one here. */
static void
test_a_cancel_ends_even_a_long_word(void **state)
{
	static const _Atomic bool wanted = true;
	TokenizeLimits limits = { .cancel_wanted = &wanted };
	TokenizePart part = { NULL, 1000000, false };
	char *text = malloc(1000000);
	TokenList list;
	InferError err;
	Fixture fixture;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	assert_non_null(text);
	memset(text, 'x', 1000000);
	fixture_open(&fixture, REAL_MODEL);
	part.text = text;
	assert_false(tokenize_parts(fixture.tokenizer, &fixture.arena, &part, 1, &limits, &list, &err));
	assert_int_equal(err.code, INFER_CANCELLED);
	fixture_close(&fixture);
	free(text);
}

static void
test_characters_leave_whole_wherever_pieces_end(void **state)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
	size_t n = strlen(text);

	(void) state;
	for (size_t cut = 0; cut <= n; cut++)
	{
		Utf8Stream stream = { .n_pending = 0 };
		char out[64];
		size_t n_out = utf8_stream_push(&stream, text, cut, out);

		n_out += utf8_stream_push(&stream, text + cut, n - cut, out + n_out);
		n_out += utf8_stream_flush(&stream, out + n_out);
		assert_int_equal(n_out, n);
		assert_memory_equal(out, text, n);
	}
}

/* One U+FFFD for each stretch that could have begun a character, as Python and browsers do. */
static void
test_broken_characters_become_replacements(void **state)
{
	static const struct
	{
		const char *bytes;
		const char *text;
	} cases[] = {
		{ "a\xff"
		  "b",
		  "a\xef\xbf\xbd"
		  "b" },
		{ "\xe2\x82", "\xef\xbf\xbd" },
		{ "\xe2\x82x", "\xef\xbf\xbdx" },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xf0\x9f\x98", "\xef\xbf\xbd" },
		{ "\xf0\x9f\xe2\x82\xac", "\xef\xbf\xbd\xe2\x82\xac" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Utf8Stream stream = { .n_pending = 0 };
		char out[64];
		size_t n = utf8_stream_push(&stream, cases[i].bytes, strlen(cases[i].bytes), out);

		n += utf8_stream_flush(&stream, out + n);
		assert_int_equal(n, strlen(cases[i].text));
		assert_memory_equal(out, cases[i].text, n);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vocabularies_of_others_give_the_reference_ids),
		cmocka_unit_test(test_the_real_model_gives_the_reference_ids),
		cmocka_unit_test(test_kinds_that_do_not_run_are_refused_by_name),
		cmocka_unit_test(test_texts_come_back_as_they_were),
		cmocka_unit_test(test_user_text_never_becomes_a_control_token),
		cmocka_unit_test(test_a_control_token_lies_in_template_text_wholly),
		cmocka_unit_test(test_parts_that_meet_are_one_text),
		cmocka_unit_test(test_a_megabyte_of_anything_is_tokenized),
		cmocka_unit_test(test_bytes_that_are_no_text_are_kept),
		cmocka_unit_test(test_max_ids_stops_early_and_shows),
		cmocka_unit_test(test_a_cancel_ends_even_a_long_word),
		cmocka_unit_test(test_characters_leave_whole_wherever_pieces_end),
		cmocka_unit_test(test_broken_characters_become_replacements),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
