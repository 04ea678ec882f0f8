// SPDX-License-Identifier: Apache-2.0
/*
 * t_json_index.c - comments, places and keys given twice; and texts that are no JSON at all, which must be survived.
 *
 * Every text is copied into memory of exactly its length, so that a sanitizer sees a step past its end.
 */
#include "../cmd/json_index.h"
#include "tap.h"

static char *exact(const char *text, size_t len)
{
	char *copy = malloc(len ? len : 1);

	need(copy);
	memcpy(copy, text, len);
	return copy;
}

static int build(struct json_index *ix, const char *text)
{
	size_t len = strlen(text);
	char *copy = exact(text, len);
	int r = json_index_build(ix, copy, len);

	free(copy);
	return r;
}

/* ---- comments ---- */

/* want NULL: the comment that starts at want_off has no end. */
static void blanks(const char *text, const char *want, size_t want_off, const char *name)
{
	size_t len = strlen(text), off = 99;
	char *copy = exact(text, len);
	bool good = json_blank_comments(copy, len, &off);

	if (want)
		ok(good && len == strlen(want) && !memcmp(copy, want, len), "%s", name);
	else
		ok(!good && off == want_off, "%s", name);
	free(copy);
}

static void test_comments(void)
{
	blanks("", "", 0, "an empty text has no comments");
	blanks("1 // a\n2", "1     \n2", 0, "a line comment becomes blanks, its line end stays");
	blanks("1 // a", "1     ", 0, "one that ends with the text too");
	blanks("1//", "1  ", 0, "and an empty one");
	blanks("1/* a\nb */2", "1    \n    2", 0, "so does a block comment, with its lines");
	blanks("/**//**/1", "        1", 0, "one may follow another at once");
	blanks("/*/*/1", "     1", 0, "and its first star does not end it");
	blanks("//a\"\n\"b\"", "    \n\"b\"", 0, "a quote in a comment is no string");
	blanks("/* // */1", "        1", 0, "a line comment in a block comment is none");
	blanks("\"//a\" '/*b'", "\"//a\" '/*b'", 0, "slashes in strings of both kinds stay");
	blanks("\"\\\"//\"", "\"\\\"//\"", 0, "also after an escaped quote");
	blanks("\"\\\\\"//a", "\"\\\\\"   ", 0, "an escaped backslash before a quote is none");
	blanks("'\"'//a", "'\"'   ", 0, "the other kind of quote does not end a string");
	blanks("\"a", "\"a", 0, "a string without an end is left to the parser");
	blanks("\"a\\", "\"a\\", 0, "also one that ends in a backslash");
	blanks("1 / 2 /", "1 / 2 /", 0, "a lone slash is left to the parser");
	blanks("12 /* a", NULL, 3, "a block comment without an end is told, and where");
	blanks("/*", NULL, 0, "so is one that is nothing else");
	blanks("1 /*/", NULL, 2, "or that looks closed");
}

/* ---- places ---- */

static void at(const struct json_index *ix, const char *path, unsigned line, unsigned column)
{
	struct json_place p = json_index_find(ix, path);

	if (!ok(p.line == line && p.column == column, "%s is at %u:%u", path, line, column))
		printf("#   got %u:%u (%s)\n", p.line, p.column, p.path ? p.path : "nothing");
}

static void test_places(void)
{
	struct json_index ix;

	need(!build(&ix, "{\n"
			 "\t\"boot-source\": {\"a\": 1, \"b\": \"{[,:\\\"]}\"},\n"
			 "  \"drives\": [\n"
			 "    {\"id\": true, \"deep\": {\"er\": [1,\n"
			 " 22, {\"x\": null}]}},\n"
			 "    {}, []\n"
			 "  ], 'fs': -1.5e3\n"
			 "}\n"));
	at(&ix, "boot-source", 2, 2);
	at(&ix, "boot-source.a", 2, 18);
	at(&ix, "boot-source.b", 2, 26);
	at(&ix, "drives", 3, 3);
	at(&ix, "drives[0]", 4, 5);
	at(&ix, "drives[0].id", 4, 6);
	at(&ix, "drives[0].deep.er[0]", 4, 34);
	at(&ix, "drives[0].deep.er[1]", 5, 2);
	at(&ix, "drives[0].deep.er[2].x", 5, 7);
	at(&ix, "drives[1]", 6, 5);
	at(&ix, "drives[2]", 6, 9);
	at(&ix, "fs", 7, 6);
	at(&ix, "drives[1].absent", 6, 5);
	at(&ix, "drives[17].id", 3, 3);
	at(&ix, "fs2", 1, 1);
	at(&ix, "f", 1, 1);
	at(&ix, "", 1, 1);
	is(ix.n, 15, "and nothing else is noted");
	ok(!ix.twice, "no key is there twice");
	json_index_free(&ix);
	ok(!ix.place && !ix.n, "freed is empty");
	json_index_free(&ix);

	need(!build(&ix, "{\"a\": [0,1,2,3,4,5,6,7,8,9,10], \"a[1]\": 3}"));
	at(&ix, "a[10]", 1, 28);
	json_index_free(&ix);

	need(!build(&ix, "{}"));
	at(&ix, "a", 1, 1);
	json_index_free(&ix);
	need(!build(&ix, ""));
	is(ix.n, 0, "an empty text has no places");
	json_index_free(&ix);
}

static void test_offsets(void)
{
	static const struct {
		size_t off;
		unsigned line, column;
	} cases[] = {{0, 1, 1}, {1, 1, 2}, {2, 1, 3}, {3, 2, 1}, {4, 3, 1}, {6, 3, 3}};

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned line, column;

		json_offset_place("ab\n\ncd", cases[i].off, &line, &column);
		ok(line == cases[i].line && column == cases[i].column, "byte %zu is at %u:%u",
		   cases[i].off, cases[i].line, cases[i].column);
	}
}

/* ---- twice ---- */

static void twice(const char *text, const char *path, unsigned line, unsigned column)
{
	struct json_index ix;

	need(!build(&ix, text));
	if (!path)
		ok(!ix.twice, "nothing is twice in %s", text);
	else if (!ok(ix.twice && !strcmp(ix.twice->path, path) && ix.twice->line == line &&
			     ix.twice->column == column,
		     "%s is there twice, at %u:%u", path, line, column))
		printf("#   got %s\n", ix.twice ? ix.twice->path : "nothing");
	json_index_free(&ix);
}

static void test_twice(void)
{
	twice("{\"a\": 1, \"a\": 2}", "a", 1, 10);
	twice("{\"a\": 1,\n\"a\": 2,\n\"a\": 3}", "a", 2, 1);
	twice("{\"x\": [{}, {\"b\": 1, \"c\": 2, \"b\": 1}]}", "x[1].b", 1, 29);
	twice("{\"z\": 1, \"z\": 1, \"a\": 1, \"a\": 1}", "z", 1, 10);
	twice("{\"z\": 1,\n\"z\": 1,\n\"a\": 1,\n  \"a\": 1}", "z", 2, 1);
	twice("{\"a\": {\"b\": 1}, \"a\": {\"b\": 1}}", "a", 1, 17);
	twice("{\"a\": {\"c\": 1}, \"b\": {\"c\": 1}, \"d\": [1, 1]}", NULL, 0, 0);
	twice("{\"a\": \"a\", \"A\": 1, \"ab\": 1, \"\": 1}", NULL, 0, 0);
}

/* ---- limits ---- */

static char *nested(unsigned depth)
{
	char *text = calloc(1, 2 * depth + 1);

	need(text);
	memset(text, '[', depth);
	memset(text + depth, ']', depth);
	return text;
}

static void test_limits(void)
{
	char *deepest = nested(JSON_DEPTH_MAX), *deeper = nested(JSON_DEPTH_MAX + 1);
	char *big, long_key[1500];
	struct json_index ix;

	is(build(&ix, deepest), 0, "a text of the greatest depth is indexed");
	json_index_free(&ix);
	is(build(&ix, deeper), -EINVAL, "a deeper one is refused");
	ok(!ix.place && !ix.n, "and nothing is left of it");
	free(deepest);
	free(deeper);

	big = malloc(MIB(1) + 1);
	need(big);
	for (unsigned i = 0; i < MIB(1); i++)
		big[i] = "0,"[i % 2];
	memcpy(big, "{\"a\":[", 6);
	memcpy(big + MIB(1) - 2, "]}", 3);
	is(build(&ix, big), 0, "a mebibyte of numbers is indexed");
	is(ix.n, (MIB(1) - 8) / 2 + 1, "each of them");
	at(&ix, "a[500000]", 1, 1000007);
	json_index_free(&ix);
	free(big);

	memset(long_key, 'k', sizeof(long_key) - 1);
	long_key[sizeof(long_key) - 1] = 0;
	need(asprintf(&big, "{\"b\": {\"%s\": {\"c\": 1}}}", long_key) > 0);
	is(build(&ix, big), 0, "a key longer than a path is cut");
	at(&ix, "b.other", 1, 2);
	json_index_free(&ix);
	free(big);
}

/* ---- what no parser took ---- */

/* It ends, steps nowhere a sanitizer sees, and whatever it says is within the text. */
static bool survives(const char *text, size_t len)
{
	char *copy = exact(text, len);
	struct json_index ix = {0};
	size_t off = 0;
	bool good = true;

	if (!json_blank_comments(copy, len, &off)) {
		good = off + 2 <= len && !memcmp(copy + off, "/*", 2);
	} else if (!json_index_build(&ix, copy, len)) {
		good = ix.n <= len;
		for (unsigned i = 0; i < ix.n; i++)
			good = good && ix.place[i].line + ix.place[i].column <= len + 2;
		json_index_free(&ix);
	}
	free(copy);
	return good;
}

static void test_garbage(void)
{
	static const char text[] = "{'a\\'': [1, {\"b\\\\\": /* c */ \"d\"}], // e\n \"f\": -1.5}";
	static const char bytes[] = "{}[]\"',:\\/*\n1a\0\xff";
	char soup[24];
	unsigned seed = 1, bad = 0;

	for (size_t n = 0; n < sizeof(text); n++)
		bad += !survives(text, n);
	is(bad, 0, "every beginning of a text is survived");
	for (unsigned i = 0; i < sizeof(bytes) * sizeof(bytes) * sizeof(bytes); i++) {
		soup[0] = bytes[i % sizeof(bytes)];
		soup[1] = bytes[i / sizeof(bytes) % sizeof(bytes)];
		soup[2] = bytes[i / sizeof(bytes) / sizeof(bytes)];
		bad += !survives(soup, 3);
	}
	is(bad, 0, "so are all texts of three such bytes");
	for (unsigned i = 0; i < 100000; i++) {
		for (unsigned k = 0; k < sizeof(soup); k++) {
			seed = seed * 1103515245 + 12345;
			soup[k] = bytes[(seed >> 16) % sizeof(bytes)];
		}
		bad += !survives(soup, sizeof(soup));
	}
	is(bad, 0, "and many longer ones");
}

int main(void)
{
	test_comments();
	test_places();
	test_offsets();
	test_twice();
	test_limits();
	test_garbage();
	return done();
}
