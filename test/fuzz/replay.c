/*
 * replay.c: main() of a fuzz target without a fuzzer: runs every file it is given, and every file
 * of every folder, once. A corpus so becomes an ordinary test that any compiler builds.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

extern int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static int n_inputs;

/* The input lies in an allocation of exactly its size, so that ASan sees one byte too far. */
static int
replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = NULL;
	long n_bytes = -1;
	int status = 1;

	if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (n_bytes = ftell(file)) >= 0 &&
		fseek(file, 0, SEEK_SET) == 0 && (bytes = malloc(n_bytes > 0 ? (size_t) n_bytes : 1)) &&
		fread(bytes, 1, (size_t) n_bytes, file) == (size_t) n_bytes)
	{
		LLVMFuzzerTestOneInput(bytes, (size_t) n_bytes);
		n_inputs++;
		status = 0;
	}
	else
		fprintf(stderr, "replay: cannot read \"%s\"\n", path);
	free(bytes);
	if (file != NULL)
		fclose(file);
	return status;
}

static int
replay_path(const char *path)
{
	struct stat st;
	DIR *folder;
	struct dirent *entry;
	int status = 0;

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return replay_file(path);
	folder = opendir(path);
	if (folder == NULL)
	{
		fprintf(stderr, "replay: cannot open \"%s\"\n", path);
		return 1;
	}
	while ((entry = readdir(folder)) != NULL)
	{
		char name[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		status |= replay_path(name);
	}
	closedir(folder);
	return status;
}

int
main(int argc, char **argv)
{
	int status = 0;

	for (int i = 1; i < argc; i++)
		status |= replay_path(argv[i]);
	printf("replay: %d inputs\n", n_inputs);
	return status;
}
