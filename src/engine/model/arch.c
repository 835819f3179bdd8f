/*
 * arch.c: the table of architectures. One row each; the forward pass reads the flags and never a
 * name.
 */
#include "engine/model/model.h"

#include <string.h>

static const ArchInfo archs[] = {
	/* name     rope pairs  qkv bias  q/k norm */
	{ "llama", true, false, false },
	{ "qwen2", false, true, false },
	{ "qwen3", false, false, true },
};

#define N_ARCHS ((int) (sizeof(archs) / sizeof(archs[0])))

const ArchInfo *
arch_at(int index)
{
	return index >= 0 && index < N_ARCHS ? &archs[index] : NULL;
}

const ArchInfo *
arch_find(const char *name, size_t n_bytes)
{
	for (int i = 0; i < N_ARCHS; i++)
		if (strlen(archs[i].name) == n_bytes && memcmp(archs[i].name, name, n_bytes) == 0)
			return &archs[i];
	return NULL;
}
