/* template_parser.h: tokens into a tree; what the files of the parser share. */
#ifndef INFER_ENGINE_TEMPLATE_PARSER_H
#define INFER_ENGINE_TEMPLATE_PARSER_H

#include "engine/text/template_lexer.h"
#include "engine/text/template_tree.h"

typedef struct Parser
{
	Arena *arena;
	InferError *err;
	const LexToken *tokens;
	size_t at;
	int depth; /* of nested expressions and blocks: bounded, so that no template eats the stack */
} Parser;

extern bool parse_fail(Parser *parser, const char *what);
extern const LexToken *parser_peek(const Parser *parser);
extern const LexToken *parser_next(Parser *parser);
extern bool token_is(const LexToken *token, TokenKind kind, const char *text);
extern bool parser_skip(Parser *parser, TokenKind kind, const char *text);
extern bool parser_expect(Parser *parser, TokenKind kind, const char *text, const char *what);

/* NULL: failed. */
extern Node *node_make(Parser *parser, NodeKind kind);
extern bool node_list_add(Parser *parser, NodeList *list, Node *node);
extern bool node_pairs_add(Parser *parser, NodePairs *pairs, Node *key, Node *value);
extern bool parser_enter(Parser *parser);
extern void parser_leave(Parser *parser);

/* template_expression.c */
extern Node *expression_parse(Parser *parser);
extern Node *expression_parse_or(Parser *parser); /* without "x if y" */
extern Node *tuple_parse(Parser *parser, bool with_if_else);
extern Node *primary_parse(Parser *parser);
extern Node *postfix_parse(Parser *parser, Node *node);
extern bool arguments_parse(Parser *parser, Node *call);
extern Node *filter_parse(Parser *parser, Node *input);

/* template_parser.c */
extern Node *block_parse(Parser *parser, const char *const *ends);

#endif
