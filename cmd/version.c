// SPDX-License-Identifier: Apache-2.0
/*
 * version.c - `wherry version`.
 */
#include "verbs.h"
#include <stdio.h>

int verb_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("wherry 0.1.0\n");
	return 0;
}
