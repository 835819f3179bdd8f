/*
 * region.h: the shared region: a sealed memfd that the postmaster makes, every backend inherits
 * mapped, and the engine maps by its descriptor. Plain C, offsets instead of pointers, atomics
 * instead of locks. Everything in it is untrusted by whoever did not write it.
 *
 *     InferRegion header | slot 0: InferSlot, prompt area, ring | slot 1 | ...
 *
 * Writers: geometry: the postmaster before anyone else sees it. settings: the supervisor (sequence
 * lock). models, engine fields, counters, histograms: the engine. slots: slot.h.
 */
#ifndef INFER_SHARED_REGION_H
#define INFER_SHARED_REGION_H

#include "shared/metrics.h"
#include "shared/ring.h"
#include "shared/slot.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define INFER_REGION_MAGIC	 UINT64_C(0x696e666572303031) /* "infer001" */
#define INFER_LAYOUT_VERSION 1u

#define INFER_MAX_MODELS	  16
#define INFER_MODELS_BYTES	  4096 /* infer.models as written */
#define INFER_DIRECTORY_BYTES 1024

/* What the engine is told: the SIGHUP settings, written by the supervisor, then RELOAD. */
typedef struct InferSettings
{
	char model_directory[INFER_DIRECTORY_BYTES]; /* absolute */
	char models[INFER_MODELS_BYTES]; /* "name=file, name=file"; the first is the default */
	char device[16];				 /* "auto", "cpu", "cuda" */
	char kv_type[8];				 /* "f16", "f32" */
	int32_t n_threads;				 /* 0: one per physical core */
	int32_t max_sequences;			 /* running at once */
	int32_t batch_tokens;			 /* token budget of a step */
	int32_t latency_target_ms;		 /* a step while anyone decodes */
	int32_t max_queue;				 /* waiting requests in all; 0: no bound */
	int32_t max_role_queue;			 /* of one role; 0: no bound */
	int32_t load_timeout_ms;
	uint64_t kv_bytes; /* KV memory per model */
} InferSettings;

typedef enum InferModelState
{
	INFER_MODEL_NONE = 0, /* entry unused */
	INFER_MODEL_LOADING,
	INFER_MODEL_READY,
	INFER_MODEL_FAILED,	  /* reason says why; nothing serves under this name */
	INFER_MODEL_DRAINING, /* replaced: finishes what it runs */
	INFER_N_MODEL_STATES
} InferModelState;

/* A row of the view infer_models. An old model that serves on beside a broken new file is READY
 * with a reason. */
typedef struct InferModelEntry
{
	uint32_t state; /* InferModelState */
	uint32_t is_default;
	char name[INFER_MODEL_NAME_BYTES];
	char file[128];
	char reason[INFER_ERROR_TEXT_BYTES];
	char architecture[32];
	char type_name[24];
	char description[128]; /* general.name */
	char device[16];
	uint32_t has_template;
	float load_progress; /* 0..1 */
	uint64_t n_parameters;
	uint64_t file_bytes;
	uint64_t resident_bytes;
	int32_t n_context;
	int32_t n_vocab;
	int32_t kv_pages_total;
	int32_t kv_pages_free;
	int32_t kv_pages_cached;
	int32_t n_running;
	int32_t n_waiting;
	int64_t loaded_at_us; /* microseconds since the Unix epoch */
	uint8_t fingerprint[INFER_FINGERPRINT_BYTES];
} InferModelEntry;

typedef struct InferRegion
{
	/* geometry: constant after creation */
	uint64_t magic;
	uint32_t layout_version;
	uint32_t n_slots;
	uint64_t region_bytes;
	uint64_t slots_offset;
	uint64_t slot_stride;
	uint32_t prompt_offset; /* within a slot */
	uint32_t prompt_bytes;
	uint32_t ring_offset;
	uint32_t ring_bytes; /* a power of two */

	/* the supervisor */
	_Atomic uint32_t settings_version; /* odd while being written */
	InferSettings settings;

	/* the engine */
	_Atomic uint32_t engine_pid;
	_Atomic uint32_t engine_epoch;	 /* rises with each start */
	_Atomic uint32_t engine_ready;	 /* intake works; models may still load */
	_Atomic uint32_t max_sequences;	 /* in force: what a batch window is sized by */
	_Atomic uint32_t models_version; /* odd while being written */
	InferModelEntry models[INFER_MAX_MODELS];
	InferCounters counters;
	InferHistograms histograms;
} InferRegion;

/* Geometry for these sizes, or false (overflow, not a power of two, too small). */
extern bool infer_region_plan(uint32_t n_slots, uint64_t slot_bytes, InferRegion *geometry,
							  InferError *err);

/* Writes header and free slots into zeroed memory of geometry->region_bytes. */
extern void infer_region_format(void *memory, const InferRegion *geometry);

/* Whether memory of n_bytes holds a region that this program can use; says what is wrong. */
extern bool infer_region_check(const void *memory, size_t n_bytes, InferError *err);

/* index is checked against `geometry`, a private copy of the header made after infer_region_check.
 * NULL when out of range. */
extern InferSlot *infer_region_slot(void *memory, const InferRegion *geometry, uint32_t index);
extern char *infer_region_prompt(void *memory, const InferRegion *geometry, uint32_t index);
extern InferRing infer_region_ring(void *memory, const InferRegion *geometry, uint32_t index);

/* Claims a free slot, starting the search at `hint`. The caller fills it and moves it to SUBMITTED.
 */
extern bool infer_region_claim(void *memory, const InferRegion *geometry, uint32_t hint,
							   InferSlotRef *out);

/* ---- sequence-locked blocks: settings and models ---- */

/* Single writer. Between begin and end readers retry. */
extern void infer_block_write_begin(_Atomic uint32_t *version);
extern void infer_block_write_end(_Atomic uint32_t *version);

/*
 * Copies n_bytes consistently; false when the writer never finishes (it died in the middle): the
 * copy then is what was there, and text in it is '\0'-terminated by the caller.
 */
extern bool infer_block_read(const _Atomic uint32_t *version, const void *block, void *copy,
							 size_t n_bytes);

#endif
