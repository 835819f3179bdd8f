/*
 * The engine as its callers see it (engine.h), on one thread, with the real model.
 */
#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine_rig.h"

/* Under the thread sanitizer only the tests where threads meet are run: see main(). */
#ifdef __SANITIZE_THREAD__
#	pragma GCC diagnostic ignored "-Wunused-function"
#endif

/* ---- answers ---- */

static void
test_a_question_is_answered(void **state)
{
	static const Ask france = { .prompt = FRANCE };
	Engine *engine;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	answer(engine, &france, &caller);
	assert_string_equal(caller.text, FRANCE_ANSWER);
	assert_int_equal(caller.result.finish, INFER_FINISH_STOP);
	assert_int_equal(caller.result.prompt_tokens, 37);
	assert_int_equal(caller.result.output_tokens, 8);
	assert_string_equal(caller.result.model, "real");
	assert_idle(engine);
	engine_destroy(engine);
}

static void
test_company_does_not_change_an_answer(void **state)
{
	enum
	{
		N = AMOUNT(31, 4)
	};
	static Caller others[N];
	static const Ask story = { .prompt = "Tell me a story about a river.",
							   .max_tokens = AMOUNT(30, 6) };
	char prompts[N][64];
	Caller alone;
	Caller among;
	Engine *engine;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	answer(engine, &story, &alone);
	engine_destroy(engine);

	engine = real_engine();
	for (int i = 0; i < N; i++)
	{
		Ask other = { .prompt = prompts[i], .max_tokens = 4 + i, .session = (uint64_t) i };

		snprintf(prompts[i], sizeof(prompts[i]), "Say something about the number %d.", i);
		asked(engine, &other, &others[i]);
	}
	asked(engine, &story, &among);
	run_until(engine, &among.finished);
	for (int i = 0; i < N; i++)
		run_until(engine, &others[i].finished);
	assert_int_equal(among.n_text, alone.n_text);
	assert_memory_equal(among.text, alone.text, alone.n_text);
	assert_idle(engine);
	engine_destroy(engine);
}

/* A prompt of some 150 tokens. */
static const char *
long_prompt(void)
{
	static char text[2048];

	text[0] = '\0';
	for (int i = 0; i < AMOUNT(12, 3); i++)
		strcat(text, "The quick brown fox jumps over the lazy dog. ");
	return strcat(text, "What does the fox do?");
}

static void
test_chunks_prefix_hits_and_preemptions_change_nothing(void **state)
{
	Ask fox = { .prompt = long_prompt(), .max_tokens = AMOUNT(40, 8) };
	Caller whole;
	Caller chunked;
	Caller again;
	static Caller crowd[AMOUNT(6, 3)];
	Engine *engine;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	answer(engine, &fox, &whole);
	assert_int_equal(whole.result.cached_tokens, 0);
	answer(engine, &fox, &again);
	assert_true(again.result.cached_tokens >= 16);
	assert_string_equal(again.text, whole.text);
	engine_destroy(engine);

	engine = engine_of(REAL_MODEL, 32, 16, 256 * MEBIBYTE);
	answer(engine, &fox, &chunked);
	assert_true(counters.steps >= AMOUNT(8, 5)); /* 16 tokens a step at most */
	assert_string_equal(chunked.text, whole.text);
	engine_destroy(engine);

	/* Pages for two and a half of them: somebody has to give way, and comes back. */
	engine = engine_of(REAL_MODEL, 32, 512, AMOUNT(12, 4) * MEBIBYTE);
	for (int i = 0; i < AMOUNT(6, 3); i++)
	{
		Ask other = fox;

		other.session = (uint64_t) i;
		other.max_tokens = AMOUNT(60, 24);
		asked(engine, &other, &crowd[i]);
	}
	for (int i = 0; i < AMOUNT(6, 3); i++)
		run_until(engine, &crowd[i].finished);
	assert_true(counters.preemptions > 0);
	for (int i = 0; i < AMOUNT(6, 3); i++)
	{
		assert_int_equal(crowd[i].result.error.code, INFER_OK);
		assert_true(crowd[i].n_text >= whole.n_text);
		assert_memory_equal(crowd[i].text, whole.text, whole.n_text);
	}
	assert_idle(engine);
	engine_destroy(engine);
}

static void
test_a_stop_string_ends_an_answer_and_is_not_in_it(void **state)
{
	static const Ask stops[] = {
		{ .prompt = FRANCE, .stop = " is Pa", .streams = true },
		{ .prompt = FRANCE, .stop = "France", .streams = true },
		{ .prompt = FRANCE, .stop = "of Fran", .streams = false },
	};
	static const char *const expected[] = { "The capital of France", "The capital of ",
											"The capital " };
	Engine *engine;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	for (int i = 0; i < 3; i++)
	{
		answer(engine, &stops[i], &caller);
		assert_string_equal(caller.text, expected[i]);
		assert_int_equal(caller.result.finish, INFER_FINISH_STOP);
	}
	assert_idle(engine);
	engine_destroy(engine);
}

static void
test_a_seed_makes_chance_repeatable(void **state)
{
	Ask poem = { .prompt = "Write a poem.", .max_tokens = 24, .temperature = 1.2 };
	Engine *engine;
	Caller first;
	Caller second;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	answer(engine, &poem, &first);
	assert_true(first.result.seed != 0);
	assert_int_equal(first.result.finish, INFER_FINISH_LENGTH);
	poem.seed = first.result.seed;
	answer(engine, &poem, &second);
	assert_string_equal(second.text, first.text);
	engine_destroy(engine);
}

/* ---- readers ---- */

static void
test_an_answer_waits_for_a_slow_reader(void **state)
{
	static const Ask story = { .prompt = "Tell me a story.", .max_tokens = 30, .streams = true };
	Engine *engine;
	Caller whole;
	Caller slow;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	answer(engine, &story, &whole);
	asked(engine, &story, &slow);
	slow.full = true;
	for (int i = 0; i < 50; i++)
		engine_step(engine);
	assert_true(slow.n_refused > 0);
	assert_false(slow.finished);
	assert_int_equal(slow.n_text, 0);
	while (!slow.finished)
	{
		slow.full = !slow.full;
		if (!slow.full)
			engine_drained(engine, slow.handle);
		engine_step(engine);
	}
	slow.text[slow.n_text] = '\0';
	assert_string_equal(slow.text, whole.text);
	assert_idle(engine);
	engine_destroy(engine);
}

static void
test_cancelling_frees_everything_in_every_phase(void **state)
{
	static const int steps[] = { 0, 1, 3, 12 };
	Ask story = { .prompt = long_prompt(), .max_tokens = 200, .streams = true };
	Engine *engine;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = engine_of(REAL_MODEL, 32, 32, 256 * MEBIBYTE);
	for (int full = 0; full < 2; full++)
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		{
			asked(engine, &story, &caller);
			caller.full = full != 0;
			for (int step = 0; step < steps[i]; step++)
				engine_step(engine);
			assert_false(caller.finished);
			engine_cancel(engine, caller.handle);
			run_until(engine, &caller.finished);
			assert_int_equal(caller.result.error.code, INFER_CANCELLED);
			assert_idle(engine);
		}
	engine_destroy(engine);
}

static void
test_destroying_ends_what_runs(void **state)
{
	static const Ask story = { .prompt = "Tell me a story.", .max_tokens = 500 };
	Engine *engine;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	asked(engine, &story, &caller);
	engine_step(engine);
	engine_destroy(engine);
	assert_true(caller.finished);
	assert_int_equal(caller.result.error.code, INFER_CANCELLED);
}

/* ---- refusals ---- */

static void
assert_refused(Engine *engine, const Ask *what, InferCode code, const char *mentioned)
{
	InferError err;
	Caller caller;

	assert_false(ask(engine, what, &caller, &err));
	assert_int_equal(err.code, code);
	if (strstr(err.message, mentioned) == NULL && strstr(err.detail, mentioned) == NULL &&
		strstr(err.hint, mentioned) == NULL)
		fail_msg("expected \"%s\" in: %s / %s / %s", mentioned, err.message, err.detail, err.hint);
	assert_false(caller.finished);
}

static void
test_what_cannot_be_answered_is_refused_at_once(void **state)
{
	char *huge = malloc(60001);
	Ask too_long = { .prompt = huge };
	static const Ask unknown = { .prompt = "hi", .model = "nobody" };
	static const Ask no_chat = { .kind = INFER_KIND_CHAT, .prompt = "{}" };
	Engine *engine;
	Engine *small;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	assert_non_null(huge);
	memset(huge, 'a', 60000);
	for (int i = 0; i < 60000; i += 2)
		huge[i] = ' ';
	huge[60000] = '\0';
	engine = real_engine();
	assert_refused(engine, &too_long, INFER_PROMPT_TOO_LONG, "8192");
	assert_refused(engine, &unknown, INFER_UNKNOWN_MODEL, "real");
	assert_refused(engine, &no_chat, INFER_BAD_INPUT, "array");
	assert_idle(engine);
	engine_destroy(engine);

	small = engine_of(REAL_MODEL, 32, 512, 4 * MEBIBYTE);
	huge[2000] = '\0';
	assert_refused(small, &too_long, INFER_OUT_OF_KV, "kv_memory");
	engine_destroy(small);
	free(huge);
}

static void
test_without_a_model_the_reason_is_told(void **state)
{
	static const Ask hi = { .prompt = "hi" };
	Engine *engine = engine_of(NULL, 4, 64, MEBIBYTE);
	InferError err;

	(void) state;
	assert_refused(engine, &hi, INFER_MODEL_NOT_READY, "infer.models");
	assert_false(engine_model_load_file(engine, "gone", "/nonexistent/file.gguf", &err));
	assert_refused(engine, &hi, INFER_MODEL_NOT_READY, "file.gguf");
	engine_destroy(engine);
}

static int64_t fake_now_us = 1000000;

static int64_t
fake_clock(void)
{
	return fake_now_us;
}

static void
test_a_deadline_ends_a_request(void **state)
{
	EngineConfig config = { .now_us = fake_clock };
	Ask story = { .prompt = "Tell me a story.", .max_tokens = 300 };
	Engine *engine;
	InferError err;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine_settings_init(&config.settings);
	config.settings.kv_bytes = 64 * MEBIBYTE;
	assert_true(engine_create(&config, &engine, &err));
	assert_true(engine_model_load_file(engine, "real", REAL_MODEL, &err));
	story.deadline_us = fake_now_us + 500;
	asked(engine, &story, &caller);
	engine_step(engine);
	assert_false(caller.finished);
	fake_now_us += 1000;
	engine_step(engine);
	assert_true(caller.finished);
	assert_int_equal(caller.result.error.code, INFER_DEADLINE);
	assert_idle(engine);
	engine_destroy(engine);
}

/* ---- kinds without a step ---- */

static void
test_questions_to_the_tokenizer_need_no_step(void **state)
{
	static const Ask count = { .kind = INFER_KIND_COUNT_TOKENS, .prompt = "Hello world" };
	static const Ask tokens = { .kind = INFER_KIND_TOKENIZE, .prompt = "Hello world" };
	static const Ask chat = { .kind = INFER_KIND_RENDER,
							  .prompt = "[{\"role\": \"user\", \"content\": \"Hi\"}]" };
	static const int32_t ids[] = { 19556, 905 };
	Engine *engine;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	asked(engine, &count, &caller);
	assert_true(caller.finished);
	assert_int_equal(caller.result.output_tokens, 2);
	asked(engine, &tokens, &caller);
	assert_true(caller.finished);
	assert_int_equal(caller.n_text, sizeof(ids));
	assert_memory_equal(caller.text, ids, sizeof(ids));
	asked(engine, &chat, &caller);
	assert_true(caller.finished);
	caller.text[caller.n_text] = '\0';
	assert_non_null(strstr(caller.text, "<|im_start|>user\nHi<|im_end|>\n"));
	assert_int_equal(counters.steps, 0);
	assert_int_equal(counters.requests_finished, 3);
	engine_destroy(engine);
}

static void
test_a_long_list_of_tokens_waits_for_its_reader(void **state)
{
	Ask tokens = { .kind = INFER_KIND_TOKENIZE, .prompt = long_prompt() };
	Engine *engine;
	Caller whole;
	Caller slow;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = real_engine();
	asked(engine, &tokens, &whole);
	{
		InferError err;
		EngineSink sink = {
			.context = &slow, .piece = caller_piece, .max_piece_bytes = 10, .finish = caller_finish
		};
		InferRequest request;

		memset(&slow, 0, sizeof(slow));
		slow.full = true;
		infer_request_init(&request, INFER_KIND_TOKENIZE);
		request.subject_bytes = strlen(tokens.prompt);
		assert_true(engine_submit(engine, 1, &request, tokens.prompt, request.subject_bytes, &sink,
								  &slow.handle, &err));
	}
	assert_false(slow.finished);
	slow.full = false;
	engine_drained(engine, slow.handle);
	run_until(engine, &slow.finished);
	assert_int_equal(slow.n_text, whole.n_text);
	assert_memory_equal(slow.text, whole.text, whole.n_text);
	assert_true(slow.n_pieces > 10); /* 8 bytes each: whole ids */
	assert_idle(engine);
	engine_destroy(engine);
}

/* ---- models come and go ---- */

static void
settings_apply(Engine *engine, const char *models)
{
	char folder[INFER_DIRECTORY_BYTES];
	InferSettings settings;
	InferError err;

	engine_settings_init(&settings);
	settings.kv_bytes = 64 * MEBIBYTE;
	assert_non_null(getcwd(folder, sizeof(folder) - 8));
	snprintf(settings.model_directory, sizeof(settings.model_directory), "%.*s/models",
			 (int) sizeof(folder) - 16, folder);
	snprintf(settings.models, sizeof(settings.models), "%s", models);
	engine_settings_set(engine, &settings);
	engine_models_wait(engine, &err);
}

#define FILE_NAME "SmolLM2-135M-Instruct.Q4_1.gguf"

static void
test_a_model_is_replaced_while_it_answers(void **state)
{
	static const Ask story = { .prompt = "Tell me a story.", .max_tokens = 40 };
	static const Ask renamed = { .prompt = FRANCE, .model = "new" };
	static const Ask gone = { .prompt = "hi", .model = "old" };
	InferModelEntry entries[INFER_MAX_MODELS];
	Engine *engine;
	Caller before;
	Caller after;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = engine_of(NULL, 32, 512, 64 * MEBIBYTE);
	settings_apply(engine, "old=" FILE_NAME);
	asked(engine, &story, &before);
	engine_step(engine);
	settings_apply(engine, "new=" FILE_NAME);
	assert_int_equal(engine_models_list(engine, entries, INFER_MAX_MODELS), 2);
	assert_int_equal(entries[1].state, INFER_MODEL_DRAINING);
	answer(engine, &renamed, &after);
	assert_string_equal(after.text, FRANCE_ANSWER);
	run_until(engine, &before.finished);
	assert_int_equal(before.result.error.code, INFER_OK);
	assert_string_equal(before.result.model, "old");
	assert_refused(engine, &gone, INFER_UNKNOWN_MODEL, "new");
	assert_idle(engine);
	assert_int_equal(engine_models_list(engine, entries, INFER_MAX_MODELS), 1);
	engine_destroy(engine);
}

static void
test_a_broken_file_leaves_the_old_model_serving(void **state)
{
	static const Ask france = { .prompt = FRANCE };
	InferModelEntry entries[INFER_MAX_MODELS];
	Engine *engine;
	Caller caller;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine = engine_of(NULL, 32, 512, 64 * MEBIBYTE);
	settings_apply(engine, "chat=" FILE_NAME);
	settings_apply(engine, "chat=missing.gguf");
	assert_int_equal(engine_models_list(engine, entries, INFER_MAX_MODELS), 1);
	assert_int_equal(entries[0].state, INFER_MODEL_READY);
	assert_string_equal(entries[0].file, FILE_NAME);
	assert_non_null(strstr(entries[0].reason, "missing.gguf"));
	answer(engine, &france, &caller);
	assert_string_equal(caller.text, FRANCE_ANSWER);
	assert_idle(engine);
	engine_destroy(engine);
}

static void
test_file_names_lead_nowhere_else(void **state)
{
	InferModelEntry entries[INFER_MAX_MODELS];
	Engine *engine = engine_of(NULL, 4, 64, MEBIBYTE);

	(void) state;
	settings_apply(engine, "a=../../etc/passwd, b=.hidden, c=x/y.gguf");
	assert_int_equal(engine_models_list(engine, entries, INFER_MAX_MODELS), 3);
	for (int i = 0; i < 3; i++)
	{
		assert_int_equal(entries[i].state, INFER_MODEL_FAILED);
		assert_non_null(strstr(entries[i].reason, "infer.model_directory"));
	}
	engine_destroy(engine);
}

static void
test_a_request_waits_for_a_model_that_loads(void **state)
{
	static const Ask france = { .prompt = FRANCE };
	static const Ask of_hi = { .kind = INFER_KIND_COUNT_TOKENS, .prompt = "hi" };
	EngineConfig config = { .counters = NULL };
	Engine *engine;
	InferError err;
	Caller caller;
	Caller counting;
	char folder[512];

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	engine_settings_init(&config.settings);
	config.settings.kv_bytes = 64 * MEBIBYTE;
	assert_non_null(getcwd(folder, sizeof(folder)));
	snprintf(config.settings.model_directory, sizeof(config.settings.model_directory),
			 "%.500s/models", folder);
	strcpy(config.settings.models, "chat=" FILE_NAME);
	assert_true(engine_create(&config, &engine, &err));
	asked(engine, &france, &caller); /* most likely parked; either way it is answered */
	asked(engine, &of_hi, &counting);
	wait_until(engine, &caller.finished);
	wait_until(engine, &counting.finished);
	caller.text[caller.n_text] = '\0';
	assert_string_equal(caller.text, FRANCE_ANSWER);
	assert_int_equal(counting.result.output_tokens, 1);
	assert_idle(engine);
	engine_destroy(engine);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __SANITIZE_THREAD__
		/* where the step thread, the loader and the pool meet; the model itself is too slow here */
		cmocka_unit_test(test_a_broken_file_leaves_the_old_model_serving),
		cmocka_unit_test(test_file_names_lead_nowhere_else),
		cmocka_unit_test(test_without_a_model_the_reason_is_told),
		cmocka_unit_test(test_questions_to_the_tokenizer_need_no_step),
		cmocka_unit_test(test_destroying_ends_what_runs),
#else
		cmocka_unit_test(test_a_question_is_answered),
		cmocka_unit_test(test_company_does_not_change_an_answer),
		cmocka_unit_test(test_chunks_prefix_hits_and_preemptions_change_nothing),
		cmocka_unit_test(test_a_stop_string_ends_an_answer_and_is_not_in_it),
		cmocka_unit_test(test_a_seed_makes_chance_repeatable),
		cmocka_unit_test(test_an_answer_waits_for_a_slow_reader),
		cmocka_unit_test(test_cancelling_frees_everything_in_every_phase),
		cmocka_unit_test(test_destroying_ends_what_runs),
		cmocka_unit_test(test_what_cannot_be_answered_is_refused_at_once),
		cmocka_unit_test(test_without_a_model_the_reason_is_told),
		cmocka_unit_test(test_a_deadline_ends_a_request),
		cmocka_unit_test(test_questions_to_the_tokenizer_need_no_step),
		cmocka_unit_test(test_a_long_list_of_tokens_waits_for_its_reader),
		cmocka_unit_test(test_a_model_is_replaced_while_it_answers),
		cmocka_unit_test(test_a_broken_file_leaves_the_old_model_serving),
		cmocka_unit_test(test_file_names_lead_nowhere_else),
		cmocka_unit_test(test_a_request_waits_for_a_model_that_loads),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
