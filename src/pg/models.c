/*
 * What the engine says about itself: the rows of the view infer_models, and infer_health().
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pg/compat.h"
#include "pg/errors.h"
#include "pg/shmem.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

INFER_FUNCTION(infer_models_list);
INFER_FUNCTION(infer_health);

#define N_MODEL_COLUMNS 23

static const char *const state_names[INFER_N_MODEL_STATES] = {
	[INFER_MODEL_NONE] = "none",		 [INFER_MODEL_LOADING] = "loading",
	[INFER_MODEL_READY] = "ready",		 [INFER_MODEL_FAILED] = "failed",
	[INFER_MODEL_DRAINING] = "draining",
};

static const char *
state_name(uint32_t state)
{
	return state < INFER_N_MODEL_STATES ? state_names[state] : "unknown";
}

/* A private copy, safe to show. Returns the number of models. */
static int
models_copy(InferModelEntry *models)
{
	int n_models = 0;

	infer_block_read(&infer_region->models_version, infer_region->models, models,
					 sizeof(infer_region->models));
	for (int i = 0; i < INFER_MAX_MODELS; i++)
	{
		InferModelEntry *m = &models[n_models];

		if (models[i].state == INFER_MODEL_NONE)
			continue;
		if (n_models != i)
			*m = models[i];
		infer_text_clean(m->name, sizeof(m->name));
		infer_text_clean(m->file, sizeof(m->file));
		infer_text_clean(m->reason, sizeof(m->reason));
		infer_text_clean(m->architecture, sizeof(m->architecture));
		infer_text_clean(m->type_name, sizeof(m->type_name));
		infer_text_clean(m->description, sizeof(m->description));
		infer_text_clean(m->device, sizeof(m->device));
		n_models++;
	}
	return n_models;
}

/* ---- the view ---- */

typedef struct RowBuilder
{
	Datum values[N_MODEL_COLUMNS];
	bool nulls[N_MODEL_COLUMNS];
	int n;
} RowBuilder;

static void
add(RowBuilder *row, Datum value)
{
	row->nulls[row->n] = false;
	row->values[row->n++] = value;
}

static void
add_text(RowBuilder *row, const char *text)
{
	add(row, CStringGetTextDatum(text));
	row->nulls[row->n - 1] = text[0] == '\0';
}

static void
add_time(RowBuilder *row, int64_t unix_us)
{
	int64 epoch_us = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	add(row, TimestampTzGetDatum(unix_us - epoch_us));
	row->nulls[row->n - 1] = unix_us == 0;
}

static void
add_fingerprint(RowBuilder *row, const uint8_t *fingerprint)
{
	char hex[2 * INFER_FINGERPRINT_BYTES + 1];
	bool known = false;

	for (int i = 0; i < INFER_FINGERPRINT_BYTES; i++)
	{
		known |= fingerprint[i] != 0;
		snprintf(hex + 2 * i, 3, "%02x", fingerprint[i]);
	}
	add_text(row, known ? hex : "");
}

static void
row_build(const InferModelEntry *m, RowBuilder *row)
{
	row->n = 0;
	add_text(row, m->name);
	add(row, BoolGetDatum(m->is_default != 0));
	add_text(row, state_name(m->state));
	add_text(row, m->reason);
	add_text(row, m->file);
	add_text(row, m->architecture);
	add_text(row, m->type_name);
	add_text(row, m->description);
	add_text(row, m->device);
	add(row, BoolGetDatum(m->has_template != 0));
	add(row, Float4GetDatum(m->load_progress));
	add(row, Int64GetDatum((int64) m->n_parameters));
	add(row, Int64GetDatum((int64) m->file_bytes));
	add(row, Int64GetDatum((int64) m->resident_bytes));
	add(row, Int32GetDatum(m->n_context));
	add(row, Int32GetDatum(m->n_vocab));
	add(row, Int32GetDatum(m->kv_pages_total));
	add(row, Int32GetDatum(m->kv_pages_free));
	add(row, Int32GetDatum(m->kv_pages_cached));
	add(row, Int32GetDatum(m->n_running));
	add(row, Int32GetDatum(m->n_waiting));
	add_time(row, m->loaded_at_us);
	add_fingerprint(row, m->fingerprint);
	Assert(row->n == N_MODEL_COLUMNS);
}

typedef struct ModelsScan
{
	InferModelEntry models[INFER_MAX_MODELS];
	int n_models;
} ModelsScan;

static void
models_scan_begin(FunctionCallInfo fcinfo, FuncCallContext *funcctx)
{
	MemoryContext before = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
	ModelsScan *scan = palloc0(sizeof(ModelsScan));
	TupleDesc columns;
	InferError err;

	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	funcctx->tuple_desc = BlessTupleDesc(columns);
	if (infer_state == NULL && !infer_available(&err))
		infer_report(ERROR, &err);
	if (infer_region != NULL)
		scan->n_models = models_copy(scan->models);
	funcctx->user_fctx = scan;
	MemoryContextSwitchTo(before);
}

Datum
infer_models_list(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	ModelsScan *scan;
	RowBuilder row;

	if (SRF_IS_FIRSTCALL())
		models_scan_begin(fcinfo, SRF_FIRSTCALL_INIT());
	funcctx = SRF_PERCALL_SETUP();
	scan = funcctx->user_fctx;
	if (funcctx->call_cntr >= (uint64) scan->n_models)
		SRF_RETURN_DONE(funcctx);
	row_build(&scan->models[funcctx->call_cntr], &row);
	SRF_RETURN_NEXT(funcctx,
					HeapTupleGetDatum(heap_form_tuple(funcctx->tuple_desc, row.values, row.nulls)));
}

/* ---- infer_health() ---- */

static void
append_text(StringInfo json, const char *key, const char *text)
{
	appendStringInfo(json, ", \"%s\": ", key);
	if (text[0] != '\0')
		escape_json(json, text);
	else
		appendStringInfoString(json, "null");
}

static void
append_slots(StringInfo json)
{
	uint32 counts[INFER_N_SLOT_STATES] = { 0 };

	for (uint32 i = 0; i < infer_geometry.n_slots; i++)
	{
		InferSlot *slot = infer_region_slot(infer_region, &infer_geometry, i);
		uint32 state = infer_word_state(atomic_load_explicit(&slot->word, memory_order_relaxed));

		if (state < INFER_N_SLOT_STATES)
			counts[state]++;
	}
	appendStringInfo(json,
					 ", \"slots\": {\"total\": %u, \"free\": %u, \"submitted\": %u, "
					 "\"running\": %u, \"aborting\": %u, \"done\": %u}",
					 infer_geometry.n_slots, counts[INFER_SLOT_FREE], counts[INFER_SLOT_SUBMITTED],
					 counts[INFER_SLOT_RUNNING], counts[INFER_SLOT_ABORTING],
					 counts[INFER_SLOT_DONE]);
}

static void
append_counters(StringInfo json)
{
	const struct
	{
		const char *key;
		const _Atomic uint64_t *counter;
	} counters[] = {
		{ "submitted", &infer_region->counters.requests_submitted },
		{ "finished", &infer_region->counters.requests_finished },
		{ "failed", &infer_region->counters.requests_failed },
		{ "cancelled", &infer_region->counters.requests_cancelled },
		{ "refused", &infer_region->counters.requests_refused },
		{ "prompt_tokens", &infer_region->counters.prompt_tokens },
		{ "cached_tokens", &infer_region->counters.cached_tokens },
		{ "output_tokens", &infer_region->counters.output_tokens },
		{ "preemptions", &infer_region->counters.preemptions },
		{ "steps", &infer_region->counters.steps },
	};

	appendStringInfoString(json, ", \"requests\": {");
	for (size_t i = 0; i < lengthof(counters); i++)
		appendStringInfo(json, "%s\"%s\": " UINT64_FORMAT, i > 0 ? ", " : "", counters[i].key,
						 (uint64) atomic_load_explicit(counters[i].counter, memory_order_relaxed));
	appendStringInfoChar(json, '}');
}

/* Returns whether the default model answers. */
static bool
append_models(StringInfo json)
{
	InferModelEntry *models = palloc(sizeof(InferModelEntry) * INFER_MAX_MODELS);
	int n_models = models_copy(models);
	bool ready = false;

	appendStringInfoString(json, ", \"models\": [");
	for (int i = 0; i < n_models; i++)
	{
		const InferModelEntry *m = &models[i];

		if (m->is_default && m->state == INFER_MODEL_READY)
			ready = true;
		appendStringInfo(json, "%s{\"name\": ", i > 0 ? ", " : "");
		escape_json(json, m->name);
		append_text(json, "state", state_name(m->state));
		append_text(json, "reason", m->reason);
		appendStringInfo(json, ", \"default\": %s, \"running\": %d, \"waiting\": %d}",
						 m->is_default ? "true" : "false", m->n_running, m->n_waiting);
	}
	appendStringInfoChar(json, ']');
	pfree(models);
	return ready;
}

static Datum
health_unavailable(void)
{
	StringInfoData json;
	InferError err;

	infer_available(&err);
	initStringInfo(&json);
	appendStringInfoString(&json, "{\"ready\": false");
	append_text(&json, "status", "disabled");
	append_text(&json, "reason", err.message);
	appendStringInfoString(&json, ", \"engine_pid\": null, \"restarts\": 0, \"models\": []}");
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

Datum
infer_health(PG_FUNCTION_ARGS)
{
	char last_exit[INFER_ERROR_TEXT_BYTES];
	StringInfoData json;
	uint32 status;
	uint32 pid;
	bool ready;

	if (infer_state == NULL || infer_region == NULL)
		PG_RETURN_DATUM(health_unavailable());

	status = pg_atomic_read_u32(&infer_state->status);
	pid = atomic_load(&infer_region->engine_pid);
	infer_last_exit_read(last_exit);
	infer_text_clean(last_exit, sizeof(last_exit));

	initStringInfo(&json);
	appendStringInfo(&json, "{\"restarts\": %u", pg_atomic_read_u32(&infer_state->n_restarts));
	append_text(&json, "status", engine_status_name(status));
	append_text(&json, "last_exit", last_exit);
	if (pid != 0)
		appendStringInfo(&json, ", \"engine_pid\": %u", pid);
	else
		appendStringInfoString(&json, ", \"engine_pid\": null");
	append_slots(&json);
	append_counters(&json);
	ready = append_models(&json) && status == ENGINE_READY;
	appendStringInfo(&json, ", \"ready\": %s}", ready ? "true" : "false");
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
}
