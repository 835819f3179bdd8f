#include "serve.h"

#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The kernel's OOM killer shall take the engine, whose death costs one error per caller, and never
 * a server process, whose death restarts the cluster. Raising one's own score needs no privilege.
 */
#define OOM_SCORE "800"

/* One connection per session, besides model files and payloads. */
#define DESCRIPTORS_WANTED 65536

/* ---- the server ---- */

static bool
server_watch(Server *server, int *fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = fd };

	return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, *fd, &event) == 0;
}

static bool
server_sockets(Server *server, InferError *err)
{
	int flags = fcntl(server->listen_fd, F_GETFL);

	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	server->accepting = true;
	if (flags < 0 || fcntl(server->listen_fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
		server->epoll_fd < 0 || server->wake_fd < 0 || !server_watch(server, &server->listen_fd) ||
		!server_watch(server, &server->wake_fd))
		return fail(err, INFER_IO, "could not set up the engine's sockets\n%s.", strerror(errno));
	return true;
}

static bool
server_bindings(Server *server, InferError *err)
{
	uint32_t n_slots = server->geometry->n_slots;

	server->bindings = calloc(n_slots, sizeof(Binding));
	server->payload = malloc(server->geometry->prompt_bytes);
	if (server->bindings == NULL || server->payload == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for %u request slots", n_slots);
	for (uint32_t i = 0; i < n_slots; i++)
	{
		Binding *binding = &server->bindings[i];

		binding->server = server;
		binding->index = i;
		binding->slot = infer_region_slot(server->memory, server->geometry, i);
		binding->ring = infer_region_ring(server->memory, server->geometry, i);
		pthread_mutex_init(&binding->lock, NULL);
	}
	return true;
}

static bool
server_engine(Server *server, InferError *err)
{
	EngineConfig config = { .counters = &server->region->counters,
							.histograms = &server->region->histograms };

	settings_read(server->region, &config.settings);
	return engine_create(&config, &server->engine, err);
}

/* What backends may see from now on; READY tells the supervisor. */
static void
server_announce(Server *server)
{
	InferRegion *region = server->region;
	uint32_t epoch = atomic_fetch_add_explicit(&region->engine_epoch, 1, memory_order_relaxed) + 1;

	models_publish(server);
	models_expect_change(server);
	atomic_store_explicit(&region->engine_pid, (uint32_t) getpid(), memory_order_relaxed);
	atomic_store_explicit(&region->engine_ready, 1, memory_order_release);
	(void) control_send(server, INFER_CONTROL_READY, 0, epoch);
}

bool
server_create(const ServerConfig *config, Server **out, InferError *err)
{
	Server *server;

	if (!infer_region_check(config->memory, config->region_bytes, err))
		return false;
	server = calloc(1, sizeof(*server));
	if (server == NULL || (server->geometry = malloc(sizeof(InferRegion))) == NULL)
	{
		free(server);
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for the engine's server");
	}
	server->memory = config->memory;
	server->region = config->memory;
	memcpy(server->geometry, config->memory, sizeof(InferRegion));
	server->listen_fd = config->listen_fd;
	server->control_fd = config->control_fd;
	server->epoll_fd = server->wake_fd = -1;
	server->uid = geteuid();
	/* The copy is checked again: what counts is what was copied. */
	if (!infer_region_check(server->geometry, config->region_bytes, err) ||
		!server_sockets(server, err) || !server_bindings(server, err) ||
		!server_engine(server, err))
	{
		server_destroy(server);
		return false;
	}
	server_announce(server);
	*out = server;
	return true;
}

void
server_destroy(Server *server)
{
	while (server->connections != NULL)
		connection_close(server, server->connections);
	if (server->engine != NULL)
		engine_destroy(server->engine);
	if (server->bindings != NULL)
		for (uint32_t i = 0; i < server->geometry->n_slots; i++)
			pthread_mutex_destroy(&server->bindings[i].lock);
	if (server->epoll_fd >= 0)
		close(server->epoll_fd);
	if (server->wake_fd >= 0)
		close(server->wake_fd);
	free(server->bindings);
	free(server->payload);
	free(server->geometry);
	free(server);
}

int64_t
server_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
server_wake(Server *server)
{
	uint64_t one = 1;

	(void) !write(server->wake_fd, &one, sizeof(one)); /* full: it is awake anyway */
}

void
server_stop(Server *server)
{
	atomic_store_explicit(&server->stopping, true, memory_order_relaxed);
	server_wake(server);
	engine_wake(server->engine);
}

static bool
server_step(Server *server)
{
	atomic_store_explicit(&server->step_since_ms, server_clock_ms(), memory_order_relaxed);
	return !atomic_load_explicit(&server->stopping, memory_order_relaxed) &&
		   engine_step(server->engine);
}

void
server_step_loop(Server *server)
{
	while (!atomic_load_explicit(&server->stopping, memory_order_relaxed))
	{
		atomic_store_explicit(&server->step_since_ms, 0, memory_order_relaxed);
		engine_wait(server->engine);
		while (server_step(server))
			;
	}
}

/* ---- the process ---- */

static void
exit_on_signal(int number)
{
	(void) number;
	_exit(0);
}

/*
 * The postmaster signals whole process groups and the engine stays in the supervisor's: SIGINT
 * means "cancel a query" there, which is none of ours; SIGTERM and SIGQUIT mean the same here: no
 * state is worth a goodbye, the supervisor's sweep tells the callers.
 */
static void
process_signals(void)
{
	static const struct
	{
		int number;
		void (*handler)(int);
	} signals[] = {
		{ SIGINT, SIG_IGN },		 { SIGHUP, SIG_IGN },		  { SIGPIPE, SIG_IGN },
		{ SIGALRM, SIG_IGN },		 { SIGUSR1, SIG_IGN },		  { SIGUSR2, SIG_IGN },
		{ SIGTERM, exit_on_signal }, { SIGQUIT, exit_on_signal },
	};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
	{
		struct sigaction action = { .sa_handler = signals[i].handler, .sa_flags = SA_RESTART };

		sigaction(signals[i].number, &action, NULL);
	}
}

static void
process_limits(void)
{
	struct rlimit limit = { 0, 0 }; /* a core of an engine is tens of gigabytes */
	int fd;

	setrlimit(RLIMIT_CORE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS_WANTED)
	{
		limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
	{
		(void) !write(fd, OOM_SCORE, sizeof(OOM_SCORE) - 1);
		close(fd);
	}
}

/* The end of the supervisor is the end of the engine, also while the other threads are busy. */
static void *
control_run(void *context)
{
	while (control_turn(context))
		;
	_exit(0);
}

static void *
step_run(void *context)
{
	server_step_loop(context);
	return NULL;
}

static bool
descriptors_check(struct stat *region, InferError *err)
{
	struct stat control;
	struct stat listening;

	if (fstat(INFER_FD_CONTROL, &control) != 0 || !S_ISSOCK(control.st_mode) ||
		fstat(INFER_FD_LISTEN, &listening) != 0 || !S_ISSOCK(listening.st_mode) ||
		fstat(INFER_FD_REGION, region) != 0 || !S_ISREG(region->st_mode) || region->st_size <= 0)
		return fail(err, INFER_BAD_INPUT,
					"\"infer-engine serve\" is started by the PostgreSQL server only\n"
					"Its descriptors are missing.\n"
					"Set shared_preload_libraries = 'infer' and restart the server.");
	for (int fd = INFER_FD_CONTROL; fd <= INFER_FD_LOCK; fd++)
		(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	return true;
}

static bool
process_start(Server **server, InferError *err)
{
	ServerConfig config = { .listen_fd = INFER_FD_LISTEN, .control_fd = INFER_FD_CONTROL };
	struct stat region;
	pthread_t control;
	pthread_t step;

	if (!descriptors_check(&region, err))
		return false;
	config.region_bytes = (size_t) region.st_size;
	config.memory =
		mmap(NULL, config.region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, INFER_FD_REGION, 0);
	if (config.memory == MAP_FAILED)
		return fail(err, INFER_IO, "could not map the shared region\n%s.", strerror(errno));
	if (!server_create(&config, server, err))
		return false;
	if (pthread_create(&control, NULL, control_run, *server) != 0 ||
		pthread_create(&step, NULL, step_run, *server) != 0)
		return fail(err, INFER_OUT_OF_MEMORY, "could not start the engine's threads");
	return true;
}

static void
error_print(const InferError *err)
{
	fprintf(stderr, "infer-engine: %s%s%s%s%s\n", err->message, err->detail[0] ? ". " : "",
			err->detail, err->hint[0] ? " " : "", err->hint);
}

int
serve_main(int argc, char **argv)
{
	pid_t parent = getppid();
	Server *server;
	InferError err;

	(void) argc;
	(void) argv;
	/* The parent may die between these two; then nobody would ever send the signal. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		return 1;
	process_signals();
	process_limits();
	infer_error_clear(&err);
	if (!process_start(&server, &err))
	{
		error_print(&err);
		return 1;
	}
	while (server_turn(server, -1))
		;
	/* Not exit(): the step thread is in the middle of something, and the kernel cleans up best. */
	_exit(0);
}
