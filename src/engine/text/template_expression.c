/* template_expression.c: the expressions of a template, by precedence. */
#include "engine/text/template_parser.h"

#include <string.h>

static Node *unary_parse(Parser *parser, bool with_filters);

/* ---- one level of binary operators: the next level's name and its row of operators ---- */

typedef struct OperatorText
{
	const char *text;
	Operator op;
} OperatorText;

static const OperatorText *
operator_find(const LexToken *token, const OperatorText *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (token_is(token, TOKEN_OPERATOR, table[i].text))
			return &table[i];
	return NULL;
}

typedef Node *(*LevelParse)(Parser *parser);

static Node *
binary_parse(Parser *parser, LevelParse below, const OperatorText *table, size_t n)
{
	Node *left = below(parser);

	while (left != NULL)
	{
		const OperatorText *found = operator_find(parser_peek(parser), table, n);
		Node *node;

		if (found == NULL)
			return left;
		parser_next(parser);
		node = node_make(parser, NODE_BINARY);
		if (node == NULL)
			return NULL;
		node->op = found->op;
		node->a = left;
		node->b = below(parser);
		left = node->b != NULL ? node : NULL;
	}
	return NULL;
}

static Node *
power_parse(Parser *parser)
{
	Node *left = unary_parse(parser, true);

	while (left != NULL && parser_skip(parser, TOKEN_OPERATOR, "**"))
	{
		Node *node = node_make(parser, NODE_BINARY);

		if (node == NULL)
			return NULL;
		node->op = OP_POWER;
		node->a = left;
		node->b = unary_parse(parser, true);
		left = node->b != NULL ? node : NULL;
	}
	return left;
}

static Node *
product_parse(Parser *parser)
{
	static const OperatorText table[] = {
		{ "*", OP_MULTIPLY }, { "/", OP_DIVIDE }, { "//", OP_FLOOR_DIVIDE }, { "%", OP_MODULO }
	};

	return binary_parse(parser, power_parse, table, 4);
}

static Node *
concat_parse(Parser *parser)
{
	static const OperatorText table[] = { { "~", OP_CONCAT } };

	return binary_parse(parser, product_parse, table, 1);
}

static Node *
sum_parse(Parser *parser)
{
	static const OperatorText table[] = { { "+", OP_ADD }, { "-", OP_SUBTRACT } };

	return binary_parse(parser, concat_parse, table, 2);
}

/* The comparison that starts here; false: none. */
static bool
comparison_skip(Parser *parser, Operator *out)
{
	static const OperatorText table[] = { { "==", OP_EQUAL },  { "!=", OP_NOT_EQUAL },
										  { "<", OP_LESS },	   { "<=", OP_LESS_EQUAL },
										  { ">", OP_GREATER }, { ">=", OP_GREATER_EQUAL } };
	const OperatorText *found = operator_find(parser_peek(parser), table, 6);

	if (found != NULL)
	{
		parser_next(parser);
		*out = found->op;
		return true;
	}
	if (parser_skip(parser, TOKEN_NAME, "in"))
	{
		*out = OP_IN;
		return true;
	}
	if (token_is(parser_peek(parser), TOKEN_NAME, "not") &&
		token_is(parser_peek(parser) + 1, TOKEN_NAME, "in"))
	{
		parser->at += 2;
		*out = OP_NOT_IN;
		return true;
	}
	return false;
}

static Node *
comparison_parse(Parser *parser)
{
	Node *first = sum_parse(parser);
	Node *node = NULL;
	Operator operators[32];
	size_t n = 0;

	while (first != NULL && n < sizeof(operators) / sizeof(operators[0]) &&
		   comparison_skip(parser, &operators[n]))
	{
		if (node == NULL)
			node = node_make(parser, NODE_COMPARE);
		if (node == NULL || !node_list_add(parser, &node->list, sum_parse(parser)))
			return NULL;
		n++;
	}
	if (node == NULL)
		return first;
	node->a = first;
	node->operators = arena_alloc_array(parser->arena, n, sizeof(Operator));
	if (node->operators == NULL)
		return NULL;
	memcpy(node->operators, operators, n * sizeof(Operator));
	return node;
}

static Node *
not_parse(Parser *parser)
{
	Node *node;

	if (!parser_skip(parser, TOKEN_NAME, "not"))
		return comparison_parse(parser);
	node = node_make(parser, NODE_NOT);
	if (node == NULL || !parser_enter(parser))
		return NULL;
	node->a = not_parse(parser);
	parser_leave(parser);
	return node->a != NULL ? node : NULL;
}

static Node *
junction_parse(Parser *parser, LevelParse below, const char *word, NodeKind kind)
{
	Node *left = below(parser);

	while (left != NULL && parser_skip(parser, TOKEN_NAME, word))
	{
		Node *node = node_make(parser, kind);

		if (node == NULL)
			return NULL;
		node->a = left;
		node->b = below(parser);
		left = node->b != NULL ? node : NULL;
	}
	return left;
}

static Node *
and_parse(Parser *parser)
{
	return junction_parse(parser, not_parse, "and", NODE_AND);
}

Node *
expression_parse_or(Parser *parser)
{
	return junction_parse(parser, and_parse, "or", NODE_OR);
}

Node *
expression_parse(Parser *parser)
{
	Node *value;

	if (!parser_enter(parser))
		return NULL;
	value = expression_parse_or(parser);
	while (value != NULL && parser_skip(parser, TOKEN_NAME, "if"))
	{
		Node *node = node_make(parser, NODE_IF_ELSE);

		if (node == NULL)
			return NULL;
		node->b = value;
		node->a = expression_parse_or(parser);
		if (node->a == NULL)
			return NULL;
		if (parser_skip(parser, TOKEN_NAME, "else"))
		{
			node->c = expression_parse(parser);
			if (node->c == NULL)
				return NULL;
		}
		value = node;
	}
	parser_leave(parser);
	return value;
}

/* ---- primaries ---- */

static bool
tuple_ends(const Parser *parser)
{
	const LexToken *token = parser_peek(parser);

	return token->kind == TOKEN_BLOCK_END || token->kind == TOKEN_PRINT_END ||
		   token_is(token, TOKEN_OPERATOR, ")") || token_is(token, TOKEN_NAME, "in") ||
		   token_is(token, TOKEN_NAME, "recursive") || token_is(token, TOKEN_OPERATOR, "=");
}

/* "a" is a, "a, b" and "a," are tuples; "()" is the empty one. */
Node *
tuple_parse(Parser *parser, bool with_if_else)
{
	LevelParse item = with_if_else ? expression_parse : expression_parse_or;
	Node *tuple = NULL;
	Node *first;

	if (tuple_ends(parser))
		return node_make(parser, NODE_TUPLE);
	first = item(parser);
	while (first != NULL && parser_skip(parser, TOKEN_OPERATOR, ","))
	{
		if (tuple == NULL)
		{
			tuple = node_make(parser, NODE_TUPLE);
			if (tuple == NULL || !node_list_add(parser, &tuple->list, first))
				return NULL;
		}
		if (tuple_ends(parser))
			break;
		if (!node_list_add(parser, &tuple->list, item(parser)))
			return NULL;
	}
	return tuple != NULL ? tuple : first;
}

static Node *
literal_make(Parser *parser, Value value)
{
	Node *node = node_make(parser, NODE_LITERAL);

	if (node != NULL)
		node->literal = value;
	return node;
}

/* A string that the template wrote, as a whole. */
static bool
string_mark(Parser *parser, String *string)
{
	TemplateSpan *span = arena_alloc(parser->arena, sizeof(*span));

	if (span == NULL)
		return fail(parser->err, INFER_LIMIT, "chat template is too large");
	*span = (TemplateSpan){ 0, string->n_bytes };
	string->spans = span;
	string->n_spans = string->n_bytes > 0 ? 1 : 0;
	return true;
}

/* Strings that stand side by side are one. */
static Node *
string_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_LITERAL);
	size_t n_bytes = 0;
	size_t first = parser->at;
	char *text;

	while (parser->tokens[parser->at].kind == TOKEN_STRING)
		n_bytes += parser->tokens[parser->at++].n_bytes;
	text = arena_alloc(parser->arena, n_bytes + 1);
	if (node == NULL || text == NULL)
		return NULL;
	node->text = (String){ .bytes = text, .n_bytes = n_bytes };
	for (size_t i = first; i < parser->at; i++)
	{
		if (parser->tokens[i].n_bytes > 0)
			memcpy(text, parser->tokens[i].text, parser->tokens[i].n_bytes);
		text += parser->tokens[i].n_bytes;
	}
	node->literal = value_string(&node->text);
	return string_mark(parser, &node->text) ? node : NULL;
}

static Node *
name_parse(Parser *parser)
{
	static const struct
	{
		const char *name;
		Value value;
	} constants[] = {
		{ "true", { .kind = VALUE_BOOL, .as.truth = true } },
		{ "True", { .kind = VALUE_BOOL, .as.truth = true } },
		{ "false", { .kind = VALUE_BOOL } },
		{ "False", { .kind = VALUE_BOOL } },
		{ "none", { .kind = VALUE_NONE } },
		{ "None", { .kind = VALUE_NONE } },
	};
	const LexToken *token = parser_next(parser);
	Node *node;

	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
		if (token_is(token, TOKEN_NAME, constants[i].name))
			return literal_make(parser, constants[i].value);
	node = node_make(parser, NODE_NAME);
	if (node != NULL)
		node->text = (String){ .bytes = token->text, .n_bytes = token->n_bytes };
	return node;
}

static Node *
list_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_LIST);

	while (node != NULL && !parser_skip(parser, TOKEN_OPERATOR, "]"))
	{
		if (node->list.n_nodes > 0 &&
			!parser_expect(parser, TOKEN_OPERATOR, ",", "a list lacks a comma or its end"))
			return NULL;
		if (parser_skip(parser, TOKEN_OPERATOR, "]"))
			break;
		if (!node_list_add(parser, &node->list, expression_parse(parser)))
			return NULL;
	}
	return node;
}

static Node *
dict_parse(Parser *parser)
{
	Node *node = node_make(parser, NODE_DICT);

	while (node != NULL && !parser_skip(parser, TOKEN_OPERATOR, "}"))
	{
		Node *key;

		if (node->pairs.n_pairs > 0 &&
			!parser_expect(parser, TOKEN_OPERATOR, ",", "a dict lacks a comma or its end"))
			return NULL;
		if (parser_skip(parser, TOKEN_OPERATOR, "}"))
			break;
		key = expression_parse(parser);
		if (key == NULL ||
			!parser_expect(parser, TOKEN_OPERATOR, ":", "a dict's key lacks its colon") ||
			!node_pairs_add(parser, &node->pairs, key, expression_parse(parser)))
			return NULL;
	}
	return node;
}

static Node *
brackets_parse(Parser *parser)
{
	Node *node;

	if (parser_skip(parser, TOKEN_OPERATOR, "["))
		return list_parse(parser);
	if (parser_skip(parser, TOKEN_OPERATOR, "{"))
		return dict_parse(parser);
	if (!parser_expect(parser, TOKEN_OPERATOR, "(", "an expression is missing"))
		return NULL;
	node = tuple_parse(parser, true);
	return node != NULL && parser_expect(parser, TOKEN_OPERATOR, ")", "a parenthesis is not closed")
			   ? node
			   : NULL;
}

Node *
primary_parse(Parser *parser)
{
	const LexToken *token = parser_peek(parser);
	Node *node;

	switch (token->kind)
	{
		case TOKEN_NAME:
			return name_parse(parser);
		case TOKEN_STRING:
			return string_parse(parser);
		case TOKEN_INTEGER:
			parser_next(parser);
			return literal_make(parser, value_int(token->integer));
		case TOKEN_REAL:
			parser_next(parser);
			return literal_make(parser, value_real(token->real));
		default:
			break;
	}
	if (!parser_enter(parser))
		return NULL;
	node = brackets_parse(parser);
	parser_leave(parser);
	return node;
}

/* ---- what stands behind a primary ---- */

bool
arguments_parse(Parser *parser, Node *call)
{
	bool first = true;

	while (!parser_skip(parser, TOKEN_OPERATOR, ")"))
	{
		if (!first &&
			!parser_expect(parser, TOKEN_OPERATOR, ",", "a call lacks a comma or its end"))
			return false;
		if (parser_skip(parser, TOKEN_OPERATOR, ")"))
			break;
		first = false;
		if (parser_peek(parser)->kind == TOKEN_NAME &&
			token_is(parser_peek(parser) + 1, TOKEN_OPERATOR, "="))
		{
			Node *name = node_make(parser, NODE_NAME);

			if (name == NULL)
				return false;
			name->text = (String){ .bytes = parser_peek(parser)->text,
								   .n_bytes = parser_peek(parser)->n_bytes };
			parser->at += 2;
			if (!node_pairs_add(parser, &call->pairs, name, expression_parse(parser)))
				return false;
		}
		else if (!node_list_add(parser, &call->list, expression_parse(parser)))
			return false;
	}
	return true;
}

/* "[key]" or "[start:stop:step]", the bracket gone. */
static Node *
subscript_parse(Parser *parser, Node *object)
{
	Node *parts[3] = { NULL, NULL, NULL };
	Node *node;
	int n_colons = 0;

	for (;;)
	{
		if (parser_skip(parser, TOKEN_OPERATOR, "]"))
			break;
		if (parser_skip(parser, TOKEN_OPERATOR, ":"))
		{
			if (++n_colons > 2)
				break;
			continue;
		}
		if (parts[n_colons] != NULL)
			break;
		parts[n_colons] = expression_parse(parser);
		if (parts[n_colons] == NULL)
			return NULL;
	}
	if (!token_is(&parser->tokens[parser->at - 1], TOKEN_OPERATOR, "]") ||
		(n_colons == 0 && parts[0] == NULL))
	{
		parse_fail(parser, "a subscript is not closed");
		return NULL;
	}
	node = node_make(parser, n_colons > 0 ? NODE_SLICE : NODE_ITEM);
	if (node == NULL)
		return NULL;
	node->a = object;
	node->b = parts[0];
	for (int i = 0; n_colons > 0 && i < 3; i++)
	{
		/* parts may be missing: NULL has a place in this list */
		if (!node_list_add(parser, &node->list, object))
			return NULL;
		node->list.nodes[i] = parts[i];
	}
	return node;
}

static Node *
attribute_parse(Parser *parser, Node *object)
{
	const LexToken *token = parser_next(parser);
	Node *node = node_make(parser, token->kind == TOKEN_INTEGER ? NODE_ITEM : NODE_ATTRIBUTE);

	if (node == NULL)
		return NULL;
	node->a = object;
	if (token->kind == TOKEN_INTEGER)
	{
		node->b = literal_make(parser, value_int(token->integer));
		return node->b != NULL ? node : NULL;
	}
	if (token->kind != TOKEN_NAME)
	{
		parse_fail(parser, "a name is missing behind a point");
		return NULL;
	}
	node->text = (String){ .bytes = token->text, .n_bytes = token->n_bytes };
	return node;
}

static Node *
call_parse(Parser *parser, Node *callee)
{
	Node *node = node_make(parser, NODE_CALL);

	if (node == NULL)
		return NULL;
	node->a = callee;
	return arguments_parse(parser, node) ? node : NULL;
}

Node *
postfix_parse(Parser *parser, Node *node)
{
	while (node != NULL)
	{
		if (parser_skip(parser, TOKEN_OPERATOR, "."))
			node = attribute_parse(parser, node);
		else if (parser_skip(parser, TOKEN_OPERATOR, "["))
			node = subscript_parse(parser, node);
		else if (parser_skip(parser, TOKEN_OPERATOR, "("))
			node = call_parse(parser, node);
		else
			return node;
	}
	return NULL;
}

/* The name of a filter or test: a name, perhaps with points. */
static bool
function_name_parse(Parser *parser, Node *node)
{
	const LexToken *token = parser_next(parser);

	if (token->kind != TOKEN_NAME)
		return parse_fail(parser, "the name of a filter or test is missing");
	node->text = (String){ .bytes = token->text, .n_bytes = token->n_bytes };
	return true;
}

/* The "|" is gone. */
Node *
filter_parse(Parser *parser, Node *input)
{
	Node *node = node_make(parser, NODE_FILTER);

	if (node == NULL || !function_name_parse(parser, node))
		return NULL;
	node->a = input;
	if (parser_skip(parser, TOKEN_OPERATOR, "(") && !arguments_parse(parser, node))
		return NULL;
	return node;
}

/* A test may have one argument without parentheses: "x is divisibleby 3". */
static bool
test_has_bare_argument(const Parser *parser)
{
	const LexToken *token = parser_peek(parser);

	switch (token->kind)
	{
		case TOKEN_STRING:
		case TOKEN_INTEGER:
		case TOKEN_REAL:
			return true;
		case TOKEN_NAME:
			return !token_is(token, TOKEN_NAME, "else") && !token_is(token, TOKEN_NAME, "or") &&
				   !token_is(token, TOKEN_NAME, "and") && !token_is(token, TOKEN_NAME, "if") &&
				   !token_is(token, TOKEN_NAME, "in") && !token_is(token, TOKEN_NAME, "not") &&
				   !token_is(token, TOKEN_NAME, "is") && !token_is(token, TOKEN_NAME, "recursive");
		case TOKEN_OPERATOR:
			return token_is(token, TOKEN_OPERATOR, "[") || token_is(token, TOKEN_OPERATOR, "{");
		default:
			return false;
	}
}

static Node *
test_parse(Parser *parser, Node *input)
{
	Node *node = node_make(parser, NODE_TEST);

	if (node == NULL)
		return NULL;
	node->a = input;
	node->negated = parser_skip(parser, TOKEN_NAME, "not");
	if (!function_name_parse(parser, node))
		return NULL;
	if (parser_skip(parser, TOKEN_OPERATOR, "("))
		return arguments_parse(parser, node) ? node : NULL;
	if (test_has_bare_argument(parser) &&
		!node_list_add(parser, &node->list, postfix_parse(parser, primary_parse(parser))))
		return NULL;
	return node;
}

static Node *
unary_parse(Parser *parser, bool with_filters)
{
	Node *node;

	if (token_is(parser_peek(parser), TOKEN_OPERATOR, "-") ||
		token_is(parser_peek(parser), TOKEN_OPERATOR, "+"))
	{
		bool minus = token_is(parser_next(parser), TOKEN_OPERATOR, "-");

		node = node_make(parser, NODE_UNARY);
		if (node == NULL || !parser_enter(parser))
			return NULL;
		node->op = minus ? OP_SUBTRACT : OP_ADD;
		node->a = unary_parse(parser, false);
		parser_leave(parser);
		if (node->a == NULL)
			return NULL;
	}
	else
		node = primary_parse(parser);
	node = postfix_parse(parser, node);
	while (node != NULL && with_filters)
	{
		if (parser_skip(parser, TOKEN_OPERATOR, "|"))
			node = filter_parse(parser, node);
		else if (parser_skip(parser, TOKEN_NAME, "is"))
			node = test_parse(parser, node);
		else if (parser_skip(parser, TOKEN_OPERATOR, "("))
			node = call_parse(parser, node);
		else
			break;
	}
	return node;
}
