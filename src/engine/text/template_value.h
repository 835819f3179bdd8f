/*
 * template_value.h: the values of the template language. Private to text/template*.
 *
 * Strings know which of their bytes the template itself wrote (`spans`, as in template.h): literals
 * and template text are written by it, everything out of the context is not. Cutting, joining and
 * replacing keep that book; an operation that changes bytes inside (upper, a JSON form) keeps it
 * only where it is all or nothing.
 *
 * Everything lives in the render's arena. Lists, dicts and namespaces are shared by reference, as
 * in Python; strings never change. Nothing here recurses deeper than RENDER_MAX_NESTING values.
 */
#ifndef INFER_ENGINE_TEMPLATE_VALUE_H
#define INFER_ENGINE_TEMPLATE_VALUE_H

#include "engine/text/template.h"

#define RENDER_MAX_NESTING 100

typedef enum ValueKind
{
	VALUE_UNDEFINED,
	VALUE_NONE,
	VALUE_BOOL,
	VALUE_INT,
	VALUE_FLOAT,
	VALUE_STRING,
	VALUE_LIST,
	VALUE_TUPLE, /* a list that prints with parentheses */
	VALUE_DICT,
	VALUE_NAMESPACE, /* a dict whose members can be set */
	VALUE_RANGE,
	VALUE_LOOP,
	VALUE_MACRO,
	VALUE_FUNCTION, /* a global of ours, or a method bound to a value */
	VALUE_JOINER,
	VALUE_CYCLER
} ValueKind;

typedef struct String
{
	const char *bytes;
	size_t n_bytes;
	const TemplateSpan *spans; /* written by the template */
	size_t n_spans;
} String;

typedef struct Value Value;
typedef struct List List;
typedef struct Dict Dict;
typedef struct Loop Loop;
typedef struct Macro Macro;
typedef struct Function Function;
typedef struct Cycler Cycler;
typedef struct Joiner Joiner;

typedef struct Range
{
	int64_t start;
	int64_t step;
	int64_t n;
} Range;

struct Value
{
	ValueKind kind;
	union
	{
		bool truth;
		int64_t integer;
		double real;
		const String *string; /* UNDEFINED: the name, or NULL */
		List *list;
		Dict *dict;
		const Range *range;
		Loop *loop;
		const Macro *macro;
		const Function *function;
		Joiner *joiner;
		Cycler *cycler;
	} as;
};

struct List
{
	Value *items;
	size_t n_items;
	size_t capacity;
};

typedef struct DictItem
{
	Value key;
	Value value;
} DictItem;

/* In the order of insertion; found by a walk, since templates' dicts are small. */
struct Dict
{
	DictItem *items;
	size_t n_items;
	size_t capacity;
};

/* Nothing the first time, then the separator. */
struct Joiner
{
	Value separator;
	bool used;
};

struct Cycler
{
	List *items;
	size_t at;
};

typedef struct Render Render;

/* ---- making ---- */

extern Value value_none(void);
extern Value value_bool(bool truth);
extern Value value_int(int64_t integer);
extern Value value_real(double real);
extern Value value_undefined(const String *name);
extern Value value_string(const String *string);
extern Value value_list(List *list);

/* NULL: out of memory, and the render has failed. `written` marks all of it. */
extern const String *string_make(Render *render, const char *bytes, size_t n_bytes, bool written);
extern const String *string_slice(Render *render, const String *string, size_t from, size_t to);
extern List *list_make(Render *render, size_t capacity);
extern bool list_add(Render *render, List *list, Value value);
extern Dict *dict_make(Render *render);
extern bool dict_set(Render *render, Dict *dict, Value key, Value value);
/* Searching and comparing cost steps; when they run out the answer is NULL or false, and the
 * render has failed. */
extern const Value *dict_find(Render *render, const Dict *dict, Value key);
extern const Value *dict_find_text(Render *render, const Dict *dict, const char *key,
								   size_t n_bytes);

/* ---- building strings ---- */

typedef struct Builder
{
	Render *render;
	char *bytes;
	size_t n_bytes;
	size_t capacity;
	TemplateSpan *spans;
	size_t n_spans;
	size_t span_capacity;
} Builder;

extern void builder_init(Builder *builder, Render *render);
extern bool builder_add(Builder *builder, const String *string, size_t from, size_t to);
extern bool builder_add_string(Builder *builder, const String *string);
extern bool builder_add_bytes(Builder *builder, const char *bytes, size_t n_bytes, bool written);
extern bool builder_add_format(Builder *builder, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
extern const String *builder_end(Builder *builder);

/* ---- asking ---- */

extern const char *value_kind_name(Value value); /* Python's name of the type */
extern bool value_truth(Value value);
extern bool value_is_number(Value value);
extern double value_number(Value value);
extern bool value_equal(Render *render, Value a, Value b);

/* < 0, 0, > 0; false: the two have no order. */
extern bool value_compare(Render *render, Value a, Value b, int *order);
extern bool string_equal(const String *a, const char *text);
extern bool strings_equal(const String *a, const String *b);
extern size_t string_length(const String *string); /* characters */

/* Byte offset of character `index`; n_bytes for any past the end. */
extern size_t string_offset(const String *string, size_t index);

/* As Python prints it: str(value), and repr(value) where `quoted`. */
extern const String *value_print(Render *render, Value value);
extern bool value_print_to(Builder *builder, Value value, bool quoted, int depth);

/* JSON in and out. */
extern bool value_of_json(Render *render, const json_t *json, bool written, int depth, Value *out);

typedef struct JsonStyle
{
	int64_t indent; /* < 0: on one line */
	bool ascii;
	bool sort_keys;
	const String *item_separator;
	const String *key_separator;
} JsonStyle;

extern bool value_to_json(Builder *builder, Value value, const JsonStyle *style, int depth);

#endif
