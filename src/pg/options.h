/*
 * options.h: named arguments and options => '{...}' into a request. An argument that is given wins
 * over the same key in options, which wins over the setting.
 */
#ifndef INFER_PG_OPTIONS_H
#define INFER_PG_OPTIONS_H

#include "lib/stringinfo.h"
#include "pg/call.h"

/* One entry of logit_bias in the payload: int32 token id, float32 bias. */
#define INFER_BIAS_PAIR_BYTES 8

/* The variable parts of a request, UTF-8, before they are laid out. */
typedef struct CallOptions
{
	const char *system;
	int system_bytes;
	uint32 n_stops;
	StringInfoData stops; /* each with its '\0'; data NULL while empty */
	StringInfoData bias;
} CallOptions;

extern void options_init(CallOptions *options);

/* Both raise 22023 (42704 for a name that no model can have). NULLs leave what is there. */
extern void options_from_jsonb(const NullableDatum *json, Call *call, CallOptions *options);
extern void options_from_args(const NullableDatum *args, Call *call, CallOptions *options);

extern void options_set_model(InferRequest *request, Datum name);

#endif
