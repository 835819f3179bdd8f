/*
 * template_tree.h: a parsed template. Nodes live in the template's arena and never change after
 * parsing. One struct for all kinds: `a`, `b` and `c` are parts with a meaning of their own for
 * each kind, `list` is a row of parts; the table says what is what.
 *
 *     kind        text       a            b           c          list           pairs
 *     LITERAL     -          (value)
 *     NAME        name
 *     LIST, TUPLE -                                              items
 *     DICT        -                                                             key, value
 *     UNARY       op   operand
 *     BINARY      op   left         right
 *     COMPARE     -          first                               operands       (operators in ops)
 *     AND, OR     -          left         right
 *     NOT         -          operand
 *     IF_ELSE     -          condition    value       else
 *     ATTRIBUTE   name       object
 *     ITEM        -          object       key
 *     SLICE       -          object                              start stop step (NULL: left out)
 *     CALL        -          callee                              arguments      name, value
 *     FILTER      name       input                               arguments      name, value
 *     TEST        name       input                               arguments      (negated)
 *
 *     TEXT        text
 *     PRINT       -          expression
 *     IF          -                                              condition, body, condition, body,
 * ... with an else body at the end FOR         -          iterable     filter      else body
 * targets        (body in `body`) SET         -          value        -           - targets (NULL
 * value: `body`) MACRO       name                                           (body) parameter,
 * default CALL_BLOCK  -          call                                (body)         parameter,
 * default FILTER_BLOCK -         filter                              (body) BLOCK       -
 * statements BREAK, CONTINUE
 */
#ifndef INFER_ENGINE_TEMPLATE_TREE_H
#define INFER_ENGINE_TEMPLATE_TREE_H

#include "engine/text/template_value.h"

typedef enum NodeKind
{
	NODE_LITERAL,
	NODE_NAME,
	NODE_LIST,
	NODE_TUPLE,
	NODE_DICT,
	NODE_UNARY,
	NODE_BINARY,
	NODE_COMPARE,
	NODE_AND,
	NODE_OR,
	NODE_NOT,
	NODE_IF_ELSE,
	NODE_ATTRIBUTE,
	NODE_ITEM,
	NODE_SLICE,
	NODE_CALL,
	NODE_FILTER,
	NODE_TEST,
	NODE_TEXT,
	NODE_PRINT,
	NODE_IF,
	NODE_FOR,
	NODE_SET,
	NODE_MACRO,
	NODE_CALL_BLOCK,
	NODE_FILTER_BLOCK,
	NODE_BLOCK,
	NODE_BREAK,
	NODE_CONTINUE
} NodeKind;

typedef enum Operator
{
	OP_ADD,
	OP_SUBTRACT,
	OP_MULTIPLY,
	OP_DIVIDE,
	OP_FLOOR_DIVIDE,
	OP_MODULO,
	OP_POWER,
	OP_CONCAT,
	OP_EQUAL,
	OP_NOT_EQUAL,
	OP_LESS,
	OP_LESS_EQUAL,
	OP_GREATER,
	OP_GREATER_EQUAL,
	OP_IN,
	OP_NOT_IN
} Operator;

typedef struct Node Node;

typedef struct NodeList
{
	Node **nodes;
	size_t n_nodes;
	size_t capacity;
} NodeList;

typedef struct NodePair
{
	Node *key; /* NODE_NAME for named arguments and parameters */
	Node *value;
} NodePair;

typedef struct NodePairs
{
	NodePair *pairs;
	size_t n_pairs;
	size_t capacity;
} NodePairs;

struct Node
{
	NodeKind kind;
	int line;
	bool negated;	/* TEST */
	bool recursive; /* FOR */
	Operator op;
	String text; /* literal string, name, or template text: all of it written by the template */
	Value literal;
	Node *a;
	Node *b;
	Node *c;
	Node *body;
	NodeList list;
	NodePairs pairs;
	Operator *operators; /* COMPARE: [list.n_nodes] */
};

struct Template
{
	Node *body; /* BLOCK */
};

#endif
