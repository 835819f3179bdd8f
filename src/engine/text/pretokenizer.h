/*
 * pretokenizer.h: cuts a text into the words inside which merges happen. A table of patterns by
 * tokenizer.ggml.pre; a few patterns in turn: each cuts the pieces that the one before has left,
 * and what a pattern does not match is a piece too.
 *
 * PCRE2 runs the patterns (weighed against scanners of our own: twelve families of patterns with
 * Unicode classes, and a library that is fuzzed every day). JIT where the machine allows it. Bytes
 * that are not UTF-8 match nothing, so they end up in pieces of their own. All patterns are made of
 * single-character repeats, which PCRE2 matches in constant stack; should its limits be reached all
 * the same, the rest of the piece stays in one piece.
 *
 * Read-only after creation; each PretokenizerRun belongs to one thread.
 */
#ifndef INFER_ENGINE_PRETOKENIZER_H
#define INFER_ENGINE_PRETOKENIZER_H

#include "engine/model/gguf.h"

#define PRETOKENIZER_MAX_STAGES 5

typedef struct Pretokenizer Pretokenizer;

/* What else hangs on the name of a pre-tokenizer. */
typedef struct PretokenizerTraits
{
	bool ignore_merges; /* a word that is a token is that token, whatever the merges say */
	bool adds_bos;		/* where the file does not say */
} PretokenizerTraits;

/* `name`: tokenizer.ggml.pre; empty: the oldest files, which have GPT-2's. */
extern bool pretokenizer_create(GgufText name, const char *file, Pretokenizer **out,
								PretokenizerTraits *traits, InferError *err);
extern void pretokenizer_destroy(Pretokenizer *pretokenizer);

typedef struct PretokenizerFrame
{
	size_t end;
	size_t at;		  /* what is left starts here */
	size_t match_end; /* > at: a match that starts at `at` and was found already */
} PretokenizerFrame;

typedef struct PretokenizerRun
{
	const Pretokenizer *pretokenizer;
	void *matches; /* pcre2_match_data */
	const char *text;
	PretokenizerFrame frames[PRETOKENIZER_MAX_STAGES];
	int depth; /* frames in use */
} PretokenizerRun;

extern bool pretokenizer_begin(PretokenizerRun *run, const Pretokenizer *pretokenizer,
							   InferError *err);
extern void pretokenizer_end(PretokenizerRun *run);

/* Starts on a text; then pretokenizer_next gives its words, [*start, *end), until false. */
extern void pretokenizer_set(PretokenizerRun *run, const char *text, size_t n_bytes);
extern bool pretokenizer_next(PretokenizerRun *run, size_t *start, size_t *end);

#endif
