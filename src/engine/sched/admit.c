/* admit.c: who gets a place and pages, and who must give them back (scheduler.h tells the rules).
 */
#include "engine/sched/scheduler_internal.h"

#include <math.h>

typedef struct Share
{
	double session; /* running, this one included, over its weight */
	double role;
} Share;

/* Three steps of priority double the share. */
static double
priority_weight(int32_t priority)
{
	return exp2((double) priority / 3.0);
}

/* What the share of this sequence's session and role would be with `more` running than now. */
static Share
sequence_share(const Scheduler *s, const Sequence *sequence, int32_t more)
{
	int32_t n_session = more;
	int32_t n_role = more;
	double weight = priority_weight(sequence->priority);

	for (const Sequence *other = s->running.first; other != NULL; other = other->newer)
	{
		n_session += other->session == sequence->session;
		n_role += other->role_id == sequence->role_id;
	}
	return (Share){ n_session / weight, n_role / weight };
}

static bool
share_is_less(Share a, Share b)
{
	return a.session != b.session ? a.session < b.session : a.role < b.role;
}

/* The waiting one that is next, from old to young so that the oldest of equals wins. */
static Sequence *
waiting_choose(const Scheduler *s)
{
	Sequence *best = NULL;
	Share best_share = { 0, 0 };

	for (Sequence *sequence = s->waiting.first; sequence != NULL; sequence = sequence->newer)
	{
		Share share;

		if (sequence->held)
			continue;
		share = sequence_share(s, sequence, 1);
		if (best == NULL || share_is_less(share, best_share))
		{
			best = sequence;
			best_share = share;
		}
	}
	return best;
}

/* One whose output nobody reads: the youngest of them. */
static Sequence *
running_held(const Scheduler *s)
{
	for (Sequence *sequence = s->running.last; sequence != NULL; sequence = sequence->older)
		if (sequence->held)
			return sequence;
	return NULL;
}

/*
 * Who must leave so that `candidate` gets a place: the youngest sequence of the session with the
 * largest share, if the candidate's would still be smaller after the exchange. So two sessions can
 * never take a place from each other in turn.
 */
static Sequence *
place_victim(const Scheduler *s, const Sequence *candidate)
{
	Sequence *victim = running_held(s);
	double largest = sequence_share(s, candidate, 1).session;

	if (victim != NULL)
		return victim;
	for (Sequence *sequence = s->running.last; sequence != NULL; sequence = sequence->older)
	{
		double share = sequence_share(s, sequence, 0).session;

		/* One that has computed nothing since it came has not had its turn yet. */
		if (share > largest && sequence->n_steps > 0)
		{
			largest = share;
			victim = sequence;
		}
	}
	return victim;
}

/* Pages for all its tokens: what the prefix index has, and new ones. */
static bool
pages_take(Scheduler *s, Sequence *sequence)
{
	KvPages *kv = s->config.kv;
	int32_t n_pages = pages_of_tokens(sequence->n_tokens);
	int32_t n_found;
	Sequence *held;

	if (s->blocked == sequence && s->blocked_free == kv_pages_free_count(kv) &&
		running_held(s) == NULL)
		return false;

	n_found = kv_prefix_find(kv, &sequence->salt, sequence->token_ids, sequence->n_tokens,
							 sequence->block_table);
	while (!kv_pages_alloc(kv, n_pages - n_found, sequence->block_table + n_found))
	{
		held = running_held(s);
		if (held == NULL)
		{
			while (n_found > 0)
				kv_page_release(kv, sequence->block_table[--n_found]);
			s->blocked = sequence;
			s->blocked_free = kv_pages_free_count(kv);
			return false;
		}
		sequence_preempt(s, held);
	}
	s->blocked = NULL;
	sequence->n_pages = n_pages;
	sequence->n_published = n_found;
	sequence->n_computed = n_found * KV_PAGE_TOKENS;
	return true;
}

static void
sequence_admit(Scheduler *s, Sequence *sequence)
{
	bool first_time = sequence->state == SEQUENCE_WAITING;

	sequence_list_remove(&s->waiting, sequence);
	sequence->state = SEQUENCE_PREFILL;
	sequence->n_steps = 0;
	sequence_list_insert(&s->running, sequence);
	if (first_time)
	{
		sequence->n_cached = sequence->n_computed;
		infer_counter_add(&s->config.counters->prompt_tokens, (uint64_t) sequence->n_prompt);
		infer_counter_add(&s->config.counters->cached_tokens, (uint64_t) sequence->n_cached);
		s->config.events.admitted(s->config.events.context, sequence);
	}
	sequence_progress(s, sequence);
}

void
scheduler_admit(Scheduler *s)
{
	Sequence *sequence;

	while ((sequence = waiting_choose(s)) != NULL)
	{
		if (s->running.n >= s->limits.max_sequences)
		{
			Sequence *victim = place_victim(s, sequence);

			if (victim == NULL)
				return;
			sequence_preempt(s, victim);
		}
		if (pages_take(s, sequence))
			sequence_admit(s, sequence);
		else if (s->running.n > 0)
			return;
		else
		{
			/* Intake refuses what cannot fit alone: only a bug leads here, and it must not hang. */
			InferError err;

			fail(&err, INFER_OUT_OF_KV,
				 "request does not fit the KV cache\nIt needs %d pages of %d.",
				 pages_of_tokens(sequence->n_tokens), kv_pages_total(s->config.kv));
			sequence_finish(s, sequence, &err);
		}
	}
}

/*
 * Pages for n_tokens positions of a running sequence, taken from others if need be. False: the
 * sequence itself had to give way (it no longer runs).
 */
bool
sequence_grow(Scheduler *s, Sequence *sequence, int32_t n_tokens)
{
	while (sequence->n_pages < pages_of_tokens(n_tokens))
	{
		Sequence *victim;

		if (kv_pages_alloc(s->config.kv, 1, sequence->block_table + sequence->n_pages))
		{
			sequence->n_pages++;
			continue;
		}
		victim = running_held(s);
		if (victim == NULL)
			victim = s->running.last;
		if (victim == sequence && s->running.first == sequence)
		{
			InferError err;

			fail(&err, INFER_OUT_OF_KV, "request does not fit the KV cache\nIt holds all %d pages.",
				 sequence->n_pages);
			sequence_finish(s, sequence, &err);
			return false;
		}
		sequence_preempt(s, victim);
		if (victim == sequence)
			return false;
	}
	return true;
}
