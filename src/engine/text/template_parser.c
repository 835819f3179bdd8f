/* template_parser.c: the statements of a template, and what all of the parser is made of. */
#include "engine/text/template_parser.h"

#include "engine/text/utf8.h"

#include <string.h>

#define MAX_DEPTH 200

/* ---- tools ---- */

bool
parse_fail(Parser *parser, const char *what)
{
	if (parser->err->code == INFER_OK)
		fail(parser->err, INFER_BAD_INPUT, "chat template is not valid: %s\nLine %d.", what,
			 parser_peek(parser)->line);
	return false;
}

const LexToken *
parser_peek(const Parser *parser)
{
	return &parser->tokens[parser->at];
}

/* The end is never passed. */
const LexToken *
parser_next(Parser *parser)
{
	const LexToken *token = parser_peek(parser);

	if (token->kind != TOKEN_END)
		parser->at++;
	return token;
}

bool
token_is(const LexToken *token, TokenKind kind, const char *text)
{
	return token->kind == kind && token->n_bytes == strlen(text) &&
		   memcmp(token->text, text, token->n_bytes) == 0;
}

bool
parser_skip(Parser *parser, TokenKind kind, const char *text)
{
	if (!token_is(parser_peek(parser), kind, text))
		return false;
	parser->at++;
	return true;
}

bool
parser_expect(Parser *parser, TokenKind kind, const char *text, const char *what)
{
	return parser_skip(parser, kind, text) || parse_fail(parser, what);
}

static bool
parse_fail_memory(Parser *parser)
{
	if (parser->err->code == INFER_OK)
		fail(parser->err, INFER_LIMIT, "chat template is too large\nLine %d.",
			 parser_peek(parser)->line);
	return false;
}

Node *
node_make(Parser *parser, NodeKind kind)
{
	Node *node = arena_alloc(parser->arena, sizeof(*node));

	if (node == NULL)
	{
		parse_fail_memory(parser);
		return NULL;
	}
	node->kind = kind;
	node->line = parser_peek(parser)->line;
	return node;
}

bool
node_list_add(Parser *parser, NodeList *list, Node *node)
{
	if (node == NULL)
		return false;
	if (list->n_nodes == list->capacity)
	{
		size_t capacity = list->capacity > 0 ? 2 * list->capacity : 4;
		Node **grown = arena_alloc_array(parser->arena, capacity, sizeof(*grown));

		if (grown == NULL)
			return parse_fail_memory(parser);
		if (list->n_nodes > 0)
			memcpy(grown, list->nodes, list->n_nodes * sizeof(*grown));
		list->nodes = grown;
		list->capacity = capacity;
	}
	list->nodes[list->n_nodes++] = node;
	return true;
}

bool
node_pairs_add(Parser *parser, NodePairs *pairs, Node *key, Node *value)
{
	if (key == NULL || value == NULL)
		return false;
	if (pairs->n_pairs == pairs->capacity)
	{
		size_t capacity = pairs->capacity > 0 ? 2 * pairs->capacity : 4;
		NodePair *grown = arena_alloc_array(parser->arena, capacity, sizeof(*grown));

		if (grown == NULL)
			return parse_fail_memory(parser);
		if (pairs->n_pairs > 0)
			memcpy(grown, pairs->pairs, pairs->n_pairs * sizeof(*grown));
		pairs->pairs = grown;
		pairs->capacity = capacity;
	}
	pairs->pairs[pairs->n_pairs++] = (NodePair){ key, value };
	return true;
}

bool
parser_enter(Parser *parser)
{
	if (parser->depth >= MAX_DEPTH)
	{
		if (parser->err->code == INFER_OK)
			fail(parser->err, INFER_LIMIT, "chat template is nested too deeply\nLine %d.",
				 parser_peek(parser)->line);
		return false;
	}
	parser->depth++;
	return true;
}

void
parser_leave(Parser *parser)
{
	parser->depth--;
}

static bool
block_end_expect(Parser *parser)
{
	if (parser_peek(parser)->kind != TOKEN_BLOCK_END)
		return parse_fail(parser, "a statement does not end where it should");
	parser->at++;
	return true;
}

/* ---- statements; their first word is gone ---- */

/* A body that ends with "end": whatever the word is, "{% end... %}" is taken with it. */
static Node *
body_parse(Parser *parser, const char *end)
{
	const char *const ends[] = { end, NULL };
	Node *body;

	if (!block_end_expect(parser))
		return NULL;
	body = block_parse(parser, ends);
	if (body == NULL)
		return NULL;
	parser_next(parser); /* the word that block_parse stopped at */
	return block_end_expect(parser) ? body : NULL;
}

static Node *
if_parse(Parser *parser)
{
	static const char *const ends[] = { "elif", "else", "endif", NULL };
	Node *node = node_make(parser, NODE_IF);

	for (bool is_else = false; node != NULL;)
	{
		const LexToken *end;

		if (!is_else && !node_list_add(parser, &node->list, expression_parse(parser)))
			return NULL;
		if (!block_end_expect(parser) ||
			!node_list_add(parser, &node->list, block_parse(parser, ends)))
			return NULL;
		end = parser_next(parser);
		if (token_is(end, TOKEN_NAME, "endif"))
			return block_end_expect(parser) ? node : NULL;
		if (is_else)
		{
			parse_fail(parser, "something stands between else and endif");
			return NULL;
		}
		is_else = token_is(end, TOKEN_NAME, "else");
	}
	return NULL;
}

/* "a", "a, b", "(a, b)" or "ns.a": what a for or a set assigns to. */
static bool
targets_parse(Parser *parser, Node *node)
{
	bool in_parentheses = parser_skip(parser, TOKEN_OPERATOR, "(");

	do
	{
		Node *target;

		if (parser_peek(parser)->kind != TOKEN_NAME)
			return parse_fail(parser, "a name to assign to is missing");
		target = primary_parse(parser);
		if (target != NULL && node->kind == NODE_SET && parser_skip(parser, TOKEN_OPERATOR, "."))
		{
			Node *attribute = node_make(parser, NODE_ATTRIBUTE);
			const LexToken *name = parser_next(parser);

			if (attribute == NULL || name->kind != TOKEN_NAME)
				return parse_fail(parser, "a name to assign to is missing");
			attribute->a = target;
			attribute->text = (String){ .bytes = name->text, .n_bytes = name->n_bytes };
			target = attribute;
		}
		if (target != NULL && target->kind == NODE_LITERAL)
			return parse_fail(parser, "a constant cannot be assigned to");
		if (!node_list_add(parser, &node->list, target))
			return false;
	} while (parser_skip(parser, TOKEN_OPERATOR, ","));
	return !in_parentheses ||
		   parser_expect(parser, TOKEN_OPERATOR, ")", "a parenthesis is not closed");
}

static Node *
for_parse(Parser *parser)
{
	static const char *const ends[] = { "else", "endfor", NULL };
	Node *node = node_make(parser, NODE_FOR);

	if (node == NULL || !targets_parse(parser, node) ||
		!parser_expect(parser, TOKEN_NAME, "in", "a for lacks its in"))
		return NULL;
	node->a = tuple_parse(parser, false);
	if (node->a == NULL)
		return NULL;
	if (parser_skip(parser, TOKEN_NAME, "if"))
	{
		node->b = expression_parse(parser);
		if (node->b == NULL)
			return NULL;
	}
	node->recursive = parser_skip(parser, TOKEN_NAME, "recursive");
	if (!block_end_expect(parser))
		return NULL;
	node->body = block_parse(parser, ends);
	if (node->body == NULL)
		return NULL;
	if (token_is(parser_next(parser), TOKEN_NAME, "endfor"))
		return block_end_expect(parser) ? node : NULL;
	node->c = body_parse(parser, "endfor");
	return node->c != NULL ? node : NULL;
}

static Node *
set_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_SET);

	if (node == NULL || !targets_parse(parser, node))
		return NULL;
	if (parser_skip(parser, TOKEN_OPERATOR, "="))
	{
		node->a = tuple_parse(parser, true);
		return node->a != NULL && block_end_expect(parser) ? node : NULL;
	}
	/* {% set x | filter %}...{% endset %} */
	if (parser_skip(parser, TOKEN_OPERATOR, "|"))
	{
		node->b = filter_parse(parser, NULL);
		while (node->b != NULL && parser_skip(parser, TOKEN_OPERATOR, "|"))
			node->b = filter_parse(parser, node->b);
		if (node->b == NULL)
			return NULL;
	}
	node->body = body_parse(parser, "endset");
	return node->body != NULL ? node : NULL;
}

/* "(a, b=1)": names and defaults, NULL where there is none. The parenthesis is open. */
static bool
parameters_parse(Parser *parser, Node *node)
{
	while (!parser_skip(parser, TOKEN_OPERATOR, ")"))
	{
		Node *name;
		Node *value = NULL;

		if (node->pairs.n_pairs > 0 &&
			!parser_expect(parser, TOKEN_OPERATOR, ",", "a macro's parameters lack a comma"))
			return false;
		if (parser_peek(parser)->kind != TOKEN_NAME)
			return parse_fail(parser, "a macro's parameter has no name");
		name = primary_parse(parser);
		if (parser_skip(parser, TOKEN_OPERATOR, "="))
		{
			value = expression_parse(parser);
			if (value == NULL)
				return false;
		}
		/* the list does not take NULL; put there what is needed, then take it away */
		if (!node_pairs_add(parser, &node->pairs, name, value != NULL ? value : name))
			return false;
		node->pairs.pairs[node->pairs.n_pairs - 1].value = value;
	}
	return true;
}

static Node *
macro_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_MACRO);
	const LexToken *name = parser_next(parser);

	if (node == NULL)
		return NULL;
	if (name->kind != TOKEN_NAME)
	{
		parse_fail(parser, "a macro has no name");
		return NULL;
	}
	node->text = (String){ .bytes = name->text, .n_bytes = name->n_bytes };
	if (!parser_expect(parser, TOKEN_OPERATOR, "(", "a macro lacks its parameters") ||
		!parameters_parse(parser, node))
		return NULL;
	node->body = body_parse(parser, "endmacro");
	return node->body != NULL ? node : NULL;
}

static Node *
call_block_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_CALL_BLOCK);

	if (node == NULL ||
		(parser_skip(parser, TOKEN_OPERATOR, "(") && !parameters_parse(parser, node)))
		return NULL;
	node->a = postfix_parse(parser, primary_parse(parser));
	if (node->a == NULL || node->a->kind != NODE_CALL)
	{
		parse_fail(parser, "a call block calls nothing");
		return NULL;
	}
	node->body = body_parse(parser, "endcall");
	return node->body != NULL ? node : NULL;
}

static Node *
filter_block_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_FILTER_BLOCK);

	if (node == NULL)
		return NULL;
	node->b = filter_parse(parser, NULL);
	while (node->b != NULL && parser_skip(parser, TOKEN_OPERATOR, "|"))
		node->b = filter_parse(parser, node->b);
	if (node->b == NULL)
		return NULL;
	node->body = body_parse(parser, "endfilter");
	return node->body != NULL ? node : NULL;
}

/* What trainers mark with it does not matter for a prompt: only the body counts. */
static Node *
generation_parse(Parser *parser)
{
	return body_parse(parser, "endgeneration");
}

static Node *
break_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_BREAK);

	return node != NULL && block_end_expect(parser) ? node : NULL;
}

static Node *
continue_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_CONTINUE);

	return node != NULL && block_end_expect(parser) ? node : NULL;
}

static const struct
{
	const char *word;
	Node *(*parse)(Parser *parser);
} statements[] = {
	{ "if", if_parse },
	{ "for", for_parse },
	{ "set", set_parse },
	{ "macro", macro_parse },
	{ "call", call_block_parse },
	{ "filter", filter_block_parse },
	{ "break", break_parse },
	{ "generation", generation_parse },
	{ "continue", continue_parse },
};

static Node *
statement_parse(Parser *parser)
{
	const LexToken *word = parser_next(parser);

	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
		if (token_is(word, TOKEN_NAME, statements[i].word))
		{
			Node *node;

			if (!parser_enter(parser))
				return NULL;
			node = statements[i].parse(parser);
			parser_leave(parser);
			return node;
		}
	if (parser->err->code == INFER_OK)
		fail(parser->err, INFER_BAD_INPUT,
			 "chat template is not valid: statement \"%.*s\" is not known\nLine %d.",
			 (int) (word->n_bytes < 40 ? word->n_bytes : 40), word->n_bytes > 0 ? word->text : "",
			 word->line);
	return NULL;
}

static Node *
print_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_PRINT);

	if (node == NULL)
		return NULL;
	node->a = tuple_parse(parser, true);
	if (node->a == NULL)
		return NULL;
	if (parser_peek(parser)->kind != TOKEN_PRINT_END)
	{
		parse_fail(parser, "an expression does not end where it should");
		return NULL;
	}
	parser->at++;
	return node;
}

static Node *
text_parse(Parser *parser)
{
	const LexToken *token = parser_next(parser);
	Node *node = node_make(parser, NODE_TEXT);

	if (node != NULL)
		node->text = (String){ .bytes = token->text, .n_bytes = token->n_bytes };
	return node;
}

static bool
is_end_word(const LexToken *token, const char *const *ends)
{
	for (; ends != NULL && *ends != NULL; ends++)
		if (token_is(token, TOKEN_NAME, *ends))
			return true;
	return false;
}

/* Statements up to one of the words, which is left as the next token. */
Node *
block_parse(Parser *parser, const char *const *ends)
{
	Node *block = node_make(parser, NODE_BLOCK);

	while (block != NULL)
	{
		const LexToken *token = parser_peek(parser);
		Node *node = NULL;

		switch (token->kind)
		{
			case TOKEN_TEXT:
				node = text_parse(parser);
				break;
			case TOKEN_PRINT_START:
				parser->at++;
				node = print_parse(parser);
				break;
			case TOKEN_BLOCK_START:
				parser->at++;
				if (is_end_word(parser_peek(parser), ends))
					return block;
				node = statement_parse(parser);
				break;
			default:
				if (ends == NULL)
					return block;
				parse_fail(parser, "a block has no end");
				return NULL;
		}
		if (!node_list_add(parser, &block->list, node))
			return NULL;
	}
	return NULL;
}

/* What renders is UTF-8 because the source and the values are. */
static bool
source_is_utf8(const char *source, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes;)
	{
		int n;

		if (utf8_decode(source + i, n_bytes - i, &n) == 0xFFFD && n == 1)
			return false;
		i += (size_t) n;
	}
	return true;
}

bool
template_parse(Arena *arena, const char *source, size_t n_bytes, Template **out, InferError *err)
{
	Parser parser = { .arena = arena, .err = err };
	LexTokens tokens;
	Template *template;

	infer_error_clear(err);
	if (!source_is_utf8(source, n_bytes))
		return fail(err, INFER_BAD_INPUT, "chat template is not UTF-8 text");
	if (!template_lex(arena, source, n_bytes, &tokens, err))
		return false;
	parser.tokens = tokens.tokens;
	template = arena_alloc(arena, sizeof(*template));
	if (template == NULL)
		return fail(err, INFER_LIMIT, "chat template is too large");
	template->body = block_parse(&parser, NULL);
	if (template->body == NULL)
		return err->code != INFER_OK ? false
									 : fail(err, INFER_BAD_INPUT, "chat template is not valid");
	*out = template;
	return true;
}
