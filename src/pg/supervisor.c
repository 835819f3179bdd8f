#include "postgres.h"

#include "pg/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "pg/shmem.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "shared/doorbell.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"

#define RESTART_SECONDS 1 /* of this worker */

/* A death this soon after the engine was ready (or before) is a quick one. */
#define QUICK_US		 INT64CONST(2000000)
#define QUICK_DEATHS_MAX 4 /* in a row: then requests fail at once */
#define BACKOFF_FIRST_US INT64CONST(200000)
#define BACKOFF_MAX_US	 INT64CONST(30000000)
#define LOCK_RETRY_US	 INT64CONST(50000)
#define STOP_US			 INT64CONST(1000000)
#define STOP_POLL_US	 2000
#define PING_US			 INT64CONST(2000000)
/* Counted in pings, not in time, so that a machine that slept kills nobody. */
#define UNANSWERED_MAX 5

#define LINE_BYTES	  1024
#define EVENT_CONTROL 1
#define EVENT_STDERR  2
#define N_EVENTS	  4

typedef struct Supervisor
{
	EngineChild child;
	WaitEventSet *events;

	/* of the child that runs */
	bool ready;
	int64 ready_at_us;
	int64 ping_at_us;
	uint32 ping_serial;
	int n_unanswered;

	/* across children */
	bool started_before;
	int n_quick_deaths;
	int64 start_at_us;

	/* the child's error output up to the next newline, and its last whole line */
	char line[LINE_BYTES];
	int line_bytes;
	char last_line[LINE_BYTES];
} Supervisor;

static Supervisor supervisor = { .child = { .control_fd = -1, .stderr_fd = -1 } };

static void
status_write(EngineStatus status)
{
	pg_atomic_write_u32(&infer_state->status, status);
}

/* ---- what the engine is told ---- */

static void
settings_publish(void)
{
	InferSettings settings;

	guc_fill_settings(&settings);
	infer_block_write_begin(&infer_region->settings_version);
	infer_region->settings = settings;
	infer_block_write_end(&infer_region->settings_version);
}

/* Best effort: an engine that does not read its control socket is found by its missing answers. */
static void
control_send(InferControlType type, uint32 serial)
{
	InferDoorbell frame = { (uint32_t) type, serial, 0 };

	if (send(supervisor.child.control_fd, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		elog(DEBUG1, "infer: could not write to the engine's control socket: %m");
}

static void
control_read(void)
{
	InferDoorbell frames[16];
	ssize_t n = recv(supervisor.child.control_fd, frames, sizeof(frames), MSG_DONTWAIT);

	/* it closed its end: on its way out, or mad */
	if (n == 0)
		kill(supervisor.child.pid, SIGKILL);
	for (ssize_t i = 0; i < n / (ssize_t) sizeof(frames[0]); i++)
	{
		if (frames[i].type == INFER_CONTROL_PONG)
			supervisor.n_unanswered = 0;
		else if (frames[i].type == INFER_CONTROL_READY && !supervisor.ready)
		{
			supervisor.ready = true;
			supervisor.ready_at_us = infer_monotonic_us();
			status_write(ENGINE_READY);
			ereport(LOG, (errmsg_internal("infer: engine is ready (process %d)",
										  (int) supervisor.child.pid)));
		}
	}
}

static void
ping_if_due(int64 now_us)
{
	if (now_us < supervisor.ping_at_us)
		return;
	supervisor.ping_at_us = now_us + PING_US;
	if (supervisor.n_unanswered >= UNANSWERED_MAX)
	{
		ereport(LOG, (errmsg_internal("infer: engine (process %d) does not answer; killing it",
									  (int) supervisor.child.pid)));
		kill(supervisor.child.pid, SIGKILL);
		return;
	}
	supervisor.n_unanswered++;
	control_send(INFER_CONTROL_PING, ++supervisor.ping_serial);
}

/* ---- what the engine says ---- */

static void
line_relay(void)
{
	supervisor.line[supervisor.line_bytes] = '\0';
	supervisor.line_bytes = 0;
	if (supervisor.line[0] == '\0')
		return;
	strlcpy(supervisor.last_line, supervisor.line, sizeof(supervisor.last_line));
	ereport(LOG, (errmsg_internal("infer engine: %s", supervisor.last_line)));
}

/* Through our own log call: an engine that held the log collector's pipe would keep it alive. */
static void
stderr_relay(void)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(supervisor.child.stderr_fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < n; i++)
		{
			if (bytes[i] == '\n' || supervisor.line_bytes == LINE_BYTES - 1)
				line_relay();
			if (bytes[i] != '\n')
				supervisor.line[supervisor.line_bytes++] = bytes[i];
		}
}

/* ---- its death ---- */

/* Gives the owners of a dead engine's slots their answer. Only RUNNING and ABORTING: a slot that is
 * SUBMITTED waits for the next engine, and its owner takes it back if it wants to. */
static void
slots_sweep(const InferError *death)
{
	for (uint32 i = 0; i < infer_geometry.n_slots; i++)
	{
		InferSlot *slot = infer_region_slot(infer_region, &infer_geometry, i);
		uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
		uint32 owner = slot->owner_procno;

		if (infer_word_state(word) == INFER_SLOT_RUNNING)
		{
			/* the owner reads the result only when DONE; a cancel in between makes the swap fail */
			memset(&slot->result, 0, sizeof(slot->result));
			slot->result.error = *death;
			slot->result.finish = INFER_FINISH_ERROR;
			if (infer_slot_move(slot, &word, INFER_SLOT_DONE) && owner < ProcGlobal->allProcCount)
				SetLatch(&ProcGlobal->allProcs[owner].procLatch);
		}
		if (infer_word_state(word) == INFER_SLOT_ABORTING)
			infer_slot_move(slot, &word, INFER_SLOT_FREE);
	}
}

/* Its last words about models are worth nothing now. */
static void
region_forget_engine(void)
{
	atomic_store(&infer_region->engine_ready, 0);
	atomic_store(&infer_region->engine_pid, 0);
	infer_block_write_begin(&infer_region->models_version);
	memset(infer_region->models, 0, sizeof(infer_region->models));
	infer_block_write_end(&infer_region->models_version);
}

/* Nobody shall wait in the backlog for an engine that does not come. */
static void
backlog_close(void)
{
	int fd;

	while ((fd = accept(infer_listen_fd, NULL, NULL)) >= 0)
		close(fd);
}

static void
death_describe(int status, InferError *death)
{
	char cause[LINE_BYTES + 128];

	if (WIFSIGNALED(status))
		snprintf(cause, sizeof(cause), "It was terminated by signal %d: %s.", WTERMSIG(status),
				 strsignal(WTERMSIG(status)));
	else if (supervisor.last_line[0] != '\0')
		snprintf(cause, sizeof(cause), "It exited with status %d: %s", WEXITSTATUS(status),
				 supervisor.last_line);
	else
		snprintf(cause, sizeof(cause), "It exited with status %d.", WEXITSTATUS(status));
	fail(death, INFER_ENGINE_DIED,
		 "inference engine died while it worked on this request\n%s\n"
		 "It is started again by itself: repeat the statement.",
		 cause);
}

/* When to start the next one: at once after a good run, later and later after quick deaths. */
static void
restart_plan(bool quick)
{
	int64 delay_us = 0;

	supervisor.n_quick_deaths = quick ? supervisor.n_quick_deaths + 1 : 0;
	if (supervisor.n_quick_deaths > 1)
	{
		int doublings = Min(supervisor.n_quick_deaths - 2, 10);

		delay_us = Min(BACKOFF_FIRST_US << doublings, BACKOFF_MAX_US);
	}
	supervisor.start_at_us = infer_monotonic_us() + delay_us;
	status_write(supervisor.n_quick_deaths >= QUICK_DEATHS_MAX ? ENGINE_BACKOFF : ENGINE_STARTING);
}

static void
events_free(void)
{
	if (supervisor.events != NULL)
		FreeWaitEventSet(supervisor.events);
	supervisor.events = NULL;
}

static void
events_make(void)
{
	supervisor.events = infer_create_session_wait_set(N_EVENTS);
	AddWaitEventToSet(supervisor.events, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(supervisor.events, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	if (supervisor.child.pid == 0)
		return;
	AddWaitEventToSet(supervisor.events, WL_SOCKET_READABLE, supervisor.child.control_fd, NULL,
					  (void *) EVENT_CONTROL);
	AddWaitEventToSet(supervisor.events, WL_SOCKET_READABLE, supervisor.child.stderr_fd, NULL,
					  (void *) EVENT_STDERR);
}

static void
child_bury(int status)
{
	bool quick = !supervisor.ready || infer_monotonic_us() - supervisor.ready_at_us < QUICK_US;
	InferError death;

	stderr_relay();
	line_relay();
	death_describe(status, &death);
	events_free();
	engine_child_close(&supervisor.child);
	supervisor.ready = false;
	infer_last_exit_write(death.detail);

	/* status first: an owner that wakes by the sweep looks at it */
	restart_plan(quick);
	region_forget_engine();
	slots_sweep(&death);
	if (supervisor.n_quick_deaths >= QUICK_DEATHS_MAX)
		backlog_close();
	ereport(LOG,
			(errmsg_internal("infer: engine has ended"), errdetail_internal("%s", death.detail)));
}

static void
child_reap(void)
{
	int status;

	if (supervisor.child.pid != 0 &&
		waitpid(supervisor.child.pid, &status, WNOHANG) == supervisor.child.pid)
		child_bury(status);
}

/* ---- its birth ---- */

/*
 * The lock says that no engine of an earlier supervisor lives on (and holds the memory of its
 * models). The engine inherits the descriptor, we keep none: the lock ends with it.
 */
static int
twin_lock(void)
{
	int fd = open(INFER_LOCK_PATH, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("infer: could not open \"%s\": %m", INFER_LOCK_PATH)));
	else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
	{
		close(fd);
		fd = -1;
	}
	return fd;
}

static void
start_failed(const char *reason)
{
	ereport(LOG,
			(errmsg_internal("infer: engine cannot be started"), errdetail_internal("%s", reason)));
	infer_last_exit_write(reason);
	supervisor.n_quick_deaths = Max(supervisor.n_quick_deaths, QUICK_DEATHS_MAX - 1);
	restart_plan(true);
	backlog_close();
}

static void
child_start(void)
{
	const char *path = engine_program_path();
	char reason[MAXPGPATH + 64];
	InferError err;
	int lock_fd;

	if (access(path, X_OK) != 0)
	{
		snprintf(reason, sizeof(reason), "Program \"%s\" cannot be run: %s.", path,
				 strerror(errno));
		start_failed(reason);
		return;
	}
	lock_fd = twin_lock();
	if (lock_fd < 0)
	{
		supervisor.start_at_us = infer_monotonic_us() + LOCK_RETRY_US;
		return;
	}
	settings_publish();
	if (!engine_child_start(&supervisor.child, lock_fd, &err))
	{
		start_failed(err.message);
		return;
	}
	if (supervisor.started_before)
		pg_atomic_fetch_add_u32(&infer_state->n_restarts, 1);
	supervisor.started_before = true;
	supervisor.last_line[0] = '\0';
	supervisor.n_unanswered = 0;
	supervisor.ping_at_us = infer_monotonic_us() + PING_US;
	events_free();
	events_make();
}

/* ---- the worker ---- */

static void
child_stop(int code, Datum argument)
{
	int64 give_up_at_us = infer_monotonic_us() + STOP_US;
	int status = 0;

	if (supervisor.child.pid == 0)
		return;
	kill(supervisor.child.pid, SIGTERM);
	while (waitpid(supervisor.child.pid, &status, WNOHANG) == 0)
	{
		if (infer_monotonic_us() > give_up_at_us)
			kill(supervisor.child.pid, SIGKILL);
		pg_usleep(STOP_POLL_US);
	}
	child_bury(status);
}

static void
child_signal(SIGNAL_ARGS)
{
	int saved = errno;

	SetLatch(MyLatch);
	errno = saved;
}

static long
wait_ms(int64 now_us)
{
	int64 until_us = supervisor.child.pid != 0 ? supervisor.ping_at_us : supervisor.start_at_us;

	return until_us > now_us ? (long) ((until_us - now_us) / 1000 + 1) : 0;
}

static void
wait_and_serve(void)
{
	WaitEvent events[N_EVENTS];
	int n_events;

	if (supervisor.events == NULL)
		events_make();
	n_events = WaitEventSetWait(supervisor.events, wait_ms(infer_monotonic_us()), events,
								lengthof(events), PG_WAIT_EXTENSION);
	for (int i = 0; i < n_events; i++)
	{
		if (events[i].events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		else if (events[i].user_data == (void *) EVENT_CONTROL)
			control_read();
		else if (events[i].user_data == (void *) EVENT_STDERR)
			stderr_relay();
	}
}

void
infer_supervisor_main(Datum argument)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, SIG_IGN);
	pqsignal(SIGCHLD, child_signal);
	BackgroundWorkerUnblockSignals();

	/* no database, but only so is it seen in pg_stat_activity and can be terminated */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	if (infer_region == NULL)
		proc_exit(0);

	before_shmem_exit(child_stop, (Datum) 0);
	status_write(ENGINE_STARTING);
	while (!ShutdownRequestPending)
	{
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			settings_publish();
			if (supervisor.child.pid != 0)
				control_send(INFER_CONTROL_RELOAD, 0);
			else
				supervisor.start_at_us = 0;
		}
		child_reap();
		if (supervisor.child.pid == 0 && infer_monotonic_us() >= supervisor.start_at_us)
			child_start();
		if (supervisor.child.pid != 0)
			ping_if_due(infer_monotonic_us());
		wait_and_serve();
	}

	/* status 0 would unregister the worker for good */
	proc_exit(1);
}

void
supervisor_register(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = RESTART_SECONDS;
	strlcpy(worker.bgw_library_name, "infer", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "infer_supervisor_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "infer supervisor", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "infer supervisor", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}
