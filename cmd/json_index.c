// SPDX-License-Identifier: Apache-2.0
/*
 * json_index.c - a recursive walk over JSON text that remembers where things are.
 *
 * It trusts that the parser library took the text, so it checks no grammar; but on any bytes it ends, never runs past
 * them and never recurses deeper than JSON_DEPTH_MAX. Both kinds of quotes are strings, as for that library. Keys are
 * compared as they are written: one that hides behind \u escapes is a key of its own here.
 * Start-up code: no threads, nothing from the guest. Calls: libc only.
 */
#include "json_index.h"
#include <stdio.h>

#define PATH_LEN 512

struct walk {
	struct json_index *ix;
	const char *p, *end;
	/* Everything before counted stands before line and column: a text is counted once, not once per key. */
	const char *counted;
	unsigned line, column;
	char path[PATH_LEN];
	size_t path_len;
	unsigned depth;
	int err;
};

static void count(const char *from, const char *to, unsigned *line, unsigned *column)
{
	for (; from < to; from++) {
		++*column;
		if (*from == '\n') {
			++*line;
			*column = 1;
		}
	}
}

void json_offset_place(const char *text, size_t off, unsigned *line, unsigned *column)
{
	*line = *column = 1;
	count(text, text + off, line, column);
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'';
}

/* Past the quote that closes the one at p, or end if none does: the parser says that better. */
static const char *string_end(const char *p, const char *end)
{
	const char *q = p + 1;

	while (q < end && *q != *p)
		q += *q == '\\' && q + 1 < end ? 2 : 1;
	return q < end ? q + 1 : end;
}

/* ---- comments ---- */

/* Past the comment at p, the line end of a // left out; p if there is no comment, NULL if it has no end. */
static const char *comment_end(const char *p, const char *end)
{
	const char *q;

	if (*p != '/' || p + 1 == end || (p[1] != '/' && p[1] != '*'))
		return p;
	if (p[1] == '/') {
		q = memchr(p, '\n', (size_t)(end - p));
		return q ? q : end;
	}
	q = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
	return q ? q + 2 : NULL;
}

static void blank(char *p, const char *end)
{
	for (; p < end; p++)
		if (*p != '\n')
			*p = ' ';
}

bool json_blank_comments(char *text, size_t len, size_t *off)
{
	const char *end = text + len, *next;

	for (char *p = text; p < end;) {
		next = comment_end(p, end);
		if (!next) {
			*off = (size_t)(p - text);
			return false;
		}
		if (next == p)
			next = is_quote(*p) ? string_end(p, end) : p + 1;
		else
			blank(p, next);
		p += next - p;
	}
	return true;
}

/* ---- the walk ---- */

/* The value of w->path, or its key, stands at at. */
static void note(struct walk *w, const char *at)
{
	struct json_index *ix = w->ix;
	struct json_place *pl;

	if (ix->n == ix->cap) {
		unsigned cap = ix->cap ? ix->cap * 2 : 64;
		struct json_place *bigger = realloc(ix->place, cap * sizeof(*bigger));

		if (!bigger) {
			w->err = -ENOMEM;
			return;
		}
		ix->place = bigger;
		ix->cap = cap;
	}
	count(w->counted, at, &w->line, &w->column);
	w->counted = at;
	pl = &ix->place[ix->n];
	*pl = (struct json_place){.path = strdup(w->path), .line = w->line, .column = w->column};
	if (pl->path)
		ix->n++;
	else
		w->err = -ENOMEM;
}

/* Blanks, and what stands between values: no grammar is checked. */
static void skip_between(struct walk *w)
{
	while (w->p < w->end && *w->p && strchr(" \t\r\n,:", *w->p))
		w->p++;
}

/* Longer paths than the buffer are cut: their messages then name a parent. */
static void path_add(struct walk *w, const char *s, size_t n)
{
	n = MIN(n, PATH_LEN - 1 - w->path_len);
	memcpy(w->path + w->path_len, s, n);
	w->path_len += n;
	w->path[w->path_len] = 0;
}

static void path_cut(struct walk *w, size_t len)
{
	w->path_len = len;
	w->path[len] = 0;
}

static void walk_key(struct walk *w)
{
	const char *at = w->p, *key = at + 1;

	w->p = string_end(at, w->end);
	path_add(w, ".", w->path_len ? 1 : 0);
	path_add(w, key, w->p > key ? (size_t)(w->p - key - 1) : 0);
	note(w, at);
	skip_between(w);
}

static void walk_element(struct walk *w, unsigned i)
{
	char element[16];

	snprintf(element, sizeof(element), "[%u]", i);
	path_add(w, element, strlen(element));
	note(w, w->p);
}

static void walk_value(struct walk *w);

/* At a bracket or brace: moves past the one that closes it. */
static void walk_members(struct walk *w)
{
	char close = *w->p++ == '{' ? '}' : ']';
	size_t keep = w->path_len;

	for (unsigned i = 0; !w->err; i++) {
		const char *before;

		skip_between(w);
		if (w->p == w->end || *w->p == close || (close == '}' && !is_quote(*w->p)))
			break;
		before = w->p;
		if (close == '}')
			walk_key(w);
		else
			walk_element(w, i);
		walk_value(w);
		path_cut(w, keep);
		if (w->p == before)
			break; /* not JSON: what stands here is no value */
	}
	if (w->p < w->end)
		w->p++;
}

static void walk_value(struct walk *w)
{
	if (w->p == w->end || w->err)
		return;
	if (*w->p == '{' || *w->p == '[') {
		if (++w->depth > JSON_DEPTH_MAX)
			w->err = -EINVAL;
		else
			walk_members(w);
		w->depth--;
	} else if (is_quote(*w->p)) {
		w->p = string_end(w->p, w->end);
	} else {
		while (w->p < w->end && !strchr(" \t\r\n,:{}[]\"'", *w->p))
			w->p++;
	}
}

/* ---- the index ---- */

static int by_path(const void *a, const void *b)
{
	const struct json_place *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	if (!r)
		r = (x->line > y->line) - (x->line < y->line);
	return r ? r : (x->column > y->column) - (x->column < y->column);
}

/* Equal paths are neighbours now. Of several, the one that the reader of the text meets first. */
static void find_twice(struct json_index *ix)
{
	for (unsigned i = 1; i < ix->n; i++) {
		const struct json_place *pl = &ix->place[i], *t = ix->twice;

		if (strcmp(pl->path, ix->place[i - 1].path) != 0)
			continue;
		if (!t || pl->line < t->line || (pl->line == t->line && pl->column < t->column))
			ix->twice = pl;
	}
}

int json_index_build(struct json_index *ix, const char *text, size_t len)
{
	struct walk w = {.ix = ix, .p = text, .end = text + len, .counted = text};

	w.line = w.column = 1;
	*ix = (struct json_index){0};
	skip_between(&w);
	walk_value(&w);
	if (w.err) {
		json_index_free(ix);
		return w.err;
	}
	if (ix->n)
		qsort(ix->place, ix->n, sizeof(*ix->place), by_path);
	find_twice(ix);
	return 0;
}

void json_index_free(struct json_index *ix)
{
	for (unsigned i = 0; i < ix->n; i++)
		free(ix->place[i].path);
	free(ix->place);
	*ix = (struct json_index){0};
}

struct json_place json_index_find(const struct json_index *ix, const char *path)
{
	struct json_place best = {.path = NULL, .line = 1, .column = 1};
	size_t best_len = 0;

	for (unsigned i = 0; i < ix->n; i++) {
		size_t n = strlen(ix->place[i].path);
		bool parent = !strncmp(ix->place[i].path, path, n) &&
			      (!path[n] || path[n] == '.' || path[n] == '[');

		if (parent && n > best_len) {
			best = ix->place[i];
			best_len = n;
		}
	}
	return best;
}
