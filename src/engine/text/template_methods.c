/* template_methods.c: methods of lists and dicts, as Python names them. */
#include "engine/text/template_render.h"
#include "engine/text/utf8.h"

#include <string.h>
#include <utf8proc.h>

#define METHOD(name)                                                                               \
	static bool name(Render *render, Value self, const Arguments *arguments, Value *out)

/* ---- lists ---- */

METHOD(list_append)
{
	const Value *item = argument_get(arguments, 0, NULL);

	*out = value_none();
	return item != NULL ? list_add(render, self.as.list, *item)
						: render_fail(render, "append needs a value");
}

METHOD(list_extend)
{
	const Value *more = argument_get(arguments, 0, NULL);
	const List *items;

	*out = value_none();
	if (more == NULL || !value_iterate(render, *more, &items))
		return more != NULL ? false : render_fail(render, "extend needs a list");
	for (size_t i = 0, n = items->n_items; i < n; i++)
		if (!list_add(render, self.as.list, items->items[i]))
			return false;
	return true;
}

METHOD(list_insert)
{
	List *list = self.as.list;
	const Value *item = argument_get(arguments, 1, NULL);
	int64_t at = 0;

	*out = value_none();
	if (item == NULL || !argument_int(render, arguments, 0, NULL, &at))
		return item != NULL ? false : render_fail(render, "insert needs a place and a value");
	if (at < 0)
		at += (int64_t) list->n_items;
	at = at < 0 ? 0 : at > (int64_t) list->n_items ? (int64_t) list->n_items : at;
	if (!render_step(render, list->n_items / 16) || !list_add(render, list, *item))
		return false;
	memmove(list->items + at + 1, list->items + at,
			(list->n_items - 1 - (size_t) at) * sizeof(Value));
	list->items[at] = *item;
	return true;
}

METHOD(list_pop)
{
	List *list = self.as.list;
	int64_t at = -1;

	if (!argument_int(render, arguments, 0, NULL, &at) || !render_step(render, list->n_items / 16))
		return false;
	if (at < 0)
		at += (int64_t) list->n_items;
	if (at < 0 || at >= (int64_t) list->n_items)
		return render_fail(render, "pop index out of range");
	*out = list->items[at];
	memmove(list->items + at, list->items + at + 1,
			(list->n_items - 1 - (size_t) at) * sizeof(Value));
	list->n_items--;
	return true;
}

METHOD(list_index)
{
	const Value *item = argument_get(arguments, 0, NULL);

	for (size_t i = 0; item != NULL && i < self.as.list->n_items; i++)
		if (value_equal(render, self.as.list->items[i], *item))
		{
			*out = value_int((int64_t) i);
			return true;
		}
	return render_fail(render, "value is not in the list");
}

METHOD(list_count)
{
	const Value *item = argument_get(arguments, 0, NULL);
	int64_t n = 0;

	for (size_t i = 0; item != NULL && i < self.as.list->n_items; i++)
		n += value_equal(render, self.as.list->items[i], *item);
	*out = value_int(n);
	return item != NULL || render_fail(render, "count needs a value");
}

METHOD(list_reverse)
{
	List *list = self.as.list;

	(void) render;
	(void) arguments;
	for (size_t i = 0; i < list->n_items / 2; i++)
	{
		Value item = list->items[i];

		list->items[i] = list->items[list->n_items - 1 - i];
		list->items[list->n_items - 1 - i] = item;
	}
	*out = value_none();
	return true;
}

METHOD(list_copy)
{
	List *copy = list_make(render, self.as.list->n_items);

	(void) arguments;
	for (size_t i = 0; copy != NULL && i < self.as.list->n_items; i++)
		if (!list_add(render, copy, self.as.list->items[i]))
			return false;
	*out = value_list(copy);
	return copy != NULL;
}

static const FunctionInfo list_methods[] = {
	{ "append", list_append },	 { "extend", list_extend }, { "insert", list_insert },
	{ "pop", list_pop },		 { "index", list_index },	{ "count", list_count },
	{ "reverse", list_reverse }, { "copy", list_copy },
};

/* ---- dicts ---- */

METHOD(dict_get)
{
	const Value *key = argument_get(arguments, 0, "key");
	const Value *fallback = argument_get(arguments, 1, "default");
	const Value *found;

	if (key == NULL)
		return render_fail(render, "get needs a key");
	found = dict_find(render, self.as.dict, *key);
	*out = found != NULL ? *found : fallback != NULL ? *fallback : value_none();
	return true;
}

/* what: 'k' keys, 'v' values, 'i' items */
static bool
dict_list(Render *render, const Dict *dict, char what, Value *out)
{
	List *list = list_make(render, dict->n_items);

	for (size_t i = 0; list != NULL && i < dict->n_items; i++)
	{
		Value item = what == 'k' ? dict->items[i].key : dict->items[i].value;

		if (what == 'i')
		{
			List *pair = list_make(render, 2);

			if (pair == NULL || !list_add(render, pair, dict->items[i].key) ||
				!list_add(render, pair, dict->items[i].value))
				return false;
			item = (Value){ .kind = VALUE_TUPLE, .as.list = pair };
		}
		if (!list_add(render, list, item))
			return false;
	}
	*out = value_list(list);
	return list != NULL;
}

METHOD(dict_keys)
{
	(void) arguments;
	return dict_list(render, self.as.dict, 'k', out);
}

METHOD(dict_values)
{
	(void) arguments;
	return dict_list(render, self.as.dict, 'v', out);
}

METHOD(dict_items)
{
	(void) arguments;
	return dict_list(render, self.as.dict, 'i', out);
}

METHOD(dict_pop)
{
	Dict *dict = self.as.dict;
	const Value *key = argument_get(arguments, 0, NULL);
	const Value *fallback = argument_get(arguments, 1, NULL);

	for (size_t i = 0; key != NULL && i < dict->n_items; i++)
	{
		if (!value_equal(render, dict->items[i].key, *key))
			continue;
		*out = dict->items[i].value;
		memmove(dict->items + i, dict->items + i + 1, (dict->n_items - 1 - i) * sizeof(DictItem));
		dict->n_items--;
		return true;
	}
	if (fallback == NULL)
		return render_fail(render, "pop: there is no such key");
	*out = *fallback;
	return true;
}

METHOD(dict_update)
{
	const Value *more = argument_get(arguments, 0, NULL);

	*out = value_none();
	if (more != NULL && more->kind != VALUE_DICT)
		return render_fail(render, "update needs a dict");
	for (size_t i = 0; more != NULL && i < more->as.dict->n_items; i++)
		if (!dict_set(render, self.as.dict, more->as.dict->items[i].key,
					  more->as.dict->items[i].value))
			return false;
	for (size_t i = 0; i < arguments->n_named; i++)
		if (!dict_set(render, self.as.dict, value_string(arguments->names[i]), arguments->named[i]))
			return false;
	return true;
}

METHOD(dict_setdefault)
{
	const Value *key = argument_get(arguments, 0, NULL);
	const Value *fallback = argument_get(arguments, 1, NULL);
	const Value *found = key != NULL ? dict_find(render, self.as.dict, *key) : NULL;

	if (key == NULL)
		return render_fail(render, "setdefault needs a key");
	*out = found != NULL ? *found : fallback != NULL ? *fallback : value_none();
	return found != NULL || dict_set(render, self.as.dict, *key, *out);
}

METHOD(dict_copy)
{
	Dict *copy = dict_make(render);

	(void) arguments;
	for (size_t i = 0; copy != NULL && i < self.as.dict->n_items; i++)
		if (!dict_set(render, copy, self.as.dict->items[i].key, self.as.dict->items[i].value))
			return false;
	*out = (Value){ .kind = VALUE_DICT, .as.dict = copy };
	return copy != NULL;
}

static const FunctionInfo dict_methods[] = {
	{ "get", dict_get },	   { "keys", dict_keys },
	{ "values", dict_values }, { "items", dict_items },
	{ "pop", dict_pop },	   { "update", dict_update },
	{ "copy", dict_copy },	   { "setdefault", dict_setdefault },
};

/* ---- what can be called itself ---- */

METHOD(joiner_call)
{
	static const String nothing = { .bytes = "" };

	(void) render;
	(void) arguments;
	*out = self.as.joiner->used ? self.as.joiner->separator : value_string(&nothing);
	self.as.joiner->used = true;
	return true;
}

METHOD(cycler_next)
{
	Cycler *cycler = self.as.cycler;

	(void) render;
	(void) arguments;
	*out = cycler->items->items[cycler->at];
	cycler->at = (cycler->at + 1) % cycler->items->n_items;
	return true;
}

METHOD(cycler_reset)
{
	(void) render;
	(void) arguments;
	self.as.cycler->at = 0;
	*out = value_none();
	return true;
}

static const FunctionInfo joiner_methods[] = { { "__call__", joiner_call } };
static const FunctionInfo cycler_methods[] = { { "next", cycler_next }, { "reset", cycler_reset } };

/* ---- all ---- */

const FunctionInfo *
function_find(const FunctionInfo *table, size_t n, const String *name)
{
	for (size_t i = 0; name != NULL && i < n; i++)
		if (string_equal(name, table[i].name))
			return &table[i];
	return NULL;
}

const FunctionInfo *
method_find(Value object, const String *name)
{
	switch (object.kind)
	{
		case VALUE_STRING:
			return string_method_find(name);
		case VALUE_LIST:
			return FUNCTION_FIND(list_methods, name);
		case VALUE_DICT:
			return FUNCTION_FIND(dict_methods, name);
		case VALUE_JOINER:
			return FUNCTION_FIND(joiner_methods, name);
		case VALUE_CYCLER:
			return FUNCTION_FIND(cycler_methods, name);
		default:
			return NULL;
	}
}
