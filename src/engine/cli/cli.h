/*
 * cli.h: what the subcommands of infer-engine share (docs/cli.md is for their users). Each
 * command is one function in a file of its own; it returns the exit status. Bad input is one line
 * on stderr that says what, where and what to do, and status 1.
 */
#ifndef INFER_ENGINE_CLI_H
#define INFER_ENGINE_CLI_H

#include "engine/base/arena.h"
#include "engine/base/pool.h"
#include "engine/model/model.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"
#include "kernels/kernels.h"

#include <jansson.h>

/* ---- options.c ---- */

typedef enum CliType
{
	CLI_FLAG, /* bool */
	CLI_TEXT, /* const char * */
	CLI_INT,  /* int64_t, min..max */
	CLI_REAL, /* double, min..max */
	CLI_LIST  /* CliList: "1,8,32" */
} CliType;

#define CLI_MAX_LIST 16

typedef struct CliList
{
	int64_t items[CLI_MAX_LIST];
	int n_items;
} CliList;

typedef struct CliOption
{
	const char *name; /* "-m" or "--temperature" */
	CliType type;
	void *value;
	long double min; /* which holds each int64_t and each double exactly */
	long double max;
	bool *given; /* or NULL */
} CliOption;

/* Parses argv[1..]; all names are in the table, nothing else may stand there. */
extern bool options_parse(int argc, char **argv, const CliOption *options, size_t n_options,
						  InferError *err);

/* "infer-engine run: message. detail hint" on stderr; returns 1. */
extern int cli_fail(const char *command, const InferError *err);

/* ---- load.c ---- */

/* What a command needs of a model file; members it did not ask for are NULL. */
typedef struct CliModel
{
	Gguf *gguf;
	Tokenizer *tokenizer;
	Model *model;
	Pool *pool;
	Kernels kernels;
	Template *chat_template;
	Arena template_arena;
} CliModel;

#define CLI_TOKENIZER 0x1
#define CLI_WEIGHTS	  0x2
#define CLI_TEMPLATE  0x4

extern bool cli_model_open(CliModel *model, const char *path, int parts, int64_t n_threads,
						   InferError *err);
extern void cli_model_close(CliModel *model);

/* ---- lines.c ---- */

/* stdin by lines of any length; blank ones are skipped. */
typedef struct CliLines
{
	char *line;
	size_t capacity;
	size_t number; /* of the line last read, from 1 */
} CliLines;

/* The next line as JSON, NULL at the end; *err is set when it is not JSON. */
extern json_t *lines_next(CliLines *lines, InferError *err);
extern void lines_close(CliLines *lines);

/* A JSON array of integers in [0, limit) to ids (arena); false: it is something else. */
extern bool ids_of_json(const json_t *json, int64_t limit, Arena *arena, TokenList *out,
						InferError *err);
extern json_t *ids_to_json(const int32_t *ids, size_t n_ids);

/* Prints and frees; false when stdout is gone. */
extern bool json_print(json_t *json);

/* ---- the commands ---- */

extern int cmd_run(int argc, char **argv);
extern int cmd_tokenize(int argc, char **argv);
extern int cmd_detokenize(int argc, char **argv);
extern int cmd_render(int argc, char **argv);
extern int cmd_logits(int argc, char **argv);
extern int cmd_generate(int argc, char **argv);
extern int cmd_embed(int argc, char **argv);
extern int cmd_info(int argc, char **argv);
extern int cmd_bench(int argc, char **argv);

#endif
