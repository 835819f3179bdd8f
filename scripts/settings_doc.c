/*
 * Prints docs/settings.md out of the two tables that the program runs by: settings (src/pg) and
 * options (src/shared). `make docs` writes it; a setting that is not in the table does not exist.
 */
#include "pg/settings.h"
#include "shared/request.h"

#include <stdio.h>
#include <string.h>

static const char *const context_titles[] = {
	[SETTING_POSTMASTER] = "At server start",
	[SETTING_SIGHUP] = "With a reload",
	[SETTING_USER] = "In any session",
};

static const char *const context_texts[] = {
	[SETTING_POSTMASTER] = "In postgresql.conf or by `ALTER SYSTEM`; a change needs a restart.",
	[SETTING_SIGHUP] =
		"In postgresql.conf or by `ALTER SYSTEM`, then `SELECT pg_reload_conf()`: no "
		"restart, and no request is dropped.",
	[SETTING_USER] =
		"By anybody with `SET`, and as defaults with `ALTER ROLE` or `ALTER DATABASE`.",
};

static const char *const units[] = {
	[UNIT_NONE] = "",
	[UNIT_KB] = "kB",
	[UNIT_MB] = "MB",
	[UNIT_MS] = "ms",
};

static void
default_print(const SettingInfo *s)
{
	switch (s->type)
	{
		case SETTING_BOOL:
			printf("`%s`", s->fallback != 0 ? "on" : "off");
			break;
		case SETTING_STRING:
			printf("`'%s'`", s->fallback_text);
			break;
		case SETTING_CHOICE:
			printf("`%s`", setting_choice_name(s->choices, (int) s->fallback));
			break;
		case SETTING_INT:
		case SETTING_REAL:
			printf("`%.10g%s%s`", s->fallback, units[s->unit][0] != '\0' ? " " : "",
				   units[s->unit]);
			break;
	}
}

static void
range_print(const SettingInfo *s)
{
	switch (s->type)
	{
		case SETTING_BOOL:
			printf("on, off");
			break;
		case SETTING_STRING:
			printf("text");
			break;
		case SETTING_CHOICE:
			for (const SettingChoice *c = s->choices; c->name != NULL; c++)
				printf("%s%s", c == s->choices ? "" : ", ", c->name);
			break;
		case SETTING_INT:
		case SETTING_REAL:
			printf("%.10g to %.10g", s->min, s->max);
			break;
	}
}

static void
settings_print(SettingContext context)
{
	printf("\n## %s\n\n%s\n\n", context_titles[context], context_texts[context]);
	printf("| name | default | unit | values | what it does |\n|---|---|---|---|---|\n");
	for (int i = 0; i < infer_n_settings; i++)
	{
		const SettingInfo *s = &infer_settings[i];

		if (s->context != context)
			continue;
		printf("| `%s` | ", s->name);
		default_print(s);
		printf(" | %s | ", units[s->unit]);
		range_print(s);
		printf(" | %s%s%s%s |\n", s->about, s->more != NULL ? " " : "",
			   s->more != NULL ? s->more : "",
			   s->only_superuser_sees ? " Only superusers see it." : "");
	}
}

static void
option_print(const InferOptionInfo *option)
{
	static const char *const types[] = {
		[INFER_OPTION_INT] = "integer",	 [INFER_OPTION_DOUBLE] = "number",
		[INFER_OPTION_SEED] = "integer", [INFER_OPTION_BOOL] = "true or false",
		[INFER_OPTION_TEXT] = "string",	 [INFER_OPTION_TEXT_LIST] = "array of strings",
		[INFER_OPTION_BIAS] = "object",
	};
	bool is_setting = strncmp(option->fallback, "infer.", 6) == 0;

	printf("| `%s` | %s | ", option->key, types[option->type]);
	if (option->min != option->max)
		printf("%s%.10g to %.10g", option->min_open ? "above " : "", option->min, option->max);
	printf(" | %s%s%s | %s |\n", is_setting ? "`" : "", option->fallback, is_setting ? "`" : "",
		   option->about);
}

int
main(void)
{
	printf("# Settings and options\n\n"
		   "<!-- written by `make docs` out of src/pg/settings.c and src/shared/request.c -->\n");
	for (int context = SETTING_POSTMASTER; context <= SETTING_USER; context++)
		settings_print((SettingContext) context);

	printf("\n## Options of a call\n\n"
		   "Keys of `options => '{...}'` in every function that generates. The frequent ones are "
		   "named\n"
		   "arguments too: a named argument wins over the key, and the key over the setting. "
		   "`null` means\n"
		   "the default, an unknown key is an error.\n\n"
		   "| key | type | values | default | what it does |\n|---|---|---|---|---|\n");
	for (int i = 0; i < infer_n_options; i++)
		option_print(&infer_options[i]);
	return 0;
}
