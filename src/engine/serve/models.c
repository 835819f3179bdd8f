/* models.c: the table of models in the region, written when it changed. */
#include "server.h"

#include <string.h>

void
models_expect_change(Server *server)
{
	server->n_ticks_left = SERVER_TICKS_AFTER;
	if (!server->ticking)
		server->next_tick_ms = server_clock_ms();
	server->ticking = true;
}

static bool
models_are_moving(const Server *server)
{
	for (int i = 0; i < INFER_MAX_MODELS; i++)
		if (server->models[i].state == INFER_MODEL_LOADING ||
			server->models[i].state == INFER_MODEL_DRAINING)
			return true;
	return false;
}

/*
 * While requests run or models load, the table is compared every SERVER_TICK_MS; one tick after the
 * last of them finds nothing, and then nothing wakes this process any more.
 */
int
models_timeout_ms(Server *server)
{
	int64_t left_ms;

	if (!server->ticking)
	{
		if (atomic_load_explicit(&server->n_running, memory_order_relaxed) == 0)
			return -1;
		server->ticking = true;
		server->next_tick_ms = server_clock_ms() + SERVER_TICK_MS;
	}
	left_ms = server->next_tick_ms - server_clock_ms();
	if (left_ms < 0)
		return 0;
	return left_ms > SERVER_TICK_MS ? SERVER_TICK_MS : (int) left_ms;
}

void
models_publish(Server *server)
{
	InferModelEntry now[INFER_MAX_MODELS];
	InferRegion *region = server->region;
	int32_t max_sequences = engine_max_sequences(server->engine);
	int n_models;

	memset(now, 0, sizeof(now));
	n_models = engine_models_list(server->engine, now, INFER_MAX_MODELS);
	if (n_models < INFER_MAX_MODELS)
		memset(&now[n_models], 0, (size_t) (INFER_MAX_MODELS - n_models) * sizeof(now[0]));
	/* NOLINTNEXTLINE: a difference in padding only means one more copy */
	if (!server->models_shown || memcmp(now, server->models, sizeof(now)) != 0)
	{
		memcpy(server->models, now, sizeof(now));
		infer_block_write_begin(&region->models_version);
		memcpy(region->models, now, sizeof(now));
		infer_block_write_end(&region->models_version);
		server->models_shown = true;
	}
	atomic_store_explicit(&region->max_sequences, max_sequences > 0 ? (uint32_t) max_sequences : 0,
						  memory_order_relaxed);

	if (server->n_ticks_left > 0)
		server->n_ticks_left--;
	server->next_tick_ms = server_clock_ms() + SERVER_TICK_MS;
	server->ticking = server->n_ticks_left > 0 || models_are_moving(server) ||
					  atomic_load_explicit(&server->n_running, memory_order_relaxed) > 0;
}
