// SPDX-License-Identifier: Apache-2.0
/*
 * option.h - typed structs described by tables, so that a key is written once and is a JSON key, a command-line
 * sub-option (--fs tag=src,path=/srv), a line of `wherry devices`, and a default.
 *
 * Strings are owned by the struct they are in (malloc; opt_fini frees them). Errors come back as a sentence without
 * the key's path, which the caller knows: "must be between 1 and 32".
 */
#ifndef VMM_OPTION_H
#define VMM_OPTION_H

#include "base.h"

enum opt_kind {
	OPT_STR,    /* char *, NULL when absent */
	OPT_BOOL,   /* bool */
	OPT_U32,    /* uint32_t */
	OPT_U64,    /* uint64_t */
	OPT_ENUM,   /* int, index into names; matched without regard to case */
	OPT_OBJECT, /* embedded struct described by sub: a JSON object, or its keys one by one */
	OPT_LATER, /* a key that is known but not built yet: refused with help as the reason. No storage. */
	OPT_IGNORE, /* a key of Firecracker's that has no effect here: accepted with any value. No storage. */
};

struct opt {
	const char *key;
	enum opt_kind kind;
	size_t offset;
	bool required;
	const char *def; /* the default as text; NULL: zero / absent */
	uint64_t min,
		max; /* numbers: range (max 0: the type's); strings: length in bytes (max 0: no bound) */
	const char *const *names; /* OPT_ENUM: NULL-terminated */
	const struct opt_table *sub;
	/*
	 * What kind, range and names cannot say; NULL: nothing. value is the string (const char *) or the number
	 * (const uint64_t *). False: err says what would be right.
	 */
	bool (*check)(const void *value, char *err);
	const char *help;
};
struct opt_table {
	const struct opt *opts;
	unsigned n;
	size_t size; /* of the struct */
};

#define OPT_ERR_MAX 600

/* Checks that tables share: letters, digits and _; a power of two. */
bool opt_check_id(const void *text, char err[OPT_ERR_MAX]);
bool opt_check_pow2(const void *number, char err[OPT_ERR_MAX]);

/* Zeroes obj and sets every default, nested objects too. -ENOMEM. */
int opt_defaults(const struct opt_table *, void *obj) must_check;
void opt_fini(const struct opt_table *, void *obj);
const struct opt *opt_find(const struct opt_table *, const char *key, size_t key_len);
/* Sets one scalar from text (flags, defaults: "on/off/true/false", 64, 0x10, 512M, 4K). -EINVAL/-ERANGE/-ENOMEM, err filled. */
int opt_set_text(const struct opt *, void *obj, const char *text, char err[OPT_ERR_MAX]) must_check;
/* Typed setters for a parser that has types of its own (JSON). Same errors. */
int opt_set_bool(const struct opt *, void *obj, bool v, char err[OPT_ERR_MAX]) must_check;
int opt_set_int(const struct opt *, void *obj, int64_t v, char err[OPT_ERR_MAX]) must_check;
int opt_set_str(const struct opt *, void *obj, const char *v, size_t len, char err[OPT_ERR_MAX])
	must_check;
/* The keys of a table and of the objects in it. */
unsigned opt_count(const struct opt_table *);
/*
 * "key=value,key=value": sets each; "key" alone sets a bool; a doubled comma is a literal comma; the first item may
 * lack "key=" and then goes to the table's first option that holds a value. "object.key=value" reaches into an object.
 * seen (opt_count() bools) marks what was set. err names the key.
 */
int opt_parse_list(const struct opt_table *, void *obj, const char *text, bool *seen,
		   char err[OPT_ERR_MAX]) must_check;
/* A required key was not set, or one of an object of which another was: err says which. */
bool opt_missing(const struct opt_table *, const bool *seen, char err[OPT_ERR_MAX]) must_check;
/* The value as text, for `check` and `devices`: writes at most n bytes with NUL; JSON-ready for numbers and bools. */
void opt_text(const struct opt *, const void *obj, char *buf, size_t n);
/* What would be accepted: "true or false", "1 to 32", "one of never, auto, always". */
void opt_accepts(const struct opt *, char *buf, size_t n);

#endif
