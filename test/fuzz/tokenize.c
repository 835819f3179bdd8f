/*
 * tokenize: a hostile text, and a hostile vocabulary.
 *
 * Byte 0 of the input picks a pre-tokenizer, byte 1 says how many edits (three bytes each: place,
 * place, value) are made to the file that holds the vocabulary; the rest is the text, which is
 * ordinary text up to its first zero byte and template text behind.
 *
 * Nothing may crash or take long. With the vocabulary as it is, which has all 256 bytes: every text
 * is tokenized; ordinary text gives no control token; cutting it in two parts changes nothing;
 * and the pieces of the ids together are the text, byte for byte. With an edited one each refusal
 * has a message.
 */
#include "test/unit/gguf_builder.h"

#include "engine/text/tokenizer.h"
#include "engine/text/vocab.h"

#include <stdio.h>

#define MAX_EDITS	 7
#define RESULT_BYTES ((size_t) 64 << 20)

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char *const pre_tokenizers[] = {
	"gpt-2",  "smollm",		 "llama-bpe",	   "dbrx",	 "qwen2",	"gpt-4o",
	"tekken", "deepseek-v3", "deepseek-coder", "falcon", "default", "bloom",
};
#define N_PRE (sizeof(pre_tokenizers) / sizeof(pre_tokenizers[0]))

static const char *const merges[] = { "t h",		  "th e", "\xc4\xa0 a", "i n",
									  "in g",		  "e r",  "a a",		"aa aa",
									  "\xc4\xa0 the", "1 2",  "12 3",		"\xc3\x83 \xc2\xa9",
									  "o n",		  "l l",  "ll o" };
#define N_MERGES (sizeof(merges) / sizeof(merges[0]))

static const char *const control[] = { "<|im_start|>", "<|im_end|>", "<s>" };
#define N_CONTROL (sizeof(control) / sizeof(control[0]))

#define N_TOKENS (256 + N_MERGES + N_CONTROL)

/* "t h" as the token that it makes: "th" */
static void
merged_token_put(GgufBuilder *b, const char *merge)
{
	const char *space = strchr(merge, ' ');
	char text[32];
	int n = snprintf(text, sizeof(text), "%.*s%s", (int) (space - merge), merge, space + 1);

	gguf_put_text(b, text, (size_t) n);
}

static GgufBuilder
vocabulary_file(const char *pre)
{
	GgufBuilder b = gguf_begin();

	gguf_put_string(&b, "tokenizer.ggml.model", "gpt2");
	gguf_put_string(&b, "tokenizer.ggml.pre", pre);
	gguf_put_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, N_TOKENS);
	for (int byte = 0; byte < 256; byte++)
	{
		char symbol[4];

		gguf_put_text(&b, symbol, (size_t) byte_symbol((unsigned char) byte, symbol));
	}
	for (size_t i = 0; i < N_MERGES; i++)
		merged_token_put(&b, merges[i]);
	for (size_t i = 0; i < N_CONTROL; i++)
		gguf_put_text(&b, control[i], strlen(control[i]));
	gguf_put_array(&b, "tokenizer.ggml.token_type", GGUF_INT32, N_TOKENS);
	for (size_t i = 0; i < N_TOKENS; i++)
		gguf_put_number(&b, i < 256 + N_MERGES ? TOKEN_NORMAL : TOKEN_CONTROL, 4);
	gguf_put_strings(&b, "tokenizer.ggml.merges", merges, N_MERGES);
	gguf_put_u32(&b, "tokenizer.ggml.bos_token_id", 256 + N_MERGES);
	gguf_put_u32(&b, "tokenizer.ggml.eos_token_id", 256 + N_MERGES + 1);
	return b;
}

/* NULL when the file is refused, which an unedited one may not be. */
static Tokenizer *
tokenizer_make(const char *pre, const uint8_t *edits, size_t n_edits)
{
	GgufBuilder b = vocabulary_file(pre);
	Tokenizer *tokenizer = NULL;
	Gguf *gguf = NULL;
	InferError err;

	for (size_t i = 0; i < n_edits; i++)
		b.bytes[((size_t) edits[3 * i] << 8 | edits[3 * i + 1]) % b.n_bytes] = edits[3 * i + 2];
	if (!gguf_open_memory(b.bytes, b.n_bytes, "fuzz.gguf", &gguf, &err) ||
		!tokenizer_create(gguf, &tokenizer, &err))
	{
		if (n_edits == 0 || err.message[0] == '\0')
			abort();
		tokenizer = NULL;
	}
	if (gguf != NULL)
		gguf_close(gguf);
	gguf_end(&b);
	return tokenizer;
}

/* Vocabularies as they are; each is made once. */
static Tokenizer *
tokenizer_of(size_t which)
{
	static Tokenizer *made[N_PRE];

	if (made[which] == NULL)
		made[which] = tokenizer_make(pre_tokenizers[which], NULL, 0);
	return made[which];
}

static void
pieces_check(const Tokenizer *tokenizer, TokenList list, const char *text, size_t n_text)
{
	size_t at = 0;

	for (size_t i = 0; i < list.n_ids; i++)
	{
		size_t n;
		const char *piece = tokenizer_piece(tokenizer, list.ids[i], true, &n);

		if (n > n_text - at || memcmp(piece, text + at, n) != 0)
			abort();
		at += n;
	}
	if (at != n_text)
		abort();
}

static void
plain_check(const Tokenizer *tokenizer, Arena *arena, const char *text, size_t n_text)
{
	size_t cut = n_text / 3;
	TokenizePart halves[] = { { text, cut, false }, { text + cut, n_text - cut, false } };
	TokenList whole, parts;
	InferError err;

	if (!tokenize_plain(tokenizer, arena, text, n_text, &whole, &err) ||
		!tokenize_parts(tokenizer, arena, halves, 2, NULL, &parts, &err))
		abort();
	for (size_t i = 0; i < whole.n_ids; i++)
		if (whole.ids[i] < 0 || (size_t) whole.ids[i] >= tokenizer_vocab_size(tokenizer) ||
			tokenizer_is_special(tokenizer, whole.ids[i]))
			abort();
	if (whole.n_ids != parts.n_ids)
		abort();
	for (size_t i = 0; i < whole.n_ids; i++)
		if (whole.ids[i] != parts.ids[i])
			abort();
	pieces_check(tokenizer, whole, text, n_text);
}

static void
mixed_check(const Tokenizer *tokenizer, Arena *arena, const char *text, size_t n_text,
			bool is_whole)
{
	const char *zero = n_text > 0 ? memchr(text, '\0', n_text) : NULL;
	size_t n_plain = zero != NULL ? (size_t) (zero - text) : n_text;
	TokenizePart parts[] = { { text, n_plain, false }, { text + n_plain, n_text - n_plain, true } };
	TokenList list;
	InferError err;
	char *back;
	size_t n_back;

	if (!tokenize_parts(tokenizer, arena, parts, 2, NULL, &list, &err))
	{
		if (is_whole || err.message[0] == '\0')
			abort();
		return;
	}
	if (!detokenize(tokenizer, arena, list.ids, list.n_ids, true, &back, &n_back, &err) &&
		err.message[0] == '\0')
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	size_t n_edits = n_bytes > 1 ? data[1] % (MAX_EDITS + 1) : 0;
	size_t n_head = 2 + 3 * n_edits;
	const char *text = (const char *) data + n_head;
	Tokenizer *tokenizer;
	Arena arena;

	if (n_bytes < n_head)
		return 0;
	tokenizer = n_edits == 0 ? tokenizer_of(data[0] % N_PRE)
							 : tokenizer_make(pre_tokenizers[data[0] % N_PRE], data + 2, n_edits);
	if (tokenizer == NULL)
		return 0;
	arena_init(&arena, RESULT_BYTES);
	if (n_edits == 0)
		plain_check(tokenizer, &arena, text, n_bytes - n_head);
	mixed_check(tokenizer, &arena, text, n_bytes - n_head, n_edits == 0);
	arena_reset(&arena);
	if (n_edits > 0)
		tokenizer_destroy(tokenizer);
	return 0;
}
