// SPDX-License-Identifier: Apache-2.0
/*
 * flags.c - command-line flags, from the same tables as the file.
 */
#include "flags.h"
#include "config_int.h"
#include "../vmm/log.h"

/* What an argument is, for both passes over them. */
enum arg { ARG_FILE, ARG_VERBOSE, ARG_TIMEOUT, ARG_SECTION, ARG_UNKNOWN };

static const struct device_type *type_of_flag(const char *flag)
{
	for (unsigned i = 0; device_types[i]; i++)
		if (device_types[i]->flag && !strcmp(device_types[i]->flag, flag))
			return device_types[i];
	return NULL;
}

/* --boot-source kernel_image_path=...: the fixed sections are flags too. config_nfixed: not one of them. */
static unsigned fixed_of_flag(const char *flag)
{
	unsigned i = 0;

	while (i < config_nfixed && strcmp(config_fixed[i].key, flag) != 0)
		i++;
	return i;
}

static enum arg arg_kind(const char *arg, bool with_timeout)
{
	if (arg[0] != '-')
		return ARG_FILE;
	if (!strcmp(arg, "-v"))
		return ARG_VERBOSE;
	if (!strcmp(arg, "-t") && with_timeout)
		return ARG_TIMEOUT;
	if (arg[1] == '-' && (type_of_flag(arg + 2) || fixed_of_flag(arg + 2) < config_nfixed))
		return ARG_SECTION;
	return ARG_UNKNOWN;
}

static int set_fixed(struct config *c, unsigned i, const char *text)
{
	const struct opt_table *t = &config_fixed[i].table;
	auto_free bool *seen = calloc(opt_count(t), sizeof(*seen));
	char err[OPT_ERR_MAX];
	int r = -ENOMEM;

	if (seen)
		r = opt_parse_list(t, config_fixed_of(c, i), text, seen, err);
	if (r)
		log_err("--%s " CONFIG_FLAG_SHOWN ": %s", config_fixed[i].key, text,
			seen ? err : strerror(-r));
	return r;
}

static int set_section(struct config *c, const char *flag, const char *text)
{
	const struct device_type *type = type_of_flag(flag);

	return type ? config_add_flag(c, type, text) : set_fixed(c, fixed_of_flag(flag), text);
}

static int set_timeout(struct flags *f, const char *text)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || v < 1 || v > 31536000) {
		log_err("-t " CONFIG_FLAG_SHOWN ": must be a number of seconds, 1 to 31536000",
			text);
		return -EINVAL;
	}
	f->timeout_s = (unsigned)v;
	return 0;
}

/*
 * First pass: what is given, and that every flag is one and has its value. FILE is found here, wherever it stands: it is
 * read before any flag, so that flags change what it says.
 */
static int find_file(struct flags *f, int argc, char **argv, bool with_timeout)
{
	for (int i = 1; i < argc; i++) {
		enum arg kind = arg_kind(argv[i], with_timeout);

		if (kind == ARG_UNKNOWN) {
			log_err(CONFIG_FLAG_SHOWN ": no such flag; --help lists them", argv[i]);
			return -EINVAL;
		}
		if (kind == ARG_FILE && f->file) {
			log_err("%s: one configuration file is enough (%s)", argv[i], f->file);
			return -EINVAL;
		}
		if (kind == ARG_FILE)
			f->file = argv[i];
		if ((kind == ARG_TIMEOUT || kind == ARG_SECTION) && ++i == argc) {
			log_err("%s: its value is missing", argv[i - 1]);
			return -EINVAL;
		}
	}
	return 0;
}

static int apply(struct flags *f, struct config *c, int argc, char **argv, bool with_timeout)
{
	int r = 0;

	for (int i = 1; i < argc && !r; i++) {
		switch (arg_kind(argv[i], with_timeout)) {
		case ARG_VERBOSE:
			log_set_level(LOG_INFO);
			break;
		case ARG_TIMEOUT:
			r = set_timeout(f, argv[++i]);
			break;
		case ARG_SECTION:
			r = set_section(c, argv[i] + 2, argv[i + 1]);
			i++;
			break;
		default:
			break; /* FILE */
		}
	}
	return r;
}

int flags_parse(struct flags *f, struct config *c, int argc, char **argv, bool with_timeout)
{
	int r;

	*f = (struct flags){0};
	r = find_file(f, argc, argv, with_timeout);
	if (!r && f->file)
		r = config_load(c, f->file);
	if (!r)
		r = apply(f, c, argc, argv, with_timeout);
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
