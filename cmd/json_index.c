// SPDX-License-Identifier: Apache-2.0
/*
 * json_index.c - a recursive walk over JSON text that remembers where things are.
 *
 * It trusts that the parser library took the text (so it checks no grammar), but never runs past its end and never
 * recurses deeper than DEPTH_MAX. Comments and both kinds of quotes are skipped as that library skips them.
 */
#include "json_index.h"
#include <stdio.h>

#define DEPTH_MAX 32
#define PATH_LEN  512

struct walk {
	struct json_index *ix;
	const char *text, *p, *end;
	char path[PATH_LEN];
	size_t path_len;
	unsigned depth;
	int err;
};

void json_offset_place(const char *text, size_t off, unsigned *line, unsigned *column)
{
	*line = *column = 1;
	for (size_t i = 0; i < off; i++) {
		++*column;
		if (text[i] == '\n') {
			++*line;
			*column = 1;
		}
	}
}

static void note(struct walk *w, const char *at)
{
	struct json_index *ix = w->ix;
	struct json_place *pl;

	for (unsigned i = 0; i < ix->n; i++)
		if (!strcmp(ix->place[i].path, w->path) && !ix->twice)
			ix->twice = ix->place[i].path;
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
	pl = &ix->place[ix->n];
	pl->path = strdup(w->path);
	if (!pl->path) {
		w->err = -ENOMEM;
		return;
	}
	json_offset_place(w->text, (size_t)(at - w->text), &pl->line, &pl->column);
	ix->n++;
}

static void skip_comment(struct walk *w)
{
	bool line = w->p[1] == '/';

	for (w->p += 2; w->p < w->end; w->p++) {
		if (line && *w->p == '\n')
			return;
		if (!line && w->p[0] == '*' && w->p + 1 < w->end && w->p[1] == '/') {
			w->p += 2;
			return;
		}
	}
}

static void skip_space(struct walk *w)
{
	while (w->p < w->end) {
		if (strchr(" \t\r\n,:", *w->p) && *w->p)
			w->p++;
		else if (*w->p == '/' && w->p + 1 < w->end)
			skip_comment(w);
		else
			return;
	}
}

/* At a quote: moves past the string, and gives what lies between the quotes. */
static const char *skip_string(struct walk *w, size_t *len)
{
	char quote = *w->p++;
	const char *start = w->p;

	while (w->p < w->end && *w->p != quote)
		w->p += *w->p == '\\' && w->p + 1 < w->end ? 2 : 1;
	*len = (size_t)(w->p - start);
	if (w->p < w->end)
		w->p++;
	return start;
}

/* Longer paths than the buffer are cut: their messages then name a parent. */
static void path_add(struct walk *w, const char *s, size_t n)
{
	n = MIN(n, PATH_LEN - 1 - w->path_len);
	memcpy(w->path + w->path_len, s, n);
	w->path_len += n;
	w->path[w->path_len] = 0;
}

static void walk_value(struct walk *w);

static void walk_members(struct walk *w, char close)
{
	size_t keep = w->path_len, len = 0;
	char element[16];
	unsigned i = 0;

	for (w->p++; !w->err; i++, w->path_len = keep, w->path[keep] = 0) {
		skip_space(w);
		if (w->p >= w->end || *w->p == close)
			break;
		if (close == ']') {
			snprintf(element, sizeof(element), "[%u]", i);
			path_add(w, element, strlen(element));
			note(w, w->p);
		} else {
			const char *at = w->p, *key;

			if (*w->p != '"' && *w->p != '\'')
				break;
			key = skip_string(w, &len);
			path_add(w, ".", keep ? 1 : 0);
			path_add(w, key, len);
			note(w, at);
			skip_space(w);
		}
		walk_value(w);
	}
	if (w->p < w->end)
		w->p++;
}

static void walk_value(struct walk *w)
{
	size_t len;

	if (w->p >= w->end)
		return;
	if (*w->p == '{' || *w->p == '[') {
		if (++w->depth > DEPTH_MAX)
			w->err = -EINVAL;
		else
			walk_members(w, *w->p == '{' ? '}' : ']');
		w->depth--;
	} else if (*w->p == '"' || *w->p == '\'') {
		skip_string(w, &len);
	} else {
		while (w->p < w->end && !strchr(" \t\r\n,:{}[]\"'/", *w->p))
			w->p++;
		if (w->p < w->end && strchr(":\"'", *w->p) && *w->p)
			w->p++; /* not JSON: move on all the same */
	}
}

int json_index_build(struct json_index *ix, const char *text, size_t len)
{
	struct walk w = {.ix = ix, .text = text, .p = text, .end = text + len};

	*ix = (struct json_index){0};
	skip_space(&w);
	walk_value(&w);
	if (w.err)
		json_index_free(ix);
	return w.err;
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
