#include "postgres.h"

#include "pg/guc.h"

#include "miscadmin.h"
#include "pg/compat.h"
#include "pg/settings.h"
#include "shared/request.h"

#define SESSION_SHARE 4 /* of all slots: one session cannot starve the others */

static bool
slot_size_check(int *value, void **extra, GucSource source)
{
	if ((*value & (*value - 1)) == 0)
		return true;
	GUC_check_errdetail("It must be a power of two.");
	return false;
}

static bool
model_name_check(char **value, void **extra, GucSource source)
{
	if (*value == NULL || strlen(*value) < INFER_MODEL_NAME_BYTES)
		return true;
	GUC_check_errdetail("Names of models have at most %d bytes.", INFER_MODEL_NAME_BYTES - 1);
	return false;
}

static bool
directory_check(char **value, void **extra, GucSource source)
{
	if (*value == NULL || strlen(*value) < INFER_DIRECTORY_BYTES / 2)
		return true;
	GUC_check_errdetail("The path may have at most %d bytes.", INFER_DIRECTORY_BYTES / 2 - 1);
	return false;
}

/* The form of one "name=file"; that the file is there and good is the engine's business. */
static bool
model_entry_check(const char *entry, size_t n_bytes)
{
	const char *equals = memchr(entry, '=', n_bytes);
	size_t name_bytes;

	if (equals == NULL)
	{
		GUC_check_errdetail("\"%.*s\" is not of the form name=file.", (int) n_bytes, entry);
		return false;
	}
	name_bytes = strcspn(entry, " \t\n=");
	if (name_bytes == 0 || name_bytes >= INFER_MODEL_NAME_BYTES ||
		strspn(entry + name_bytes, " \t\n") != (size_t) (equals - entry) - name_bytes)
	{
		GUC_check_errdetail("\"%.*s\" is not a name of a model.", (int) (equals - entry), entry);
		GUC_check_errhint("Use 1 to %d bytes without spaces.", INFER_MODEL_NAME_BYTES - 1);
		return false;
	}
	equals++;
	equals += strspn(equals, " \t\n");
	if (equals >= entry + n_bytes)
	{
		GUC_check_errdetail("Model \"%.*s\" has no file.", (int) name_bytes, entry);
		return false;
	}
	if (memchr(equals, '/', (size_t) (entry + n_bytes - equals)) != NULL)
	{
		GUC_check_errdetail("\"%.*s\" is a path.", (int) (entry + n_bytes - equals), equals);
		GUC_check_errhint(
			"Name a file in infer.model_directory by its base name, without slashes.");
		return false;
	}
	return true;
}

/* Whether an entry before this one has its name. */
static bool
model_name_is_taken(const char *list, const char *entry)
{
	size_t name_bytes = strcspn(entry, " \t\n=");

	while (list < entry)
	{
		list += strspn(list, " \t\n,");
		if (list < entry && strcspn(list, " \t\n=") == name_bytes &&
			memcmp(list, entry, name_bytes) == 0)
		{
			GUC_check_errdetail("Model \"%.*s\" is named twice.", (int) name_bytes, entry);
			return true;
		}
		list += strcspn(list, ",");
	}
	return false;
}

static bool
models_check(char **value, void **extra, GucSource source)
{
	const char *entry = *value;
	int n_models = 0;

	if (entry == NULL)
		return true;
	if (strlen(entry) >= INFER_MODELS_BYTES)
	{
		GUC_check_errdetail("The list may have at most %d bytes.", INFER_MODELS_BYTES - 1);
		return false;
	}
	for (;;)
	{
		size_t n_bytes;

		entry += strspn(entry, " \t\n,");
		n_bytes = strcspn(entry, ",");
		if (n_bytes == 0)
			break;
		if (!model_entry_check(entry, n_bytes) || model_name_is_taken(*value, entry))
			return false;
		if (++n_models > INFER_MAX_MODELS)
		{
			GUC_check_errdetail("At most %d models can be served.", INFER_MAX_MODELS);
			return false;
		}
		entry += n_bytes;
	}
	return true;
}

static const struct
{
	const char *name;
	GucStringCheckHook check;
} string_checks[] = {
	{ "infer.model", model_name_check },
	{ "infer.models", models_check },
	{ "infer.model_directory", directory_check },
};

static GucStringCheckHook
string_check_of(const char *name)
{
	for (size_t i = 0; i < lengthof(string_checks); i++)
		if (strcmp(string_checks[i].name, name) == 0)
			return string_checks[i].check;
	return NULL;
}

static struct config_enum_entry *
choices_for_server(const SettingChoice *choices)
{
	struct config_enum_entry *entries;
	int n_choices = 0;

	while (choices[n_choices].name != NULL)
		n_choices++;
	entries = MemoryContextAllocZero(TopMemoryContext, (n_choices + 1) * sizeof(*entries));
	for (int i = 0; i < n_choices; i++)
	{
		entries[i].name = choices[i].name;
		entries[i].val = choices[i].value;
	}
	return entries;
}

static void
setting_define(const SettingInfo *s)
{
	static const GucContext contexts[] = {
		[SETTING_POSTMASTER] = PGC_POSTMASTER,
		[SETTING_SIGHUP] = PGC_SIGHUP,
		[SETTING_USER] = PGC_USERSET,
	};
	static const int units[] = {
		[UNIT_NONE] = 0,
		[UNIT_KB] = GUC_UNIT_KB,
		[UNIT_MB] = GUC_UNIT_MB,
		[UNIT_MS] = GUC_UNIT_MS,
	};
	GucContext context = contexts[s->context];
	int flags = units[s->unit] | (s->only_superuser_sees ? GUC_SUPERUSER_ONLY : 0);

	switch (s->type)
	{
		case SETTING_BOOL:
			DefineCustomBoolVariable(s->name, s->about, s->more, s->value, s->fallback != 0,
									 context, flags, NULL, NULL, NULL);
			break;
		case SETTING_INT:
			DefineCustomIntVariable(s->name, s->about, s->more, s->value, (int) s->fallback,
									(int) s->min, (int) s->max, context, flags,
									s->value == &setting_slot_size_kb ? slot_size_check : NULL,
									NULL, NULL);
			break;
		case SETTING_REAL:
			DefineCustomRealVariable(s->name, s->about, s->more, s->value, s->fallback, s->min,
									 s->max, context, flags, NULL, NULL, NULL);
			break;
		case SETTING_STRING:
			DefineCustomStringVariable(s->name, s->about, s->more, s->value, s->fallback_text,
									   context, flags, string_check_of(s->name), NULL, NULL);
			break;
		case SETTING_CHOICE:
			DefineCustomEnumVariable(s->name, s->about, s->more, s->value, (int) s->fallback,
									 choices_for_server(s->choices), context, flags, NULL, NULL,
									 NULL);
			break;
	}
}

void
guc_define(void)
{
	for (int i = 0; i < infer_n_settings; i++)
	{
		const SettingInfo *s = &infer_settings[i];

		/* the server refuses to define these once it runs */
		if (s->context == SETTING_POSTMASTER && !process_shared_preload_libraries_in_progress)
			continue;
		setting_define(s);
	}
	infer_reserve_settings("infer");
}

void
guc_fill_settings(InferSettings *settings)
{
	memset(settings, 0, sizeof(*settings));
	if (is_absolute_path(setting_model_directory))
		strlcpy(settings->model_directory, setting_model_directory,
				sizeof(settings->model_directory));
	else
		snprintf(settings->model_directory, sizeof(settings->model_directory), "%s/%s", DataDir,
				 setting_model_directory);
	strlcpy(settings->models, setting_models, sizeof(settings->models));
	strlcpy(settings->device, setting_choice_name(device_choices, setting_device),
			sizeof(settings->device));
	strlcpy(settings->kv_type, setting_choice_name(kv_type_choices, setting_kv_type),
			sizeof(settings->kv_type));
	settings->n_threads = setting_threads;
	settings->max_sequences = setting_max_sequences;
	settings->batch_tokens = setting_batch_tokens;
	settings->latency_target_ms = setting_latency_target_ms;
	settings->max_queue = setting_max_queue;
	settings->max_role_queue = setting_max_role_queue;
	settings->load_timeout_ms = setting_load_timeout_ms;
	settings->kv_bytes = (uint64_t) setting_kv_memory_mb << 20;
}

uint32_t
guc_max_session_requests(uint32_t n_slots)
{
	if (setting_max_session_requests > 0)
		return (uint32_t) setting_max_session_requests;
	return n_slots / SESSION_SHARE;
}
