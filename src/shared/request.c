#include "shared/request.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#define MAX_TOKENS_MAX	 (1 << 20)
#define TOP_K_MAX		 (1 << 20)
#define PRIORITY_MIN	 (-10)
#define PRIORITY_MAX	 10
#define LOGIT_BIAS_BYTES 8
#define MAX_KEY_BYTES	 32
#define FIELD(name)		 offsetof(InferRequest, name)

/* clang-format off */
const InferOptionInfo infer_options[] = {
	{ "max_tokens", INFER_OPTION_INT, 1, MAX_TOKENS_MAX, false, FIELD(max_tokens),
	  "Most tokens that an answer may have.", "infer.max_tokens" },
	{ "temperature", INFER_OPTION_DOUBLE, 0, 10, false, FIELD(temperature),
	  "Randomness of the choice among tokens; 0 always takes the likeliest.", "infer.temperature" },
	{ "top_p", INFER_OPTION_DOUBLE, 0, 1, true, FIELD(top_p),
	  "Keeps the likeliest tokens that together have this probability; 1 keeps all.", "infer.top_p" },
	{ "top_k", INFER_OPTION_INT, 0, TOP_K_MAX, false, FIELD(top_k),
	  "Keeps this many of the likeliest tokens; 0 keeps all.", "infer.top_k" },
	{ "min_p", INFER_OPTION_DOUBLE, 0, 1, false, FIELD(min_p),
	  "Drops tokens less likely than this share of the likeliest; 0 drops none.", "infer.min_p" },
	{ "repeat_penalty", INFER_OPTION_DOUBLE, 0, 10, true, FIELD(repeat_penalty),
	  "Divides the score of tokens that occurred before; 1 leaves it.", "infer.repeat_penalty" },
	{ "repeat_last_n", INFER_OPTION_INT, 0, MAX_TOKENS_MAX, false, FIELD(repeat_last_n),
	  "How many tokens back the penalties look; 0 looks at all.", "infer.repeat_last_n" },
	{ "frequency_penalty", INFER_OPTION_DOUBLE, -2, 2, false, FIELD(frequency_penalty),
	  "Taken from a token's score for each time it occurred.", "infer.frequency_penalty" },
	{ "presence_penalty", INFER_OPTION_DOUBLE, -2, 2, false, FIELD(presence_penalty),
	  "Taken from a token's score once if it occurred.", "infer.presence_penalty" },
	{ "priority", INFER_OPTION_INT, PRIORITY_MIN, 0, false, FIELD(priority),
	  "Place in the queue; below 0 waits behind normal requests.", "infer.priority" },
	{ "seed", INFER_OPTION_SEED, 0, 0, false, 0,
	  "Makes a random choice repeatable; any 64-bit integer.", "drawn at random" },
	{ "raw", INFER_OPTION_BOOL, 0, 0, false, 0,
	  "Continues the prompt as it is, without the model's chat template.", "false" },
	{ "stop", INFER_OPTION_TEXT_LIST, 0, 0, false, 0,
	  "Texts that end the answer; they are not part of it.", "none" },
	{ "logit_bias", INFER_OPTION_BIAS, -100, 100, false, 0,
	  "Added to the scores of tokens: an object of token id and number.", "none" },
	{ "model", INFER_OPTION_TEXT, 0, 0, false, 0,
	  "Name of the model.", "infer.model" },
	{ "system", INFER_OPTION_TEXT, 0, 0, false, 0,
	  "System message put before the prompt.", "none" },
	{ "on_error", INFER_OPTION_TEXT, 0, 0, false, 0,
	  "\"error\" raises soft errors, \"null\" answers NULL and warns.", "infer.on_error" },
};
/* clang-format on */

const int infer_n_options = (int) (sizeof(infer_options) / sizeof(infer_options[0]));

static const char *const finish_names[INFER_N_FINISHES] = {
	[INFER_FINISH_NONE] = "none",	  [INFER_FINISH_STOP] = "stop",
	[INFER_FINISH_LENGTH] = "length", [INFER_FINISH_CANCEL] = "cancel",
	[INFER_FINISH_ERROR] = "error",
};

const char *
infer_finish_name(uint32_t finish)
{
	return finish < INFER_N_FINISHES ? finish_names[finish] : "unknown";
}

void
infer_request_init(InferRequest *request, InferKind kind)
{
	memset(request, 0, sizeof(*request));
	request->kind = (uint32_t) kind;
	request->max_tokens = 256;
	request->top_p = 1;
	request->repeat_last_n = 64;
	request->repeat_penalty = 1;
}

/* ---- options ---- */

const InferOptionInfo *
infer_option_find(const char *key)
{
	for (int i = 0; i < infer_n_options; i++)
		if (strcmp(infer_options[i].key, key) == 0)
			return &infer_options[i];
	return NULL;
}

/* Levenshtein distance of a (cut to MAX_KEY_BYTES) and b (shorter than that), in bytes. */
static int
edit_distance(const char *a, const char *b)
{
	int n_a = (int) strnlen(a, MAX_KEY_BYTES);
	int n_b = (int) strnlen(b, MAX_KEY_BYTES);
	int row[MAX_KEY_BYTES + 1];

	for (int j = 0; j <= n_b; j++)
		row[j] = j;
	for (int i = 1; i <= n_a; i++)
	{
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= n_b; j++)
		{
			int replaced = diagonal + (a[i - 1] != b[j - 1]);
			int best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

			diagonal = row[j];
			row[j] = replaced < best ? replaced : best;
		}
	}
	return row[n_b];
}

const char *
infer_option_nearest(const char *key)
{
	const char *nearest = NULL;
	int least = (int) strnlen(key, MAX_KEY_BYTES) / 2 + 1;

	for (int i = 0; i < infer_n_options; i++)
	{
		int distance = edit_distance(key, infer_options[i].key);

		if (distance < least)
		{
			least = distance;
			nearest = infer_options[i].key;
		}
	}
	return nearest;
}

static bool
number_fits(const InferOptionInfo *option, double value)
{
	/* written so that NaN fails */
	if (!(value >= option->min && value <= option->max))
		return false;
	if (option->min_open && value == option->min)
		return false;
	return option->type != INFER_OPTION_INT || value == floor(value);
}

static bool
number_refuse(const InferOptionInfo *option, double value, InferError *err)
{
	return fail(err, INFER_BAD_OPTION,
				"option \"%s\" is out of range\nIt is %.10g; allowed %s from %.10g%s to %.10g.",
				option->key, value,
				option->type == INFER_OPTION_INT ? "are integers" : "are numbers", option->min,
				option->min_open ? " (excluded)" : "", option->max);
}

bool
infer_option_set_number(InferRequest *request, const InferOptionInfo *option, double value,
						InferError *err)
{
	char *field = (char *) request + option->offset;

	if (!number_fits(option, value))
		return number_refuse(option, value, err);
	if (option->type == INFER_OPTION_INT)
	{
		int32_t number = (int32_t) value;

		memcpy(field, &number, sizeof(number));
	}
	else
		memcpy(field, &value, sizeof(value));
	return true;
}

static bool
numbers_check(const InferRequest *request, InferError *err)
{
	for (int i = 0; i < infer_n_options; i++)
	{
		const InferOptionInfo *option = &infer_options[i];
		const char *field = (const char *) request + option->offset;
		double value;

		/* the table bounds what a user may ask; a role may have been given more */
		if (option->offset == FIELD(priority))
			continue;
		if (option->type == INFER_OPTION_INT)
		{
			int32_t number;

			memcpy(&number, field, sizeof(number));
			value = number;
		}
		else if (option->type == INFER_OPTION_DOUBLE)
			memcpy(&value, field, sizeof(value));
		else
			continue;
		if (!number_fits(option, value))
			return number_refuse(option, value, err);
	}
	if (request->priority < PRIORITY_MIN || request->priority > PRIORITY_MAX)
		return fail(err, INFER_BAD_OPTION,
					"priority is out of range\nIt is %" PRId32 "; allowed are %d to %d.",
					request->priority, PRIORITY_MIN, PRIORITY_MAX);
	return true;
}

/* ---- the whole request ---- */

uint64_t
infer_request_payload_bytes(const InferRequest *request)
{
	uint64_t sum = request->system_bytes;

	if (__builtin_add_overflow(sum, request->subject_bytes, &sum) ||
		__builtin_add_overflow(sum, (uint64_t) request->stops_bytes, &sum) ||
		__builtin_add_overflow(sum, (uint64_t) request->n_logit_bias * LOGIT_BIAS_BYTES, &sum))
		return UINT64_MAX;
	return sum;
}

static bool
sizes_check(const InferRequest *request, uint64_t payload_bytes, InferError *err)
{
	if (request->system_bytes > INFER_MAX_SUBJECT_BYTES ||
		request->subject_bytes > INFER_MAX_SUBJECT_BYTES)
		return fail(err, INFER_PROMPT_TOO_LONG,
					"prompt is too long\nIt has %" PRIu64 " bytes; no prompt may have more than "
					"%" PRIu64 ".",
					request->system_bytes > request->subject_bytes ? request->system_bytes
																   : request->subject_bytes,
					INFER_MAX_SUBJECT_BYTES);
	if (request->n_stops > INFER_MAX_STOPS)
		return fail(err, INFER_BAD_OPTION,
					"too many stop strings\nThere are %" PRIu32 "; allowed are %d.",
					request->n_stops, INFER_MAX_STOPS);
	if (request->stops_bytes > INFER_MAX_STOPS * INFER_MAX_STOP_BYTES ||
		request->stops_bytes < request->n_stops ||
		(request->n_stops == 0 && request->stops_bytes > 0))
		return fail(err, INFER_BAD_OPTION,
					"stop strings are too long\nThey have %" PRIu32 " bytes; one may have %d.",
					request->stops_bytes, INFER_MAX_STOP_BYTES - 1);
	if (request->n_logit_bias > INFER_MAX_LOGIT_BIAS)
		return fail(err, INFER_BAD_OPTION,
					"too many entries in logit_bias\nThere are %" PRIu32 "; allowed are %d.",
					request->n_logit_bias, INFER_MAX_LOGIT_BIAS);
	if (infer_request_payload_bytes(request) > payload_bytes)
		return fail(err, INFER_INTERNAL,
					"request does not fit its payload\nIt claims %" PRIu64 " of %" PRIu64 " bytes.",
					infer_request_payload_bytes(request), payload_bytes);
	return true;
}

bool
infer_request_check(const InferRequest *request, uint64_t payload_bytes, InferError *err)
{
	if (request->kind == 0 || request->kind >= INFER_N_KINDS)
		return fail(err, INFER_INTERNAL, "request is of unknown kind %" PRIu32, request->kind);
	if ((request->flags & ~INFER_FLAG_ALL) != 0)
		return fail(err, INFER_INTERNAL, "request has unknown flags %#" PRIx32, request->flags);
	if (memchr(request->model, '\0', sizeof(request->model)) == NULL)
		return fail(err, INFER_INTERNAL, "name of the model in a request does not end");
	return numbers_check(request, err) && sizes_check(request, payload_bytes, err);
}
