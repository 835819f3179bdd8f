/*
 * fingerprint.h: the name of a model file's content: SHA-256 over the SHA-256s of its chunks of
 * 4 MiB, so that all threads can work. Private to model/.
 */
#ifndef INFER_ENGINE_FINGERPRINT_H
#define INFER_ENGINE_FINGERPRINT_H

#include "engine/base/pool.h"
#include "engine/base/sha256.h"

extern bool fingerprint_compute(const void *bytes, size_t n_bytes, Pool *pool,
								uint8_t out[SHA256_BYTES], InferError *err);

#endif
