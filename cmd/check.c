// SPDX-License-Identifier: Apache-2.0
/*
 * check.c - `wherry check CONFIG.json`: the effective model as JSON, which loads again to the same model.
 */
#include "flags.h"
#include "verbs.h"

int verb_check(int argc, char **argv)
{
	struct config c;
	struct flags f;
	int status = EXIT_NO_START;

	if (config_init(&c))
		return status;
	if (!flags_parse(&f, &c, argc, argv, false)) {
		config_print(&c, stdout);
		status = 0;
	}
	config_fini(&c);
	return status;
}
