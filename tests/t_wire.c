// SPDX-License-Identifier: Apache-2.0
/*
 * t_wire.c - strings and names on a cursor (hard cases A10, D8, D62).
 */
#include "tap.h"
#include "../devices/wire.h"

/* A cursor on n bytes in pieces of at most piece bytes, with an empty one between each two. */
static struct cursor pieces(const void *p, size_t n, size_t piece, struct iovec *iov)
{
	unsigned k = 0;

	for (size_t at = 0; at < n; at += piece) {
		iov[k++] = (struct iovec){(char *)p + at, MIN(piece, n - at)};
		iov[k++] = (struct iovec){(char *)p + at, 0};
	}
	return cursor_of(iov, k);
}

static int name_of(const void *p, size_t n, struct name *name)
{
	struct iovec iov = {(void *)p, n};
	struct cursor c = cursor_of(&iov, 1);

	return wire_name(&c, name);
}

static void test_strings(void)
{
	struct iovec iov[64];
	char buf[8];

	for (size_t piece = 1; piece <= 12; piece++) {
		struct cursor c = pieces("ab\0cdefg\0", 9, piece, iov);

		memset(buf, 'x', sizeof(buf));
		is(wire_cstr(&c, buf, sizeof(buf)), 2, "a string in pieces of %zu is read", piece);
		ok(!strcmp(buf, "ab"), "it is what was sent");
		is(c.left, 6, "and no byte more is taken");
		is(wire_cstr(&c, buf, sizeof(buf)), 5, "so is the one behind it");
		ok(!strcmp(buf, "cdefg") && !c.left && !c.err, "to the end of the message");
	}
}

static void test_bounds(void)
{
	struct iovec iov[64];
	struct cursor c;
	char buf[5] = "xxxx";

	c = pieces("abcd", 5, 2, iov);
	is(wire_cstr(&c, buf, sizeof(buf)), 4, "a string may fill its buffer");
	c = pieces("abcde", 6, 2, iov);
	is(wire_cstr(&c, buf, sizeof(buf)), -ENAMETOOLONG, "one byte more is too long");
	ok(!buf[0], "and leaves an empty string behind");
	is(c.left, 6, "and the cursor where it was");
	c = pieces("abcd", 4, 2, iov);
	is(wire_cstr(&c, buf, sizeof(buf)), -EINVAL, "a string that does not end is refused");
	ok(!buf[0], "and leaves an empty string behind");
	c = pieces("abcd\0", 5, 5, iov);
	cursor_trim(&c, 3);
	is(wire_cstr(&c, buf, sizeof(buf)), -EINVAL, "also if it ends behind the message");
	c = pieces("", 0, 1, iov);
	is(wire_cstr(&c, buf, sizeof(buf)), -EINVAL, "an empty message has no string");
	c = pieces("a", 2, 1, iov);
	cursor_skip(&c, 3);
	is(wire_cstr(&c, buf, sizeof(buf)), -EINVAL, "nor has one that did not fit before");
	c = pieces("", 1, 1, iov);
	is(wire_cstr(&c, buf, sizeof(buf)), 0, "an empty string is one");
}

static void test_names(void)
{
	static const struct {
		const char *s;
		size_t n;
		int want;
		const char *what;
	} cases[] = {
		{"a", 2, 0, "a letter"},
		{"...", 4, 0, "three dots"},
		{".a", 3, 0, "a dot first"},
		{" ", 2, 0, "a blank"},
		{"\n\xff\x01", 4, 0, "odd bytes"},
		{"", 1, -EINVAL, "the empty name"},
		{".", 2, -EINVAL, "the directory itself"},
		{"..", 3, -EINVAL, "the parent"},
		{"/", 2, -EINVAL, "the root"},
		{"a/b", 4, -EINVAL, "a path"},
		{"a/", 3, -EINVAL, "a slash last"},
		{"../a", 5, -EINVAL, "a way out"},
		{"abc", 3, -EINVAL, "a name that does not end"},
		{"", 0, -EINVAL, "nothing"},
	};
	struct name name;

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		is(name_of(cases[i].s, cases[i].n, &name), cases[i].want, "%s is %s", cases[i].what,
		   cases[i].want ? "refused" : "a name");
		if (!cases[i].want)
			ok(!strcmp(name.s, cases[i].s), "and comes through unchanged");
	}
}

static void test_lengths(void)
{
	char s[4100];
	struct name name;

	for (size_t n = 250; n < 270; n++) {
		memset(s, 'n', sizeof(s));
		s[n] = 0;
		is(name_of(s, n + 1, &name), n <= 255 ? 0 : -ENAMETOOLONG, "%zu bytes are %s", n,
		   n <= 255 ? "a name" : "too long");
		is(name_of(s, n, &name), n < 257 ? -EINVAL : -ENAMETOOLONG,
		   "%zu bytes that do not end are refused", n);
	}
	memset(s, 'n', sizeof(s));
	s[sizeof(s) - 1] = 0;
	is(name_of(s, sizeof(s), &name), -ENAMETOOLONG, "a page is too long");
}

int main(void)
{
	test_strings();
	test_bounds();
	test_names();
	test_lengths();
	return done();
}
