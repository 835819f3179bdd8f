/*
 * answer.h: from tokens to the text that a reader gets: whole characters, never half a stop string.
 *
 *     token -> its bytes -> Utf8Stream (whole characters) -> stop strings -> ready text
 *
 * A tail that may still become a stop string is held back until it does (then it is dropped, with
 * all that follows) or cannot any more. Stops are followed byte by byte, each by its own
 * Knuth-Morris-Pratt state, so the outcome does not depend on where tokens end: the first stop that
 * completes wins, and time is (bytes * stops) whatever the strings are.
 *
 * Memory is sized by answer_init; answer_push allocates nothing. The reader takes from the front
 * with answer_ready / answer_take; nothing may be pushed while more than `hold_bytes` wait.
 */
#ifndef INFER_ENGINE_ANSWER_H
#define INFER_ENGINE_ANSWER_H

#include "engine/base/arena.h"
#include "engine/text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct StopString
{
	const char *text;
	uint16_t n_bytes;
	uint16_t n_matched;
	uint16_t *fallback; /* [n_bytes] longest border of each prefix */
} StopString;

typedef struct Answer
{
	/* Config */
	StopString *stops;
	uint32_t n_stops;
	size_t capacity;

	/* State */
	Utf8Stream utf8;
	char *text;		/* [capacity] */
	size_t n_bytes; /* in text */
	size_t n_held;	/* of these, at the end: perhaps the start of a stop string */
	bool stopped;	/* a stop string completed; the rest is ignored */
} Answer;

/*
 * stops: n_stops texts behind each other, each with its '\0', of stops_bytes in all (a checked
 * request). max_piece_bytes: the longest piece of the vocabulary. hold_bytes: text that may wait.
 */
extern bool answer_init(Answer *answer, Arena *arena, const char *stops, uint32_t n_stops,
						size_t stops_bytes, size_t max_piece_bytes, size_t hold_bytes,
						InferError *err);

/* True when a stop string has completed. */
extern bool answer_push(Answer *answer, const char *piece, size_t n_bytes);

/* The end without a stop string: everything held becomes ready. */
extern void answer_end(Answer *answer);

/* Bytes at the front of answer->text that the reader may have. */
extern size_t answer_ready(const Answer *answer);
extern void answer_take(Answer *answer, size_t n_bytes);

/* Largest n <= max_bytes that ends a whole character of text. */
extern size_t text_whole_prefix(const char *text, size_t n_bytes, size_t max_bytes);

#endif
