#include "engine/text/utf8.h"

#include "engine/text/tokenizer.h"

#include <string.h>

static const char replacement[3] = { (char) 0xef, (char) 0xbf, (char) 0xbd }; /* U+FFFD */

int
utf8_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* The second byte is bounded more narrowly behind four of the first bytes. */
bool
utf8_continues(const unsigned char *bytes, int n, unsigned char next)
{
	if (next < 0x80 || next > 0xbf)
		return false;
	if (n > 1)
		return true;
	switch (bytes[0])
	{
		case 0xe0:
			return next >= 0xa0;
		case 0xed:
			return next < 0xa0;
		case 0xf0:
			return next >= 0x90;
		case 0xf4:
			return next < 0x90;
		default:
			return true;
	}
}

int
utf8_encode(uint32_t codepoint, char *out)
{
	if (codepoint < 0x80)
	{
		out[0] = (char) codepoint;
		return 1;
	}
	if (codepoint < 0x800)
	{
		out[0] = (char) (0xc0 | codepoint >> 6);
		out[1] = (char) (0x80 | (codepoint & 0x3f));
		return 2;
	}
	if (codepoint < 0x10000)
	{
		out[0] = (char) (0xe0 | codepoint >> 12);
		out[1] = (char) (0x80 | (codepoint >> 6 & 0x3f));
		out[2] = (char) (0x80 | (codepoint & 0x3f));
		return 3;
	}
	out[0] = (char) (0xf0 | codepoint >> 18);
	out[1] = (char) (0x80 | (codepoint >> 12 & 0x3f));
	out[2] = (char) (0x80 | (codepoint >> 6 & 0x3f));
	out[3] = (char) (0x80 | (codepoint & 0x3f));
	return 4;
}

uint32_t
utf8_decode(const char *text, size_t n_left, int *n_bytes)
{
	static const unsigned char first_bits[5] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	const unsigned char *bytes = (const unsigned char *) text;
	int n = utf8_length(bytes[0]);
	uint32_t codepoint;

	*n_bytes = 1;
	if (n == 0 || (size_t) n > n_left)
		return 0xfffd;
	codepoint = bytes[0] & first_bits[n];
	for (int i = 1; i < n; i++)
	{
		if (!utf8_continues(bytes, i, bytes[i]))
			return 0xfffd;
		codepoint = codepoint << 6 | (bytes[i] & 0x3f);
	}
	*n_bytes = n;
	return codepoint;
}

/* ---- Utf8Stream (tokenizer.h) ---- */

static size_t
replacement_write(char *out)
{
	memcpy(out, replacement, sizeof(replacement));
	return sizeof(replacement);
}

size_t
utf8_stream_push(Utf8Stream *stream, const char *bytes, size_t n_bytes, char *out)
{
	size_t n_out = 0;

	for (size_t i = 0; i < n_bytes; i++)
	{
		unsigned char byte = (unsigned char) bytes[i];

		if (stream->n_pending > 0 &&
			!utf8_continues(stream->pending, (int) stream->n_pending, byte))
		{
			n_out += replacement_write(out + n_out);
			stream->n_pending = 0;
		}
		if (stream->n_pending == 0 && utf8_length(byte) == 0)
		{
			n_out += replacement_write(out + n_out);
			continue;
		}
		stream->pending[stream->n_pending++] = byte;
		if ((int) stream->n_pending == utf8_length(stream->pending[0]))
		{
			memcpy(out + n_out, stream->pending, stream->n_pending);
			n_out += stream->n_pending;
			stream->n_pending = 0;
		}
	}
	return n_out;
}

size_t
utf8_stream_flush(Utf8Stream *stream, char *out)
{
	bool waits = stream->n_pending > 0;

	stream->n_pending = 0;
	return waits ? replacement_write(out) : 0;
}
