#include "engine/base/sha256.h"

#include <openssl/evp.h>

bool
sha256_compute(const void *bytes, size_t n_bytes, uint8_t out[SHA256_BYTES])
{
	return EVP_Digest(bytes, n_bytes, out, NULL, EVP_sha256(), NULL) == 1;
}
