#include "engine/text/vocab.h"

#include "engine/text/utf8.h"

#include <inttypes.h>
#include <string.h>

#define MAX_TOKENS		 (1 << 24)
#define MAX_TOKEN_BYTES	 4096
#define DAMAGED			 "vocabulary of model file \"%s\" is damaged\n"
#define TRY_ANOTHER_FILE "\nDownload the file again, or take it from another publisher."

/* ---- bytes as characters ----
 *
 * Printable Latin-1 characters stand for themselves; the other 68 bytes, in order, for U+0100 and
 * up (the table of GPT-2's encoder).
 */

static bool
byte_is_printable(unsigned int byte)
{
	return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

int
byte_symbol(unsigned char byte, char *out)
{
	uint32_t codepoint = 0x100;

	if (byte_is_printable(byte))
		return utf8_encode(byte, out);
	for (unsigned int b = 0; b < byte; b++)
		codepoint += !byte_is_printable(b);
	return utf8_encode(codepoint, out);
}

/* The byte of a character, or -1. */
static int
symbol_byte(uint32_t codepoint)
{
	uint32_t next = 0x100;

	if (codepoint < 0x100)
		return byte_is_printable(codepoint) ? (int) codepoint : -1;
	for (unsigned int b = 0; b < 0x100; b++)
		if (!byte_is_printable(b) && next++ == codepoint)
			return (int) b;
	return -1;
}

/* ---- by text ---- */

uint64_t
text_hash(const char *text, size_t n_bytes)
{
	uint64_t hash = 0xcbf29ce484222325u ^ n_bytes;

	for (size_t i = 0; i < n_bytes; i++)
		hash = (hash ^ (unsigned char) text[i]) * 0x100000001b3u;
	return hash ^ hash >> 29;
}

int32_t
vocab_find(const Vocab *vocab, const char *text, size_t n_bytes)
{
	uint32_t slot = (uint32_t) text_hash(text, n_bytes) & (vocab->n_slots - 1);

	for (; vocab->slots[slot] >= 0; slot = (slot + 1) & (vocab->n_slots - 1))
	{
		const VocabText *found = &vocab->tokens[vocab->slots[slot]].text;

		if (found->n_bytes == n_bytes && memcmp(found->bytes, text, n_bytes) == 0)
			return vocab->slots[slot];
	}
	return -1;
}

static bool
index_build(Arena *arena, Vocab *vocab)
{
	vocab->n_slots = 64;
	while (vocab->n_slots < 2 * (uint32_t) vocab->n_tokens)
		vocab->n_slots *= 2;
	vocab->slots = arena_alloc_array(arena, vocab->n_slots, sizeof(*vocab->slots));
	if (vocab->slots == NULL)
		return false;
	memset(vocab->slots, 0xff, vocab->n_slots * sizeof(*vocab->slots));
	for (int32_t id = 0; id < vocab->n_tokens; id++)
	{
		const VocabText *text = &vocab->tokens[id].text;
		uint32_t slot = (uint32_t) text_hash(text->bytes, text->n_bytes) & (vocab->n_slots - 1);

		if (vocab_find(vocab, text->bytes, text->n_bytes) >= 0)
			continue;
		while (vocab->slots[slot] >= 0)
			slot = (slot + 1) & (vocab->n_slots - 1);
		vocab->slots[slot] = id;
	}
	return true;
}

/* ---- reading ---- */

/* The bytes that the characters of a token stand for; what is no such character stays. */
static bool
piece_decode(Arena *arena, VocabToken *token)
{
	char *piece = arena_alloc(arena, token->text.n_bytes + 1);
	size_t n = 0;

	if (piece == NULL)
		return false;
	for (size_t at = 0; at < token->text.n_bytes;)
	{
		int n_char;
		uint32_t codepoint = utf8_decode(token->text.bytes + at, token->text.n_bytes - at, &n_char);
		int byte = codepoint == 0xfffd ? -1 : symbol_byte(codepoint);

		if (byte >= 0)
			piece[n++] = (char) byte;
		else
		{
			memcpy(piece + n, token->text.bytes + at, (size_t) n_char);
			n += (size_t) n_char;
		}
		at += (size_t) n_char;
	}
	token->piece = (VocabText){ piece, n };
	return true;
}

static bool
tokens_read(const Gguf *gguf, Arena *arena, Vocab *vocab, InferError *err)
{
	GgufArray texts = { 0 };
	GgufArray types = { 0 };

	if (!gguf_get_array(gguf, "tokenizer.ggml.tokens", &texts, err) ||
		!gguf_get_array(gguf, "tokenizer.ggml.token_type", &types, err))
		return false;
	if (texts.texts == NULL || texts.n_items == 0 || texts.n_items > MAX_TOKENS)
		return fail(err, INFER_BAD_MODEL,
					DAMAGED "It has %" PRIu64 " tokens, and they are to be texts." TRY_ANOTHER_FILE,
					gguf_name(gguf), texts.n_items);
	if (types.n_items != 0 && types.n_items != texts.n_items)
		return fail(err, INFER_BAD_MODEL,
					DAMAGED "It has %" PRIu64 " tokens and %" PRIu64 " types." TRY_ANOTHER_FILE,
					gguf_name(gguf), texts.n_items, types.n_items);
	vocab->n_tokens = (int32_t) texts.n_items;
	vocab->tokens = arena_alloc_array(arena, texts.n_items, sizeof(*vocab->tokens));
	for (int32_t id = 0; vocab->tokens != NULL && id < vocab->n_tokens; id++)
	{
		VocabToken *token = &vocab->tokens[id];
		GgufText text = texts.texts[id];
		int64_t type = TOKEN_NORMAL;

		if (text.n_bytes > MAX_TOKEN_BYTES ||
			(types.n_items > 0 && !gguf_array_i64(&types, (uint64_t) id, &type)))
			return fail(err, INFER_BAD_MODEL,
						DAMAGED "Token %" PRId32
								" has %zu bytes, or a type that is no integer." TRY_ANOTHER_FILE,
						gguf_name(gguf), id, text.n_bytes);
		token->type = type >= TOKEN_NORMAL && type <= TOKEN_BYTE ? (TokenType) type : TOKEN_NORMAL;
		token->text = (VocabText){ arena_copy_text(arena, text.bytes, text.n_bytes), text.n_bytes };
		token->piece = token->text;
		if (token->text.bytes == NULL ||
			(token->type == TOKEN_NORMAL && !piece_decode(arena, token)))
			return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
	}
	return vocab->tokens != NULL ||
		   fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
}

static bool
id_read(const Gguf *gguf, const Vocab *vocab, const char *key, int32_t *out, InferError *err)
{
	uint32_t id = UINT32_MAX;

	if (!gguf_get_u32(gguf, key, &id, err))
		return false;
	*out = -1;
	if (id == UINT32_MAX) /* absent, or "none" as some writers put it */
		return true;
	if (id >= (uint32_t) vocab->n_tokens)
		return fail(err, INFER_BAD_MODEL,
					DAMAGED "%s is %" PRIu32 ", and there are %" PRId32 " tokens." TRY_ANOTHER_FILE,
					gguf_name(gguf), key, id, vocab->n_tokens);
	*out = (int32_t) id;
	return true;
}

/* ---- what ends a generation ---- */

static const char *const end_texts[] = {
	"<|eot_id|>",
	"<|im_end|>",
	"<|end|>",
	"<|return|>",
	"<|call|>",
	"<|flush|>",
	"<|calls|>",
	"<end_of_turn>",
	"<|endoftext|>",
	"</s>",
	"<|eom_id|>",
	"<EOT>",
	"_<EOT>",
	"[EOT]",
	"[EOS]",
	"<|end_of_text|>",
	"<end_of_utterance>",
	"<eos>",
	"<turn|>",
	"<|tool_response>",
	"<\uff5cend\u2581of\u2581sentence\uff5c>",
	"[e~[",
};

static void
end_mark(Vocab *vocab, int32_t id)
{
	if (id < 0)
		return;
	vocab->tokens[id].is_end = true;
	vocab->tokens[id].type = TOKEN_CONTROL;
	vocab->tokens[id].piece = vocab->tokens[id].text;
}

static bool
ends_read(const Gguf *gguf, Vocab *vocab, InferError *err)
{
	static const char *const keys[] = { "tokenizer.ggml.eot_token_id",
										"tokenizer.ggml.eom_token_id" };
	int32_t id;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
	{
		if (!id_read(gguf, vocab, keys[i], &id, err))
			return false;
		end_mark(vocab, id);
	}
	end_mark(vocab, vocab->eos_id);
	for (size_t i = 0; i < sizeof(end_texts) / sizeof(end_texts[0]); i++)
		end_mark(vocab, vocab_find(vocab, end_texts[i], strlen(end_texts[i])));

	/* gpt-oss: <|end|> divides its channels, <|return|> and <|call|> end an answer */
	id = vocab_find(vocab, "<|end|>", 7);
	if (id >= 0 && vocab_find(vocab, "<|return|>", 10) >= 0 &&
		vocab_find(vocab, "<|call|>", 8) >= 0)
		vocab->tokens[id].is_end = false;
	return true;
}

bool
vocab_read(const Gguf *gguf, Arena *arena, Vocab *out, InferError *err)
{
	memset(out, 0, sizeof(*out));
	if (!tokens_read(gguf, arena, out, err) ||
		!id_read(gguf, out, "tokenizer.ggml.bos_token_id", &out->bos_id, err) ||
		!id_read(gguf, out, "tokenizer.ggml.eos_token_id", &out->eos_id, err) ||
		!id_read(gguf, out, "tokenizer.ggml.unknown_token_id", &out->unknown_id, err))
		return false;
	if (!index_build(arena, out))
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
	return ends_read(gguf, out, err);
}
