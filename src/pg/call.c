#include "postgres.h"

#include "pg/call.h"

#include "catalog/namespace.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pg/compat.h"
#include "pg/errors.h"
#include "pg/options.h"
#include "pg/settings.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#define FINGERPRINT_TEXT_BYTES (2 * INFER_FINGERPRINT_BYTES + 1)

void
call_args_spread(const NullableDatum *from, int n_from, bool has_system, NullableDatum *args)
{
	int i = 0;

	for (int to = 0; to < N_CALL_ARGS; to++)
	{
		if ((to == CALL_SYSTEM && !has_system) || i >= n_from)
		{
			args[to].isnull = true;
			args[to].value = (Datum) 0;
		}
		else
			args[to] = from[i++];
	}
}

void
call_args_collect(FunctionCallInfo fcinfo, bool has_system, NullableDatum *args)
{
	call_args_spread(fcinfo->args, PG_NARGS(), has_system, args);
}

static const char *
utf8_of(const char *bytes, int n_bytes, int *out_bytes)
{
	const char *utf8 = pg_server_to_any(bytes, n_bytes, PG_UTF8);

	*out_bytes = utf8 == bytes ? n_bytes : (int) strlen(utf8);
	return utf8;
}

static const char *
utf8_of_text(Datum value, int *out_bytes)
{
	text *t = DatumGetTextPP(value);

	return utf8_of(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t), out_bytes);
}

static const char *
utf8_of_jsonb(Datum value, int *out_bytes)
{
	Jsonb *json = DatumGetJsonbP(value);
	char *printed = JsonbToCString(NULL, &json->root, VARSIZE(json));

	return utf8_of(printed, (int) strlen(printed), out_bytes);
}

static bool
subject_is_json(InferKind kind)
{
	return kind == INFER_KIND_CHAT || kind == INFER_KIND_RENDER;
}

static void
request_start(InferKind kind, InferRequest *request)
{
	infer_request_init(request, kind);
	request->role_id = GetUserId();
	request->priority = setting_priority;
	if (setting_timeout_ms > 0)
		request->deadline_us = infer_monotonic_us() + setting_timeout_ms * INT64CONST(1000);
	strlcpy(request->model, setting_model, sizeof(request->model));
}

static void
sampler_defaults(InferRequest *request)
{
	request->max_tokens = setting_max_tokens;
	request->temperature = setting_temperature;
	request->top_p = setting_top_p;
	request->top_k = setting_top_k;
	request->min_p = setting_min_p;
	request->repeat_penalty = setting_repeat_penalty;
	request->repeat_last_n = setting_repeat_last_n;
	request->frequency_penalty = setting_frequency_penalty;
	request->presence_penalty = setting_presence_penalty;
}

/* Lays the variable parts behind each other, in the order that shared/request.h gives. */
static void
payload_build(Call *call, const char *subject, int subject_bytes, const CallOptions *options)
{
	InferRequest *request = &call->request;
	uint64 payload_bytes;
	char *to;

	request->system_bytes = (uint64_t) options->system_bytes;
	request->subject_bytes = (uint64_t) subject_bytes;
	request->n_stops = options->n_stops;
	request->stops_bytes = (uint32_t) options->stops.len;
	request->n_logit_bias = (uint32_t) (options->bias.len / INFER_BIAS_PAIR_BYTES);

	payload_bytes = infer_request_payload_bytes(request);
	if (!infer_request_check(request, payload_bytes, &call->error))
	{
		if (!infer_code_is_soft(call->error.code))
			infer_report(ERROR, &call->error);
		return;
	}

	call->payload = to = MemoryContextAllocHuge(CurrentMemoryContext, Max(payload_bytes, 1));
	memcpy(to, options->system, (size_t) options->system_bytes);
	to += options->system_bytes;
	memcpy(to, subject, (size_t) subject_bytes);
	to += subject_bytes;
	if (options->stops.len > 0)
		memcpy(to, options->stops.data, (size_t) options->stops.len);
	to += options->stops.len;
	if (options->bias.len > 0)
		memcpy(to, options->bias.data, (size_t) options->bias.len);
}

void
call_prepare(InferKind kind, const NullableDatum *args, Call *call)
{
	CallOptions options;
	const char *subject;
	int subject_bytes;

	memset(call, 0, sizeof(*call));
	call->null_on_error = setting_on_error == ON_ERROR_NULL;
	request_start(kind, &call->request);
	sampler_defaults(&call->request);

	options_init(&options);
	options_from_jsonb(&args[CALL_OPTIONS], call, &options);
	options_from_args(args, call, &options);
	if (kind == INFER_KIND_CHAT && options.system_bytes > 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"system\" cannot be used with a chat"),
						errhint("Put a message with the role \"system\" before the others.")));

	if (kind == INFER_KIND_CHAT && (call->request.flags & INFER_FLAG_RAW) != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"raw\" cannot be used with a chat"),
						errhint("Without a template messages are no text: use infer_generate.")));

	if (subject_is_json(kind))
		subject = utf8_of_jsonb(args[CALL_SUBJECT].value, &subject_bytes);
	else
		subject = utf8_of_text(args[CALL_SUBJECT].value, &subject_bytes);
	payload_build(call, subject, subject_bytes, &options);
}

void
call_prepare_plain(InferKind kind, NullableDatum subject, NullableDatum model, Call *call)
{
	static const CallOptions none = { .system = "" };
	const char *utf8;
	int n_bytes;

	memset(call, 0, sizeof(*call));
	call->null_on_error = setting_on_error == ON_ERROR_NULL;
	request_start(kind, &call->request);
	if (!model.isnull)
		options_set_model(&call->request, model.value);
	if (subject_is_json(kind))
		utf8 = utf8_of_jsonb(subject.value, &n_bytes);
	else
		utf8 = utf8_of_text(subject.value, &n_bytes);
	payload_build(call, utf8, n_bytes, &none);
}

PgRequest *
call_submit(MemoryContext context, const Call *call, int flags)
{
	if (call->error.code != INFER_OK)
		return request_refused(context, &call->error);
	return request_submit(context, &call->request, call->payload, flags);
}

void
call_soften(const Call *call, const InferError *error)
{
	if (!call->null_on_error || !infer_code_is_soft(error->code))
		infer_report(ERROR, error);
	infer_count_soft_error(error);
}

/* ---- answers ---- */

#if PG_VERSION_NUM >= 140000
static bool
text_convert(const char *bytes, int n_bytes, text **out, InferError *err)
{
	int encoding = GetDatabaseEncoding();
	Oid function = FindDefaultConversionProc(PG_UTF8, encoding);
	Size most = (Size) n_bytes * MAX_CONVERSION_GROWTH + 1;
	int n_taken;

	if (OidIsValid(function))
	{
		*out = MemoryContextAllocHuge(CurrentMemoryContext, VARHDRSZ + most);
		n_taken = pg_do_encoding_conversion_buf(
			function, PG_UTF8, encoding, (unsigned char *) unconstify(char *, bytes), n_bytes,
			(unsigned char *) VARDATA(*out), (int) Min(most, INT_MAX), true);
		if (n_taken == n_bytes)
		{
			SET_VARSIZE(*out, VARHDRSZ + strlen(VARDATA(*out)));
			return true;
		}
		pfree(*out);
	}
	return fail(err, INFER_NOT_REPRESENTABLE,
				"answer has characters that encoding \"%s\" of the database lacks\n\n"
				"Use a database with encoding UTF8.",
				pg_encoding_to_char(encoding));
}
#else
static bool
text_convert(const char *bytes, int n_bytes, text **out, InferError *err)
{
	*out = cstring_to_text(pg_any_to_server(bytes, n_bytes, PG_UTF8));
	return true;
}
#endif

bool
call_text_from_utf8(const char *bytes, int n_bytes, text **out, InferError *err)
{
	int encoding = GetDatabaseEncoding();

	if (!pg_verify_mbstr(PG_UTF8, bytes, n_bytes, true))
		return fail(err, INFER_INTERNAL, "inference engine sent an answer that is not valid text");
	if (encoding != PG_UTF8 && encoding != PG_SQL_ASCII && n_bytes > 0)
		return text_convert(bytes, n_bytes, out, err);
	*out = cstring_to_text_with_len(bytes, n_bytes);
	return true;
}

Datum
call_text(const Call *call, const PgRequest *r, bool *isnull)
{
	const InferResult *result = request_result(r);
	InferError error = result->error;
	const char *bytes;
	int n_bytes;
	text *answer;

	*isnull = false;
	if (error.code == INFER_OK)
	{
		bytes = request_output(r, &n_bytes);
		if (call_text_from_utf8(bytes, n_bytes, &answer, &error))
			return PointerGetDatum(answer);
	}
	call_soften(call, &error);
	*isnull = true;
	return (Datum) 0;
}

bool
call_is_deterministic(const Call *call)
{
	const InferRequest *request = &call->request;

	return request->temperature == 0 || (request->flags & INFER_FLAG_HAS_SEED) != 0;
}

static Datum
fingerprint_text(const uint8_t *fingerprint)
{
	char hex[FINGERPRINT_TEXT_BYTES];

	for (int i = 0; i < INFER_FINGERPRINT_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", fingerprint[i]);
	return CStringGetTextDatum(hex);
}

void
call_detail_null(Datum *values, bool *nulls)
{
	memset(values, 0, N_DETAIL_COLUMNS * sizeof(*values));
	memset(nulls, true, N_DETAIL_COLUMNS * sizeof(*nulls));
}

static void
detail_of_error(const InferResult *result, const InferError *error, Datum *values, bool *nulls)
{
	char *message = error->detail[0] != '\0' ? psprintf("%s: %s", error->message, error->detail)
											 : pstrdup(error->message);

	call_detail_null(values, nulls);
	values[1] = CStringGetTextDatum(infer_finish_name(INFER_FINISH_ERROR));
	values[2] = Int32GetDatum(result->prompt_tokens);
	values[3] = Int32GetDatum(result->cached_tokens);
	values[4] = Int32GetDatum(result->output_tokens);
	values[5] = BoolGetDatum(false);
	values[12] = CStringGetTextDatum(infer_code_sqlstate(error->code));
	values[13] = CStringGetTextDatum(message);
	for (int i = 1; i <= 5; i++)
		nulls[i] = false;
	nulls[12] = nulls[13] = false;
}

void
call_detail(const PgRequest *r, Datum *values, bool *nulls)
{
	const InferResult *result = request_result(r);
	InferError error = result->error;
	text *answer = NULL;

	if (error.code == INFER_OK)
	{
		int n_bytes;
		const char *bytes = request_output(r, &n_bytes);

		call_text_from_utf8(bytes, n_bytes, &answer, &error);
	}
	if (answer == NULL)
	{
		if (!infer_code_is_soft(error.code))
			infer_report(ERROR, &error);
		detail_of_error(result, &error, values, nulls);
		return;
	}
	call_detail_null(values, nulls);
	values[0] = PointerGetDatum(answer);
	values[1] = CStringGetTextDatum(infer_finish_name(result->finish));
	values[2] = Int32GetDatum(result->prompt_tokens);
	values[3] = Int32GetDatum(result->cached_tokens);
	values[4] = Int32GetDatum(result->output_tokens);
	values[5] = BoolGetDatum(false);
	values[6] = CStringGetTextDatum(result->model);
	values[7] = fingerprint_text(result->fingerprint);
	values[8] = Int64GetDatum((int64) result->seed);
	values[9] = Float8GetDatum((double) result->queue_us / 1000);
	values[10] = Float8GetDatum((double) result->prefill_us / 1000);
	values[11] = Float8GetDatum((double) result->decode_us / 1000);
	for (int i = 0; i <= 11; i++)
		nulls[i] = false;
}
