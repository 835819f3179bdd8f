#include "engine/sample/answer.h"

#include "shared/request.h"

#include <string.h>

/* A piece grows at most threefold (each byte a U+FFFD), and 3 bytes may have waited before it. */
#define UTF8_GROWTH(n_bytes) (3 * ((n_bytes) + 3))

static bool
stop_init(StopString *stop, Arena *arena, const char *text, size_t n_bytes)
{
	uint16_t border = 0;

	stop->text = arena_copy_text(arena, text, n_bytes);
	stop->n_bytes = (uint16_t) n_bytes;
	stop->fallback = arena_alloc_array(arena, n_bytes, sizeof(uint16_t));
	if (stop->text == NULL || stop->fallback == NULL)
		return false;
	for (size_t i = 1; i < n_bytes; i++)
	{
		while (border > 0 && text[i] != text[border])
			border = stop->fallback[border - 1];
		if (text[i] == text[border])
			border++;
		stop->fallback[i] = border;
	}
	return true;
}

bool
answer_init(Answer *answer, Arena *arena, const char *stops, uint32_t n_stops, size_t stops_bytes,
			size_t max_piece_bytes, size_t hold_bytes, InferError *err)
{
	size_t longest_stop = 0;

	memset(answer, 0, sizeof(*answer));
	answer->stops = arena_alloc_array(arena, n_stops > 0 ? n_stops : 1, sizeof(StopString));
	if (answer->stops == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for stop strings");
	for (uint32_t i = 0; i < n_stops; i++)
	{
		size_t n_bytes = strnlen(stops, stops_bytes);

		if (n_bytes == stops_bytes || n_bytes > INFER_MAX_STOP_BYTES)
			return fail(err, INFER_BAD_OPTION, "stop string %u is too long or not terminated",
						i + 1);
		if (n_bytes > longest_stop)
			longest_stop = n_bytes;
		/* An empty stop string would stop everything before it began: it means none. */
		if (n_bytes > 0)
		{
			if (!stop_init(&answer->stops[answer->n_stops], arena, stops, n_bytes))
				return fail(err, INFER_OUT_OF_MEMORY, "out of memory for stop strings");
			answer->n_stops++;
		}
		stops += n_bytes + 1;
		stops_bytes -= n_bytes + 1;
	}
	/* Two pushes past the hold: a token's own text and the flush at the end. */
	answer->capacity = hold_bytes + longest_stop + UTF8_GROWTH(max_piece_bytes) + UTF8_GROWTH(0);
	answer->text = arena_alloc(arena, answer->capacity);
	if (answer->text == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for the answer's text");
	return true;
}

/* Follows one byte in every stop. True with *length when one completed. */
static bool
stops_follow(Answer *answer, char byte, size_t *length)
{
	bool completed = false;

	for (uint32_t i = 0; i < answer->n_stops; i++)
	{
		StopString *stop = &answer->stops[i];

		while (stop->n_matched > 0 && stop->text[stop->n_matched] != byte)
			stop->n_matched = stop->fallback[stop->n_matched - 1];
		if (stop->text[stop->n_matched] == byte)
			stop->n_matched++;
		if (stop->n_matched == stop->n_bytes)
		{
			/* Of those that complete here the longest began first. */
			if (!completed || stop->n_bytes > *length)
				*length = stop->n_bytes;
			completed = true;
			stop->n_matched = 0;
		}
	}
	return completed;
}

/* Looks at the bytes from `from` on, which were just added. */
static bool
stops_look(Answer *answer, size_t from)
{
	size_t n_held = 0;
	size_t length;

	for (size_t i = from; i < answer->n_bytes; i++)
	{
		if (stops_follow(answer, answer->text[i], &length))
		{
			answer->n_bytes = i + 1 - length;
			answer->n_held = 0;
			answer->stopped = true;
			return true;
		}
	}
	for (uint32_t i = 0; i < answer->n_stops; i++)
		if (answer->stops[i].n_matched > n_held)
			n_held = answer->stops[i].n_matched;
	answer->n_held = n_held;
	return false;
}

bool
answer_push(Answer *answer, const char *piece, size_t n_bytes)
{
	size_t from = answer->n_bytes;

	/* Cannot happen while callers keep the contract; never write past the end. */
	if (answer->stopped || UTF8_GROWTH(n_bytes) > answer->capacity - from)
		return answer->stopped;
	answer->n_bytes += utf8_stream_push(&answer->utf8, piece, n_bytes, answer->text + from);
	return stops_look(answer, from);
}

void
answer_end(Answer *answer)
{
	size_t from = answer->n_bytes;

	if (!answer->stopped && answer->capacity - from >= UTF8_GROWTH(0))
	{
		answer->n_bytes += utf8_stream_flush(&answer->utf8, answer->text + from);
		stops_look(answer, from);
	}
	answer->n_held = 0;
}

size_t
answer_ready(const Answer *answer)
{
	return answer->n_bytes - answer->n_held;
}

void
answer_take(Answer *answer, size_t n_bytes)
{
	memmove(answer->text, answer->text + n_bytes, answer->n_bytes - n_bytes);
	answer->n_bytes -= n_bytes;
}

size_t
text_whole_prefix(const char *text, size_t n_bytes, size_t max_bytes)
{
	size_t n = max_bytes;

	if (n_bytes <= max_bytes)
		return n_bytes;
	while (n > 0 && ((unsigned char) text[n] & 0xC0) == 0x80)
		n--;
	/* Not UTF-8 after all: any cut is as good as another, no cut would never end. */
	return n > 0 ? n : max_bytes;
}
