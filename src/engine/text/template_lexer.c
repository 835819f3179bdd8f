#include "engine/text/template_lexer.h"

#include "engine/text/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Lexer
{
	Arena *arena;
	InferError *err;
	const char *source;
	size_t n_bytes;
	size_t at;
	int line;
	bool line_starts; /* what comes next stands at the start of a line */
	LexTokens out;
	size_t capacity;
} Lexer;

static bool
lex_fail(Lexer *lexer, const char *what)
{
	return fail(lexer->err, INFER_BAD_INPUT, "chat template is not valid: %s\nLine %d.", what,
				lexer->line);
}

static bool
token_add(Lexer *lexer, LexToken token)
{
	if (lexer->out.n_tokens == lexer->capacity)
	{
		size_t capacity = lexer->capacity > 0 ? 2 * lexer->capacity : 256;
		LexToken *grown = arena_alloc_array(lexer->arena, capacity, sizeof(*grown));

		if (grown == NULL)
			return fail(lexer->err, INFER_LIMIT, "chat template is too large");
		if (lexer->out.n_tokens > 0)
			memcpy(grown, lexer->out.tokens, lexer->out.n_tokens * sizeof(*grown));
		lexer->out.tokens = grown;
		lexer->capacity = capacity;
	}
	token.line = lexer->line;
	lexer->out.tokens[lexer->out.n_tokens++] = token;
	return true;
}

static void
lines_count(Lexer *lexer, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		lexer->line += lexer->source[i] == '\n';
}

static bool
starts_with(const Lexer *lexer, size_t at, const char *text)
{
	size_t n = strlen(text);

	return n <= lexer->n_bytes - at && memcmp(lexer->source + at, text, n) == 0;
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

/* ---- inside a tag ---- */

static bool
is_name_start(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int
hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* \xHH, \uHHHH, \UHHHHHHHH: the digits behind the letter; returns their number, 0 if malformed. */
static size_t
hex_escape(const Lexer *lexer, size_t at, size_t end, uint32_t *codepoint)
{
	size_t n = lexer->source[at - 1] == 'x' ? 2 : lexer->source[at - 1] == 'u' ? 4 : 8;

	*codepoint = 0;
	if (n > end - at)
		return 0;
	for (size_t i = 0; i < n; i++)
	{
		int digit = hex_value(lexer->source[at + i]);

		if (digit < 0 || *codepoint > 0x10ffff)
			return 0;
		*codepoint = *codepoint << 4 | (uint32_t) digit;
	}
	return *codepoint > 0x10ffff || (*codepoint >= 0xd800 && *codepoint < 0xe000) ? 0 : n;
}

/* The escape behind a backslash at `at`; returns the bytes it takes of the source. */
static size_t
escape_resolve(const Lexer *lexer, size_t at, size_t end, char *to, size_t *n_to)
{
	static const char names[] = "ntrbfav0\n";
	static const char values[] = "\n\t\r\b\f\a\v\0";
	char c = lexer->source[at];
	const char *found = memchr(names, c, sizeof(names) - 2);
	uint32_t codepoint;
	size_t n;

	if (c == '\n')
		return 1;
	if (found != NULL)
	{
		to[(*n_to)++] = values[found - names];
		return 1;
	}
	if (c == 'x' || c == 'u' || c == 'U')
	{
		n = hex_escape(lexer, at + 1, end, &codepoint);
		if (n > 0)
		{
			*n_to += (size_t) utf8_encode(codepoint, to + *n_to);
			return n + 1;
		}
	}
	if (c != '\\' && c != '\'' && c != '"')
		to[(*n_to)++] = '\\'; /* not an escape: the backslash stands for itself */
	to[(*n_to)++] = c;
	return 1;
}

static bool
string_lex(Lexer *lexer)
{
	char quote = lexer->source[lexer->at];
	size_t end = lexer->at + 1;
	size_t n = 0;
	char *text;

	while (end < lexer->n_bytes && lexer->source[end] != quote)
		end += lexer->source[end] == '\\' ? 2 : 1;
	if (end >= lexer->n_bytes)
		return lex_fail(lexer, "a string has no end");
	/* no escape is longer than what it stands for, but for the backslash that stays */
	text = arena_alloc(lexer->arena, 2 * (end - lexer->at) + 4);
	if (text == NULL)
		return fail(lexer->err, INFER_LIMIT, "chat template is too large");
	for (size_t i = lexer->at + 1; i < end;)
	{
		if (lexer->source[i] == '\\')
			i += 1 + escape_resolve(lexer, i + 1, end, text, &n);
		else
			text[n++] = lexer->source[i++];
	}
	lines_count(lexer, lexer->at, end);
	lexer->at = end + 1;
	return token_add(lexer, (LexToken){ .kind = TOKEN_STRING, .text = text, .n_bytes = n });
}

static bool
number_lex(Lexer *lexer)
{
	char digits[64];
	size_t n = 0;
	bool is_real = false;
	LexToken token = { .kind = TOKEN_INTEGER };

	for (; lexer->at < lexer->n_bytes; lexer->at++)
	{
		char c = lexer->source[lexer->at];
		bool next_is_digit =
			lexer->at + 1 < lexer->n_bytes && is_digit(lexer->source[lexer->at + 1]);

		if (c == '_' && next_is_digit)
			continue;
		if (c == '.' && next_is_digit && !is_real)
			is_real = true;
		else if ((c == 'e' || c == 'E') && next_is_digit)
			is_real = true;
		else if (!is_digit(c))
			break;
		if (n + 1 >= sizeof(digits))
			return lex_fail(lexer, "a number is too long");
		digits[n++] = c;
	}
	digits[n] = '\0';
	errno = 0;
	if (is_real)
	{
		token.kind = TOKEN_REAL;
		token.real = strtod(digits, NULL);
	}
	else
		token.integer = strtoll(digits, NULL, 10);
	if (errno != 0)
		return lex_fail(lexer, "a number is too large");
	return token_add(lexer, token);
}

static bool
operator_lex(Lexer *lexer)
{
	static const char *const operators[] = { "**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
											 "/",  "%",	 "~",  "<",	 ">",  "=",	 "(", ")", "[",
											 "]",  "{",	 "}",  ",",	 ":",  ".",	 "|", ";" };

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
	{
		size_t n = strlen(operators[i]);

		if (!starts_with(lexer, lexer->at, operators[i]))
			continue;
		lexer->at += n;
		return token_add(lexer,
						 (LexToken){ .kind = TOKEN_OPERATOR, .text = operators[i], .n_bytes = n });
	}
	return lex_fail(lexer, "an unexpected character stands in a tag");
}

static bool
expression_token_lex(Lexer *lexer)
{
	char c = lexer->source[lexer->at];
	size_t start = lexer->at;

	if (is_name_start((unsigned char) c))
	{
		while (lexer->at < lexer->n_bytes &&
			   (is_name_start((unsigned char) lexer->source[lexer->at]) ||
				is_digit(lexer->source[lexer->at])))
			lexer->at++;
		return token_add(lexer, (LexToken){ .kind = TOKEN_NAME,
											.text = lexer->source + start,
											.n_bytes = lexer->at - start });
	}
	if (is_digit(c))
		return number_lex(lexer);
	if (c == '"' || c == '\'')
		return string_lex(lexer);
	return operator_lex(lexer);
}

/* Behind a tag's end: what white space goes. */
static void
tag_trim_after(Lexer *lexer, char mark, bool is_block)
{
	size_t from = lexer->at;

	if (mark == '-')
		while (lexer->at < lexer->n_bytes && is_space(lexer->source[lexer->at]))
			lexer->at++;
	else if (is_block && mark != '+' && starts_with(lexer, lexer->at, "\n"))
		lexer->at++;
	lines_count(lexer, from, lexer->at);
	lexer->line_starts = lexer->at > from && lexer->source[lexer->at - 1] == '\n';
}

/* The tag's end at `at`, with its mark; 0: it is none. Brackets hide "}}" of a dict. */
static size_t
tag_end_length(const Lexer *lexer, const char *end, int n_brackets, char *mark)
{
	char c = lexer->source[lexer->at];

	*mark = 0;
	if ((c == '-' || c == '+') && starts_with(lexer, lexer->at + 1, end))
	{
		*mark = c;
		return 3;
	}
	return n_brackets == 0 && starts_with(lexer, lexer->at, end) ? 2 : 0;
}

static bool
tag_lex(Lexer *lexer, bool is_block)
{
	const char *end = is_block ? "%}" : "}}";
	int n_brackets = 0;

	if (!token_add(lexer, (LexToken){ .kind = is_block ? TOKEN_BLOCK_START : TOKEN_PRINT_START }))
		return false;
	for (;;)
	{
		char mark;
		size_t n;

		while (lexer->at < lexer->n_bytes && is_space(lexer->source[lexer->at]))
			lexer->line += lexer->source[lexer->at++] == '\n';
		if (lexer->at >= lexer->n_bytes)
			return lex_fail(lexer, "a tag has no end");
		n = tag_end_length(lexer, end, n_brackets, &mark);
		if (n > 0)
		{
			lexer->at += n;
			if (!token_add(lexer,
						   (LexToken){ .kind = is_block ? TOKEN_BLOCK_END : TOKEN_PRINT_END }))
				return false;
			tag_trim_after(lexer, mark, is_block);
			return true;
		}
		n_brackets += strchr("([{", lexer->source[lexer->at]) != NULL;
		if (strchr(")]}", lexer->source[lexer->at]) != NULL && n_brackets > 0)
			n_brackets--;
		if (!expression_token_lex(lexer))
			return false;
	}
}

/* ---- text between tags ---- */

/* Text up to a tag at `end`, less the blanks that the tag takes. */
static bool
text_add(Lexer *lexer, size_t end, char mark, bool strips)
{
	size_t start = lexer->at;
	size_t kept = end;

	if (mark == '-')
		while (kept > start && is_space(lexer->source[kept - 1]))
			kept--;
	else if (strips && mark != '+')
	{
		size_t line = end;

		while (line > start && (lexer->source[line - 1] == ' ' || lexer->source[line - 1] == '\t'))
			line--;
		if (line == start ? lexer->line_starts : lexer->source[line - 1] == '\n')
			kept = line;
	}
	if (kept > start && !token_add(lexer, (LexToken){ .kind = TOKEN_TEXT,
													  .text = lexer->source + start,
													  .n_bytes = kept - start }))
		return false;
	lines_count(lexer, start, end);
	lexer->line_starts = end > start && lexer->source[end - 1] == '\n';
	lexer->at = end;
	return true;
}

static bool
comment_skip(Lexer *lexer)
{
	const char *from = lexer->source + lexer->at;
	const char *end = memmem(from, lexer->n_bytes - lexer->at, "#}", 2);
	size_t start = lexer->at;
	char mark;

	if (end == NULL)
		return lex_fail(lexer, "a comment has no end");
	mark = end > from && (end[-1] == '-' || end[-1] == '+') ? end[-1] : 0;
	lexer->at = (size_t) (end - lexer->source) + 2;
	lines_count(lexer, start, lexer->at);
	tag_trim_after(lexer, mark, true);
	return true;
}

/* "{% raw %}" at `at`? Then its text up to "{% endraw %}" is taken as it is. */
static size_t
raw_tag_length(const Lexer *lexer, size_t at, const char *name, char *before, char *after)
{
	size_t i = at + 2;

	*before = *after = 0;
	if (!starts_with(lexer, at, "{%"))
		return 0;
	if (i < lexer->n_bytes && (lexer->source[i] == '-' || lexer->source[i] == '+'))
		*before = lexer->source[i++];
	while (i < lexer->n_bytes && is_space(lexer->source[i]))
		i++;
	if (i >= lexer->n_bytes || !starts_with(lexer, i, name))
		return 0;
	i += strlen(name);
	while (i < lexer->n_bytes && is_space(lexer->source[i]))
		i++;
	if (i < lexer->n_bytes && (lexer->source[i] == '-' || lexer->source[i] == '+'))
		*after = lexer->source[i++];
	return i < lexer->n_bytes && starts_with(lexer, i, "%}") ? i + 2 - at : 0;
}

static bool
raw_lex(Lexer *lexer, size_t tag_bytes, char after)
{
	size_t from = lexer->at;

	lexer->at += tag_bytes;
	lines_count(lexer, from, lexer->at);
	tag_trim_after(lexer, after, true);
	for (size_t at = lexer->at; at < lexer->n_bytes; at++)
	{
		char before;
		size_t n = raw_tag_length(lexer, at, "endraw", &before, &after);

		if (n == 0)
			continue;
		if (!text_add(lexer, at, before, true))
			return false;
		lexer->at += n;
		lines_count(lexer, at, lexer->at);
		tag_trim_after(lexer, after, true);
		return true;
	}
	return lex_fail(lexer, "a raw block has no end");
}

/* The next "{{", "{%" or "{#"; n_bytes when there is none. */
static size_t
tag_find(const Lexer *lexer)
{
	for (size_t at = lexer->at; at + 1 < lexer->n_bytes; at++)
		if (lexer->source[at] == '{' && strchr("{%#", lexer->source[at + 1]) != NULL &&
			lexer->source[at + 1] != '\0')
			return at;
	return lexer->n_bytes;
}

static bool
template_walk(Lexer *lexer)
{
	while (lexer->at < lexer->n_bytes)
	{
		size_t tag = tag_find(lexer);
		char kind = tag < lexer->n_bytes ? lexer->source[tag + 1] : 0;
		char mark = tag + 2 < lexer->n_bytes ? lexer->source[tag + 2] : 0;
		char before;
		char after;
		size_t raw;

		mark = mark == '-' || mark == '+' ? mark : 0;
		if (!text_add(lexer, tag, mark, kind == '%' || kind == '#'))
			return false;
		if (kind == 0)
			break;
		raw = raw_tag_length(lexer, tag, "raw", &before, &after);
		if (raw > 0)
		{
			if (!raw_lex(lexer, raw, after))
				return false;
			continue;
		}
		lexer->at += mark != 0 ? 3 : 2;
		if (kind == '#' ? !comment_skip(lexer) : !tag_lex(lexer, kind == '%'))
			return false;
	}
	return token_add(lexer, (LexToken){ .kind = TOKEN_END });
}

/* "\r\n" and "\r" are line ends too; and one line end at the very end does not count. */
static char *
source_normalize(Arena *arena, const char *source, size_t *n_bytes)
{
	char *copy = arena_alloc(arena, *n_bytes + 1);
	size_t n = 0;

	if (copy == NULL)
		return NULL;
	for (size_t i = 0; i < *n_bytes; i++)
	{
		if (source[i] == '\r' && i + 1 < *n_bytes && source[i + 1] == '\n')
			continue;
		copy[n++] = source[i] == '\r' ? '\n' : source[i];
	}
	if (n > 0 && copy[n - 1] == '\n')
		n--;
	*n_bytes = n;
	return copy;
}

bool
template_lex(Arena *arena, const char *source, size_t n_bytes, LexTokens *out, InferError *err)
{
	Lexer lexer = {
		.arena = arena, .err = err, .n_bytes = n_bytes, .line = 1, .line_starts = true
	};

	lexer.source = source_normalize(arena, source, &lexer.n_bytes);
	if (lexer.source == NULL)
		return fail(err, INFER_LIMIT, "chat template is too large");
	if (!template_walk(&lexer))
		return false;
	*out = lexer.out;
	return true;
}
