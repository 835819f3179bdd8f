/* template_tests.c: what stands behind "is". */
#include "engine/text/template_render.h"

#include <string.h>
#include <utf8proc.h>

#include "engine/text/utf8.h"

/* argument: the first, or undefined */
typedef bool (*TestHolds)(Render *render, Value input, Value argument, bool *out);

#define KIND_TEST(name, condition)                                                                 \
	static bool name(Render *render, Value input, Value argument, bool *out)                       \
	{                                                                                              \
		(void) render;                                                                             \
		(void) argument;                                                                           \
		*out = (condition);                                                                        \
		return true;                                                                               \
	}

KIND_TEST(is_defined, input.kind != VALUE_UNDEFINED)
KIND_TEST(is_undefined, input.kind == VALUE_UNDEFINED)
KIND_TEST(is_none, input.kind == VALUE_NONE)
KIND_TEST(is_string, input.kind == VALUE_STRING)
KIND_TEST(is_number, value_is_number(input))
KIND_TEST(is_integer, input.kind == VALUE_INT)
KIND_TEST(is_float, input.kind == VALUE_FLOAT)
KIND_TEST(is_boolean, input.kind == VALUE_BOOL)
KIND_TEST(is_true, input.kind == VALUE_BOOL && input.as.truth)
KIND_TEST(is_false, input.kind == VALUE_BOOL && !input.as.truth)
KIND_TEST(is_mapping, input.kind == VALUE_DICT)
KIND_TEST(is_callable,
		  input.kind == VALUE_FUNCTION || input.kind == VALUE_MACRO || input.kind == VALUE_JOINER)
KIND_TEST(is_sequence, input.kind == VALUE_LIST || input.kind == VALUE_TUPLE ||
						   input.kind == VALUE_STRING || input.kind == VALUE_DICT ||
						   input.kind == VALUE_RANGE || input.kind == VALUE_UNDEFINED)
KIND_TEST(is_equal, value_equal(render, input, argument))
KIND_TEST(is_not_equal, !value_equal(render, input, argument))
KIND_TEST(is_same, input.kind == argument.kind && value_equal(render, input, argument))

static bool
compares(Render *render, Value a, Value b, int *order)
{
	return value_compare(render, a, b, order) ||
		   render_fail(render, "%s cannot be compared with %s", value_kind_name(a),
					   value_kind_name(b));
}

#define ORDER_TEST(name, condition)                                                                \
	static bool name(Render *render, Value input, Value argument, bool *out)                       \
	{                                                                                              \
		int order = 0;                                                                             \
                                                                                                   \
		if (!compares(render, input, argument, &order))                                            \
			return false;                                                                          \
		*out = (condition);                                                                        \
		return true;                                                                               \
	}

ORDER_TEST(is_less, order < 0)
ORDER_TEST(is_less_equal, order <= 0)
ORDER_TEST(is_greater, order > 0)
ORDER_TEST(is_greater_equal, order >= 0)

static bool
is_in(Render *render, Value input, Value argument, bool *out)
{
	return value_contains(render, argument, input, out);
}

static bool
remainder_of(Render *render, Value input, int64_t by, int64_t *out)
{
	if (input.kind != VALUE_INT || by == 0 || by == -1)
		return render_fail(render, "this test needs integers, and no division by zero");
	*out = input.as.integer % by;
	return true;
}

static bool
is_odd(Render *render, Value input, Value argument, bool *out)
{
	int64_t rest;

	(void) argument;
	if (!remainder_of(render, input, 2, &rest))
		return false;
	*out = rest != 0;
	return true;
}

static bool
is_even(Render *render, Value input, Value argument, bool *out)
{
	if (!is_odd(render, input, argument, out))
		return false;
	*out = !*out;
	return true;
}

static bool
is_divisible(Render *render, Value input, Value argument, bool *out)
{
	int64_t rest;

	if (argument.kind != VALUE_INT || !remainder_of(render, input, argument.as.integer, &rest))
		return argument.kind == VALUE_INT ? false
										  : render_fail(render, "divisibleby needs an integer");
	*out = rest == 0;
	return true;
}

static bool
case_is(Render *render, Value input, bool upper)
{
	bool any = false;

	if (input.kind != VALUE_STRING || !render_step(render, input.as.string->n_bytes / 16))
		return false;
	for (size_t at = 0; at < input.as.string->n_bytes;)
	{
		int n_char;
		uint32_t codepoint =
			utf8_decode(input.as.string->bytes + at, input.as.string->n_bytes - at, &n_char);
		utf8proc_category_t category = utf8proc_category((utf8proc_int32_t) codepoint);

		if (category == (upper ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU))
			return false;
		any = any || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LU;
		at += (size_t) n_char;
	}
	return any;
}

KIND_TEST(is_lower, case_is(render, input, false))
KIND_TEST(is_upper, case_is(render, input, true))

static const struct
{
	const char *name;
	TestHolds holds;
} tests[] = {
	{ "defined", is_defined },
	{ "undefined", is_undefined },
	{ "none", is_none },
	{ "string", is_string },
	{ "number", is_number },
	{ "integer", is_integer },
	{ "float", is_float },
	{ "boolean", is_boolean },
	{ "true", is_true },
	{ "false", is_false },
	{ "mapping", is_mapping },
	{ "sequence", is_sequence },
	{ "iterable", is_sequence },
	{ "callable", is_callable },
	{ "eq", is_equal },
	{ "equalto", is_equal },
	{ "==", is_equal },
	{ "ne", is_not_equal },
	{ "!=", is_not_equal },
	{ "sameas", is_same },
	{ "lt", is_less },
	{ "lessthan", is_less },
	{ "<", is_less },
	{ "le", is_less_equal },
	{ "<=", is_less_equal },
	{ "gt", is_greater },
	{ "greaterthan", is_greater },
	{ ">", is_greater },
	{ "ge", is_greater_equal },
	{ ">=", is_greater_equal },
	{ "in", is_in },
	{ "odd", is_odd },
	{ "even", is_even },
	{ "divisibleby", is_divisible },
	{ "lower", is_lower },
	{ "upper", is_upper },
};

bool
test_run(Render *render, const String *name, Value input, const Arguments *arguments, bool *out)
{
	const Value *argument = argument_get(arguments, 0, NULL);

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (string_equal(name, tests[i].name))
			return tests[i].holds(render, input,
								  argument != NULL ? *argument : value_undefined(NULL), out);
	return render_fail(render, "there is no test '%.*s'",
					   (int) (name->n_bytes < 40 ? name->n_bytes : 40), name->bytes);
}
