// SPDX-License-Identifier: Apache-2.0
/*
 * json_index.h - where each key of a JSON text stands, which the parser library does not tell.
 *
 * The text has been accepted by the parser before; this walks it once more and notes the place of every value by its
 * path ("drives[1].path_on_host"), so that a message can name line and column, and a key given twice is seen.
 */
#ifndef CMD_JSON_INDEX_H
#define CMD_JSON_INDEX_H

#include "../vmm/base.h"

struct json_place {
	char *path;
	unsigned line, column;
};
struct json_index {
	struct json_place *place;
	unsigned n, cap;
	const char *twice; /* path of the first key that its object has twice, or NULL */
};

/* 0, -ENOMEM, or -EINVAL (nested deeper than 32). */
int json_index_build(struct json_index *, const char *text, size_t len) must_check;
void json_index_free(struct json_index *);
/* The place of path, or of its nearest known parent; line 1 column 1 if there is none. */
struct json_place json_index_find(const struct json_index *, const char *path);
/* Line and column of a byte offset. */
void json_offset_place(const char *text, size_t off, unsigned *line, unsigned *column);

#endif
