/*
 * The real model against its own weights at full precision (golden/smollm2): fed the reference's
 * answer token by token, it prefers the same next token wherever the reference was not in doubt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "forward_rig.h"

#define SURE_MARGIN 0.5
#define MAX_IDS		600

static int
ids_append(const json_t *array, int32_t *ids, int n)
{
	for (size_t i = 0; i < json_array_size(array); i++)
	{
		assert_in_range(n, 0, MAX_IDS - 1);
		ids[n++] = (int32_t) json_integer_value(json_array_get(array, i));
	}
	return n;
}

/* Counts the sure positions of one answer, and those where ours is the same. */
static void
answer_compare(Rig *rig, const json_t *line, int *n_sure, int *n_same)
{
	int32_t ids[MAX_IDS];
	int n_prompt = ids_append(json_object_get(line, "ids"), ids, 0);
	int n = ids_append(json_object_get(line, "greedy"), ids, n_prompt);
	const json_t *margins = json_object_get(line, "margin");
	float *logits = rig_logits(rig, ids, n, 512);

	for (int i = n_prompt; i < n; i++)
	{
		const float *row = logits + (size_t) (i - 1) * (size_t) rig_vocab(rig);

		if (json_number_value(json_array_get(margins, (size_t) (i - n_prompt))) <= SURE_MARGIN)
			continue;
		*n_sure += 1;
		*n_same += index_of_largest(row, rig_vocab(rig)) == ids[i];
	}
	free(logits);
}

static void
test_greedy_answers_follow_the_reference(void **state)
{
	static char text[1 << 20];
	FILE *file;
	Rig rig;
	int n_lines = 0;
	int n_sure = 0;
	int n_same = 0;

	(void) state;
	SKIP_WITHOUT(REAL_MODEL);
	SKIP_WITHOUT(golden_path("smollm2/greedy.jsonl"));
	rig_create(&rig, REAL_MODEL, KV_F16, 2);
	file = fopen(golden_path("smollm2/greedy.jsonl"), "r");
	assert_non_null(file);
	while (fgets(text, sizeof(text), file) != NULL)
	{
		json_t *line = json_loads(text, 0, NULL);

		assert_non_null(line);
		answer_compare(&rig, line, &n_sure, &n_same);
		json_decref(line);
		n_lines++;
	}
	fclose(file);
	rig_destroy(&rig);
	print_message("%d answers, %d sure positions, %d the same\n", n_lines, n_sure, n_same);
	assert_true(n_sure > 10 * n_lines / 2);
	assert_int_equal(n_same, n_sure);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_greedy_answers_follow_the_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
