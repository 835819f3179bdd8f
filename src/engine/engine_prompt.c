/*
 * engine_prompt.c: a request becomes token ids. User text is data: the template decides where
 * control tokens stand, and only bytes that the template wrote are looked through for them.
 */
#include "engine/engine_internal.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/sha256.h"

/* The variable parts of the payload, in the order of request.h. */
typedef struct PayloadParts
{
	const char *system;
	size_t system_bytes;
	const char *subject;
	size_t subject_bytes;
	const char *stops;
	const char *biases;
} PayloadParts;

static PayloadParts
payload_parts(const EngineRequest *request)
{
	const InferRequest *asked = &request->request;
	PayloadParts parts = { .system = request->payload,
						   .system_bytes = (size_t) asked->system_bytes,
						   .subject_bytes = (size_t) asked->subject_bytes };

	parts.subject = parts.system + parts.system_bytes;
	parts.stops = parts.subject + parts.subject_bytes;
	parts.biases = parts.stops + asked->stops_bytes;
	return parts;
}

/* ---- what the template is given ---- */

static bool
message_add(json_t *messages, const char *role, const char *text, size_t n_bytes, InferError *err)
{
	json_t *content = json_stringn(text, n_bytes);
	json_t *message = json_pack("{s:s, s:o?}", "role", role, "content", content);

	if (content == NULL)
	{
		json_decref(message);
		return fail(err, INFER_BAD_INPUT, "prompt is not valid UTF-8");
	}
	return json_array_append_new(messages, message) == 0 ||
		   fail(err, INFER_OUT_OF_MEMORY, "out of memory for a prompt");
}

static json_t *
messages_of_prompt(const PayloadParts *parts, InferError *err)
{
	json_t *messages = json_array();

	if ((parts->system_bytes > 0 &&
		 !message_add(messages, "system", parts->system, parts->system_bytes, err)) ||
		!message_add(messages, "user", parts->subject, parts->subject_bytes, err))
	{
		json_decref(messages);
		return NULL;
	}
	return messages;
}

static bool
message_check(const json_t *message, size_t number, InferError *err)
{
	const json_t *role = json_object_get(message, "role");

	if (json_is_object(message) && json_is_string(role))
		return true;
	return fail(err, INFER_BAD_INPUT,
				"message %zu of the chat has no role\n"
				"Each message is an object such as {\"role\": \"user\", \"content\": \"...\"}.",
				number + 1);
}

static json_t *
messages_of_chat(const PayloadParts *parts, InferError *err)
{
	json_error_t where;
	json_t *messages = json_loadb(parts->subject, parts->subject_bytes, JSON_ALLOW_NUL, &where);
	size_t i;
	json_t *message;

	if (!json_is_array(messages) || json_array_size(messages) == 0)
	{
		fail(err, INFER_BAD_INPUT,
			 "chat is not a JSON array of messages\n%s.\n"
			 "Write it as [{\"role\": \"user\", \"content\": \"...\"}].",
			 messages == NULL ? where.text : "It is another JSON value, or empty");
		json_decref(messages);
		return NULL;
	}
	json_array_foreach(messages, i, message)
	{
		if (!message_check(message, i, err))
		{
			json_decref(messages);
			return NULL;
		}
	}
	return messages;
}

/* A token's text as a JSON string; "" when there is none, or when it is no valid text. */
static json_t *
token_json(const Tokenizer *tokenizer, int32_t id)
{
	size_t n_bytes;
	const char *text = tokenizer_token_text(tokenizer, id, &n_bytes);
	json_t *string = json_stringn(text, n_bytes);

	return string != NULL ? string : json_string("");
}

static bool
template_run(EngineRequest *request, json_t *messages, TemplateOutput *out, InferError *err)
{
	static const char *const trusted[] = { "bos_token", "eos_token", NULL };
	const EngineModel *model = request->model;
	json_t *context =
		json_pack("{s:O, s:b, s:o, s:o}", "messages", messages, "add_generation_prompt", 1,
				  "bos_token", token_json(model->tokenizer, tokenizer_bos_id(model->tokenizer)),
				  "eos_token", token_json(model->tokenizer, tokenizer_eos_id(model->tokenizer)));
	bool done;

	if (context == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for a prompt");
	done = template_render(model->chat_template, &request->arena, context, trusted,
						   &template_default_budget, out, err);
	json_decref(context);
	return done;
}

static bool
chat_render(EngineRequest *request, const PayloadParts *parts, TemplateOutput *out, InferError *err)
{
	bool is_prompt = request->request.kind == INFER_KIND_GENERATE;
	json_t *messages;
	bool done;

	if (request->model->chat_template == NULL)
		return fail(err, INFER_BAD_INPUT,
					"model \"%s\" has no chat template\n"
					"It continues texts, and does not know messages.\n"
					"Use options => '{\"raw\": true}' with a prompt.",
					request->model->name);
	messages = is_prompt ? messages_of_prompt(parts, err) : messages_of_chat(parts, err);
	if (messages == NULL)
		return false;
	done = template_run(request, messages, out, err);
	json_decref(messages);
	return done;
}

/* ---- ids ---- */

static bool
fail_too_long(const EngineRequest *request, uint64_t n_prompt, InferError *err)
{
	return fail(err, INFER_PROMPT_TOO_LONG,
				"prompt is too long for model \"%s\"\n"
				"It has at least %" PRIu64 " tokens; the context of the model holds %" PRId32
				", one of them for the answer.\n"
				"Shorten the prompt; infer_count_tokens() counts.",
				request->model->name, n_prompt, request->model->model->config.n_context);
}

/* A text that would not fit if all its tokens were the longest one need not be tokenized to know.
 */
static bool
rendered_bytes_check(const EngineRequest *request, size_t n_bytes, InferError *err)
{
	const EngineModel *model = request->model;
	size_t least_tokens = n_bytes / (model->max_piece_bytes > 0 ? model->max_piece_bytes : 1);

	return least_tokens <= (size_t) model->model->config.n_context ||
		   fail_too_long(request, least_tokens, err);
}

/* Templates print what they are given, and more than this they may not print. */
static bool
prompt_bytes_check(const PayloadParts *parts, InferError *err)
{
	size_t n_bytes = parts->system_bytes + parts->subject_bytes;

	return n_bytes <= template_default_budget.output_bytes ||
		   fail(err, INFER_PROMPT_TOO_LONG,
				"prompt is too long\nIt has %zu bytes; with a chat template there may be %zu.\n"
				"Shorten the prompt.",
				n_bytes, template_default_budget.output_bytes);
}

/* Text of the template between spans of user text, and the other way round. */
static bool
rendered_tokenize(EngineRequest *request, const TemplateOutput *rendered, size_t max_ids,
				  TokenList *out, InferError *err)
{
	TokenizePart *parts =
		arena_alloc_array(&request->arena, 2 * rendered->n_spans + 1, sizeof(*parts));
	size_t n_parts = 0;
	size_t at = 0;

	if (parts == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for a prompt");
	for (size_t i = 0; i < rendered->n_spans; i++)
	{
		const TemplateSpan *span = &rendered->spans[i];

		if (span->start > at)
			parts[n_parts++] = (TokenizePart){ rendered->text + at, span->start - at, false };
		parts[n_parts++] = (TokenizePart){ rendered->text + span->start, span->n_bytes, true };
		at = span->start + span->n_bytes;
	}
	if (rendered->n_bytes > at)
		parts[n_parts++] = (TokenizePart){ rendered->text + at, rendered->n_bytes - at, false };
	return rendered_bytes_check(request, rendered->n_bytes, err) &&
		   tokenize_parts(request->model->tokenizer, &request->arena, parts, n_parts,
						  &(TokenizeLimits){ max_ids, &request->sequence.cancel_wanted }, out, err);
}

static bool
prompt_tokenize(EngineRequest *request, const PayloadParts *parts, size_t max_ids,
				int32_t *first_id, TokenList *out, InferError *err)
{
	const Tokenizer *tokenizer = request->model->tokenizer;
	bool raw = (request->request.flags & INFER_FLAG_RAW) != 0 ||
			   (request->model->chat_template == NULL && parts->system_bytes == 0 &&
				request->request.kind == INFER_KIND_GENERATE);
	TokenizePart text = { parts->subject, parts->subject_bytes, false };
	TemplateOutput rendered;

	*first_id = -1;
	if (!raw)
		return prompt_bytes_check(parts, err) && chat_render(request, parts, &rendered, err) &&
			   rendered_tokenize(request, &rendered, max_ids, out, err);
	/* A template writes the first token itself; before raw text the model may want it. */
	if (tokenizer_adds_bos(tokenizer))
		*first_id = tokenizer_bos_id(tokenizer);
	return rendered_bytes_check(request, text.n_bytes, err) &&
		   tokenize_parts(tokenizer, &request->arena, &text, 1,
						  &(TokenizeLimits){ max_ids, &request->sequence.cancel_wanted }, out, err);
}

static bool
length_check(const EngineRequest *request, int32_t n_prompt, InferError *err)
{
	const EngineModel *model = request->model;
	int32_t n_trained = model->model->config.n_context;

	if (n_prompt < model->n_context)
		return true;
	if (model->n_context < n_trained && n_prompt < n_trained)
		return fail(err, INFER_OUT_OF_KV,
					"prompt does not fit the KV cache\n"
					"It has more than %" PRId32 " tokens, and there is memory for %" PRId32 ".\n"
					"Raise infer.kv_memory, or shorten the prompt.",
					n_prompt - 1, model->n_context);
	return fail_too_long(request, (uint64_t) n_prompt, err);
}

/* Secret, and another for each role: nobody can tell by timing what others have asked. */
static bool
salt_make(const Engine *engine, uint32_t role_id, KvSalt *salt, InferError *err)
{
	struct
	{
		uint8_t secret[16];
		uint32_t role_id;
	} source;
	uint8_t digest[SHA256_BYTES];

	memset(&source, 0, sizeof(source));
	memcpy(source.secret, engine->secret, sizeof(source.secret));
	source.role_id = role_id;
	if (!sha256_compute(&source, sizeof(source), digest))
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for a request");
	memcpy(salt->bytes, digest, sizeof(salt->bytes));
	return true;
}

static bool
sampler_prepare(EngineRequest *request, const PayloadParts *parts, InferError *err)
{
	SamplerParams *params = &request->sequence.sampler;
	int32_t n_biases = (int32_t) request->request.n_logit_bias;
	LogitBias *biases = arena_alloc_array(&request->arena, (size_t) n_biases + 1, sizeof(*biases));

	sampler_params_init(params, &request->request);
	if (biases == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for a request");
	if (n_biases > 0)
		memcpy(biases, parts->biases, (size_t) n_biases * sizeof(*biases));
	for (int32_t i = 0; i < n_biases; i++)
		if (biases[i].token_id < 0 || biases[i].token_id >= request->model->model->config.n_vocab)
			return fail(err, INFER_BAD_OPTION,
						"logit_bias names token %" PRId32 ", which the model does not have\n"
						"Its tokens are 0 to %" PRId32 ".",
						biases[i].token_id, request->model->model->config.n_vocab - 1);
	params->biases = biases;
	params->n_biases = n_biases;
	if (params->temperature > 0 && (request->request.flags & INFER_FLAG_HAS_SEED) == 0)
	{
		if (getrandom(&params->seed, sizeof(params->seed), 0) != (ssize_t) sizeof(params->seed))
			return fail(err, INFER_INTERNAL, "the kernel has no random numbers");
		params->seed >>= 1; /* fits the bigint that shows it and that may be given again */
	}
	return true;
}

static bool
sequence_fill(EngineRequest *request, int32_t first_id, const TokenList *tokens, InferError *err)
{
	Sequence *sequence = &request->sequence;
	int32_t n_first = first_id >= 0;
	int32_t n_prompt = (int32_t) tokens->n_ids + n_first;
	int64_t max_tokens = (int64_t) n_prompt + request->request.max_tokens;

	if (n_prompt == 0)
		return fail(err, INFER_BAD_INPUT,
					"prompt has no tokens\nThe model has no start token either.\n"
					"Give it something to continue.");
	if (max_tokens > request->model->n_context)
		max_tokens = request->model->n_context;
	sequence->session = request->session;
	sequence->role_id = request->request.role_id;
	sequence->priority = request->request.priority;
	sequence->deadline_us = request->request.deadline_us;
	sequence->n_prompt = n_prompt;
	sequence->max_tokens = (int32_t) max_tokens;
	sequence->token_ids =
		arena_alloc_array(&request->arena, (size_t) max_tokens, sizeof(*sequence->token_ids));
	sequence->block_table =
		arena_alloc_array(&request->arena, (size_t) pages_of_tokens(sequence->max_tokens),
						  sizeof(*sequence->block_table));
	if (sequence->token_ids == NULL || sequence->block_table == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for a request");
	if (n_first > 0)
		sequence->token_ids[0] = first_id;
	if (tokens->n_ids > 0)
		memcpy(sequence->token_ids + n_first, tokens->ids, tokens->n_ids * sizeof(int32_t));
	return salt_make(request->engine, sequence->role_id, &sequence->salt, err);
}

static bool
generation_prepare(EngineRequest *request, InferError *err)
{
	PayloadParts parts = payload_parts(request);
	TokenList tokens = { NULL, 0 };
	int32_t first_id;

	if (!prompt_tokenize(request, &parts, (size_t) request->model->n_context, &first_id, &tokens,
						 err) ||
		!length_check(request, (int32_t) tokens.n_ids + (first_id >= 0), err) ||
		!sequence_fill(request, first_id, &tokens, err) || !sampler_prepare(request, &parts, err))
		return false;
	request->has_answer = true;
	return answer_init(&request->answer, &request->arena, parts.stops, request->request.n_stops,
					   request->request.stops_bytes, request->model->max_piece_bytes,
					   ENGINE_HOLD_BYTES, err);
}

/* ---- kinds without a step ---- */

static bool
render_prepare(EngineRequest *request, InferError *err)
{
	PayloadParts parts = payload_parts(request);
	TemplateOutput rendered;

	if (!chat_render(request, &parts, &rendered, err))
		return false;
	request->output = arena_copy_text(&request->arena, rendered.text, rendered.n_bytes);
	request->output_bytes = rendered.n_bytes;
	return request->output != NULL ||
		   fail(err, INFER_OUT_OF_MEMORY, "out of memory for a rendered chat");
}

static bool
tokens_prepare(EngineRequest *request, InferError *err)
{
	PayloadParts parts = payload_parts(request);
	TokenizePart text = { parts.subject, parts.subject_bytes, false };
	TokenList tokens = { NULL, 0 };

	if (!tokenize_parts(request->model->tokenizer, &request->arena, &text, 1,
						&(TokenizeLimits){ 0, &request->sequence.cancel_wanted }, &tokens, err))
		return false;
	request->n_output_tokens = (int32_t) tokens.n_ids;
	if (request->request.kind == INFER_KIND_TOKENIZE)
	{
		request->output = (char *) tokens.ids;
		request->output_bytes = tokens.n_ids * sizeof(int32_t);
		request->output_unit = sizeof(int32_t);
	}
	return true;
}

bool
request_prepare(EngineRequest *request, InferError *err)
{
	switch (request->request.kind)
	{
		case INFER_KIND_GENERATE:
		case INFER_KIND_CHAT:
			return generation_prepare(request, err);
		case INFER_KIND_RENDER:
			request->finish = INFER_FINISH_STOP;
			return render_prepare(request, err);
		case INFER_KIND_COUNT_TOKENS:
		case INFER_KIND_TOKENIZE:
			request->finish = INFER_FINISH_STOP;
			return tokens_prepare(request, err);
		default:
			return fail(err, INFER_INTERNAL, "a request has an unknown kind");
	}
}
