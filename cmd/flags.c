// SPDX-License-Identifier: Apache-2.0
/*
 * flags.c - command-line flags, from the same tables as the file.
 */
#include "flags.h"
#include "config_int.h"
#include "../vmm/log.h"

static const struct device_type *type_of_flag(const char *flag)
{
	for (unsigned i = 0; device_types[i]; i++)
		if (device_types[i]->flag && !strcmp(device_types[i]->flag, flag))
			return device_types[i];
	return NULL;
}

/* --boot-source kernel_image_path=...: the fixed sections are flags too. */
static int set_fixed(struct config *c, const char *flag, const char *text)
{
	for (unsigned i = 0; i < config_nfixed; i++) {
		bool seen[32] = {false};
		char err[OPT_ERR_MAX];
		int r;

		if (strcmp(config_fixed[i].key, flag))
			continue;
		r = opt_parse_list(&config_fixed[i].table, config_fixed_of(c, i), text, seen, err);
		if (r)
			log_err("--%s %s: %s", flag, text, err);
		return r;
	}
	return -ENOENT;
}

static int set_timeout(struct flags *f, const char *text)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || v < 1 || v > 31536000) {
		log_err("-t %s: must be a number of seconds, 1 to 31536000", text);
		return -EINVAL;
	}
	f->timeout_s = (unsigned)v;
	return 0;
}

static int device_flag(struct config *c, const char *arg, const char *text)
{
	const struct device_type *type = type_of_flag(arg + 2);
	int r = type ? config_add_flag(c, type, text) : set_fixed(c, arg + 2, text);

	if (r == -ENOENT)
		log_err("%s: no such flag; --help lists them", arg);
	return r;
}

/* Position of FILE among the arguments: it is read before any flag, so that flags change what it says. */
static int find_file(struct flags *f, int argc, char **argv, bool with_timeout)
{
	for (int i = 1; i < argc; i++) {
		bool takes_value =
			!strncmp(argv[i], "--", 2) || (with_timeout && !strcmp(argv[i], "-t"));

		if (takes_value && i + 1 >= argc) {
			log_err("%s: its value is missing", argv[i]);
			return -EINVAL;
		}
		if (takes_value) {
			i++;
		} else if (argv[i][0] != '-') {
			if (f->file) {
				log_err("%s: one configuration file is enough (%s)", argv[i],
					f->file);
				return -EINVAL;
			}
			f->file = argv[i];
		}
	}
	return 0;
}

int flags_parse(struct flags *f, struct config *c, int argc, char **argv, bool with_timeout)
{
	int r;

	*f = (struct flags){0};
	r = find_file(f, argc, argv, with_timeout);
	if (!r && f->file)
		r = config_load(c, f->file);
	for (int i = 1; i < argc && !r; i++) {
		if (argv[i] == f->file)
			continue;
		if (!strcmp(argv[i], "-v")) {
			f->verbose = true;
			log_set_level(LOG_INFO);
		} else if (with_timeout && !strcmp(argv[i], "-t")) {
			r = set_timeout(f, argv[++i]);
		} else if (!strncmp(argv[i], "--", 2) && argv[i][2]) {
			r = device_flag(c, argv[i], argv[i + 1]);
			i++;
		} else {
			log_err("%s: no such flag; --help lists them", argv[i]);
			r = -EINVAL;
		}
	}
	return r ? r : config_check(c);
}

void flags_help(FILE *f)
{
	for (unsigned i = 0; i < config_nfixed; i++)
		fprintf(f, "  --%-14s KEY=VALUE,...   %s\n", config_fixed[i].key,
			config_fixed[i].help);
	for (unsigned i = 0; device_types[i]; i++)
		if (device_types[i]->flag)
			fprintf(f, "  --%-14s KEY=VALUE,...   %s\n", device_types[i]->flag,
				device_types[i]->help);
}
