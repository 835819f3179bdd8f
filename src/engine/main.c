/* main.c: the program: one subcommand a row. docs/cli.md tells what each does. */
#include "engine/cli/cli.h"
#include "engine/serve/serve.h"

#include <stdio.h>
#include <string.h>

static const struct
{
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
} commands[] = {
	{ "run", cmd_run,
	  "-m FILE -p TEXT [-s SYSTEM] [--raw] [-n MAX] [--temperature T] [--top-p P] [--top-k K] "
	  "[--seed S]" },
	{ "tokenize", cmd_tokenize, "-m FILE [--special] [--add-bos]" },
	{ "detokenize", cmd_detokenize, "-m FILE" },
	{ "render", cmd_render, "-m FILE | --template FILE" },
	{ "logits", cmd_logits, "-m FILE -o OUT.npy" },
	{ "generate", cmd_generate, "-m FILE" },
	{ "embed", cmd_embed, "-m FILE" },
	{ "info", cmd_info, "-m FILE" },
	{ "bench", cmd_bench,
	  "-m FILE [--pp 512,2048] [--tg 64] [--depth 0,1024] [--batch 1,8,32] [-t THREADS] [-r "
	  "REPS]" },
	{ "serve", serve_main, "(started by the PostgreSQL server only)" },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int
usage_print(FILE *to)
{
	fprintf(to, "infer-engine " INFER_VERSION ": runs language models (GGUF files)\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  infer-engine %-10s %s\n", commands[i].name, commands[i].usage);
	return to == stdout ? 0 : 1;
}

/* What a full disk did not take is an error like any, and has its one line. */
static int
output_check(const char *command, int status)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || status != 0)
		return status;
	fprintf(stderr, "infer-engine %s: output could not be written. Is the disk full?\n", command);
	return 1;
}

int
main(int argc, char **argv)
{
	if (argc < 2)
		return usage_print(stderr);
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0)
		return usage_print(stdout);
	if (strcmp(argv[1], "--version") == 0)
	{
		puts("infer-engine " INFER_VERSION);
		return 0;
	}
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return output_check(argv[1], commands[i].run(argc - 1, argv + 1));
	fprintf(stderr, "infer-engine: command \"%s\" is not known. See \"infer-engine help\".\n",
			argv[1]);
	return 1;
}
