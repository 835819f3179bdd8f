/*
 * utf8.h: what a byte may be inside UTF-8 (RFC 3629: no surrogates, nothing past U+10FFFF, no
 * overlong form). Pure functions, any thread.
 */
#ifndef INFER_ENGINE_UTF8_H
#define INFER_ENGINE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that starts with this byte: 1 .. 4, or 0 when none does. */
extern int utf8_length(unsigned char first);

/* Whether `next` may follow the n (1 .. 3) bytes of an unfinished character. */
extern bool utf8_continues(const unsigned char *bytes, int n, unsigned char next);

/* Appends the character to out (room for 4 bytes); returns the number of bytes. */
extern int utf8_encode(uint32_t codepoint, char *out);

/* The character at text, its bytes in *n_bytes; invalid bytes give U+FFFD and one byte. */
extern uint32_t utf8_decode(const char *text, size_t n_left, int *n_bytes);

#endif
