#include "engine/model/fingerprint.h"

#include <stdatomic.h>
#include <stdlib.h>

#define CHUNK_BYTES ((size_t) 4 << 20)

typedef struct HashJob
{
	const uint8_t *bytes;
	size_t n_bytes;
	uint8_t (*hashes)[SHA256_BYTES];
	_Atomic bool failed;
} HashJob;

static void
chunks_hash(void *context, int32_t thread, int32_t first, int32_t n)
{
	HashJob *job = context;

	(void) thread;
	for (int32_t i = first; i < first + n; i++)
	{
		size_t at = (size_t) i * CHUNK_BYTES;
		size_t left = job->n_bytes - at;

		if (!sha256_compute(job->bytes + at, left < CHUNK_BYTES ? left : CHUNK_BYTES,
							job->hashes[i]))
			job->failed = true;
	}
}

bool
fingerprint_compute(const void *bytes, size_t n_bytes, Pool *pool, uint8_t out[SHA256_BYTES],
					InferError *err)
{
	size_t n_chunks = (n_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
	HashJob job = { .bytes = bytes, .n_bytes = n_bytes };
	bool done;

	job.hashes = calloc(n_chunks, sizeof(*job.hashes));
	if (job.hashes == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory while hashing a model file");
	if (pool != NULL)
		pool_run(pool, chunks_hash, &job, (int32_t) n_chunks, 1);
	else
		chunks_hash(&job, 0, 0, (int32_t) n_chunks);
	done = !job.failed && sha256_compute(job.hashes, n_chunks * sizeof(*job.hashes), out);
	free(job.hashes);
	return done || fail(err, INFER_INTERNAL, "SHA-256 of a model file could not be computed");
}
