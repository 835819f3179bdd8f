/*
 * template_lexer.h: template source into tokens; white space control is done here, so that nobody
 * behind sees it: trim_blocks (the newline behind a block tag goes), lstrip_blocks (blanks before a
 * block tag at the start of its line go), and the marks - and + at either end of a tag.
 */
#ifndef INFER_ENGINE_TEMPLATE_LEXER_H
#define INFER_ENGINE_TEMPLATE_LEXER_H

#include "engine/base/arena.h"
#include "shared/status.h"

typedef enum TokenKind
{
	TOKEN_END, /* of the template */
	TOKEN_TEXT,
	TOKEN_BLOCK_START, /* {% */
	TOKEN_BLOCK_END,
	TOKEN_PRINT_START, /* {{ */
	TOKEN_PRINT_END,
	TOKEN_NAME,
	TOKEN_STRING, /* escapes resolved */
	TOKEN_INTEGER,
	TOKEN_REAL,
	TOKEN_OPERATOR /* text says which */
} TokenKind;

typedef struct LexToken
{
	TokenKind kind;
	const char *text;
	size_t n_bytes;
	int line;
	int64_t integer;
	double real;
} LexToken;

typedef struct LexTokens
{
	LexToken *tokens; /* the last is TOKEN_END */
	size_t n_tokens;
} LexTokens;

extern bool template_lex(Arena *arena, const char *source, size_t n_bytes, LexTokens *out,
						 InferError *err);

#endif
