// SPDX-License-Identifier: Apache-2.0
/*
 * t_option.c - option tables: defaults, setters, lists, and the sentences that refuse.
 *
 * One struct with every kind of option. A refused value must leave the field as it was and say what
 * would be accepted.
 */
#include "../vmm/option.h"
#include "tap.h"

struct burst {
	uint64_t size;
	uint32_t time;
	bool hard;
};
struct limits {
	uint32_t rate;
	char *label;
	struct burst burst;
};
struct thing {
	char *path, *tag;
	bool readonly;
	uint32_t queues, raw32;
	uint64_t window, raw64;
	int cache;
	struct limits limits;
};

static const struct opt burst_opts[] = {
	{.key = "size",
	 .kind = OPT_U64,
	 .offset = offsetof(struct burst, size),
	 .required = true,
	 .help = "how large"},
	{.key = "time",
	 .kind = OPT_U32,
	 .offset = offsetof(struct burst, time),
	 .required = true,
	 .help = "how long"},
	{.key = "hard", .kind = OPT_BOOL, .offset = offsetof(struct burst, hard), .def = "off"},
};
static const struct opt_table burst_table = {burst_opts, ARRAY_LEN(burst_opts),
					     sizeof(struct burst)};
static const struct opt limits_opts[] = {
	{.key = "rate", .kind = OPT_U32, .offset = offsetof(struct limits, rate), .def = "100"},
	{.key = "label", .kind = OPT_STR, .offset = offsetof(struct limits, label), .def = "none"},
	{.key = "burst",
	 .kind = OPT_OBJECT,
	 .offset = offsetof(struct limits, burst),
	 .sub = &burst_table},
};
static const struct opt_table limits_table = {limits_opts, ARRAY_LEN(limits_opts),
					      sizeof(struct limits)};

static const char *const cache_names[] = {"never", "auto", "always", NULL};
static const struct opt thing_opts[] = {
	{.key = "path",
	 .kind = OPT_STR,
	 .offset = offsetof(struct thing, path),
	 .required = true,
	 .min = 1},
	{.key = "tag", .kind = OPT_STR, .offset = offsetof(struct thing, tag), .min = 1, .max = 5},
	{.key = "readonly",
	 .kind = OPT_BOOL,
	 .offset = offsetof(struct thing, readonly),
	 .def = "off"},
	{.key = "queues",
	 .kind = OPT_U32,
	 .offset = offsetof(struct thing, queues),
	 .min = 1,
	 .max = 32,
	 .def = "1"},
	{.key = "raw32", .kind = OPT_U32, .offset = offsetof(struct thing, raw32)},
	{.key = "window", .kind = OPT_U64, .offset = offsetof(struct thing, window), .def = "512M"},
	{.key = "raw64", .kind = OPT_U64, .offset = offsetof(struct thing, raw64), .min = 2},
	{.key = "cache",
	 .kind = OPT_ENUM,
	 .offset = offsetof(struct thing, cache),
	 .names = cache_names,
	 .def = "auto"},
	{.key = "limits",
	 .kind = OPT_OBJECT,
	 .offset = offsetof(struct thing, limits),
	 .sub = &limits_table},
	{.key = "dax", .kind = OPT_LATER, .help = "needs a shared memory window"},
	{.key = "io_engine", .kind = OPT_IGNORE},
};
static const struct opt_table table = {thing_opts, ARRAY_LEN(thing_opts), sizeof(struct thing)};
#define MARKS (ARRAY_LEN(thing_opts) + ARRAY_LEN(limits_opts) + ARRAY_LEN(burst_opts))

static const struct opt *opt_named(const char *key)
{
	const struct opt *o = opt_find(&table, key, strlen(key));

	need(o);
	return o;
}

static void test_defaults(void)
{
	struct thing t;

	memset(&t, 0xff, sizeof(t));
	need(!opt_defaults(&table, &t));
	ok(!t.path && !t.tag && !t.readonly && !t.raw32 && !t.raw64, "what has no default is zero");
	ok(t.queues == 1 && t.window == MIB(512) && t.cache == 1,
	   "defaults are set from their text");
	ok(t.limits.rate == 100 && !strcmp(t.limits.label, "none"),
	   "so are those of nested objects");
	opt_fini(&table, &t);
	ok(!t.limits.label, "strings are freed in nested objects too");
	opt_fini(&table, &t);
}

static void test_find(void)
{
	ok(opt_find(&table, "tagger", 3) == &thing_opts[1], "a key is found by its length");
	ok(!opt_find(&table, "tagger", 6) && !opt_find(&table, "ta", 2) &&
		   !opt_find(&table, "", 0) && !opt_find(&table, "Tag", 3),
	   "and nothing else is");
}

/* ---- values as text ---- */

struct text_case {
	const char *key, *text;
	int want;
	const char *err; /* if refused */
};

static const struct text_case text_cases[] = {
	{"queues", "0", -ERANGE, "must be between 1 and 32"},
	{"queues", "33", -ERANGE, "must be between 1 and 32"},
	{"queues", "4294967297", -ERANGE, "must be between 1 and 32"},
	{"queues", "", -EINVAL, "must be between 1 and 32"},
	{"queues", "-1", -EINVAL, "must be between 1 and 32"},
	{"queues", "+1", -EINVAL, "must be between 1 and 32"},
	{"queues", " 1", -EINVAL, "must be between 1 and 32"},
	{"queues", "1 ", -EINVAL, "must be between 1 and 32"},
	{"queues", "1x", -EINVAL, "must be between 1 and 32"},
	{"queues", "0x", -EINVAL, "must be between 1 and 32"},
	{"queues", "0x0x1", -EINVAL, "must be between 1 and 32"},
	{"queues", "a", -EINVAL, "must be between 1 and 32"},
	{"queues", "1KK", -EINVAL, "must be between 1 and 32"},
	{"raw32", "4G", -ERANGE, "must be between 0 and 4294967295"},
	{"raw64", "1", -ERANGE, "must be a whole number, at least 2"},
	{"raw64", "18446744073709551616", -ERANGE, "must be a whole number, at least 2"},
	{"raw64", "16777216T", -ERANGE, "must be a whole number, at least 2"},
	{"readonly", "yes", -EINVAL, "must be true or false"},
	{"readonly", "", -EINVAL, "must be true or false"},
	{"cache", "none", -EINVAL, "must be one of never, auto, always"},
	{"cache", "alway", -EINVAL, "must be one of never, auto, always"},
	{"tag", "", -ERANGE, "must be text of 1 to 5 bytes"},
	{"tag", "sixsix", -ERANGE, "must be text of 1 to 5 bytes"},
	{"path", "", -ERANGE, "must be text of at least 1 byte"},
	{"limits", "5", -EINVAL, "must be an object"},
	{"dax", "1G", -EINVAL, "is not supported: needs a shared memory window"},
};

static void test_refused_text(void)
{
	struct thing t, before;
	char err[OPT_ERR_MAX];

	need(!opt_defaults(&table, &t));
	before = t;
	for (unsigned i = 0; i < ARRAY_LEN(text_cases); i++) {
		const struct text_case *c = &text_cases[i];
		int r = opt_set_text(opt_named(c->key), &t, c->text, err);

		ok(r == c->want && !strcmp(err, c->err) && !memcmp(&t, &before, sizeof(t)),
		   "%s=%s: %s", c->key, c->text, c->err);
	}
	opt_fini(&table, &t);
}

static bool number_is(const char *text, uint64_t want)
{
	struct thing t = {0};
	char err[OPT_ERR_MAX];

	return !opt_set_text(opt_named("raw64"), &t, text, err) && t.raw64 == want;
}

static void test_good_text(void)
{
	struct thing t;
	char err[OPT_ERR_MAX];

	ok(number_is("64", 64) && number_is("010", 10),
	   "numbers are decimal, with or without zeros");
	ok(number_is("0x10", 16) && number_is("0Xff", 255) &&
		   number_is("0xFFFFFFFFFFFFFFFF", UINT64_MAX),
	   "or hexadecimal");
	ok(number_is("4K", 4096) && number_is("512M", MIB(512)) && number_is("3g", GIB(3)) &&
		   number_is("2T", GIB(2048)) && number_is("0x10k", KIB(16)),
	   "or in KiB, MiB, GiB, TiB");

	need(!opt_defaults(&table, &t));
	ok(!opt_set_text(opt_named("readonly"), &t, "ON", err) && t.readonly, "on is true");
	ok(!opt_set_text(opt_named("readonly"), &t, "false", err) && !t.readonly, "false is false");
	ok(!opt_set_text(opt_named("cache"), &t, "ALWAYS", err) && t.cache == 2,
	   "names are matched in any case");
	ok(!opt_set_text(opt_named("tag"), &t, "first", err) &&
		   !opt_set_text(opt_named("tag"), &t, "two", err) && !strcmp(t.tag, "two"),
	   "a string can be set again");
	ok(!opt_set_text(opt_named("io_engine"), &t, "Async", err),
	   "an ignored key takes anything");
	opt_fini(&table, &t);
}

static void test_typed(void)
{
	struct thing t;
	char err[OPT_ERR_MAX];

	need(!opt_defaults(&table, &t));
	ok(!opt_set_int(opt_named("queues"), &t, 32, err) && t.queues == 32, "a number can be set");
	is(opt_set_int(opt_named("queues"), &t, -1, err), -ERANGE,
	   "a negative number is out of range");
	is(opt_set_int(opt_named("raw32"), &t, 1ll << 32, err), -ERANGE,
	   "33 bits are too many for 32");
	is(opt_set_int(opt_named("tag"), &t, 1, err), -EINVAL, "a number is no text");
	is(opt_set_int(opt_named("readonly"), &t, 1, err), -EINVAL, "a number is no bool");
	ok(!strcmp(err, "must be true or false"), "and the sentence says what would be");
	is(opt_set_int(opt_named("cache"), &t, 1, err), -EINVAL, "a number is no name");
	ok(!opt_set_bool(opt_named("readonly"), &t, true, err) && t.readonly, "a bool can be set");
	is(opt_set_bool(opt_named("queues"), &t, true, err), -EINVAL, "a bool is no number");
	is(opt_set_str(opt_named("queues"), &t, "4", 1, err), -EINVAL,
	   "a JSON string is no number");
	is(opt_set_str(opt_named("tag"), &t, "a\0b", 3, err), -EINVAL,
	   "a NUL byte in a string is refused");
	ok(!opt_set_str(opt_named("tag"), &t, "abcdefgh", 3, err) && !strcmp(t.tag, "abc"),
	   "a string is as long as it is said to be");
	ok(!opt_set_str(opt_named("cache"), &t, "neverland", 5, err) && t.cache == 0,
	   "so is a name");
	is(opt_set_bool(opt_named("dax"), &t, true, err), -EINVAL,
	   "a key for later is refused with any value");
	is(opt_set_int(opt_named("io_engine"), &t, 1, err), 0, "an ignored key takes a number");
	is(opt_set_bool(opt_named("limits"), &t, true, err), -EINVAL, "a bool is no object");
	opt_fini(&table, &t);
}

/* ---- lists ---- */

static void test_good_lists(void)
{
	bool seen[MARKS] = {false};
	struct thing t;
	char err[OPT_ERR_MAX];

	need(!opt_defaults(&table, &t));
	ok(!opt_parse_list(&table, &t, "tag=src,path=/srv/a=b,readonly,queues=2,cache=never", seen,
			   err),
	   "a list is accepted");
	ok(!strcmp(t.tag, "src") && !strcmp(t.path, "/srv/a=b") && t.readonly && t.queues == 2 &&
		   t.cache == 0,
	   "every item reaches its field, and a value may hold an equals sign");
	ok(seen[0] && seen[1] && seen[2] && seen[3] && !seen[4] && !seen[5] && !seen[6] &&
		   seen[7] && !seen[8],
	   "what was set is marked");

	ok(!opt_parse_list(&table, &t, "/a,,b,,,readonly=off", seen, err) &&
		   !strcmp(t.path, "/a,b,") && !t.readonly,
	   "the first item may lack its key, and a doubled comma is a comma");
	ok(!opt_parse_list(&table, &t, "tag=a,,", seen, err) && !strcmp(t.tag, "a,"),
	   "at the end too");
	ok(!opt_parse_list(&table, &t, "readonly", seen, err) && t.readonly &&
		   !strcmp(t.path, "/a,b,"),
	   "a bool that comes first is that bool");
	ok(!opt_parse_list(&table, &t, "tag", seen, err) && !strcmp(t.path, "tag"),
	   "another key that comes first alone is a value");
	is(opt_parse_list(&table, &t, "", seen, err), 0, "an empty list sets nothing");
	opt_fini(&table, &t);
}

static const struct text_case list_cases[] = {
	{NULL, "tag=a,colour=red", -EINVAL,
	 "colour: unknown; there is path tag readonly queues raw32 window raw64 cache limits"},
	{NULL, "a=b", -EINVAL,
	 "a: unknown; there is path tag readonly queues raw32 window raw64 cache limits"},
	{NULL, "tag=a,queues=99", -ERANGE, "queues: must be between 1 and 32"},
	{NULL, "tag=a,queues", -EINVAL, "queues: needs a value"},
	{NULL, "tag=a,readonly=maybe", -EINVAL, "readonly: must be true or false"},
	{NULL, "tag=a,", -EINVAL, "has an item without a key"},
	{NULL, ",tag=a", -EINVAL, "has an item without a key"},
	{NULL, "=a", -EINVAL, "has an item without a key"},
	{NULL, "tag=toolong", -ERANGE, "tag: must be text of 1 to 5 bytes"},
	{NULL, "tag=a,limits=3", -EINVAL,
	 "limits: is an object: give what is in it, limits.KEY=VALUE"},
	{NULL, "tag=a,limits", -EINVAL,
	 "limits: is an object: give what is in it, limits.KEY=VALUE"},
	{NULL, "tag=a,limits.burst=", -EINVAL,
	 "limits.burst: is an object: give what is in it, limits.burst.KEY=VALUE"},
	{NULL, "tag=a,limits.rate=-1", -EINVAL, "limits.rate: must be between 0 and 4294967295"},
	{NULL, "tag=a,limits.rate", -EINVAL, "limits.rate: needs a value"},
	{NULL, "tag=a,limits.colour=1", -EINVAL,
	 "limits.colour: unknown; there is rate label burst"},
	{NULL, "tag=a,limits.burst.rate=1", -EINVAL,
	 "limits.burst.rate: unknown; there is size time hard"},
	{NULL, "tag=a,limits.=1", -EINVAL, "limits.: unknown; there is rate label burst"},
	{NULL, "tag=a,.rate=1", -EINVAL,
	 ".rate: unknown; there is path tag readonly queues raw32 window raw64 cache limits"},
	{NULL, "tag.rate=1", -EINVAL,
	 "tag.rate: unknown; there is path tag readonly queues raw32 window raw64 cache limits"},
	{NULL, "tag=a,dax.size=1G", -EINVAL,
	 "dax.size: is not supported: needs a shared memory window"},
	{NULL, "tag=a,dax=1G", -EINVAL, "dax: is not supported: needs a shared memory window"},
};

static void test_refused_lists(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(list_cases); i++) {
		const struct text_case *c = &list_cases[i];
		bool seen[MARKS] = {false};
		char err[OPT_ERR_MAX] = "";
		struct thing t;

		need(!opt_defaults(&table, &t));
		ok(opt_parse_list(&table, &t, c->text, seen, err) == c->want &&
			   !strcmp(err, c->err),
		   "%s: %s", c->text, c->err);
		opt_fini(&table, &t);
	}
}

static void test_long_key(void)
{
	bool seen[MARKS] = {false};
	char err[OPT_ERR_MAX], text[1000];
	struct thing t = {0};

	memset(text, 'k', sizeof(text));
	memcpy(text + sizeof(text) - 3, "=v", 3);
	ok(opt_parse_list(&table, &t, text, seen, err) == -EINVAL && strlen(err) < OPT_ERR_MAX,
	   "a key of a thousand bytes is refused in one short sentence");
}

/* ---- objects in a list ---- */

static void test_objects(void)
{
	bool seen[MARKS] = {false};
	char err[OPT_ERR_MAX];
	struct thing t;

	is(opt_count(&table), MARKS, "the keys of objects are counted");
	need(!opt_defaults(&table, &t));
	ok(!opt_parse_list(&table, &t,
			   "path=p,limits.rate=7,limits.burst.size=4K,limits.burst.hard,"
			   "limits.label=a.b=c,,d,queues=3",
			   seen, err),
	   "a list reaches into objects, and into those in them");
	ok(t.limits.rate == 7 && t.limits.burst.size == 4096 && t.limits.burst.hard &&
		   !strcmp(t.limits.label, "a.b=c,d") && t.queues == 3 && !t.limits.burst.time,
	   "each value is where it belongs, whatever is in it");
	ok(opt_missing(&table, seen, err) &&
		   !strcmp(err, "limits.burst.time= is missing (how long)"),
	   "who gives a part of an object gives what it requires");
	need(!opt_parse_list(&table, &t, "limits.burst.time=1", seen, err));
	ok(!opt_missing(&table, seen, err), "then nothing is missing");
	opt_fini(&table, &t);

	memset(seen, 0, sizeof(seen));
	need(!opt_defaults(&table, &t));
	need(!opt_parse_list(&table, &t, "path=p,limits.rate=7", seen, err));
	ok(!opt_missing(&table, seen, err), "nor is an object of which nothing was given");
	need(!opt_parse_list(&table, &t, "limits.burst.hard", seen, err));
	ok(t.limits.burst.hard && !strcmp(t.path, "p"), "its bool may come first and alone");
	opt_fini(&table, &t);

	memset(seen, 0, sizeof(seen));
	need(!opt_defaults(&table, &t));
	need(!opt_parse_list(&table, &t, "limits.rate", seen, err));
	ok(!strcmp(t.path, "limits.rate") && t.limits.rate == 100 && seen[0],
	   "another that does is a value of the first option");
	ok(!opt_missing(&table, seen, err), "and no part of an object");
	need(!opt_parse_list(&table, &t, "disk.img,tag=a", seen, err));
	ok(!strcmp(t.path, "disk.img"), "as is any text with a dot");
	memset(seen, 0, sizeof(seen));
	need(!opt_parse_list(&table, &t, "tag=a", seen, err));
	ok(opt_missing(&table, seen, err) && !strncmp(err, "path= is missing", 16),
	   "what the table itself requires is missed");
	opt_fini(&table, &t);
}

/* ---- showing ---- */

static bool shows(const char *key, const struct thing *t, const char *want)
{
	char buf[100];

	opt_text(opt_named(key), t, buf, sizeof(buf));
	return !strcmp(buf, want);
}

static void test_show(void)
{
	struct thing t = {.path = (char *)"/a \"b\"\\\n\x01\xc3\xa9",
			  .queues = 7,
			  .raw64 = UINT64_MAX,
			  .cache = 2};
	char buf[100];

	ok(shows("path", &t, "\"/a \\\"b\\\"\\\\\\u000a\\u0001\xc3\xa9\""),
	   "a string is shown as JSON");
	ok(shows("tag", &t, "null"), "an absent string is null");
	ok(shows("readonly", &t, "false") && shows("queues", &t, "7") &&
		   shows("raw64", &t, "18446744073709551615"),
	   "bools and numbers are shown as JSON");
	ok(shows("cache", &t, "\"always\""), "a name is shown as a string");
	ok(shows("dax", &t, "") && shows("limits", &t, ""), "what has no value shows none");

	memset(buf, 'x', sizeof(buf));
	opt_text(opt_named("path"), &t, buf, 6);
	ok(!memcmp(buf, "\"/a \\\0x", 7), "a short buffer is filled to its end and no further");
	opt_text(opt_named("path"), &t, buf, 0);
	ok(buf[0] == '"', "a buffer of no bytes is left alone");
}

static bool accepts(const char *key, const char *want)
{
	char buf[100];

	opt_accepts(opt_named(key), buf, sizeof(buf));
	return !strcmp(buf, want);
}

static void test_accepts(void)
{
	ok(accepts("readonly", "true or false") && accepts("queues", "1 to 32") &&
		   accepts("cache", "one of never, auto, always"),
	   "what is accepted is said in words");
	ok(accepts("raw32", "0 to 4294967295") && accepts("window", "a whole number") &&
		   accepts("raw64", "a whole number, at least 2"),
	   "numbers without a bound too");
	ok(accepts("path", "text of at least 1 byte") && accepts("tag", "text of 1 to 5 bytes") &&
		   accepts("limits", "an object"),
	   "and text and objects");
}

/* ---- an option's own check, and tables of which little holds a value ---- */

struct checked {
	char *id;
	uint32_t size;
};
static const struct opt checked_opts[] = {
	{.key = "later", .kind = OPT_LATER, .help = "not built"},
	{.key = "id",
	 .kind = OPT_STR,
	 .offset = offsetof(struct checked, id),
	 .check = opt_check_id},
	{.key = "size",
	 .kind = OPT_U32,
	 .offset = offsetof(struct checked, size),
	 .max = 1024,
	 .check = opt_check_pow2},
};

static void test_check(void)
{
	static const struct opt_table t = {checked_opts, ARRAY_LEN(checked_opts),
					   sizeof(struct checked)};
	const struct opt *id = &checked_opts[1], *size = &checked_opts[2];
	char err[OPT_ERR_MAX];
	struct checked c;
	bool seen[3] = {0};

	need(!opt_defaults(&t, &c) && !opt_set_text(id, &c, "aZ_09", err) &&
	     !opt_set_int(size, &c, 64, err));
	ok(opt_set_str(id, &c, "a-b", 3, err) == -EINVAL &&
		   !strcmp(err, "must be of letters, digits and _") && !strcmp(c.id, "aZ_09"),
	   "an option's own check refuses text, which then stays as it was");
	ok(opt_set_str(id, &c, "ab-", 2, err) == 0 && !strcmp(c.id, "ab"),
	   "and looks at no more than it was given");
	ok(opt_set_text(size, &c, "96", err) == -EINVAL && !strcmp(err, "must be a power of two") &&
		   c.size == 64,
	   "numbers too");
	ok(opt_set_text(size, &c, "0", err) == -EINVAL && !opt_set_text(size, &c, "1024", err),
	   "of which 0 is no power of two");
	ok(opt_set_int(size, &c, 2048, err) == -ERANGE && strstr(err, "between"),
	   "the range is looked at first");
	ok(!opt_parse_list(&t, &c, "word", seen, err) && !strcmp(c.id, "word") && seen[1],
	   "an item without a key goes to the first option that holds a value");
	opt_fini(&t, &c);
}

static void test_nothing_to_set(void)
{
	static const struct opt_table t = {checked_opts, 1, sizeof(struct checked)};
	char err[OPT_ERR_MAX];
	struct checked c;
	bool seen[1] = {0};

	need(!opt_defaults(&t, &c));
	ok(opt_parse_list(&t, &c, "x", seen, err) == -EINVAL &&
		   !strcmp(err, "x: unknown; there is nothing to set"),
	   "where no option holds a value, none takes one");
	ok(opt_parse_list(&t, &c, "x=y", seen, err) == -EINVAL &&
		   !strcmp(err, "x: unknown; there is nothing to set"),
	   "with a key or without");
	ok(opt_parse_list(&t, &c, "later", seen, err) == -EINVAL && strstr(err, "later: "),
	   "what is not built is named all the same");
}

int main(void)
{
	test_defaults();
	test_find();
	test_refused_text();
	test_good_text();
	test_typed();
	test_good_lists();
	test_refused_lists();
	test_long_key();
	test_objects();
	test_show();
	test_accepts();
	test_check();
	test_nothing_to_set();
	return done();
}
