/* template.c: renders a parsed template within its budget. */
#include "engine/text/template.h"

#include "engine/text/template_render.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const TemplateBudget template_default_budget = {
	.n_steps = 10000000,
	.depth = 200,
	.output_bytes = (size_t) 16 << 20,
};

/* ---- budget and failure ---- */

static bool
has_failed(const Render *render)
{
	return render->err->code != INFER_OK;
}

bool(render_fail)(Render *render, const char *format, ...)
{
	char what[240];
	va_list args;

	if (has_failed(render))
		return false;
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return fail(render->err, INFER_BAD_INPUT, "chat template failed: %s\nLine %d.", what,
				render->line);
}

bool(render_fail_limit)(Render *render, const char *what)
{
	if (has_failed(render))
		return false;
	return fail(render->err, INFER_LIMIT, "chat template used up its budget: %s\nLine %d.", what,
				render->line);
}

bool
render_step(Render *render, uint64_t n)
{
	if (n > render->budget->n_steps - render->n_steps)
	{
		render->n_steps =
			render->budget->n_steps; /* whoever goes on all the same does not get far */
		return render_fail_limit(render, "too many steps");
	}
	render->n_steps += n;
	return true;
}

void *
render_alloc(Render *render, size_t n_bytes)
{
	void *memory =
		render_step(render, 1 + n_bytes / 64) ? arena_alloc(render->arena, n_bytes) : NULL;

	if (memory == NULL)
		render_fail_limit(render, "too much memory");
	return memory;
}

bool
render_output_fits(Render *render, size_t n_bytes, size_t n_more)
{
	if (n_bytes <= render->budget->output_bytes && n_more <= render->budget->output_bytes - n_bytes)
		return true;
	return render_fail_limit(render, "too much text");
}

bool
render_enter(Render *render)
{
	if (render->depth >= render->budget->depth)
		return render_fail_limit(render, "nested too deeply");
	render->depth++;
	return render_step(render, 1);
}

void
render_leave(Render *render)
{
	render->depth--;
}

/* ---- arguments ---- */

const Value *
argument_get(const Arguments *arguments, size_t index, const char *name)
{
	if (index < arguments->n_values)
		return &arguments->values[index];
	for (size_t i = 0; name != NULL && i < arguments->n_named; i++)
		if (string_equal(arguments->names[i], name))
			return &arguments->named[i];
	return NULL;
}

bool
argument_int(Render *render, const Arguments *arguments, size_t index, const char *name,
			 int64_t *out)
{
	const Value *value = argument_get(arguments, index, name);

	if (value == NULL || value->kind == VALUE_NONE)
		return true;
	if (value->kind != VALUE_INT && value->kind != VALUE_BOOL)
		return render_fail(render, "an integer was expected, not %s", value_kind_name(*value));
	*out = value->kind == VALUE_INT ? value->as.integer : value->as.truth;
	return true;
}

bool
argument_bool(const Arguments *arguments, size_t index, const char *name, bool fallback)
{
	const Value *value = argument_get(arguments, index, name);

	return value == NULL ? fallback : value_truth(*value);
}

bool
argument_string(Render *render, const Arguments *arguments, size_t index, const char *name,
				const String **out)
{
	const Value *value = argument_get(arguments, index, name);

	*out = NULL;
	if (value == NULL || value->kind == VALUE_NONE)
		return true;
	if (value->kind != VALUE_STRING)
		return render_fail(render, "a string was expected, not %s", value_kind_name(*value));
	*out = value->as.string;
	return true;
}

bool
method_make(Render *render, const FunctionInfo *info, Value self, Value *out)
{
	Function *function = render_alloc(render, sizeof(*function));

	if (function == NULL)
		return false;
	*function = (Function){ info->name, info->run, self };
	*out = (Value){ .kind = VALUE_FUNCTION, .as.function = function };
	return true;
}

/* ---- rendering ---- */

static bool
is_trusted(const char *const *trusted, const char *name)
{
	for (; trusted != NULL && *trusted != NULL; trusted++)
		if (strcmp(*trusted, name) == 0)
			return true;
	return false;
}

static bool
context_set(Render *render, const json_t *context, const char *const *trusted)
{
	const char *key;
	json_t *member;

	json_object_foreach((json_t *) (uintptr_t) context, key, member)
	{
		const String *name;
		Value value;

		if (strcmp(key, "now") == 0)
		{
			render->now = json_string_value(member);
			continue;
		}
		name = string_make(render, key, strlen(key), false);
		if (name == NULL || !value_of_json(render, member, is_trusted(trusted, key), 0, &value) ||
			!variable_set(render, name, value))
			return false;
	}
	return true;
}

bool
template_render(const Template *tmpl, Arena *arena, const json_t *context,
				const char *const *trusted, const TemplateBudget *budget, TemplateOutput *out,
				InferError *err)
{
	Render render = { .arena = arena, .budget = budget, .err = err };
	Scope globals = { NULL, NULL };
	Scope top = { NULL, &globals };
	const String *text;
	Builder output;

	infer_error_clear(err);
	render.scope = &globals;
	builder_init(&output, &render);
	render.output = &output;
	if (!context_set(&render, context, trusted))
		return has_failed(&render) ? false : fail(err, INFER_INTERNAL, "a chat template failed");
	render.scope = &top;
	if (!execute(&render, tmpl->body) || has_failed(&render) ||
		(text = builder_end(&output)) == NULL)
		return has_failed(&render) ? false : fail(err, INFER_INTERNAL, "a chat template failed");
	*out = (TemplateOutput){ text->bytes, text->n_bytes, text->spans, text->n_spans };
	return true;
}
