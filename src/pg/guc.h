/*
 * guc.h: defines the settings of settings.h in the server, and hands the SIGHUP ones to the engine.
 */
#ifndef INFER_PG_GUC_H
#define INFER_PG_GUC_H

#include "shared/region.h"

/* In _PG_init. POSTMASTER settings are defined only when the library is preloaded. */
extern void guc_define(void);

/* The current values, as the engine wants them; paths absolute. */
extern void guc_fill_settings(InferSettings *settings);

/* Requests that one session may have in flight. */
extern uint32_t guc_max_session_requests(uint32_t n_slots);

#endif
