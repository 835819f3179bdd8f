#include "postgres.h"

#include "pg/supervisor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pg/shmem.h"
#include "shared/doorbell.h"

#define ENGINE_PROGRAM	  "infer-engine"
#define FIRST_FREE_FD	  (INFER_FD_LOCK + 1)
#define EXEC_FAILED		  127
#define MAX_FDS_TO_CLOSE  65536 /* where the kernel cannot close a range */
#define SIGNAL_NUMBER_END 32	/* ordinary signals; nobody installs handlers for real-time ones */

/* What the child's descriptors shall be, 0 upwards. */
typedef struct ChildFds
{
	int sources[FIRST_FREE_FD];
} ChildFds;

const char *
engine_program_path(void)
{
	static char path[MAXPGPATH];
	Dl_info info;
	char *slash;

	/* not pkglibdir: the library may lie elsewhere by dynamic_library_path, and the program with it
	 */
	if (dladdr((void *) engine_program_path, &info) == 0 || info.dli_fname == NULL)
		snprintf(path, sizeof(path), "%s/", pkglib_path);
	else
		strlcpy(path, info.dli_fname, sizeof(path));
	slash = strrchr(path, '/');
	if (slash == NULL)
		slash = path;
	else
		slash++;
	strlcpy(slash, ENGINE_PROGRAM, sizeof(path) - (size_t) (slash - path));
	return path;
}

static void
fds_close_from(int first)
{
	struct rlimit limit;
	int end = MAX_FDS_TO_CLOSE;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned) first, ~0U, 0) == 0)
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < MAX_FDS_TO_CLOSE)
		end = (int) limit.rlim_cur;
	for (int fd = first; fd < end; fd++)
		close(fd);
}

/* Between fork and exec: async-signal-safe calls only, and never exit(), which would run the
 * server's exit handlers. */
static void
child_exec(const ChildFds *fds, const char *path, pid_t parent)
{
	char region_fd[] = { '0' + INFER_FD_REGION, '\0' };
	char *const argv[] = { (char *) ENGINE_PROGRAM, (char *) "serve", (char *) "--region-fd",
						   region_fd, NULL };
	int lifted[FIRST_FREE_FD];
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXEC_FAILED);

	/* out of the way of the targets first, since a source may lie on another's target */
	for (int fd = 0; fd < FIRST_FREE_FD; fd++)
	{
		lifted[fd] = fcntl(fds->sources[fd], F_DUPFD, FIRST_FREE_FD);
		if (lifted[fd] < 0)
			_exit(EXEC_FAILED);
	}
	for (int fd = 0; fd < FIRST_FREE_FD; fd++)
		if (dup2(lifted[fd], fd) < 0)
			_exit(EXEC_FAILED);
	fds_close_from(FIRST_FREE_FD);

	for (int number = 1; number < SIGNAL_NUMBER_END; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);

	execv(path, argv);
	_exit(EXEC_FAILED);
}

static void
fds_close(int *fds, int n_fds)
{
	for (int i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

bool
engine_child_start(EngineChild *child, int lock_fd, InferError *err)
{
	const char *path = engine_program_path();
	int control[2] = { -1, -1 };
	int output[2] = { -1, -1 };
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t parent = getpid();
	sigset_t all;
	sigset_t before;
	pid_t pid;

	if (null_fd < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, control) != 0 ||
		pipe2(output, O_CLOEXEC) != 0)
	{
		fail(err, INFER_IO, "could not start the inference engine: %s", strerror(errno));
		fds_close(control, 2);
		fds_close(&null_fd, 1);
		fds_close(&lock_fd, 1);
		return false;
	}

	/* a signal between fork and exec would run the server's handlers in the child */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
	{
		ChildFds fds = { { null_fd, output[1], output[1], control[1], infer_region_fd,
						   infer_listen_fd, lock_fd } };

		child_exec(&fds, path, parent);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);

	close(null_fd);
	close(lock_fd);
	close(control[1]);
	close(output[1]);
	if (pid < 0)
	{
		fail(err, INFER_IO, "could not start the inference engine: %s", strerror(errno));
		close(control[0]);
		close(output[0]);
		return false;
	}
	fcntl(output[0], F_SETFL, O_NONBLOCK);
	child->pid = pid;
	child->control_fd = control[0];
	child->stderr_fd = output[0];
	return true;
}

void
engine_child_close(EngineChild *child)
{
	close(child->control_fd);
	close(child->stderr_fd);
	child->pid = 0;
	child->control_fd = -1;
	child->stderr_fd = -1;
}
