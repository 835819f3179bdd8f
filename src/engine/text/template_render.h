/*
 * template_render.h: one render under way: its budget, its variables, and the tables of functions.
 * Private to text/template*.
 *
 * Every function returns false after it failed, and then the render's error is set. Evaluation
 * recurses with the tree, and every level counts (render_enter): neither a template nor its input
 * decides how much stack is used.
 */
#ifndef INFER_ENGINE_TEMPLATE_RENDER_H
#define INFER_ENGINE_TEMPLATE_RENDER_H

#include "engine/text/template_tree.h"

typedef struct Variable
{
	const String *name;
	Value value;
	struct Variable *next;
} Variable;

/* A loop's turn, a macro's call, or the template itself. */
typedef struct Scope
{
	Variable *variables;
	struct Scope *outer;
} Scope;

typedef enum Flow
{
	FLOW_ON,
	FLOW_BREAK,
	FLOW_CONTINUE
} Flow;

struct Render
{
	Arena *arena;
	const TemplateBudget *budget;
	InferError *err;
	const char *now; /* "2026-12-01T09:30:00" or NULL */
	uint64_t n_steps;
	uint32_t depth;
	int line;
	Scope *scope;
	Builder *output;
	Flow flow;
};

struct Macro
{
	const Node *node;
	Scope *scope; /* where it was defined */
	const Macro *caller;
};

struct Loop
{
	size_t index; /* of the turn, from 0 */
	size_t n;
	const List *items;
	const Node *node; /* of a recursive loop */
	size_t depth;
	Value changed;
	bool has_changed;
};

/* Values of a call: positional, and named. */
typedef struct Arguments
{
	Value *values;
	size_t n_values;
	const String **names; /* [n_named] */
	Value *named;
	size_t n_named;
} Arguments;

typedef bool (*FunctionRun)(Render *render, Value self, const Arguments *arguments, Value *out);

struct Function
{
	const char *name;
	FunctionRun run;
	Value self; /* a method's */
};

typedef struct FunctionInfo
{
	const char *name;
	FunctionRun run;
} FunctionInfo;

/* ---- budget and failure ---- */

extern bool render_step(Render *render, uint64_t n);
extern void *render_alloc(Render *render, size_t n_bytes);
extern bool render_output_fits(Render *render, size_t n_bytes, size_t n_more);
extern bool render_enter(Render *render);
extern void render_leave(Render *render);
extern bool render_fail(Render *render, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
extern bool render_fail_limit(Render *render, const char *what);
/* Compilers see at the call that it is false (status.h). */
#define render_fail(...)	   infer_always_false(render_fail(__VA_ARGS__))
#define render_fail_limit(...) infer_always_false(render_fail_limit(__VA_ARGS__))

/* The row called `name`, or NULL; a NULL name has none. */
extern const FunctionInfo *function_find(const FunctionInfo *table, size_t n, const String *name);
#define FUNCTION_FIND(table, name) function_find((table), sizeof(table) / sizeof((table)[0]), name)

/* ---- arguments ---- */

/* The arguments of a call, filter or test node; there is room for one more named argument. */
extern bool arguments_evaluate(Render *render, const Node *node, Arguments *out);

/* Argument `index`, or the one named so; NULL: neither is given. */
extern const Value *argument_get(const Arguments *arguments, size_t index, const char *name);
extern bool argument_int(Render *render, const Arguments *arguments, size_t index, const char *name,
						 int64_t *out);
extern bool argument_bool(const Arguments *arguments, size_t index, const char *name,
						  bool fallback);
/* NULL when not given; false when it is no string. */
extern bool argument_string(Render *render, const Arguments *arguments, size_t index,
							const char *name, const String **out);

/* ---- evaluation ---- */

extern bool evaluate(Render *render, const Node *node, Value *out);
extern bool value_attribute(Render *render, Value object, const String *name, Value *out);
extern bool value_item(Render *render, Value object, Value key, Value *out);
extern bool value_call(Render *render, Value callee, const Arguments *arguments, Value *out);
extern bool filter_run(Render *render, const String *name, Value input, const Arguments *arguments,
					   Value *out);
extern bool filter_nodes_run(Render *render, const Node *filter, Value input, Value *out);
extern bool test_run(Render *render, const String *name, Value input, const Arguments *arguments,
					 bool *out);
extern bool value_contains(Render *render, Value container, Value item, bool *out);

/* Everything that a loop would go through, as a list (of keys, for a dict). */
extern bool value_iterate(Render *render, Value value, const List **out);

/* Statements; text goes to render->output. */
extern bool execute(Render *render, const Node *block);
extern bool macro_call(Render *render, const Macro *macro, const Arguments *arguments, Value *out);
extern bool loop_recurse(Render *render, const Loop *loop, const Arguments *arguments, Value *out);
extern bool variable_set(Render *render, const String *name, Value value);
extern bool loop_attribute(Render *render, Loop *loop, const String *name, Value *out);

/* Methods of strings, lists and dicts; NULL: there is none of that name. */
extern const FunctionInfo *method_find(Value object, const String *name);
extern const FunctionInfo *string_method_find(const String *name);
extern const FunctionInfo *global_find(const String *name);

/* Filters on the items of lists; NULL: there is none of that name. */
extern const FunctionInfo *list_filter_find(const String *name);
extern bool method_make(Render *render, const FunctionInfo *info, Value self, Value *out);

extern bool json_filter(Render *render, Value input, const Arguments *arguments, Value *out);

/* template_text.c: what filters and methods do to strings alike. */
extern bool string_strip(Render *render, const String *string, const String *set, bool left,
						 bool right, Value *out);
extern bool string_case(Render *render, const String *string, char mode, Value *out);
extern bool string_replace(Render *render, const String *string, const String *old,
						   const String *new, int64_t count, Value *out);
extern bool string_format(Render *render, const String *format, const Value *values,
						  size_t n_values, Value *out);
extern bool string_out(Render *render, const String *string, Value *out);

#endif
