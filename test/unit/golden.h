/*
 * golden.h: reference data for unit tests: ../shared/golden, or $INFER_GOLDEN, and the real model.
 * Every reader returns false (or skips the test) where the folder is absent.
 */
#ifndef INFER_TEST_GOLDEN_H
#define INFER_TEST_GOLDEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL_MODEL "models/SmolLM2-135M-Instruct.Q4_1.gguf"

/* Skips the test that runs when a file is not there, and says which. */
#define SKIP_WITHOUT(path)                                                                         \
	do                                                                                             \
	{                                                                                              \
		if (access(path, R_OK) != 0)                                                               \
		{                                                                                          \
			print_message("skipped: no %s\n", path);                                               \
			skip();                                                                                \
		}                                                                                          \
	} while (0)

/* "<golden>/models/llama-dense.gguf"; a static buffer each time, four deep. */
static inline const char *
golden_path(const char *name)
{
	static char paths[4][512];
	static int next;
	const char *folder = getenv("INFER_GOLDEN");
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder != NULL ? folder : "../shared/golden", name);
	return path;
}

/* A two-dimensional f32 array in .npy form; free() it. NULL when it cannot be read. */
static inline float *
npy_read(const char *path, int *n_rows, int *n_cols)
{
	FILE *file = fopen(path, "rb");
	unsigned char prefix[10];
	char header[512] = "";
	float *items = NULL;
	const char *shape;
	size_t n_header;

	if (file == NULL)
		return NULL;
	if (fread(prefix, 1, 10, file) == 10 && memcmp(prefix, "\x93NUMPY\x01", 7) == 0)
	{
		n_header = (size_t) (prefix[8] | prefix[9] << 8);
		if (n_header < sizeof(header) && fread(header, 1, n_header, file) == n_header &&
			strstr(header, "<f4") != NULL && strstr(header, "False") != NULL &&
			(shape = strstr(header, "'shape': (")) != NULL &&
			sscanf(shape, "'shape': (%d, %d)", n_rows, n_cols) == 2)
		{
			size_t n = (size_t) *n_rows * (size_t) *n_cols;

			items = malloc(n * sizeof(float));
			if (items != NULL && fread(items, sizeof(float), n, file) != n)
			{
				free(items);
				items = NULL;
			}
		}
	}
	fclose(file);
	return items;
}

/* The 100 token ids that the logits of models/ and quants/ belong to; returns their number. */
static inline int
golden_tokens(int32_t *ids, int max)
{
	json_t *array = json_load_file(golden_path("models/tokens.json"), 0, NULL);
	int n = (int) json_array_size(array);

	for (int i = 0; i < n && i < max; i++)
		ids[i] = (int32_t) json_integer_value(json_array_get(array, (size_t) i));
	json_decref(array);
	return n < max ? n : max;
}

/* sum (a - b)^2 / sum b^2 */
static inline double
normalized_error(const float *a, const float *b, size_t n)
{
	double difference = 0;
	double size = 0;

	for (size_t i = 0; i < n; i++)
	{
		difference += ((double) a[i] - b[i]) * ((double) a[i] - b[i]);
		size += (double) b[i] * b[i];
	}
	return difference / size;
}

static inline int
index_of_largest(const float *row, int n)
{
	int best = 0;

	for (int i = 1; i < n; i++)
		if (row[i] > row[best])
			best = i;
	return best;
}

#endif
