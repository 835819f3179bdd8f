/*
 * The terminal program as a shell sees it: what is wrong ends in one line on stderr that says so,
 * and exit status 1. test/golden/run.py holds what it answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "golden.h"

#ifdef __SANITIZE_ADDRESS__
#	define PROGRAM "build/asan/infer-engine"
#else
#	define PROGRAM "build/infer-engine"
#endif

/* Runs "INPUT | infer-engine ARGUMENTS"; its stderr goes to `text`, returns the exit status. */
static int
run(const char *input, const char *arguments, char *text, size_t text_bytes)
{
	char command[1024];
	FILE *pipe;
	size_t n;

	snprintf(command, sizeof(command), "printf '%s' | %s %s 2>&1 >/dev/null", input, PROGRAM,
			 arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	n = fread(text, 1, text_bytes - 1, pipe);
	text[n] = '\0';
	return WEXITSTATUS(pclose(pipe));
}

static void
assert_one_line(const char *input, const char *arguments, const char *mentioned)
{
	char text[4096];
	int status = run(input, arguments, text, sizeof(text));
	const char *newline = strchr(text, '\n');

	if (status != 1 || newline == NULL || newline[1] != '\0' || strstr(text, mentioned) == NULL)
		fail_msg("%s: status %d, expected one line with \"%s\", got: %s", arguments, status,
				 mentioned, text);
}

static void
test_output_that_is_lost_is_an_error(void **state)
{
	char text[4096];

	(void) state;
	SKIP_WITHOUT(PROGRAM);
	SKIP_WITHOUT(REAL_MODEL);
	SKIP_WITHOUT("/dev/full");
	assert_int_equal(
		system("echo '\"a\"' | " PROGRAM " tokenize -m " REAL_MODEL " 2>/dev/null >/dev/full") >> 8,
		1);
	assert_int_equal(system(PROGRAM " info -m " REAL_MODEL " 2>/dev/null >/dev/full") >> 8, 1);
	assert_int_equal(run("\"a\"", "tokenize -m " REAL_MODEL, text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

static void
test_a_template_is_read_from_a_file_and_only_from_there(void **state)
{
	(void) state;
	SKIP_WITHOUT(PROGRAM);
	assert_one_line("{}", "render --template /tmp", "cannot be read");
	assert_one_line("{}", "render --template /dev/zero", "too large");
	assert_one_line("{}", "render --template /nonexistent", "cannot be opened");
	assert_one_line("{}", "render --template /dev/null -m " REAL_MODEL, "both given");
}

static void
test_logits_are_of_one_line(void **state)
{
	(void) state;
	SKIP_WITHOUT(PROGRAM);
	SKIP_WITHOUT(REAL_MODEL);
	assert_one_line("[1]\\n[2]\\n", "logits -o /dev/null -m " REAL_MODEL, "more than one line");
	assert_one_line("[1]\\nx\\n", "logits -o /dev/null -m " REAL_MODEL, "line 2");
	assert_one_line("", "logits -o /dev/null -m " REAL_MODEL, "empty");
	assert_one_line("[]", "logits -o /dev/null -m " REAL_MODEL, "0 token ids");
}

static void
test_what_is_no_model_is_refused(void **state)
{
	static const char *const names[] = { "/tmp", "/dev/zero", "/dev/null", "/nonexistent",
										 "/etc/passwd" };

	(void) state;
	SKIP_WITHOUT(PROGRAM);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		char arguments[64];

		snprintf(arguments, sizeof(arguments), "info -m %s", names[i]);
		assert_one_line("", arguments, "infer-engine info: ");
	}
}

static void
test_a_wrong_command_line_is_told(void **state)
{
	(void) state;
	SKIP_WITHOUT(PROGRAM);
	assert_one_line("", "nonsense", "nonsense");
	assert_one_line("", "run -m", "-m lacks its value");
	assert_one_line("", "run -m x -p y --seed 9223372036854775808", "integer");
	assert_one_line("", "run -m x -p y --temperature nan", "--temperature");
	assert_one_line("", "run -m /nonexistent -p y --seed -9223372036854775808", "nonexistent");
	assert_one_line("", "run -m /nonexistent -p y --seed 9223372036854775807", "nonexistent");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output_that_is_lost_is_an_error),
		cmocka_unit_test(test_a_template_is_read_from_a_file_and_only_from_there),
		cmocka_unit_test(test_logits_are_of_one_line),
		cmocka_unit_test(test_what_is_no_model_is_refused),
		cmocka_unit_test(test_a_wrong_command_line_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
