#include "postgres.h"

#include "pg/options.h"

#include <errno.h>

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "pg/errors.h"
#include "pg/settings.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

void
options_init(CallOptions *options)
{
	memset(options, 0, sizeof(*options));
	options->system = "";
}

/* What a user wrote, for a message: a megabyte of it would fill the log. */
#define SHOWN_BYTES 64

static const char *
shown(const char *bytes, int n_bytes)
{
	if (n_bytes <= SHOWN_BYTES)
		return pnstrdup(bytes, n_bytes);
	return psprintf("%s...", pnstrdup(bytes, pg_mbcliplen(bytes, n_bytes, SHOWN_BYTES)));
}

/* ---- single values ---- */

static void
model_set(InferRequest *request, const char *name, int n_bytes)
{
	const char *utf8 = pg_server_to_any(name, n_bytes, PG_UTF8);
	int n_server_bytes = n_bytes;

	if (utf8 != name)
		n_bytes = (int) strlen(utf8);
	if (n_bytes >= INFER_MODEL_NAME_BYTES)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("model \"%s\" does not exist", shown(name, n_server_bytes))));
	memset(request->model, 0, sizeof(request->model));
	memcpy(request->model, utf8, (size_t) n_bytes);
}

void
options_set_model(InferRequest *request, Datum name)
{
	text *t = DatumGetTextPP(name);

	model_set(request, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
}

static void
system_set(CallOptions *options, const char *bytes, int n_bytes)
{
	const char *utf8 = pg_server_to_any(bytes, n_bytes, PG_UTF8);

	options->system = utf8;
	options->system_bytes = utf8 == bytes ? n_bytes : (int) strlen(utf8);
}

static void
on_error_set(Call *call, const char *bytes, int n_bytes)
{
	for (const SettingChoice *choice = on_error_choices; choice->name != NULL; choice++)
		if (strlen(choice->name) == (size_t) n_bytes && memcmp(choice->name, bytes, n_bytes) == 0)
		{
			call->null_on_error = choice->value == ON_ERROR_NULL;
			return;
		}
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("on_error cannot be \"%s\"", shown(bytes, n_bytes)),
					errhint("Use \"error\" or \"null\".")));
}

static void
stops_clear(CallOptions *options)
{
	options->n_stops = 0;
	if (options->stops.data != NULL)
		resetStringInfo(&options->stops);
	else
		initStringInfo(&options->stops);
}

static void
stop_add(CallOptions *options, const char *bytes, int n_bytes)
{
	const char *utf8 = pg_server_to_any(bytes, n_bytes, PG_UTF8);

	if (utf8 != bytes)
		n_bytes = (int) strlen(utf8);
	if (n_bytes == 0 || n_bytes >= INFER_MAX_STOP_BYTES)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("stop string has %d bytes", n_bytes),
						errdetail("One must have 1 to %d bytes.", INFER_MAX_STOP_BYTES - 1)));
	appendBinaryStringInfo(&options->stops, utf8, n_bytes);
	appendStringInfoChar(&options->stops, '\0');
	options->n_stops++;
}

static void
number_set(Call *call, const InferOptionInfo *option, double value)
{
	InferError err;

	if (!infer_option_set_number(&call->request, option, value, &err))
		infer_report(ERROR, &err);
}

static bool
numeric_is(PGFunction compare, Datum a, Datum b)
{
	return DatumGetBool(DirectFunctionCall2(compare, a, b));
}

/* numeric_int8 would round a fraction, and name no option in its error. */
static int64
seed_of(const JsonbValue *value)
{
	Datum number = NumericGetDatum(value->val.numeric);
	Datum whole = DirectFunctionCall2(numeric_trunc, number, Int32GetDatum(0));
	Datum least = NumericGetDatum(int64_to_numeric(PG_INT64_MIN));
	Datum most = NumericGetDatum(int64_to_numeric(PG_INT64_MAX));

	if (!numeric_is(numeric_eq, number, whole) || numeric_is(numeric_lt, number, least) ||
		numeric_is(numeric_gt, number, most))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"seed\" is out of range"),
						errdetail("Allowed are integers from %lld to %lld.",
								  (long long) PG_INT64_MIN, (long long) PG_INT64_MAX)));
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, number));
}

static void
seed_set(Call *call, int64 seed)
{
	call->request.seed = (uint64_t) seed;
	call->request.flags |= INFER_FLAG_HAS_SEED;
}

/* ---- options => '{...}' ---- */

pg_attribute_noreturn() static void wrong_type(const InferOptionInfo *option)
{
	static const char *const wanted[] = {
		[INFER_OPTION_INT] = "a number",
		[INFER_OPTION_DOUBLE] = "a number",
		[INFER_OPTION_SEED] = "a number",
		[INFER_OPTION_BOOL] = "true or false",
		[INFER_OPTION_TEXT] = "a string",
		[INFER_OPTION_TEXT_LIST] = "an array of strings",
		[INFER_OPTION_BIAS] = "an object of token ids and numbers",
	};

	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("option \"%s\" must be %s", option->key, wanted[option->type])));
}

static double
double_of(const InferOptionInfo *option, const JsonbValue *value)
{
	if (value->type != jbvNumeric)
		wrong_type(option);
	return DatumGetFloat8(
		DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(value->val.numeric)));
}

static void
text_option_set(const InferOptionInfo *option, const JsonbValue *value, Call *call,
				CallOptions *options)
{
	const char *bytes = value->val.string.val;
	int n_bytes = value->val.string.len;

	if (value->type != jbvString)
		wrong_type(option);
	if (strcmp(option->key, "model") == 0)
		model_set(&call->request, bytes, n_bytes);
	else if (strcmp(option->key, "system") == 0)
		system_set(options, bytes, n_bytes);
	else
		on_error_set(call, bytes, n_bytes);
}

static void
stop_list_set(const InferOptionInfo *option, const JsonbValue *value, CallOptions *options)
{
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue element;

	stops_clear(options);
	if (value->type == jbvString)
	{
		stop_add(options, value->val.string.val, value->val.string.len);
		return;
	}
	if (value->type != jbvBinary || !JsonContainerIsArray(value->val.binary.data))
		wrong_type(option);
	iterator = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &element, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (element.type != jbvString)
			wrong_type(option);
		stop_add(options, element.val.string.val, element.val.string.len);
	}
}

static int32
token_id_of(const InferOptionInfo *option, const JsonbValue *key)
{
	char *digits = pnstrdup(key->val.string.val, key->val.string.len);
	char *end;
	long id;

	/* Written in one way only: " 5" and "05" would name token 5 a second time. */
	errno = 0;
	id = strtol(digits, &end, 10);
	if (errno != 0 || end == digits || *end != '\0' || id < 0 || id > PG_INT32_MAX ||
		strcmp(digits, psprintf("%ld", id)) != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("\"%s\" is not a token id",
							   shown(key->val.string.val, key->val.string.len)),
						errdetail("Keys of option \"%s\" are token ids.", option->key)));
	return (int32) id;
}

static void
bias_set(const InferOptionInfo *option, const JsonbValue *value, CallOptions *options)
{
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue element;
	int32 id = 0;

	if (value->type != jbvBinary || !JsonContainerIsObject(value->val.binary.data))
		wrong_type(option);
	initStringInfo(&options->bias);
	iterator = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &element, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			id = token_id_of(option, &element);
		else if (token == WJB_VALUE)
		{
			double number = double_of(option, &element);
			float bias = (float) number;

			if (!(number >= option->min && number <= option->max))
				ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
								errmsg("option \"%s\" is out of range", option->key),
								errdetail("It is %g for token %d; allowed are %g to %g.", number,
										  id, option->min, option->max)));
			appendBinaryStringInfo(&options->bias, (char *) &id, sizeof(id));
			appendBinaryStringInfo(&options->bias, (char *) &bias, sizeof(bias));
		}
	}
}

static void
option_set(const InferOptionInfo *option, const JsonbValue *value, Call *call, CallOptions *options)
{
	switch (option->type)
	{
		case INFER_OPTION_INT:
		case INFER_OPTION_DOUBLE:
			number_set(call, option, double_of(option, value));
			break;
		case INFER_OPTION_SEED:
			if (value->type != jbvNumeric)
				wrong_type(option);
			seed_set(call, seed_of(value));
			break;
		case INFER_OPTION_BOOL:
			if (value->type != jbvBool)
				wrong_type(option);
			call->request.flags &= ~INFER_FLAG_RAW;
			if (value->val.boolean)
				call->request.flags |= INFER_FLAG_RAW;
			break;
		case INFER_OPTION_TEXT:
			text_option_set(option, value, call, options);
			break;
		case INFER_OPTION_TEXT_LIST:
			stop_list_set(option, value, options);
			break;
		case INFER_OPTION_BIAS:
			bias_set(option, value, options);
			break;
	}
}

static const char *
option_keys(void)
{
	StringInfoData keys;

	initStringInfo(&keys);
	for (int i = 0; i < infer_n_options; i++)
		appendStringInfo(&keys, "%s%s", i > 0 ? ", " : "", infer_options[i].key);
	return keys.data;
}

static const InferOptionInfo *
option_of_key(const JsonbValue *value)
{
	char *key = pnstrdup(value->val.string.val, value->val.string.len);
	const InferOptionInfo *option = infer_option_find(key);
	const char *nearest;

	if (option != NULL)
		return option;
	nearest = infer_option_nearest(key);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown option \"%s\"", shown(value->val.string.val, value->val.string.len)),
			 nearest != NULL ? errhint("Did you mean \"%s\"?", nearest)
							 : errhint("Options are %s.", option_keys())));
	return NULL;
}

void
options_from_jsonb(const NullableDatum *json, Call *call, CallOptions *options)
{
	const InferOptionInfo *option = NULL;
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue value;
	Jsonb *object;

	if (json->isnull)
		return;
	object = DatumGetJsonbP(json->value);
	if (!JB_ROOT_IS_OBJECT(object))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("options must be a JSON object"),
				 errhint("For example: options => '{\"min_p\": 0.05}'.")));
	iterator = JsonbIteratorInit(&object->root);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			option = option_of_key(&value);
		else if (token == WJB_VALUE && option != NULL && value.type != jbvNull)
			option_set(option, &value, call, options);
	}
}

/* ---- named arguments ---- */

static void
number_arg(const NullableDatum *arg, const char *key, double value, Call *call)
{
	if (!arg->isnull)
		number_set(call, infer_option_find(key), value);
}

static void
stop_arg(Datum array, CallOptions *options)
{
	Datum *elements;
	bool *nulls;
	int n_elements;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elements,
					  &nulls, &n_elements);
	stops_clear(options);
	for (int i = 0; i < n_elements; i++)
	{
		text *t;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("stop string %d is NULL", i + 1)));
		t = DatumGetTextPP(elements[i]);
		stop_add(options, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
	}
}

void
options_from_args(const NullableDatum *args, Call *call, CallOptions *options)
{
	text *t;

	number_arg(&args[CALL_MAX_TOKENS], "max_tokens", DatumGetInt32(args[CALL_MAX_TOKENS].value),
			   call);
	number_arg(&args[CALL_TEMPERATURE], "temperature",
			   args[CALL_TEMPERATURE].isnull ? 0 : DatumGetFloat8(args[CALL_TEMPERATURE].value),
			   call);
	number_arg(&args[CALL_TOP_P], "top_p",
			   args[CALL_TOP_P].isnull ? 0 : DatumGetFloat8(args[CALL_TOP_P].value), call);
	number_arg(&args[CALL_TOP_K], "top_k", DatumGetInt32(args[CALL_TOP_K].value), call);
	if (!args[CALL_SEED].isnull)
		seed_set(call, DatumGetInt64(args[CALL_SEED].value));
	if (!args[CALL_MODEL].isnull)
		options_set_model(&call->request, args[CALL_MODEL].value);
	if (!args[CALL_SYSTEM].isnull)
	{
		t = DatumGetTextPP(args[CALL_SYSTEM].value);
		system_set(options, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
	}
	if (!args[CALL_STOP].isnull)
		stop_arg(args[CALL_STOP].value, options);
	if (!args[CALL_ON_ERROR].isnull)
	{
		t = DatumGetTextPP(args[CALL_ON_ERROR].value);
		on_error_set(call, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
	}
}
