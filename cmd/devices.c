// SPDX-License-Identifier: Apache-2.0
/*
 * devices.c - `wherry devices [TYPE]`: every key of the configuration, from the tables that read it.
 */
#include "config.h"
#include "verbs.h"
#include "../vmm/log.h"

/* depth: in how many objects the table lies. */
static void print_keys(const struct opt_table *t, int depth);

static void print_key(const struct opt *o, int depth)
{
	int indent = 4 + 2 * depth, width = 20 - 2 * depth;
	char accepts[OPT_ERR_MAX];

	if (o->kind == OPT_LATER) {
		printf("%*s%-*s not built: %s\n", indent, "", width, o->key, o->help);
		return;
	}
	printf("%*s%-*s %s\n", indent, "", width, o->key, o->help);
	if (o->kind == OPT_OBJECT)
		print_keys(o->sub, depth + 1);
	if (o->kind == OPT_OBJECT || o->kind == OPT_IGNORE)
		return;
	opt_accepts(o, accepts, sizeof(accepts));
	printf("%*s %s; %s%s\n", indent + width, "", accepts,
	       o->required ? "required"
	       : o->def    ? "default "
			   : "no default",
	       !o->required && o->def ? o->def : "");
}

static void print_keys(const struct opt_table *t, int depth)
{
	for (unsigned i = 0; i < t->n; i++)
		print_key(&t->opts[i], depth);
}

static void print_table(const char *key, const char *help, const char *flag,
			const struct opt_table *t)
{
	printf("%s - %s", key, help);
	if (flag)
		printf("   (--%s KEY=VALUE,...)", flag);
	printf("\n");
	print_keys(t, 0);
}

int verb_devices(int argc, char **argv)
{
	const char *want = argc > 1 ? argv[1] : NULL, *key, *help;
	const struct opt_table *t;
	bool found = false;

	for (unsigned i = 0; (t = config_section(i, &key, &help)); i++)
		if (!want || !strcmp(want, key)) {
			print_table(key, help, key, t);
			found = true;
		}
	for (unsigned i = 0; device_types[i]; i++) {
		const struct device_type *d = device_types[i];

		if (want && strcmp(want, d->section) && strcmp(want, d->name))
			continue;
		print_table(d->section, d->help, d->flag, &d->opts);
		found = true;
	}
	if (found)
		return 0;
	log_err("devices %s: no such section; `wherry devices` lists all", want);
	return EXIT_NO_START;
}
