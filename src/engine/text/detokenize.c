/* detokenize.c: a list of ids to text, whole characters only. */
#include "engine/text/tokenizer.h"

bool
detokenize(const Tokenizer *tokenizer, Arena *arena, const int32_t *ids, size_t n_ids, bool special,
		   char **text, size_t *n_bytes, InferError *err)
{
	Utf8Stream stream = { .n_pending = 0 };
	size_t n_raw = 3;
	size_t n = 0;

	for (size_t i = 0; i < n_ids; i++)
	{
		size_t n_piece;

		tokenizer_piece(tokenizer, ids[i], special, &n_piece);
		n_raw += n_piece;
	}
	*text = n_raw < SIZE_MAX / 4 ? arena_alloc(arena, 3 * n_raw + 1) : NULL;
	if (*text == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory while detokenizing");
	for (size_t i = 0; i < n_ids; i++)
	{
		size_t n_piece;
		const char *piece = tokenizer_piece(tokenizer, ids[i], special, &n_piece);

		n += utf8_stream_push(&stream, piece, n_piece, *text + n);
	}
	n += utf8_stream_flush(&stream, *text + n);
	(*text)[n] = '\0';
	*n_bytes = n;
	return true;
}
