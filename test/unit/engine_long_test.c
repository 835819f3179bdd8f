/*
 * Long texts: prepared on a thread of their own, so that they keep nobody waiting.
 */
#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine_rig.h"

static char *
text_of(size_t n_bytes)
{
	char *text = malloc(n_bytes + 1);

	assert_non_null(text);
	memset(text, 'x', n_bytes);
	text[n_bytes] = '\0';
	return text;
}

/* Letters without a space that take the tokenizer some ten seconds. */
#define LONG_BYTES AMOUNT(20000000, 5000000)

static void
test_a_long_text_keeps_nobody_waiting_and_can_be_cancelled(void **state)
{
	char *text = text_of(LONG_BYTES);
	Ask of_long = { .kind = INFER_KIND_COUNT_TOKENS, .prompt = text };
	static const Ask of_short = { .kind = INFER_KIND_COUNT_TOKENS, .prompt = "hi" };
	Engine *engine;
	Caller long_caller;
	Caller waiting_caller;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	asked(engine, &of_long, &long_caller);
	asked(engine, &of_long, &waiting_caller);
	asked(engine, &of_short, &caller);
	assert_true(caller.finished);
	assert_int_equal(caller.result.error.code, INFER_OK);
	engine_step(engine);
	assert_false(long_caller.finished);
	engine_cancel(engine, long_caller.handle);
	wait_until(engine, &long_caller.finished);
	assert_int_equal(long_caller.result.error.code, INFER_CANCELLED);
	engine_cancel(engine, waiting_caller.handle);
	wait_until(engine, &waiting_caller.finished);
	assert_int_equal(waiting_caller.result.error.code, INFER_CANCELLED);
	assert_idle(engine);
	engine_destroy(engine);
	free(text);
}

static void
test_destroying_ends_long_texts(void **state)
{
	char *text = text_of(LONG_BYTES);
	Ask of_long = { .kind = INFER_KIND_COUNT_TOKENS, .prompt = text };
	Engine *engine;
	Caller callers[2];

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	asked(engine, &of_long, &callers[0]);
	asked(engine, &of_long, &callers[1]);
	engine_destroy(engine);
	assert_true(callers[0].finished);
	assert_true(callers[1].finished);
	free(text);
}

/* The scratch of one word is eighty times the word: a bound of the engine, not the kernel's. */
static void
test_a_text_that_takes_too_much_memory_is_refused(void **state)
{
	char *text = text_of(60000000);
	Ask of_long = { .kind = INFER_KIND_COUNT_TOKENS, .prompt = text };
	Engine *engine;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	asked(engine, &of_long, &caller);
	wait_until(engine, &caller.finished);
	assert_int_equal(caller.result.error.code, INFER_OUT_OF_MEMORY);
	assert_idle(engine);
	engine_destroy(engine);
	free(text);
}

static void
test_prompts_far_too_long_are_refused_as_such(void **state)
{
	static const struct
	{
		size_t n_bytes;
		const char *mentioned;
	} cases[] = {
		{ 2000000, "8192" },	  /* more than the context holds, whatever the tokens are */
		{ 17000000, "17000000" }, /* more than a template writes */
	};
	Engine *engine;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		char *text = text_of(cases[i].n_bytes);
		Ask too_long = { .prompt = text };
		Caller caller;

		asked(engine, &too_long, &caller);
		wait_until(engine, &caller.finished);
		assert_int_equal(caller.result.error.code, INFER_PROMPT_TOO_LONG);
		assert_non_null(strstr(caller.result.error.detail, cases[i].mentioned));
		free(text);
	}
	assert_idle(engine);
	engine_destroy(engine);
}

/* More than one thread's worth of text, and few enough tokens to be answered. */
static void
test_a_long_text_is_answered_like_any(void **state)
{
	char *text = text_of(70000);
	Ask of_long = { .kind = INFER_KIND_COUNT_TOKENS, .prompt = text };
	Engine *engine;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	asked(engine, &of_long, &caller);
	wait_until(engine, &caller.finished);
	assert_int_equal(caller.result.error.code, INFER_OK);
	assert_int_equal(caller.result.output_tokens, 17500);
	assert_idle(engine);
	engine_destroy(engine);
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_long_text_keeps_nobody_waiting_and_can_be_cancelled),
		cmocka_unit_test(test_destroying_ends_long_texts),
		cmocka_unit_test(test_a_text_that_takes_too_much_memory_is_refused),
		cmocka_unit_test(test_prompts_far_too_long_are_refused_as_such),
		cmocka_unit_test(test_a_long_text_is_answered_like_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
