// SPDX-License-Identifier: Apache-2.0
/*
 * share_idmap.c - the guest's ids and the host's.
 */
#include "share_int.h"

bool share_map_check(const void *string, char err[OPT_ERR_MAX])
{
	(void)string, (void)err;
	return true;
}
