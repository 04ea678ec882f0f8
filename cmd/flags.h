// SPDX-License-Identifier: Apache-2.0
/*
 * flags.h - command lines of the verbs that make a machine: a config file, device flags, and a few of the verb's own.
 */
#ifndef CMD_FLAGS_H
#define CMD_FLAGS_H

#include "config.h"

struct flags {
	const char *file; /* NULL: none given */
	unsigned timeout_s;
};

/*
 * Reads argv[1..]: FILE, -v, -t SECONDS (with_timeout), and --FLAG VALUE of every device type and fixed section into
 * the config, which is loaded from FILE first. 0 or -EINVAL (logged).
 */
int flags_parse(struct flags *, struct config *, int argc, char **argv, bool with_timeout)
	must_check;
/* The lines of --help for device flags. */
void flags_help(FILE *);

#endif
