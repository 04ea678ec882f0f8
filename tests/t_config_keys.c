// SPDX-License-Identifier: Apache-2.0
/*
 * t_config_keys.c - every key of every section, as the registry has them, in a file: its default, a good value, values
 * of a wrong type or out of range, null, and twice. A new device's keys are tested here without a line more.
 */
#include "config_file.h"
#include "../cmd/json_index.h"
#include <linux/limits.h>

#define DEPTH_MAX 4 /* objects within each other */

/* A key under test, with the document around it. */
struct key {
	struct section s;
	const struct opt_table *table;     /* the section's, or that of an object in it */
	const struct opt *path[DEPTH_MAX]; /* the objects from the section down to table */
	unsigned depth;
	size_t offset; /* of the struct that table describes */
	const struct opt *o;
	char *doc;
	char where[128]; /* what table describes, as messages name it */
};

/* The keys that t cannot be without, then the one that leads to o, and at last o. */
static void put_object(FILE *f, const struct key *k, unsigned level, const char *value)
{
	const struct opt_table *t = level ? k->path[level - 1]->sub : k->s.table;
	const struct opt *next = level < k->depth ? k->path[level] : k->o;
	const char *sep = "";

	for (unsigned i = 0; i < t->n; i++) {
		const struct opt *o = &t->opts[i];
		char buf[64];

		if (!o->required || o == next)
			continue;
		fprintf(f, "%s\t\t\"%s\": %s", sep, o->key, good_json(o, buf));
		sep = ",\n";
	}
	if (level < k->depth) {
		fprintf(f, "%s\t\t\"%s\": {\n", sep, next->key);
		put_object(f, k, level + 1, value);
		fprintf(f, "\n}");
	} else if (value) {
		fprintf(f, "%s\t\t\"%s\": %s", sep, next->key, value);
	}
}

/* value NULL: the document is without the key. */
static void make_doc(struct key *k, const char *value)
{
	bool many = k->s.type && k->s.type->many;
	size_t len;
	FILE *f;

	free(k->doc);
	f = open_memstream(&k->doc, &len);
	need(f);
	fprintf(f, "{ // a machine\n");
	if (k->s.type)
		fprintf(f, "\t\"boot-source\": { \"kernel_image_path\": \"k\" },\n");
	fprintf(f, "\t\"%s\": %s{\n", k->s.key, many ? "[ " : "");
	put_object(f, k, 0, value);
	fprintf(f, "\n\t}%s\n}\n", many ? " ]" : "");
	need(!fclose(f));
}

/* The line for a fault of the key, which stands in the document the last time where it is at fault. */
static void expect(const struct key *k, const char *what, char *line, size_t size)
{
	char quoted[64];
	const char *at = NULL;
	unsigned row, column;

	snprintf(quoted, sizeof(quoted), "\"%s\": ", k->o->key);
	for (const char *p = k->doc; (p = strstr(p, quoted)); p++)
		at = p;
	need(at);
	json_offset_place(k->doc, (size_t)(at - k->doc), &row, &column);
	snprintf(line, size, SAYS "%u:%u: %s.%s: %s\n", row, column, k->where, k->o->key, what);
}

static bool is_refused(struct key *k, const char *value, const char *what)
{
	struct loaded l;
	char line[1024];
	bool good;

	make_doc(k, value);
	expect(k, what, line, sizeof(line));
	load(&l, k->doc);
	good = l.err == -EINVAL && !strcmp(l.said, line);
	if (!good)
		printf("# %.200s\n#   %d %s#   want %s", value, l.err, l.said, line);
	unload(&l);
	return good;
}

/* Loaded without a word, and the key then reads as text; text NULL: whatever it reads. */
static bool is_taken(struct key *k, const char *value, const char *text)
{
	char got[PATH_MAX];
	struct loaded l;
	bool good;

	make_doc(k, value);
	load(&l, k->doc);
	good = !l.err && !l.said[0];
	if (good && text) {
		opt_text(k->o, (char *)section_object(&l.c, &k->s) + k->offset, got, sizeof(got));
		good = !strcmp(got, text);
	}
	if (!good)
		printf("# %s\n#   %d %s\n", k->doc, l.err, l.said);
	unload(&l);
	return good;
}

/* ---- without a value of its own ---- */

static void check_later(struct key *k)
{
	ok(is_taken(k, "null", NULL) && is_taken(k, "{}", NULL) && is_taken(k, "[]", NULL) &&
		   is_taken(k, "\"None\"", NULL),
	   "%s.%s may be there with nothing in it", k->where, k->o->key);
	ok(is_refused(k, "5", k->o->help) && is_refused(k, "true", k->o->help) &&
		   is_refused(k, "\"T2\"", k->o->help) &&
		   is_refused(k, "{ \"size\": 1 }", k->o->help),
	   "with anything it is refused, and why is said");
}

static void check_ignored(struct key *k)
{
	ok(is_taken(k, "null", NULL) && is_taken(k, "5", NULL) && is_taken(k, "false", NULL) &&
		   is_taken(k, "\"a\"", NULL) && is_taken(k, "{ \"a\": [1] }", NULL),
	   "%s.%s is accepted with any value", k->where, k->o->key);
}

/* ---- with one ---- */

static void check_default(struct key *k)
{
	char what[400], want[PATH_MAX], err[OPT_ERR_MAX];
	auto_free void *obj = calloc(1, k->table->size);
	struct loaded l;

	need(obj);
	if (k->o->def)
		need(!opt_set_text(k->o, obj, k->o->def, err));
	opt_text(k->o, obj, want, sizeof(want));
	if (!k->o->required) {
		ok(is_taken(k, NULL, want) && is_taken(k, "null", want),
		   "%s.%s is %s without a value, or with null", k->where, k->o->key, want);
		opt_fini(k->table, obj);
		return;
	}
	make_doc(k, NULL);
	load(&l, k->doc);
	snprintf(what, sizeof(what), ": %s: \"%s\" is missing (%s)\n", k->where, k->o->key,
		 k->o->help);
	ok(l.err == -EINVAL && strstr(l.said, what), "%s.%s is missed", k->where, k->o->key);
	unload(&l);
	make_doc(k, "null");
	load(&l, k->doc);
	ok(l.err == -EINVAL && strstr(l.said, what), "also if it is null");
	unload(&l);
}

static bool type_fits(enum opt_kind kind, const char *json)
{
	switch (json[0]) {
	case '"':
		return kind == OPT_STR || kind == OPT_ENUM;
	case 't':
		return kind == OPT_BOOL;
	case '{':
		return kind == OPT_OBJECT;
	default:
		return (kind == OPT_U32 || kind == OPT_U64) && !strpbrk(json, "[.e");
	}
}

static void check_types(struct key *k)
{
	static const char *const values[] = {"\"5\"", "true",  "{}",   "{ \"a\": 1 }",
					     "[]",    "[ 1 ]", "5",    "5.0",
					     "1e3",   "-0.5",  "[[]]", "[ \"a\" ]"};
	char accepts[OPT_ERR_MAX], what[OPT_ERR_MAX + 16];
	bool good = true;

	opt_accepts(k->o, accepts, sizeof(accepts));
	snprintf(what, sizeof(what), "must be %s", accepts);
	for (unsigned i = 0; i < ARRAY_LEN(values); i++)
		if (!type_fits(k->o->kind, values[i]))
			good = is_refused(k, values[i], what) && good;
	ok(good, "%s.%s %s", k->where, k->o->key, what);
}

static void check_numbers(struct key *k)
{
	unsigned long long min = k->o->min, max = k->o->max ? k->o->max : UINT32_MAX;
	char what[100], value[32];
	bool good = true;

	/* json-c's signed numbers do not reach all of 64 bits. */
	need(k->o->kind == OPT_U32 || (k->o->max && k->o->max < INT64_MAX));
	snprintf(what, sizeof(what), "must be between %llu and %llu", min, max);
	if (min) {
		snprintf(value, sizeof(value), "%llu", min - 1);
		good = is_refused(k, value, what) && good;
	}
	snprintf(value, sizeof(value), "%llu", max + 1);
	good = is_refused(k, value, what) && good;
	good = is_refused(k, "-1", what) && good;
	good = is_refused(k, "-99999999999999999999", what) && good;
	good = is_refused(k, "99999999999999999999", what) && good;
	ok(good, "%s.%s %s", k->where, k->o->key, what);
	snprintf(value, sizeof(value), "%llu", min);
	good = is_taken(k, value, value);
	snprintf(value, sizeof(value), "%llu", max);
	ok(is_taken(k, value, value) && good, "both of them are good");
}

/* Of a letter that the option takes; names with commas between them, or blanks, may also be no names. */
static char *text_of_length(const struct opt *o, uint64_t n)
{
	static const char *const letters[] = {"x", "a", " ", ","};
	char *text = malloc(n + 3);
	unsigned i = 0;

	need(text);
	while (i < ARRAY_LEN(letters) - 1 && !passes(o, letters[i]))
		i++;
	memset(text, letters[i][0], n + 2);
	text[0] = text[n + 1] = '"';
	text[n + 2] = 0;
	return text;
}

static void check_length(struct key *k)
{
	char *longest = text_of_length(k->o, k->o->max);
	char *longer = text_of_length(k->o, k->o->max + 1);
	char *shortest = text_of_length(k->o, k->o->min), accepts[OPT_ERR_MAX],
	     what[OPT_ERR_MAX + 16];

	need(k->o->max > 0 && k->o->max < PATH_MAX); /* what config_print() has room for */
	opt_accepts(k->o, accepts, sizeof(accepts));
	snprintf(what, sizeof(what), "must be %s", accepts);
	ok(is_taken(k, longest, k->o->max < PATH_MAX - 3 ? longest : NULL) &&
		   is_taken(k, shortest, shortest),
	   "%s.%s may be %llu to %llu bytes", k->where, k->o->key, (unsigned long long)k->o->min,
	   (unsigned long long)k->o->max);
	ok(is_refused(k, longer, what) && (!k->o->min || is_refused(k, "\"\"", what)),
	   "and no other number of them");
	ok(is_refused(k, "\"a\\u0000b\"", "must not contain a NUL byte"), "nor a NUL byte");
	free(longest);
	free(longer);
	free(shortest);
}

static void check_names(struct key *k)
{
	char quoted[64], accepts[OPT_ERR_MAX], what[OPT_ERR_MAX + 16];
	bool good = true;

	for (unsigned i = 0; k->o->names[i]; i++) {
		snprintf(quoted, sizeof(quoted), "\"%s\"", k->o->names[i]);
		good = is_taken(k, quoted, quoted) && good;
	}
	opt_accepts(k->o, accepts, sizeof(accepts));
	snprintf(what, sizeof(what), "must be %s", accepts);
	ok(good, "%s.%s takes %s", k->where, k->o->key, accepts);
	ok(is_refused(k, "\"no such\"", what) && is_refused(k, "\"\"", what), "and nothing else");
}

static void check_twice(struct key *k, const char *value)
{
	char both[192];

	snprintf(both, sizeof(both), "%s,\n\t\"%s\": %s", value, k->o->key, value);
	ok(is_refused(k, both, "is there twice: take one away"), "%s.%s may not be there twice",
	   k->where, k->o->key);
}

static void check_table(struct key *k);

/* Then all that is in it. */
static void check_object(struct key *k)
{
	struct key below = *k;
	char what[300];
	struct loaded l;

	ok(is_taken(k, NULL, NULL) && is_taken(k, "null", NULL), "%s.%s may be null", k->where,
	   k->o->key);
	check_types(k);
	check_twice(k, "null");
	make_doc(k, "{ \"nosuch\": 1 }");
	load(&l, k->doc);
	snprintf(what, sizeof(what), ": %s.%s.nosuch: unknown key; known here: %s", k->where,
		 k->o->key, k->o->sub->opts[0].key);
	ok(l.err == -EINVAL && strstr(l.said, what), "and has no keys but its own");
	unload(&l);
	need(k->depth < DEPTH_MAX);
	below.doc = NULL;
	below.table = k->o->sub;
	below.path[below.depth++] = k->o;
	below.offset += k->o->offset;
	snprintf(below.where, sizeof(below.where), "%.90s.%.30s", k->where, k->o->key);
	check_table(&below);
	free(below.doc);
}

static void check_key(struct key *k)
{
	char value[64];

	if (k->o->kind == OPT_LATER) {
		check_later(k);
		return;
	}
	if (k->o->kind == OPT_IGNORE) {
		check_ignored(k);
		return;
	}
	if (k->o->kind == OPT_OBJECT) {
		check_object(k);
		return;
	}
	good_json(k->o, value);
	ok(is_taken(k, value, value), "%s.%s can be %s", k->where, k->o->key, value);
	check_default(k);
	check_types(k);
	check_twice(k, value);
	if (k->o->kind == OPT_STR)
		check_length(k);
	if (k->o->kind == OPT_ENUM)
		check_names(k);
	if (k->o->kind == OPT_U32 || k->o->kind == OPT_U64)
		check_numbers(k);
}

static void check_table(struct key *k)
{
	for (unsigned n = 0; n < k->table->n; n++) {
		k->o = &k->table->opts[n];
		check_key(k);
	}
}

int main(void)
{
	struct key k = {0};

	config_dir_enter();
	for (unsigned i = 0; section_get(i, &k.s); i++) {
		snprintf(k.where, sizeof(k.where), "%s%s", k.s.key,
			 k.s.type && k.s.type->many ? "[0]" : "");
		k.table = k.s.table;
		check_table(&k);
	}
	free(k.doc);
	config_dir_leave();
	return done();
}
