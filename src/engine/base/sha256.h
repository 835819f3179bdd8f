/*
 * sha256.h: SHA-256 (FIPS 180-4), one shot. OpenSSL's libcrypto does the work: it is on every
 * machine that has PostgreSQL, it is maintained, and it uses the CPU's own instructions, which our
 * own two hundred lines would not. Any thread.
 */
#ifndef INFER_ENGINE_SHA256_H
#define INFER_ENGINE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

/* False only when the library is out of memory or forbids the algorithm. */
extern bool sha256_compute(const void *bytes, size_t n_bytes, uint8_t out[SHA256_BYTES]);

#endif
