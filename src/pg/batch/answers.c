#include "postgres.h"

#include "answers.h"

#include "common/hashfn.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

struct Answer
{
	Answers *answers;
	MemoryContext own;
	const BatchFunction *function;
	Call call;
	PgRequest *request;
	int n_holders;
	bool counted; /* it was ready and is in the counts */
	bool shared;  /* in the table under `key` */
	uint64 key;
	bool is_known; /* no request: `known` is it */
	KnownAnswer known;
};

typedef struct AnswerEntry
{
	uint64 key;
	Answer *answer;
} AnswerEntry;

struct Answers
{
	MemoryContext context;
	HTAB *table; /* of those that may be shared; NULL until there is one */
	int n_in_flight;
	AnswerCounts counts;
};

Answers *
answers_create(MemoryContext context)
{
	Answers *answers = MemoryContextAllocZero(context, sizeof(Answers));

	answers->context = context;
	return answers;
}

/* ---- equal requests ---- */

static uint64
call_key(const Call *call)
{
	InferRequest request = call->request;
	uint64 n_bytes = infer_request_payload_bytes(&request);
	uint64 key;

	request.deadline_us = 0;
	key = hash_bytes_extended((const unsigned char *) &request, sizeof(request), 0);
	if (n_bytes > 0 && n_bytes <= INT_MAX)
		key = hash_bytes_extended((const unsigned char *) call->payload, (int) n_bytes, key);
	return key;
}

static bool
call_equals(const Call *a, const Call *b)
{
	InferRequest x = a->request;
	InferRequest y = b->request;

	x.deadline_us = y.deadline_us = 0;
	return memcmp(&x, &y, sizeof(x)) == 0 && a->null_on_error == b->null_on_error &&
		   memcmp(a->payload, b->payload, infer_request_payload_bytes(&x)) == 0;
}

static AnswerEntry *
entry_find(Answers *answers, uint64 key, HASHACTION action)
{
	if (answers->table == NULL)
	{
		HASHCTL control = { .keysize = sizeof(uint64),
							.entrysize = sizeof(AnswerEntry),
							.hcxt = answers->context };

		if (action != HASH_ENTER)
			return NULL;
		answers->table = hash_create("infer batch answers", 256, &control,
									 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	return hash_search(answers->table, &key, action, NULL);
}

/* ---- asking ---- */

/* Into the current context, which is the answer's own. */
static void
known_take(Answer *answer, const KnownAnswer *known)
{
	int16 length;
	bool by_value;

	get_typlenbyval(known->type, &length, &by_value);
	answer->is_known = answer->counted = true;
	answer->shared = false;
	answer->known = *known;
	if (!known->isnull)
		answer->known.value = datumCopy(known->value, by_value, length);
}

Answer *
answer_ask(Answers *answers, const BatchFunction *function, const NullableDatum *args, int n_args,
		   const KnownAnswer *known, bool may_wait, bool keep)
{
	MemoryContext own =
		AllocSetContextCreate(answers->context, "infer batch answer", ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(own);
	Answer *answer = palloc0(sizeof(Answer));
	AnswerEntry *entry;

	answer->answers = answers;
	answer->own = own;
	answer->function = function;
	answer->n_holders = 1;
	function->prepare(args, n_args, &answer->call);
	answer->shared = answer->call.error.code == INFER_OK && call_is_deterministic(&answer->call);
	if (answer->shared && known != NULL)
	{
		known_take(answer, known);
		MemoryContextSwitchTo(before);
		answers->counts.n_merged++;
		return answer;
	}
	if (answer->shared)
	{
		answer->key = call_key(&answer->call);
		entry = entry_find(answers, answer->key, HASH_FIND);
		if (entry != NULL && entry->answer->function == function &&
			call_equals(&entry->answer->call, &answer->call))
		{
			Answer *found = entry->answer;

			MemoryContextSwitchTo(before);
			MemoryContextDelete(own);
			found->n_holders++;
			answers->counts.n_merged++;
			return found;
		}
		answer->shared = entry == NULL; /* two requests with one hash: the second goes alone */
	}
	answer->request = call_submit(own, &answer->call, may_wait ? 0 : REQUEST_TRY);
	MemoryContextSwitchTo(before);
	if (answer->request == NULL)
	{
		MemoryContextDelete(own);
		return NULL;
	}
	if (answer->shared)
	{
		entry_find(answers, answer->key, HASH_ENTER)->answer = answer;
		answer->n_holders += keep;
	}
	answers->counts.n_requests++;
	answers->n_in_flight++;
	answers->counts.max_in_flight = Max(answers->counts.max_in_flight, answers->n_in_flight);
	return answer;
}

bool
answer_is_ready(Answer *answer)
{
	AnswerCounts *counts = &answer->answers->counts;
	const InferResult *result;

	if (answer->counted)
		return true;
	if (!request_poll(answer->request))
		return false;
	result = request_result(answer->request);
	answer->counted = true;
	answer->answers->n_in_flight--;
	counts->n_failed += result->error.code != INFER_OK;
	counts->prompt_tokens += (uint64) result->prompt_tokens;
	counts->cached_tokens += (uint64) result->cached_tokens;
	counts->output_tokens += (uint64) result->output_tokens;
	counts->queue_us += (uint64) result->queue_us;
	counts->prefill_us += (uint64) result->prefill_us;
	counts->decode_us += (uint64) result->decode_us;
	return true;
}

Datum
answer_value(const Answer *answer, Oid result_type, bool *isnull)
{
	if (answer->is_known)
	{
		*isnull = answer->known.isnull;
		return answer->known.value;
	}
	return answer->function->answer(&answer->call, answer->request, result_type, isnull);
}

void
answer_release(Answer *answer)
{
	if (--answer->n_holders > 0)
		return;
	if (answer->shared)
		entry_find(answer->answers, answer->key, HASH_REMOVE);
	if (!answer->counted)
		answer->answers->n_in_flight--;
	MemoryContextDelete(answer->own);
}

int
answers_in_flight(const Answers *answers)
{
	return answers->n_in_flight;
}

const AnswerCounts *
answers_counts(const Answers *answers)
{
	return &answers->counts;
}
