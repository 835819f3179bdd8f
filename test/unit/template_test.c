/*
 * The template language: real templates against Jinja2's own output, each construct by itself, and
 * templates that nobody writes in good faith.
 */
#include "engine/text/template.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "golden.h"

typedef struct Rendered
{
	Arena parsed;
	Arena arena;
	TemplateOutput out;
	InferError err;
	bool ok;
} Rendered;

static void
render_budgeted(Rendered *r, const char *source, size_t n_source, const json_t *context,
				const TemplateBudget *budget)
{
	static const char *const trusted[] = { "bos_token", "eos_token", NULL };
	Template *tmpl;

	memset(r, 0, sizeof(*r));
	arena_init(&r->parsed, (size_t) 64 << 20);
	arena_init(&r->arena, (size_t) 256 << 20);
	r->ok = template_parse(&r->parsed, source, n_source, &tmpl, &r->err) &&
			template_render(tmpl, &r->arena, context, trusted, budget, &r->out, &r->err);
}

static void
render(Rendered *r, const char *source, const json_t *context)
{
	render_budgeted(r, source, strlen(source), context, &template_default_budget);
}

static void
rendered_free(Rendered *r)
{
	arena_reset(&r->parsed);
	arena_reset(&r->arena);
}

/* ---- golden ---- */

static char *
text_read(const char *path, size_t *n_bytes)
{
	FILE *file = fopen(path, "rb");
	char *text = malloc(1 << 20);

	assert_non_null(file);
	assert_non_null(text);
	*n_bytes = fread(text, 1, 1 << 20, file);
	fclose(file);
	return text;
}

static bool
line_check(const char *name, const char *source, size_t n_source, const json_t *line)
{
	const json_t *expected = json_object_get(line, "text");
	Rendered r;
	bool same;

	render_budgeted(&r, source, n_source, line, &template_default_budget);
	if (expected == NULL)
		same = !r.ok;
	else
		same = r.ok && r.out.n_bytes == json_string_length(expected) &&
			   memcmp(r.out.text, json_string_value(expected), r.out.n_bytes) == 0;
	if (!same)
		print_message("%s, %s: %s%s %s\n", name, json_string_value(json_object_get(line, "case")),
					  r.ok ? "text differs" : r.err.message, r.ok ? "" : ":", r.err.detail);
	rendered_free(&r);
	return same;
}

static void
template_check(const char *name, int *n_lines, int *n_same)
{
	static char buffer[1 << 20];
	char path[300];
	size_t n_source;
	char *source;
	FILE *file;

	snprintf(path, sizeof(path), "templates/%s.jinja", name);
	source = text_read(golden_path(path), &n_source);
	snprintf(path, sizeof(path), "templates/%s.jsonl", name);
	file = fopen(golden_path(path), "r");
	assert_non_null(file);
	while (fgets(buffer, sizeof(buffer), file) != NULL)
	{
		json_t *line = json_loads(buffer, JSON_ALLOW_NUL, NULL);

		assert_non_null(line);
		/* the clock of the reference */
		json_object_set_new(line, "bos_token", json_string("<s>"));
		json_object_set_new(line, "eos_token", json_string("</s>"));
		if (json_object_get(line, "now") == NULL)
			json_object_set_new(line, "now", json_string("2026-12-01T09:30:00"));
		*n_lines += 1;
		*n_same += line_check(name, source, n_source, line);
		json_decref(line);
	}
	fclose(file);
	free(source);
}

static void
test_real_templates_render_as_jinja_does(void **state)
{
	DIR *folder;
	struct dirent *entry;
	int n_templates = 0;
	int n_lines = 0;
	int n_same = 0;

	(void) state;
	SKIP_WITHOUT(golden_path("templates"));
	folder = opendir(golden_path("templates"));
	assert_non_null(folder);
	while ((entry = readdir(folder)) != NULL)
	{
		char *point = strstr(entry->d_name, ".jsonl");

		if (point == NULL)
			continue;
		*point = '\0';
		template_check(entry->d_name, &n_lines, &n_same);
		n_templates++;
	}
	closedir(folder);
	print_message("%d templates: %d of %d texts the same\n", n_templates, n_same, n_lines);
	assert_int_equal(n_same, n_lines);
}

/* ---- the language ---- */

/* Each renders with {"a": 1, "s": "Hello", "l": [3, 1, 2], "d": {"k": "v", "items": 7}, ...}. */
static const char context_text[] =
	"{\"a\": 1, \"b\": 0, \"f\": 1.5, \"n\": null, \"t\": true, \"s\": \"Hello\", \"l\": [3, 1, 2],"
	" \"d\": {\"k\": \"v\", \"items\": 7}, \"e\": [], \"u\": \"\\u00e9\\u6f22\","
	" \"users\": [{\"name\": \"Bo\", \"age\": 2}, {\"name\": \"Al\", \"age\": 5}]}";

static void
assert_renders(const char *source, const char *expected)
{
	json_t *context = json_loads(context_text, 0, NULL);
	Rendered r;

	render(&r, source, context);
	if (!r.ok)
		fail_msg("%s: %s (%s)", source, r.err.message, r.err.detail);
	if (r.out.n_bytes != strlen(expected) || memcmp(r.out.text, expected, r.out.n_bytes) != 0)
		fail_msg("%s gave \"%.*s\", not \"%s\"", source, (int) r.out.n_bytes, r.out.text, expected);
	rendered_free(&r);
	json_decref(context);
}

typedef struct Case
{
	const char *source;
	const char *expected;
} Case;

static void
cases_check(const Case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_renders(cases[i].source, cases[i].expected);
}

#define CHECK_CASES(cases) cases_check(cases, sizeof(cases) / sizeof(cases[0]))

static void
test_values_print_as_python_prints_them(void **state)
{
	static const Case cases[] = {
		{ "{{ a }}{{ f }}{{ n }}{{ t }}", "11.5NoneTrue" },
		{ "{{ l }}{{ d }}{{ [] }}{{ {} }}", "[3, 1, 2]{'k': 'v', 'items': 7}[]{}" },
		{ "{{ ('x',) }}{{ (1, 'y') }}", "('x',)(1, 'y')" },
		{ "{{ [\"it's\", '\"', 'a\\nb'] }}", "[\"it's\", '\"', 'a\\nb']" },
		{ "{{ 1e3 }} {{ 0.1 }} {{ 1.0 }} {{ 123456789.125 }}", "1000.0 0.1 1.0 123456789.125" },
		{ "{{ missing }}|{{ d.missing }}", "|" },
	};

	(void) state;
	CHECK_CASES(cases);
}

static void
test_expressions_bind_as_in_jinja(void **state)
{
	static const Case cases[] = {
		{ "{{ 1 + 2 * 3 }}{{ (1 + 2) * 3 }}", "79" },
		{ "{{ 2 ** 10 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }}",
		  "1024 3 -4 1 2 3.5" },
		{ "{{ 'a' ~ 1 ~ none }}", "a1None" },
		{ "{{ 'x' * 3 }}{{ [1] + [2] }}", "xxx[1, 2]" },
		{ "{{ not b and a }}{{ a or x.y }}{{ b and x.y }}", "110" },
		{ "{{ 1 < 2 < 3 }}{{ 1 < 2 > 5 }}", "TrueFalse" },
		{ "{{ 1 in l }}{{ 9 not in l }}{{ 'ell' in s }}{{ 'k' in d }}", "TrueTrueTrueTrue" },
		{ "{{ 'y' if a else 'n' }}{{ 'y' if b }}", "y" },
		{ "{{ 'y' if b else 'z' if a else 'n' }}", "z" },
		{ "{{ s is string and n is none and l is not mapping }}", "True" },
		{ "{{ 10 is divisibleby 5 }}{{ 3 is odd }}{{ 2 is eq(2) }}", "TrueTrueTrue" },
		{ "{{ 'a' 'b' }}", "ab" },
		{ "{{ \"\\u00e9\\x41\\t|\" }}", "\xc3\xa9"
										"A\t|" },
		{ "{{ {'a': {'b': [10, 20]}}.a.b[1] }}", "20" },
	};

	(void) state;
	CHECK_CASES(cases);
}

static void
test_items_and_slices_count_characters(void **state)
{
	static const Case cases[] = {
		{ "{{ s[0] }}{{ s[-1] }}{{ s[1:3] }}{{ s[::-1] }}{{ s[:-1] }}", "HoelolleHHell" },
		{ "{{ u[0] }}|{{ u[1:] }}|{{ u|length }}", "\xc3\xa9|\xe6\xbc\xa2|2" },
		{ "{{ l[1:] }}{{ l[::-1] }}{{ l[::2] }}{{ l[5:] }}", "[1, 2][2, 1, 3][3, 2][]" },
		{ "{{ l[9] }}|{{ d['items'] }}|{{ d['k'] }}", "|7|v" },
		{ "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "k=v;items=7;" },
		{ "{% for c in 'ab' %}{{ c }}-{% endfor %}", "a-b-" },
	};

	(void) state;
	CHECK_CASES(cases);
}

static void
test_white_space_goes_where_marks_say(void **state)
{
	static const Case cases[] = {
		{ "a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc" },
		{ "a  {%- if true -%}  b  {%- endif %}  c", "ab  c" },
		{ "a {{- ' x ' -}} b", "a x b" },
		{ "  {%+ if true %}x{% endif +%}\ny", "  x\ny" },
		{ "a{# note #}\nb", "ab" },
		{ "{% raw %}{{ x }}{% endraw %}", "{{ x }}" },
		{ "x\r\ny", "x\ny" },
		{ "  {{ 1 }}", "  1" },
	};

	(void) state;
	CHECK_CASES(cases);
}

static void
test_statements_do_what_they_say(void **state)
{
	static const Case cases[] = {
		{ "{% for x in l %}{{ loop.index }}/{{ loop.length }}{{ '!' if loop.last }} {% endfor %}",
		  "1/3 2/3 3/3! " },
		{ "{% for x in l if x > 1 %}{{ x }}{{ loop.first }}{% else %}none{% endfor %}",
		  "3True2False" },
		{ "{% for x in e %}{{ x }}{% else %}none{% endfor %}", "none" },
		{ "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "32" },
		{ "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "3" },
		{ "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
		  "<3>1 3<1>2 1<2> " },
		{ "{% set x = 1 %}{% for i in l %}{% set x = 2 %}{% endfor %}{{ x }}", "1" },
		{ "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}"
		  "{{ ns.x }}",
		  "7" },
		{ "{% set a, b = (4, 5) %}{{ a }}{{ b }}", "45" },
		{ "{% set x %}A{{ a }}{% endset %}{{ x }}{{ x|length }}", "A12" },
		{ "{% if b %}1{% elif n %}2{% elif a %}3{% else %}4{% endif %}", "3" },
		{ "{% macro m(x, y='d') %}[{{ x }}{{ y }}]{% endmacro %}{{ m(1) }}{{ m(1, y=2) }}",
		  "[1d][12]" },
		{ "{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}in{% endcall %}", "<in>" },
		{ "{% filter upper %}a{{ s }}{% endfilter %}", "AHELLO" },
		{ "{% for x in [1, [2, 3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}"
		  "{{ x }}{% endif %}{% endfor %}",
		  "1(23)" },
		{ "{% generation %}x{% endgeneration %}", "x" },
	};

	(void) state;
	CHECK_CASES(cases);
}

static void
test_filters_and_methods_follow_python(void **state)
{
	static const Case cases[] = {
		{ "{{ s|upper }}{{ s|lower }}{{ 'a b'|title }}{{ 'aB'|capitalize }}", "HELLOhelloA BAb" },
		{ "{{ ' x '|trim }}{{ 'xax'.strip('x') }}{{ ' x'.lstrip() }}", "xax" },
		{ "{{ 'a,b,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a,b,c'.split(',', 1) }}",
		  "['a', 'b', 'c']['a', 'b']['a', 'b,c']" },
		{ "{{ 'aXbX'.replace('X', '-') }}{{ 'ab'|replace('', '.') }}", "a-b-.a.b." },
		{ "{{ s.startswith('He') }}{{ s.endswith(('x', 'lo')) }}", "TrueTrue" },
		{ "{{ l|sort }}{{ l|sort(reverse=true) }}{{ ['b', 'A']|sort }}",
		  "[1, 2, 3][3, 2, 1]['A', 'b']" },
		{ "{{ users|map(attribute='name')|join(', ') }}", "Bo, Al" },
		{ "{{ users|selectattr('age', 'gt', 3)|map(attribute='name')|list }}", "['Al']" },
		{ "{{ users|rejectattr('name', 'equalto', 'Bo')|list|length }}", "1" },
		{ "{{ ['a', 'b']|map('upper')|list }}{{ [0, 1, '']|select|list }}", "['A', 'B'][1]" },
		{ "{{ d|dictsort }}", "[('items', 7), ('k', 'v')]" },
		{ "{{ x|default('y') }}{{ ''|default('z', true) }}{{ b|d(5) }}", "yz0" },
		{ "{{ l|first }}{{ l|last }}{{ l|length }}{{ l|sum }}{{ l|max }}{{ l|min }}", "323631" },
		{ "{{ '3'|int + 1 }}{{ 'x'|int }}{{ '2.5'|float }}{{ -3|abs }}{{ 2.567|round(1) }}",
		  "402.532.6" },
		{ "{{ 'a\\nb'|indent(2) }}|{{ 'a\\nb'|indent(2, true) }}", "a\n  b|  a\n  b" },
		{ "{{ [1, 1, 2]|unique|list }}{{ l|reverse|list }}", "[1, 2][2, 1, 3]" },
		{ "{{ '%s-%03d' % ('a', 7) }}{{ '%.2f'|format(1.234) }}", "a-0071.23" },
		{ "{{ '{} {1} {x}'.format(1, 2, x=3) }}", "1 2 3" },
		{ "{{ d.get('k') }}{{ d.get('zz', 'no') }}{{ d.keys()|list }}", "vno['k', 'items']" },
		{ "{{ range(3)|list }}{{ range(1, 7, 2)|list }}{{ range(3, 0, -1)|list }}",
		  "[0, 1, 2][1, 3, 5][3, 2, 1]" },
		{ "{% set j = joiner() %}{{ j() }}a{{ j() }}b", "a, b" },
		{ "{% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}", "xyx" },
	};

	(void) state;
	CHECK_CASES(cases);
}

static void
test_json_is_written_as_transformers_writes_it(void **state)
{
	static const Case cases[] = {
		{ "{{ d|tojson }}", "{\"k\": \"v\", \"items\": 7}" },
		{ "{{ [1, 1.0, none, true, 'a\"\\n<']|tojson }}", "[1, 1.0, null, true, \"a\\\"\\n<\"]" },
		{ "{{ {'a': [1, 2], 'b': {}}|tojson(indent=2) }}",
		  "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}" },
		{ "{{ u|tojson }}{{ u|tojson(ensure_ascii=true) }}",
		  "\"\xc3\xa9\xe6\xbc\xa2\"\"\\u00e9\\u6f22\"" },
		{ "{{ d|tojson(separators=(',', ':')) }}", "{\"k\":\"v\",\"items\":7}" },
		{ "{{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }}", "{\"a\": 2, \"b\": 1}" },
	};

	(void) state;
	CHECK_CASES(cases);
}

/* ---- errors ---- */

static InferError
error_of(const char *source, size_t n_source, const TemplateBudget *budget)
{
	json_t *context = json_loads(context_text, 0, NULL);
	Rendered r;

	render_budgeted(&r, source, n_source, context, budget);
	if (r.ok)
		fail_msg("rendered what should fail: %.60s", source);
	rendered_free(&r);
	json_decref(context);
	return r.err;
}

static void
test_mistakes_are_told_with_their_line(void **state)
{
	static const struct
	{
		const char *source;
		const char *detail;
	} cases[] = {
		{ "{{ x.y }}", "Line 1." },
		{ "\n\n{{ 1 / 0 }}", "Line 3." },
		{ "a\n{% if %}{% endif %}", "Line 2." },
		{ "{% for x in l %}", "Line 1." },
		{ "{{ l|nonsense }}", "Line 1." },
		{ "{{ l is nonsense }}", "Line 1." },
		{ "{% nonsense %}", "Line 1." },
		{ "{{ 'a' + 1 }}", "Line 1." },
		{ "{{ 'abc }}", "Line 1." },
		{ "{{ (1 }}", "Line 1." },
		{ "{% set s.x = 1 %}", "Line 1." },
		{ "{{ 5() }}", "Line 1." },
		{ "{{ d|tojson(indent=2)|tojson(x }}", "Line 1." },
		{ "{% endif %}", "Line 1." },
		{ "{{ '%5?' % 'x' }}", "Line 1." },
		{ "{{ '%d' % 'x' }}", "Line 1." },
		{ "{{ '%d' % (10.0 ** 30) }}", "Line 1." },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		InferError err =
			error_of(cases[i].source, strlen(cases[i].source), &template_default_budget);

		assert_int_equal(err.code, INFER_BAD_INPUT);
		assert_string_equal(err.detail, cases[i].detail);
	}
}

/* What renders is promised to be UTF-8, so the template has to be. */
static void
test_a_template_that_is_not_utf8_is_refused(void **state)
{
	static const char *const sources[] = { "a\xFF", "{{ '\xC3' }}", "\xED\xA0\x80", "\xC0\x80" };

	(void) state;
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		assert_int_equal(error_of(sources[i], strlen(sources[i]), &template_default_budget).code,
						 INFER_BAD_INPUT);
}

static void
test_a_template_may_refuse(void **state)
{
	static const char source[] = "{{ raise_exception('no ' ~ s) }}";
	InferError err = error_of(source, strlen(source), &template_default_budget);

	(void) state;
	assert_int_equal(err.code, INFER_TEMPLATE_RAISED);
	assert_string_equal(err.message, "no Hello");
}

/* ---- budgets ---- */

static char *
text_repeat(const char *before, const char *unit, size_t n, const char *after)
{
	size_t n_unit = strlen(unit);
	char *text = malloc(strlen(before) + n * n_unit + strlen(after) + 1);
	char *at = text;

	assert_non_null(text);
	at += sprintf(at, "%s", before);
	for (size_t i = 0; i < n; i++, at += n_unit)
		memcpy(at, unit, n_unit);
	strcpy(at, after);
	return text;
}

static void
test_budgets_end_what_would_not_end(void **state)
{
	static const char *const sources[] = {
		"{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}"
		"{% endfor %}{% endfor %}{% endfor %}",
		"{% for a in range(1000000000) %}{% endfor %}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"{% set x = 'aaaaaaaaaaaaaaaa' * 1000000 %}{{ x }}{{ x }}{{ x }}",
		"{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}"
		"{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
		"{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
		"{{ 'x' * 99999999999 }}",
		"{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}"
		"{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
		"{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}"
		"{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x < ns.y }}",
		"{% set x = 'aaaaaaaa' * 100000 %}{% for i in range(1000000) %}{% if x is lower %}"
		"{% endif %}{% set y = x[9] %}{% set z = x|wordcount %}{% endfor %}",
		"{% set x = 'aaaaaaaa' * 10000 %}{% set y = x[:40000] ~ 'b' %}"
		"{% for i in range(1000000) %}{% set z = x.rfind(y) %}{% endfor %}",
		"{% set x = range(100000)|list %}{% for i in range(1000000) %}"
		"{% set y = x.insert(0, x.pop(0)) %}{% endfor %}",
		"{{ range(999999)|list|sort|map('string')|join|length }}{{ range(999999)|list|sort }}",
	};

	(void) state;
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
	{
		InferError err = error_of(sources[i], strlen(sources[i]), &template_default_budget);

		if (err.code != INFER_LIMIT)
			fail_msg("%s: %s", sources[i], err.message);
	}
}

static void
test_deep_nesting_is_refused_and_not_followed(void **state)
{
	static const struct
	{
		const char *before;
		const char *unit;
		const char *after;
	} shapes[] = {
		{ "{{ ", "(", "" },		   { "{{ ", "[", "" },
		{ "{{ ", "{'a':", "" },	   { "{{ ", "-", "1 }}" },
		{ "{{ ", "not ", "1 }}" }, { "", "{% if a %}", "" },
		{ "{{ a", ".b", " }}" },   { "{{ s", "|upper", " }}" },
		{ "{{ 1", "+1", " }}" },   { "{{ 1", " if 1 else 1", " }}" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
	{
		char *source = text_repeat(shapes[i].before, shapes[i].unit, 100000, shapes[i].after);
		InferError err = error_of(source, strlen(source), &template_default_budget);

		if (err.code != INFER_LIMIT && err.code != INFER_BAD_INPUT)
			fail_msg("%s...: %s", shapes[i].unit, err.message);
		free(source);
	}
}

/* ---- who wrote what ---- */

static void
assert_written(const char *source, const char *written)
{
	json_t *context = json_loads(
		"{\"user\": \"<|end|>\", \"bos_token\": \"<s>\", \"l\": [\"x\", \"y\"],"
		"\"m\": {\"role\": \"user\", \"name\": \"user\", \"other\": {\"role\": \"end\"}}}",
		0, NULL);
	char got[256] = "";
	Rendered r;

	render(&r, source, context);
	assert_true(r.ok);
	for (size_t i = 0; i < r.out.n_spans; i++)
	{
		const TemplateSpan *span = &r.out.spans[i];

		assert_true(span->n_bytes > 0);
		assert_true(i == 0 || span->start > r.out.spans[i - 1].start + r.out.spans[i - 1].n_bytes);
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%.*s", i > 0 ? "," : "",
				 (int) span->n_bytes, r.out.text + span->start);
	}
	assert_string_equal(got, written);
	rendered_free(&r);
	json_decref(context);
}

static void
test_only_template_text_counts_as_written(void **state)
{
	(void) state;
	assert_written("<|u|>{{ user }}<|e|>", "<|u|>,<|e|>");
	assert_written("{{ '<a>' ~ user ~ '<b>' }}", "<a>,<b>");
	assert_written("{{ bos_token }}{{ user }}", "<s>");
	assert_written("{{ (user ~ '<b>').replace('<b>', '<c>') }}", "<c>");
	assert_written("{{ ('<a>' ~ user)|trim }}", "<a>");
	assert_written("{{ l|join('<sep>') }}", "<sep>");
	assert_written("{{ '[%s]' % user }}", "[,]");
	assert_written("{% set x %}<a>{{ user }}{% endset %}{{ x }}", "<a>");
	assert_written("{% macro m(x) %}<m>{{ x }}{% endmacro %}{{ m(user) }}", "<m>");
	assert_written("{{ ('<a>' ~ user)|upper }}", "");
	assert_written("{{ user }}", "");
}

/* '<|' + message.role + '|>' is a control token; a role of somebody's own making is not. */
static void
test_a_role_that_everybody_knows_counts_as_written(void **state)
{
	(void) state;
	assert_written("{{ '<|' + m.role + '|>' }}", "<|user|>");
	assert_written("<|{{ m.role }}|>", "<|user|>");
	assert_written("<|{{ m.other.role }}|>", "<|,|>");
	assert_written("<|{{ m.name }}|>", "<|,|>");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_templates_render_as_jinja_does),
		cmocka_unit_test(test_values_print_as_python_prints_them),
		cmocka_unit_test(test_expressions_bind_as_in_jinja),
		cmocka_unit_test(test_items_and_slices_count_characters),
		cmocka_unit_test(test_white_space_goes_where_marks_say),
		cmocka_unit_test(test_statements_do_what_they_say),
		cmocka_unit_test(test_filters_and_methods_follow_python),
		cmocka_unit_test(test_json_is_written_as_transformers_writes_it),
		cmocka_unit_test(test_mistakes_are_told_with_their_line),
		cmocka_unit_test(test_a_template_that_is_not_utf8_is_refused),
		cmocka_unit_test(test_a_template_may_refuse),
		cmocka_unit_test(test_budgets_end_what_would_not_end),
		cmocka_unit_test(test_deep_nesting_is_refused_and_not_followed),
		cmocka_unit_test(test_only_template_text_counts_as_written),
		cmocka_unit_test(test_a_role_that_everybody_knows_counts_as_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
