// SPDX-License-Identifier: Apache-2.0
/*
 * option.c - sets, checks and shows the fields of a struct that a table describes.
 *
 * Every value arrives through one of the setters below, whatever syntax it was written in, and is
 * checked there; a field is written only when its value is good. The sentences say what would be
 * accepted, in the words of opt_accepts(), and leave the key to the caller, who knows its path.
 * Start-up code: no threads, nothing from the guest. Calls: libc only.
 */
#include "option.h"
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

/* Fills err and returns code: return complain(err, -EINVAL, "..."). */
printf_like(3, 4) static int complain(char *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, OPT_ERR_MAX, fmt, ap);
	va_end(ap);
	return code;
}

static uint64_t number_max(const struct opt *o)
{
	if (o->max)
		return o->max;
	return o->kind == OPT_U32 ? UINT32_MAX : UINT64_MAX;
}

static bool is_number(const struct opt *o)
{
	return o->kind == OPT_U32 || o->kind == OPT_U64;
}

static int not_accepted(const struct opt *o, int code, char *err)
{
	unsigned long long min = o->min, max = number_max(o);
	char what[OPT_ERR_MAX];

	if (is_number(o) && max != UINT64_MAX)
		return complain(err, code, "must be between %llu and %llu", min, max);
	opt_accepts(o, what, sizeof(what));
	return complain(err, code, "must be %s", what);
}

static void *field(const struct opt *o, void *obj)
{
	return (char *)obj + o->offset;
}

/* ---- a string under construction, cut at its end ---- */

struct text {
	char *buf;
	size_t size, len;
};

printf_like(2, 3) static void text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->len >= t->size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	t->len += n > 0 ? (size_t)n : 0;
}

/* A JSON string. Bytes from 0x80 on pass as they are: JSON is UTF-8, and so are people's paths. */
static void text_add_quoted(struct text *t, const char *s)
{
	text_add(t, "\"");
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			text_add(t, "\\%c", c);
		else if (c < 0x20)
			text_add(t, "\\u%04x", c);
		else
			text_add(t, "%c", c);
	}
	text_add(t, "\"");
}

/* ---- what is accepted ---- */

static void accept_number(const struct opt *o, struct text *t)
{
	unsigned long long min = o->min, max = number_max(o);

	if (max != UINT64_MAX)
		text_add(t, "%llu to %llu", min, max);
	else if (min)
		text_add(t, "a whole number, at least %llu", min);
	else
		text_add(t, "a whole number");
}

static void accept_string(const struct opt *o, struct text *t)
{
	unsigned long long min = o->min, max = o->max;

	if (min && max)
		text_add(t, "text of %llu to %llu bytes", min, max);
	else if (max)
		text_add(t, "text of at most %llu bytes", max);
	else if (min)
		text_add(t, "text of at least %llu byte%s", min, min == 1 ? "" : "s");
	else
		text_add(t, "text");
}

static void accept_names(const struct opt *o, struct text *t)
{
	text_add(t, "one of ");
	for (unsigned i = 0; o->names[i]; i++)
		text_add(t, "%s%s", i ? ", " : "", o->names[i]);
}

void opt_accepts(const struct opt *o, char *buf, size_t n)
{
	struct text t = {.buf = buf, .size = n};

	text_add(&t, "%s", "");
	switch (o->kind) {
	case OPT_STR:
		accept_string(o, &t);
		break;
	case OPT_BOOL:
		text_add(&t, "true or false");
		break;
	case OPT_U32:
	case OPT_U64:
		accept_number(o, &t);
		break;
	case OPT_ENUM:
		accept_names(o, &t);
		break;
	case OPT_OBJECT:
		text_add(&t, "an object");
		break;
	case OPT_LATER:
		text_add(&t, "left out");
		break;
	case OPT_IGNORE:
		text_add(&t, "anything");
		break;
	}
}

/* ---- checks ---- */

bool opt_check_id(const void *text, char err[OPT_ERR_MAX])
{
	static const char legal[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	const char *s = text;

	if (!s[strspn(s, legal)])
		return true;
	complain(err, 0, "must be of letters, digits and _");
	return false;
}

bool opt_check_pow2(const void *number, char err[OPT_ERR_MAX])
{
	if (is_pow2(*(const uint64_t *)number))
		return true;
	complain(err, 0, "must be a power of two");
	return false;
}

/* ---- setters ---- */

/* The kinds that no value fits or every value does; 1 if o is not one of them. */
static int set_without_field(const struct opt *o, char *err)
{
	if (o->kind == OPT_IGNORE)
		return 0;
	if (o->kind == OPT_LATER)
		return complain(err, -EINVAL, "is not supported: %s", o->help);
	if (o->kind == OPT_OBJECT)
		return not_accepted(o, -EINVAL, err);
	return 1;
}

static int set_number(const struct opt *o, void *obj, uint64_t v, char *err)
{
	if (v < o->min || v > number_max(o))
		return not_accepted(o, -ERANGE, err);
	if (o->check && !o->check(&v, err))
		return -EINVAL;
	if (o->kind == OPT_U32)
		*(uint32_t *)field(o, obj) = (uint32_t)v;
	else
		*(uint64_t *)field(o, obj) = v;
	return 0;
}

static int set_enum(const struct opt *o, void *obj, const char *v, size_t len, char *err)
{
	for (int i = 0; o->names[i]; i++) {
		if (strlen(o->names[i]) != len || strncasecmp(o->names[i], v, len) != 0)
			continue;
		*(int *)field(o, obj) = i;
		return 0;
	}
	return not_accepted(o, -EINVAL, err);
}

static int set_string(const struct opt *o, void *obj, const char *v, size_t len, char *err)
{
	char **s = field(o, obj);
	auto_free char *copy = NULL;

	if (len < o->min || (o->max && len > o->max))
		return not_accepted(o, -ERANGE, err);
	if (memchr(v, '\0', len))
		return complain(err, -EINVAL, "must not contain a NUL byte");
	copy = strndup(v, len);
	if (!copy)
		return complain(err, -ENOMEM, "does not fit in memory");
	if (o->check && !o->check(copy, err))
		return -EINVAL;
	free(*s);
	*s = take_ptr(&copy);
	return 0;
}

int opt_set_bool(const struct opt *o, void *obj, bool v, char err[OPT_ERR_MAX])
{
	int r = set_without_field(o, err);

	if (r <= 0)
		return r;
	if (o->kind != OPT_BOOL)
		return not_accepted(o, -EINVAL, err);
	*(bool *)field(o, obj) = v;
	return 0;
}

int opt_set_int(const struct opt *o, void *obj, int64_t v, char err[OPT_ERR_MAX])
{
	int r = set_without_field(o, err);

	if (r <= 0)
		return r;
	if (!is_number(o))
		return not_accepted(o, -EINVAL, err);
	if (v < 0)
		return not_accepted(o, -ERANGE, err);
	return set_number(o, obj, (uint64_t)v, err);
}

int opt_set_str(const struct opt *o, void *obj, const char *v, size_t len, char err[OPT_ERR_MAX])
{
	int r = set_without_field(o, err);

	if (r <= 0)
		return r;
	if (o->kind == OPT_STR)
		return set_string(o, obj, v, len, err);
	if (o->kind == OPT_ENUM)
		return set_enum(o, obj, v, len, err);
	return not_accepted(o, -EINVAL, err);
}

/* ---- text ---- */

static int parse_bool(const char *text, bool *v)
{
	if (!strcasecmp(text, "true") || !strcasecmp(text, "on"))
		*v = true;
	else if (!strcasecmp(text, "false") || !strcasecmp(text, "off"))
		*v = false;
	else
		return -EINVAL;
	return 0;
}

/* "" is 1, "K" is 1024, ...; 0 for anything else. */
static uint64_t suffix_factor(const char *s)
{
	static const char units[] = "KMGT";
	const char *unit;

	if (!*s)
		return 1;
	unit = strchr(units, *s & ~0x20);
	if (!unit || !*unit || s[1])
		return 0;
	return 1ull << (10 * (unit - units + 1));
}

/* 64, 0x10, 512M: no sign, no blanks, and a leading 0 is not octal, which nobody means. */
static int parse_number(const char *text, uint64_t *v)
{
	bool hex = text[0] == '0' && (text[1] | 0x20) == 'x';
	const char *digits = text + (hex ? 2 : 0);
	uint64_t n, factor;
	char *end;

	/* strtoull() would skip blanks and take a sign, and after 0x another 0x. */
	if (!isxdigit((unsigned char)digits[0]))
		return -EINVAL;
	if (hex && (digits[1] | 0x20) == 'x')
		return -EINVAL;
	errno = 0;
	n = strtoull(digits, &end, hex ? 16 : 10);
	if (end == digits)
		return -EINVAL;
	factor = suffix_factor(end);
	if (!factor)
		return -EINVAL;
	if (errno || __builtin_mul_overflow(n, factor, &n))
		return -ERANGE;
	*v = n;
	return 0;
}

static int set_number_text(const struct opt *o, void *obj, const char *text, char *err)
{
	uint64_t v;
	int r = parse_number(text, &v);

	if (r < 0)
		return not_accepted(o, r, err);
	return set_number(o, obj, v, err);
}

int opt_set_text(const struct opt *o, void *obj, const char *text, char err[OPT_ERR_MAX])
{
	bool v;

	switch (o->kind) {
	case OPT_BOOL:
		if (parse_bool(text, &v) < 0)
			return not_accepted(o, -EINVAL, err);
		return opt_set_bool(o, obj, v, err);
	case OPT_U32:
	case OPT_U64:
		return set_number_text(o, obj, text, err);
	default:
		return opt_set_str(o, obj, text, strlen(text), err);
	}
}

static void show_number(const struct opt *o, const void *at, struct text *t)
{
	uint64_t v = o->kind == OPT_U32 ? *(const uint32_t *)at : *(const uint64_t *)at;

	text_add(t, "%llu", (unsigned long long)v);
}

void opt_text(const struct opt *o, const void *obj, char *buf, size_t n)
{
	const void *at = (const char *)obj + o->offset;
	struct text t = {.buf = buf, .size = n};

	text_add(&t, "%s", "");
	switch (o->kind) {
	case OPT_STR:
		if (*(char *const *)at)
			text_add_quoted(&t, *(char *const *)at);
		else
			text_add(&t, "null");
		break;
	case OPT_BOOL:
		text_add(&t, "%s", *(const bool *)at ? "true" : "false");
		break;
	case OPT_U32:
	case OPT_U64:
		show_number(o, at, &t);
		break;
	case OPT_ENUM:
		text_add_quoted(&t, o->names[*(const int *)at]);
		break;
	case OPT_OBJECT:
	case OPT_LATER:
	case OPT_IGNORE:
		break; /* no value of their own */
	}
}

/* ---- whole objects ---- */

static int set_default(const struct opt *o, void *obj)
{
	char err[OPT_ERR_MAX];
	int r;

	if (o->kind == OPT_OBJECT)
		return opt_defaults(o->sub, field(o, obj));
	if (!o->def)
		return 0;
	r = opt_set_text(o, obj, o->def, err);
	assert(!r || r == -ENOMEM); /* a table whose own default is refused */
	return r;
}

int opt_defaults(const struct opt_table *table, void *obj)
{
	memset(obj, 0, table->size);
	for (unsigned i = 0; i < table->n; i++) {
		int r = set_default(&table->opts[i], obj);

		if (r < 0) {
			opt_fini(table, obj);
			return r;
		}
	}
	return 0;
}

void opt_fini(const struct opt_table *table, void *obj)
{
	for (unsigned i = 0; i < table->n; i++) {
		const struct opt *o = &table->opts[i];

		if (o->kind == OPT_OBJECT)
			opt_fini(o->sub, field(o, obj));
		if (o->kind != OPT_STR)
			continue;
		free(*(char **)field(o, obj));
		*(char **)field(o, obj) = NULL;
	}
}

const struct opt *opt_find(const struct opt_table *table, const char *key, size_t key_len)
{
	for (unsigned i = 0; i < table->n; i++)
		if (strlen(table->opts[i].key) == key_len &&
		    !memcmp(table->opts[i].key, key, key_len))
			return &table->opts[i];
	return NULL;
}

/* ---- "key=value,key=value" ---- */

/*
 * Cuts the next item off *rest, in place, and makes its doubled commas single. *rest becomes NULL
 * after the last.
 *
 *   path=/a,,b,readonly   ->   path=/a,b      readonly
 */
static char *next_item(char **rest)
{
	char *item = *rest, *from = item, *to = item;

	for (; *from; from++) {
		if (*from == ',' && from[1] != ',')
			break;
		if (*from == ',')
			from++;
		*to++ = *from;
	}
	*rest = *from ? from + 1 : NULL;
	*to = '\0';
	return item;
}

static bool holds_value(const struct opt *o)
{
	return o->kind != OPT_LATER && o->kind != OPT_IGNORE;
}

/* NULL: there is none. */
static const struct opt *first_value(const struct opt_table *table)
{
	for (unsigned i = 0; i < table->n; i++)
		if (holds_value(&table->opts[i]))
			return &table->opts[i];
	return NULL;
}

static void unknown_key(const struct opt_table *table, const char *key, size_t len, char *err)
{
	struct text t = {.buf = err, .size = OPT_ERR_MAX};

	text_add(&t, "%.*s: unknown; there is", (int)MIN(len, (size_t)40), key);
	if (!first_value(table))
		text_add(&t, " nothing to set");
	for (unsigned i = 0; i < table->n; i++)
		if (holds_value(&table->opts[i]))
			text_add(&t, " %s", table->opts[i].key);
}

/* Where in the marks of table those of its object o begin: behind its own keys and the objects before. */
static unsigned marks_before(const struct opt_table *table, const struct opt *o)
{
	unsigned n = table->n;

	for (const struct opt *before = table->opts; before < o; before++)
		if (before->kind == OPT_OBJECT)
			n += opt_count(before->sub);
	return n;
}

unsigned opt_count(const struct opt_table *table)
{
	return marks_before(table, table->opts + table->n);
}

/* A key of a table or, KEY.KEY, of an object in it, and where it leads. */
struct item {
	const struct opt_table *table; /* in which the last part was looked for */
	const struct opt *o;           /* NULL: it is not there */
	void *obj;                     /* of which o is a field */
	bool *seen;                    /* marks of table */
	const char *name, *value;      /* value NULL: none is given */
	size_t name_len;
};

/* Down into objects as far as there are any: what is said of a key that is not supported is said of all below it too. */
static void item_find(struct item *it)
{
	const char *key = it->name, *end = key + it->name_len, *dot;

	for (;; key = dot + 1) {
		dot = memchr(key, '.', (size_t)(end - key));
		it->o = opt_find(it->table, key, (size_t)((dot ? dot : end) - key));
		if (!dot || !it->o || !holds_value(it->o))
			return;
		if (it->o->kind != OPT_OBJECT) {
			it->o = NULL;
			return;
		}
		it->seen += marks_before(it->table, it->o);
		it->obj = field(it->o, it->obj);
		it->table = it->o->sub;
	}
}

/* A value for the first option that holds one. */
static void item_bare(struct item *it, const char *text)
{
	it->o = first_value(it->table);
	it->name = it->o->key;
	it->name_len = strlen(it->name);
	it->value = text;
}

/* it begins with table, obj and seen of the whole. o NULL: err says why. */
static void item_read(struct item *it, const char *text, bool first, char *err)
{
	const struct item whole = *it;
	const char *eq = strchr(text, '=');

	it->name = text;
	it->name_len = eq ? (size_t)(eq - text) : strlen(text);
	it->value = eq ? eq + 1 : NULL;
	item_find(it);
	if (!it->name_len) {
		complain(err, -EINVAL, "has an item without a key");
	} else if (!eq && it->o && it->o->kind == OPT_BOOL) {
		it->value = "true";
	} else if (!eq && first && first_value(whole.table)) {
		*it = whole;
		item_bare(it, text);
	} else if (!it->o) {
		unknown_key(it->table, it->name, it->name_len, err);
	}
}

static int item_set(const struct item *it, char *err)
{
	int len = (int)it->name_len, r;
	char why[OPT_ERR_MAX];

	if (it->o->kind == OPT_OBJECT)
		return complain(err, -EINVAL,
				"%.*s: is an object: give what is in it, %.*s.KEY=VALUE", len,
				it->name, len, it->name);
	if (!it->value)
		return complain(err, -EINVAL, "%.*s: needs a value", len, it->name);
	r = opt_set_text(it->o, it->obj, it->value, why);
	if (r < 0)
		return complain(err, r, "%.*s: %s", len, it->name, why);
	it->seen[it->o - it->table->opts] = true;
	return 0;
}

/* Takes text, which it may write to, apart. */
static int parse_items(const struct opt_table *table, void *obj, char *text, bool *seen, char *err)
{
	for (char *rest = *text ? text : NULL; rest;) {
		struct item it = {.table = table, .obj = obj, .seen = seen};
		bool first = rest == text;
		int r;

		item_read(&it, next_item(&rest), first, err);
		r = it.o ? item_set(&it, err) : -EINVAL;
		if (r < 0)
			return r;
	}
	return 0;
}

int opt_parse_list(const struct opt_table *table, void *obj, const char *text, bool *seen,
		   char err[OPT_ERR_MAX])
{
	char *copy = strdup(text);
	int r = copy ? parse_items(table, obj, copy, seen, err)
		     : complain(err, -ENOMEM, "does not fit in memory");

	free(copy);
	return r;
}

/* An object is if one of its keys is. */
static bool is_given(const struct opt_table *table, const struct opt *o, const bool *seen)
{
	const bool *below = seen + marks_before(table, o);
	unsigned n = o->kind == OPT_OBJECT ? opt_count(o->sub) : 0;

	for (unsigned i = 0; i < n; i++)
		if (below[i])
			return true;
	return seen[o - table->opts];
}

/* Its whole name is added to name. NULL: nothing is. */
static const struct opt *missing(const struct opt_table *table, const bool *seen, struct text *name)
{
	const size_t len = name->len;

	for (const struct opt *o = table->opts; o < table->opts + table->n; o++) {
		bool given = is_given(table, o, seen);
		const struct opt *m = o->required && !given ? o : NULL;

		text_add(name, "%s", o->key);
		if (given && o->kind == OPT_OBJECT) {
			text_add(name, ".");
			m = missing(o->sub, seen + marks_before(table, o), name);
		}
		if (m)
			return m;
		name->len = len;
	}
	return NULL;
}

bool opt_missing(const struct opt_table *table, const bool *seen, char err[OPT_ERR_MAX])
{
	char name[OPT_ERR_MAX / 2] = "";
	struct text t = {.buf = name, .size = sizeof(name)};
	const struct opt *o = missing(table, seen, &t);

	if (o)
		complain(err, 0, "%s= is missing (%s)", name, o->help);
	return o;
}
