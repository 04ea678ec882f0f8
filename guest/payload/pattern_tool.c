// SPDX-License-Identifier: Apache-2.0
/*
 * pattern_tool.c - the host's side of pattern.h.
 *
 *   pattern make FILE SIZE                  a new file that follows the rule with seed 0
 *   pattern check FILE [OFF LEN [SEED]]     status 0 if all its bytes (or that range) follow the rule
 *
 * Numbers may end in k or M. What is wrong is one line on stderr.
 */
#include "pattern.h"
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t buf[1 << 20];

static uint64_t number(const char *s)
{
	char *end;
	uint64_t v = strtoull(s, &end, 0);

	if (*end == 'k' || *end == 'M')
		v <<= *end++ == 'k' ? 10 : 20;
	if (end == s || *end)
		errx(2, "%s: not a number", s);
	return v;
}

static void make(const char *path, uint64_t size)
{
	FILE *f = fopen(path, "w");

	if (!f)
		err(1, "%s", path);
	for (uint64_t off = 0, n; off < size; off += n) {
		n = size - off < sizeof(buf) ? size - off : sizeof(buf);
		pattern_fill(buf, n, 0, off);
		if (fwrite(buf, 1, n, f) != n)
			err(1, "%s", path);
	}
	if (fclose(f))
		err(1, "%s", path);
}

static void check(const char *path, uint64_t off, uint64_t len, uint32_t seed)
{
	FILE *f = fopen(path, "r");

	if (!f || fseek(f, (long)off, SEEK_SET))
		err(1, "%s", path);
	for (uint64_t n; len; off += n, len -= n) {
		size_t good;

		n = fread(buf, 1, len < sizeof(buf) ? len : sizeof(buf), f);
		if (!n && len != UINT64_MAX)
			errx(1, "%s: ends at %llu", path, (unsigned long long)off);
		if (!n)
			break;
		good = pattern_check(buf, n, seed, off);
		if (good != n)
			errx(1, "%s: wrong data at %llu", path, (unsigned long long)(off + good));
		if (len == UINT64_MAX)
			len += n;
	}
	fclose(f);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "make"))
		make(argv[2], number(argv[3]));
	else if (argc == 3 && !strcmp(argv[1], "check"))
		check(argv[2], 0, UINT64_MAX, 0);
	else if ((argc == 5 || argc == 6) && !strcmp(argv[1], "check"))
		check(argv[2], number(argv[3]), number(argv[4]),
		      argc == 6 ? (uint32_t)number(argv[5]) : 0);
	else
		errx(2, "usage: pattern make FILE SIZE | check FILE [OFF LEN [SEED]]");
	return 0;
}
