/*
 * request.h: what a request asks and what its result says, as both programs see it in a slot.
 *
 * Fixed-size plain data without pointers; variable parts lie behind each other in the slot's prompt
 * area (or in a memfd when they are larger), in the order of the lengths below:
 *
 *     system text | subject | stop strings, each with its '\0' | logit bias pairs (8 bytes each)
 *
 * All text is UTF-8 (the backend converts from the server encoding and back). The engine checks
 * every field again, since a scribble in the region must not hurt it: infer_request_check().
 */
#ifndef INFER_SHARED_REQUEST_H
#define INFER_SHARED_REQUEST_H

#include "shared/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFER_MODEL_NAME_BYTES	64
#define INFER_MAX_STOPS			64
#define INFER_MAX_STOP_BYTES	1024
#define INFER_MAX_LOGIT_BIAS	1024
#define INFER_MAX_SUBJECT_BYTES ((uint64_t) 256 << 20) /* a prompt; far past any context */
#define INFER_FINGERPRINT_BYTES 32

typedef enum InferKind
{
	INFER_KIND_GENERATE =
		1,			 /* subject: prompt text, put into the chat template as a user message  */
	INFER_KIND_CHAT, /* subject: JSON array of messages                                      */
	INFER_KIND_COUNT_TOKENS, /* subject: text; result in output_tokens, no model step */
	INFER_KIND_TOKENIZE, /* subject: text; pieces carry packed int32 ids                         */
	INFER_KIND_RENDER,	 /* subject: JSON array of messages; pieces carry the rendered text      */
	INFER_N_KINDS
} InferKind;

/* InferRequest.flags */
#define INFER_FLAG_RAW		0x1u /* GENERATE: no chat template, the prompt is continued as it is */
#define INFER_FLAG_HAS_SEED 0x2u
#define INFER_FLAG_STREAM                                                                          \
	0x4u /* deliver each piece as it comes; else at the end of a character run */
#define INFER_FLAG_ALL 0x7u

typedef struct InferRequest
{
	uint32_t kind; /* InferKind */
	uint32_t flags;
	char model[INFER_MODEL_NAME_BYTES]; /* '\0'-terminated; "" = the default model */

	/* variable parts, see above */
	uint64_t system_bytes;
	uint64_t subject_bytes;
	uint32_t n_stops;
	uint32_t stops_bytes;
	uint32_t n_logit_bias;

	/* sampler; the order of application is documented in src/engine/sample/sampler.h */
	int32_t max_tokens;		  /* 1 .. 2^20 */
	double temperature;		  /* 0 .. 10; 0 = greedy */
	double top_p;			  /* (0, 1]; 1 = off */
	double min_p;			  /* 0 .. 1; 0 = off */
	int32_t top_k;			  /* 0 = off */
	int32_t repeat_last_n;	  /* window of the penalties in tokens; 0 = the whole sequence */
	double repeat_penalty;	  /* (0, 10]; 1 = off */
	double frequency_penalty; /* -2 .. 2 */
	double presence_penalty;  /* -2 .. 2 */
	uint64_t seed;

	/* who asks: the salt of prefix reuse and fairness hang on it */
	uint32_t role_id; /* Oid of the role that pays */
	int32_t priority; /* -10 (bulk) .. 10; 0 normal */

	int64_t deadline_us; /* CLOCK_MONOTONIC microseconds; 0 = none */
} InferRequest;

typedef enum InferFinish
{
	INFER_FINISH_NONE = 0,
	INFER_FINISH_STOP,	 /* end token or stop string */
	INFER_FINISH_LENGTH, /* max_tokens or the context is full */
	INFER_FINISH_CANCEL,
	INFER_FINISH_ERROR,
	INFER_N_FINISHES
} InferFinish;

typedef struct InferResult
{
	InferError error; /* code INFER_OK when the answer counts */
	uint32_t finish;  /* InferFinish */
	int32_t prompt_tokens;
	int32_t cached_tokens; /* of prompt_tokens: taken from the prefix cache */
	int32_t output_tokens;
	uint64_t seed;		/* the seed used, also where the engine drew it */
	int64_t queue_us;	/* submit to first step */
	int64_t prefill_us; /* first step to first token */
	int64_t decode_us;	/* first token to last */
	uint64_t output_bytes;
	char model[INFER_MODEL_NAME_BYTES];
	uint8_t fingerprint[INFER_FINGERPRINT_BYTES];
} InferResult;

/* "stop", "length", ... */
extern const char *infer_finish_name(uint32_t finish);

/* Defaults of every field that a caller may leave out. */
extern void infer_request_init(InferRequest *request, InferKind kind);

/*
 * Ranges of all fields, and that the variable parts add up (with overflow) to at most
 * payload_bytes. Both programs call it: the backend to refuse with 22023, the engine because it
 * trusts nothing.
 */
extern bool infer_request_check(const InferRequest *request, uint64_t payload_bytes,
								InferError *err);

/* system_bytes + subject_bytes + stops + bias; UINT64_MAX on overflow. */
extern uint64_t infer_request_payload_bytes(const InferRequest *request);

/* ---- option keys: options => '{...}' of the SQL functions and infer-engine generate ---- */

typedef enum InferOptionType
{
	INFER_OPTION_INT,
	INFER_OPTION_DOUBLE,
	INFER_OPTION_SEED,
	INFER_OPTION_BOOL,
	INFER_OPTION_TEXT,
	INFER_OPTION_TEXT_LIST,
	INFER_OPTION_BIAS /* {"token id": bias, ...} */
} InferOptionType;

typedef struct InferOptionInfo
{
	const char *key;
	InferOptionType type;
	double min; /* inclusive, of numbers */
	double max;
	bool min_open;		  /* min itself is excluded */
	size_t offset;		  /* of the field in InferRequest for INT and DOUBLE; else unused */
	const char *about;	  /* for docs/settings.md and HINTs */
	const char *fallback; /* default as text, for the docs */
} InferOptionInfo;

extern const InferOptionInfo infer_options[];
extern const int infer_n_options;

extern const InferOptionInfo *infer_option_find(const char *key);

/*
 * The valid key nearest to a misspelt one (edit distance), for the HINT. NULL: not even half of it
 * is like any, so that to name one would mislead.
 */
extern const char *infer_option_nearest(const char *key);

/* Sets an INT or DOUBLE option by its table row, range-checked: INFER_BAD_OPTION. */
extern bool infer_option_set_number(InferRequest *request, const InferOptionInfo *option,
									double value, InferError *err);

#endif
