#include "postgres.h"

#include "pg/shmem.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pg/compat.h"
#include "pg/settings.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

/* Connects that may queue up while the engine starts; the kernel caps it at somaxconn. */
#define LISTEN_BACKLOG 4096

InferState *infer_state;
InferRegion *infer_region;
InferRegion infer_geometry;
int infer_region_fd = -1;
int infer_listen_fd = -1;

static shmem_startup_hook_type previous_shmem_startup;
#if PG_VERSION_NUM >= 150000
static shmem_request_hook_type previous_shmem_request;
#endif

static const char *const status_names[N_ENGINE_STATUSES] = {
	[ENGINE_STARTING] = "starting",
	[ENGINE_READY] = "ready",
	[ENGINE_BACKOFF] = "backoff",
	[ENGINE_DISABLED] = "disabled",
};

const char *
engine_status_name(uint32_t status)
{
	return status < N_ENGINE_STATUSES ? status_names[status] : "unknown";
}

static bool
failed_call(InferError *err, const char *what)
{
	return fail(err, INFER_NO_ENGINE, "inference is disabled: %s: %s", what, strerror(errno));
}

static void
region_unmake(void)
{
	if (infer_region != NULL)
		munmap(infer_region, infer_geometry.region_bytes);
	if (infer_region_fd >= 0)
		close(infer_region_fd);
	infer_region = NULL;
	infer_region_fd = -1;
}

static bool
region_make(InferError *err)
{
	void *memory;
	int rc;

	if (!infer_region_plan((uint32_t) setting_request_slots, (uint64_t) setting_slot_size_kb * 1024,
						   &infer_geometry, err))
		return false;

	infer_region_fd = memfd_create("infer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (infer_region_fd < 0)
		return failed_call(err, "could not create shared memory");

	/* taken now: a page that cannot be had later would be a SIGBUS */
	rc = posix_fallocate(infer_region_fd, 0, (off_t) infer_geometry.region_bytes);
	if (rc != 0)
	{
		errno = rc;
		return failed_call(err, "could not reserve shared memory");
	}
	memory = mmap(NULL, infer_geometry.region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
				  infer_region_fd, 0);
	if (memory == MAP_FAILED)
		return failed_call(err, "could not map shared memory");
	infer_region = memory;
	infer_region_format(memory, &infer_geometry);

	/* or a wild ftruncate in the engine would be a SIGBUS in every backend */
	if (fcntl(infer_region_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return failed_call(err, "could not seal shared memory");
	return true;
}

static void
listener_unmake(void)
{
	if (infer_listen_fd >= 0)
		close(infer_listen_fd);
	infer_listen_fd = -1;
}

static bool
listener_make(InferError *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = INFER_SOCKET_PATH };

	/* 0700 is the authentication: who may enter the data directory may connect */
	if (mkdir(INFER_SOCKET_DIRECTORY, S_IRWXU) != 0 && errno != EEXIST)
		return failed_call(err, "could not create directory \"" INFER_SOCKET_DIRECTORY "\"");
	if (unlink(INFER_SOCKET_PATH) != 0 && errno != ENOENT)
		return failed_call(err, "could not remove \"" INFER_SOCKET_PATH "\"");
	infer_listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (infer_listen_fd < 0)
		return failed_call(err, "could not create a Unix socket");
	if (bind(infer_listen_fd, (struct sockaddr *) &address, sizeof(address)) != 0)
		return failed_call(err, "could not bind \"" INFER_SOCKET_PATH "\"");
	if (listen(infer_listen_fd, LISTEN_BACKLOG) != 0)
		return failed_call(err, "could not listen on \"" INFER_SOCKET_PATH "\"");
	return true;
}

static void
objects_remove(int code, Datum argument)
{
	unlink(INFER_SOCKET_PATH);
}

static void
state_make(void)
{
	bool found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	infer_state = ShmemInitStruct("infer", sizeof(InferState), &found);
	if (!found)
	{
		memset(infer_state, 0, sizeof(*infer_state));
		pg_atomic_init_u32(&infer_state->status, ENGINE_STARTING);
		pg_atomic_init_u32(&infer_state->n_restarts, 0);
		SpinLockInit(&infer_state->mutex);
	}
	LWLockRelease(AddinShmemInitLock);
}

/* Runs in the postmaster at start, and again after each crash restart. */
static void
shmem_startup(void)
{
	InferError err;

	if (previous_shmem_startup)
		previous_shmem_startup();
	state_make();
	if (IsUnderPostmaster)
		return;

	region_unmake();
	listener_unmake();
	if (region_make(&err) && listener_make(&err))
	{
		on_shmem_exit(objects_remove, (Datum) 0);
		return;
	}

	/* the database is worth more than inference: it starts, and our functions say why they cannot
	 */
	ereport(LOG, (errmsg_internal("infer: %s", err.message)));
	region_unmake();
	listener_unmake();
	infer_last_exit_write(err.message);
	pg_atomic_write_u32(&infer_state->status, ENGINE_DISABLED);
}

#if PG_VERSION_NUM >= 150000
static void
shmem_request(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	RequestAddinShmemSpace(sizeof(InferState));
}
#endif

void
shmem_install_hooks(void)
{
#if PG_VERSION_NUM >= 150000
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = shmem_request;
#else
	RequestAddinShmemSpace(sizeof(InferState));
#endif
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}

void
infer_last_exit_read(char *text)
{
	SpinLockAcquire(&infer_state->mutex);
	memcpy(text, infer_state->last_exit, INFER_ERROR_TEXT_BYTES);
	SpinLockRelease(&infer_state->mutex);
}

void
infer_last_exit_write(const char *text)
{
	SpinLockAcquire(&infer_state->mutex);
	strlcpy(infer_state->last_exit, text, INFER_ERROR_TEXT_BYTES);
	SpinLockRelease(&infer_state->mutex);
}

void
infer_text_clean(char *text, size_t n_bytes)
{
	bool valid;

	text[n_bytes - 1] = '\0';
	valid = GetDatabaseEncoding() == PG_UTF8 &&
			pg_verify_mbstr(PG_UTF8, text, (int) strlen(text), true);
	for (; *text != '\0' && !valid; text++)
		if (IS_HIGHBIT_SET(*text))
			*text = '?';
}

bool
infer_available(InferError *err)
{
	char reason[INFER_ERROR_TEXT_BYTES];

	if (infer_state == NULL)
	{
		if (!IsUnderPostmaster)
			return fail(err, INFER_NO_ENGINE, "inference is not available in single-user mode");
		return fail(err, INFER_NO_ENGINE,
					"inference is not available: library \"infer\" is not preloaded\n\n"
					"Add infer to shared_preload_libraries in postgresql.conf and restart the "
					"server.");
	}
	switch (pg_atomic_read_u32(&infer_state->status))
	{
		case ENGINE_BACKOFF:
			infer_last_exit_read(reason);
			return fail(err, INFER_NO_ENGINE,
						"inference engine is not running\n%s\n"
						"It is started again from time to time. See the server log.",
						reason);
		case ENGINE_DISABLED:
			infer_last_exit_read(reason);
			return fail(err, INFER_NO_ENGINE,
						"inference is disabled\n%s\nMend the cause and restart the server.",
						reason);
	}
	return true;
}
