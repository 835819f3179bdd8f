/*
 * settings.h: every infer.* setting in one table. guc.c defines them in the server from it,
 * scripts/settings-doc writes docs/settings.md from it; nothing of PostgreSQL is needed to read it.
 *
 * Second parts of names are never SQL keywords, or SET would need quotes.
 */
#ifndef INFER_PG_SETTINGS_H
#define INFER_PG_SETTINGS_H

#include <stdbool.h>

typedef enum SettingType
{
	SETTING_BOOL,
	SETTING_INT,
	SETTING_REAL,
	SETTING_STRING,
	SETTING_CHOICE
} SettingType;

typedef enum SettingContext
{
	SETTING_POSTMASTER, /* at server start */
	SETTING_SIGHUP,		/* ALTER SYSTEM or postgresql.conf, and reload */
	SETTING_USER		/* any session, any role */
} SettingContext;

typedef enum SettingUnit
{
	UNIT_NONE,
	UNIT_KB,
	UNIT_MB,
	UNIT_MS
} SettingUnit;

typedef struct SettingChoice
{
	const char *name;
	int value;
} SettingChoice;

typedef struct SettingInfo
{
	const char *name; /* with "infer." */
	SettingType type;
	SettingContext context;
	SettingUnit unit;
	void *value; /* bool *, int *, double *, char ** by type */
	double min;	 /* of INT and REAL */
	double max;
	double fallback;		   /* default of BOOL, INT, REAL and CHOICE */
	const char *fallback_text; /* default of STRING */
	const SettingChoice *choices;
	bool only_superuser_sees;
	const char *about; /* one sentence */
	const char *more;  /* further sentences, or NULL */
} SettingInfo;

extern const SettingInfo infer_settings[];
extern const int infer_n_settings;

typedef enum OnError
{
	ON_ERROR_RAISE,
	ON_ERROR_NULL
} OnError;

extern const SettingChoice on_error_choices[]; /* ends with a NULL name */

/* POSTMASTER */
extern int setting_request_slots;
extern int setting_slot_size_kb;

/* SIGHUP */
extern char *setting_model_directory;
extern char *setting_models;
extern int setting_device;
extern int setting_threads;
extern int setting_kv_memory_mb;
extern int setting_kv_type;
extern int setting_batch_tokens;
extern int setting_max_sequences;
extern int setting_latency_target_ms;
extern int setting_max_queue;
extern int setting_max_role_queue;
extern int setting_load_timeout_ms;
extern int setting_max_session_requests;

/* USER */
extern char *setting_model;
extern double setting_temperature;
extern int setting_max_tokens;
extern double setting_top_p;
extern int setting_top_k;
extern double setting_min_p;
extern double setting_repeat_penalty;
extern int setting_repeat_last_n;
extern double setting_frequency_penalty;
extern double setting_presence_penalty;
extern int setting_on_error;
extern int setting_prefetch;
extern bool setting_batch;
extern int setting_timeout_ms;
extern int setting_priority;
extern int setting_retries;

/* The name of a CHOICE setting's value. */
extern const char *setting_choice_name(const SettingChoice *choices, int value);

extern const SettingChoice device_choices[];
extern const SettingChoice kv_type_choices[];

#endif
