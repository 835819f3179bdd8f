/*
 * serve.h: `infer-engine serve`, the engine's side of the shared-memory protocol. The supervisor
 * starts it with the descriptors of shared/doorbell.h (INFER_FD_*); nobody else has a use for it.
 *
 * It ends by itself when the supervisor or the whole server is gone (parent death signal, and EOF
 * on the control socket in case that signal does not exist or was missed), and on SIGTERM.
 */
#ifndef INFER_ENGINE_SERVE_H
#define INFER_ENGINE_SERVE_H

/* argv[0] is the program's name; there are no options. Returns the exit status. */
extern int serve_main(int argc, char **argv);

#endif
