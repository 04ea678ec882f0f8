// SPDX-License-Identifier: Apache-2.0
/*
 * json_index.h - what the parser library leaves out: comments, and where each key of a text stands.
 *
 * Before the parser comments become blanks. After it has accepted the text, a second walk notes the place of every
 * value by its path ("drives[1].path_on_host"), so that a message can name line and column, and a key given twice is
 * seen. Lines and columns count from 1, columns in bytes.
 */
#ifndef CMD_JSON_INDEX_H
#define CMD_JSON_INDEX_H

#include "../vmm/base.h"

/* Deeper texts are refused, by the parser already. */
#define JSON_DEPTH_MAX 32

struct json_place {
	char *path;
	unsigned line, column;
};
struct json_index {
	struct json_place *place; /* sorted by path, then by place */
	unsigned n, cap;
	const struct json_place *twice; /* the first key that its object had before, or NULL */
};

/* Blanks // and block comments, line ends kept. False if one does not end: *off is where it starts. */
bool json_blank_comments(char *text, size_t len, size_t *off) must_check;
/* 0, -ENOMEM, or -EINVAL (nested too deep). Needs no json_index_free() if it fails. */
int json_index_build(struct json_index *, const char *text, size_t len) must_check;
void json_index_free(struct json_index *);
/* The place of path, or of its nearest known parent; line 1 column 1 if there is none. */
struct json_place json_index_find(const struct json_index *, const char *path);
/* Line and column of a byte offset. */
void json_offset_place(const char *text, size_t off, unsigned *line, unsigned *column);

#endif
