// SPDX-License-Identifier: Apache-2.0
/*
 * config_file.h - for the tests of the configuration: a text as a file that is loaded, and what was said about it.
 *
 * config_dir_enter() first: the file is m.json in a directory of its own, which is the current one, so that a message
 * begins "wherry: error: m.json:".
 */
#ifndef TESTS_CONFIG_FILE_H
#define TESTS_CONFIG_FILE_H

#include "../cmd/config_int.h"
#include "../vmm/log.h"
#include "capture.h"
#include "tap.h"
#include <fcntl.h>

#define NAME "m.json"
#define SAYS "wherry: error: " NAME ":"

/* ---- the file ---- */

static char config_dir[] = "/tmp/t_config.XXXXXX";

__attribute__((unused)) static void config_dir_enter(void)
{
	need(mkdtemp(config_dir) && !chdir(config_dir));
}

__attribute__((unused)) static void config_dir_leave(void)
{
	unlink(NAME);
	need(!chdir("/") && !rmdir(config_dir));
}

static void write_file(const void *text, size_t len)
{
	auto_fd fd = open(NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	need(fd >= 0 && write(fd, text, len) == (ssize_t)len);
}

struct loaded {
	struct config c; /* unload() frees it */
	int err;
	char said[2048];
};

__attribute__((unused)) static void load_path(struct loaded *l, const char *path)
{
	struct capture cap;

	need(!config_init(&l->c));
	capture_begin(&cap);
	l->err = config_load(&l->c, path);
	capture_end(&cap, l->said, sizeof(l->said));
}

__attribute__((unused)) static void load(struct loaded *l, const char *text)
{
	write_file(text, strlen(text));
	load_path(l, NAME);
}

__attribute__((unused)) static void unload(struct loaded *l)
{
	config_fini(&l->c);
}

/* As printed by `wherry check`; the caller frees it. */
__attribute__((unused)) static char *printed(const struct config *c)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	need(f);
	config_print(c, f);
	need(!fclose(f));
	return text;
}

/* The one device of a type; the nth of it. */
__attribute__((unused)) static void *device_cfg(const struct config *c,
						const struct device_type *type, unsigned nth)
{
	for (unsigned i = 0; i < c->ndev; i++)
		if (c->dev[i].type == type && nth-- == 0)
			return c->dev[i].cfg;
	return NULL;
}

/* ---- every section there is ---- */

struct section {
	const char *key;
	const struct opt_table *table;
	const struct device_type *type; /* NULL: fixed */
	unsigned fixed;                 /* index into config_fixed, if it is one */
};

/* False after the last. */
__attribute__((unused)) static bool section_get(unsigned i, struct section *s)
{
	if (i < config_nfixed) {
		*s = (struct section){
			.key = config_fixed[i].key, .table = &config_fixed[i].table, .fixed = i};
		return true;
	}
	if (!device_types[i - config_nfixed])
		return false;
	*s = (struct section){.key = device_types[i - config_nfixed]->section,
			      .table = &device_types[i - config_nfixed]->opts,
			      .type = device_types[i - config_nfixed]};
	return true;
}

/* The struct that holds a section's keys, the first one of a list; NULL: the configuration has none. */
__attribute__((unused)) static void *section_object(const struct config *c, const struct section *s)
{
	return s->type ? device_cfg(c, s->type, 0) : config_fixed_of(c, s->fixed);
}

/* Whether a text of the right length, or a number in range, also passes the option's own check. */
__attribute__((unused)) static bool passes(const struct opt *o, const char *text)
{
	uint64_t n = strtoull(text, NULL, 10);
	char err[OPT_ERR_MAX];

	return !o->check || o->check(o->kind == OPT_STR ? (const void *)text : &n, err);
}

/* A value that is accepted and is not the default, as text for a flag. */
__attribute__((unused)) static const char *good_text(const struct opt *o, char buf[32])
{
	static const char *const words[] = {"word", "a-0", "aes", "0:1000:1"};
	unsigned names = 0, word = 0;

	switch (o->kind) {
	case OPT_BOOL:
		return o->def && !strcmp(o->def, "true") ? "false" : "true";
	case OPT_U32:
	case OPT_U64:
		snprintf(buf, 32, "%llu", (unsigned long long)(o->max ? o->max - 1 : 7));
		if (!passes(o, buf))
			snprintf(buf, 32, "%llu", (unsigned long long)o->min);
		return buf;
	case OPT_ENUM:
		while (o->names[names])
			names++;
		return o->def && !strcmp(o->def, o->names[names - 1]) ? o->names[0]
								      : o->names[names - 1];
	default:
		while (word < ARRAY_LEN(words) - 1 && !passes(o, words[word]))
			word++;
		return words[word];
	}
}

/* The same as JSON. */
__attribute__((unused)) static const char *good_json(const struct opt *o, char buf[64])
{
	char text[32];

	if (o->kind == OPT_STR || o->kind == OPT_ENUM)
		snprintf(buf, 64, "\"%s\"", good_text(o, text));
	else
		snprintf(buf, 64, "%s", good_text(o, text));
	return buf;
}

/* Kinds that have a value of their own. */
__attribute__((unused)) static bool has_value(const struct opt *o)
{
	return o->kind != OPT_LATER && o->kind != OPT_IGNORE && o->kind != OPT_OBJECT;
}

#endif
