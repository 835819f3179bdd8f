#include "engine/model/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_file.h"

static Gguf *
gguf_new(const char *path, InferError *err)
{
	const char *slash = strrchr(path, '/');
	Gguf *gguf = calloc(1, sizeof(Gguf));

	if (gguf == NULL)
	{
		fail(err, INFER_OUT_OF_MEMORY, "out of memory while opening a model file");
		return NULL;
	}
	snprintf(gguf->name, sizeof(gguf->name), "%s", slash != NULL ? slash + 1 : path);
	arena_init(&gguf->arena, 0);
	return gguf;
}

/* O_NONBLOCK: a FIFO of that name must not hang the engine; fstat then refuses it. */
static bool
file_map(Gguf *gguf, const char *path, InferError *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	bool ok = false;

	if (fd < 0)
		return fail(err, INFER_IO,
					"cannot open model file \"%s\"\n"
					"The system says: %s.\n"
					"Check that the file is in the model directory and readable for the server.",
					gguf->name, strerror(errno));
	if (fstat(fd, &status) != 0)
		fail(err, INFER_IO, "cannot read model file \"%s\"\nThe system says: %s.", gguf->name,
			 strerror(errno));
	else if (!S_ISREG(status.st_mode))
		fail(err, INFER_IO, "model file \"%s\" is not a regular file", gguf->name);
	else if (status.st_size == 0)
		fail(err, INFER_BAD_MODEL,
			 "model file \"%s\" is empty\n"
			 "It has 0 bytes.\n"
			 "Download the file again.",
			 gguf->name);
	else
	{
		void *mapping = mmap(NULL, (size_t) status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

		if (mapping == MAP_FAILED)
			fail(err, INFER_IO, "cannot map model file \"%s\"\nThe system says: %s.", gguf->name,
				 strerror(errno));
		else
		{
			gguf->mapping = mapping;
			gguf->bytes = mapping;
			gguf->n_bytes = (size_t) status.st_size;
			ok = true;
		}
	}
	close(fd);
	return ok;
}

bool
gguf_open(const char *path, Gguf **out, InferError *err)
{
	Gguf *gguf = gguf_new(path, err);

	*out = NULL;
	if (gguf == NULL)
		return false;
	if (!file_map(gguf, path, err) || !gguf_parse(gguf, err))
	{
		gguf_close(gguf);
		return false;
	}
	*out = gguf;
	return true;
}

bool
gguf_open_memory(const void *bytes, size_t n_bytes, const char *name, Gguf **out, InferError *err)
{
	Gguf *gguf = gguf_new(name, err);

	*out = NULL;
	if (gguf == NULL)
		return false;
	gguf->bytes = bytes;
	gguf->n_bytes = n_bytes;
	if (!gguf_parse(gguf, err))
	{
		gguf_close(gguf);
		return false;
	}
	*out = gguf;
	return true;
}

void
gguf_close(Gguf *gguf)
{
	if (gguf == NULL)
		return;
	if (gguf->mapping != NULL)
		munmap(gguf->mapping, gguf->n_bytes);
	arena_reset(&gguf->arena);
	free(gguf);
}

void
gguf_drop_pages(Gguf *gguf)
{
	/* A private read-only mapping: a page that is touched again comes back from the file. */
	if (gguf->mapping != NULL)
		(void) madvise(gguf->mapping, gguf->n_bytes, MADV_DONTNEED);
}
