/*
 * engine_long.c: long texts are rendered and tokenized on a thread of their own, in the order in
 * which they came. One session's fifty megabytes keep other long texts waiting, but neither intake
 * (requests, cancels and drains of everybody) nor the step.
 */
#include "engine/engine_internal.h"

#include <string.h>

bool
request_is_long(const EngineRequest *request)
{
	return request->request.system_bytes + request->request.subject_bytes > ENGINE_LONG_BYTES;
}

void
long_add(EngineRequest *request)
{
	Engine *engine = request->engine;

	pthread_mutex_lock(&engine->lock);
	request->place = REQUEST_LONG;
	request_list_add(&engine->long_texts, request);
	pthread_cond_signal(&engine->long_changed);
	pthread_mutex_unlock(&engine->lock);
}

static void
long_prepare(EngineRequest *request)
{
	infer_error_clear(&request->error);
	if (atomic_load(&request->sequence.cancel_wanted))
		fail(&request->error, INFER_CANCELLED, "request was cancelled");
	else
		request_prepare(request, &request->error);
	inbox_add(request);
}

static void *
long_main(void *argument)
{
	Engine *engine = argument;

	pthread_setname_np(pthread_self(), "infer-long");
	pthread_mutex_lock(&engine->lock);
	while (!engine->quits)
	{
		EngineRequest *request = request_list_take(&engine->long_texts);

		if (request == NULL)
		{
			pthread_cond_wait(&engine->long_changed, &engine->lock);
			continue;
		}
		pthread_mutex_unlock(&engine->lock);
		long_prepare(request);
		engine_wake(engine);
		pthread_mutex_lock(&engine->lock);
	}
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

bool
long_start(Engine *engine, InferError *err)
{
	int error = pthread_create(&engine->long_thread, NULL, long_main, engine);

	if (error != 0)
		return fail(err, INFER_OUT_OF_MEMORY,
					"could not start the engine's thread for long texts\n%s.", strerror(error));
	engine->long_runs = true;
	return true;
}

void
long_stop(Engine *engine)
{
	if (!engine->long_runs)
		return;
	pthread_mutex_lock(&engine->lock);
	engine->quits = true;
	for (EngineRequest *request = engine->all; request != NULL; request = request->all_next)
		if (request->place == REQUEST_LONG)
			atomic_store(&request->sequence.cancel_wanted, true);
	pthread_cond_broadcast(&engine->long_changed);
	pthread_mutex_unlock(&engine->lock);
	pthread_join(engine->long_thread, NULL);
	engine->long_runs = false;
}
