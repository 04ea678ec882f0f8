// SPDX-License-Identifier: Apache-2.0
/*
 * text.c - words of the command line, and random numbers.
 */
#include "payload.h"

bool text_equal(const char *a, const char *b)
{
	return strlen(a) == strlen(b) && text_begins(a, b);
}

bool text_begins(const char *s, const char *prefix)
{
	while (*prefix && *s == *prefix)
		s++, prefix++;
	return !*prefix;
}

static unsigned digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	c |= 32;
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 99;
}

uint64_t text_number(const char *s, const char **end)
{
	bool hex = s[0] == '0' && (s[1] | 32) == 'x';
	unsigned base = hex ? 16 : 10;
	uint64_t v = 0;

	for (s += hex ? 2 : 0; digit(*s) < base; s++)
		v = v * base + digit(*s);
	if ((*s | 32) == 'k')
		v <<= 10, s++;
	else if ((*s | 32) == 'm')
		v <<= 20, s++;
	else if ((*s | 32) == 'g')
		v <<= 30, s++;
	if (end)
		*end = s;
	return v;
}

const char *text_item(const char *s, char *buf, size_t cap)
{
	size_t n = 0;

	while (*s && *s != ',' && n + 1 < cap)
		buf[n++] = *s++;
	buf[n] = 0;
	return *s == ',' ? s + 1 : NULL;
}

/* Marsaglia's xorshift64; the same numbers in every run. */
uint32_t random_u32(void)
{
	static uint64_t x;

	x = x ? x : 0x9e3779b97f4a7c15;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

uint32_t random_below(uint32_t n)
{
	return (uint32_t)((uint64_t)random_u32() * n >> 32);
}
