// SPDX-License-Identifier: Apache-2.0
/*
 * config_int.h - between config.c (the model) and config_json.c (its file).
 */
#ifndef CMD_CONFIG_INT_H
#define CMD_CONFIG_INT_H

#include "config.h"

/* A section that is one struct inside struct config. */
struct config_fixed {
	const char *key, *help;
	size_t offset;
	struct opt_table table;
};
extern const struct config_fixed config_fixed[];
extern const unsigned config_nfixed;

static inline void *config_fixed_of(const struct config *c, unsigned i)
{
	return (char *)c + config_fixed[i].offset;
}

/* Messages show no more of a flag's text: reason and remedy come after it. */
#define CONFIG_FLAG_SHOWN "%.300s"
#define CONFIG_TOO_MANY   "one device too many: a machine has at most 30"
_Static_assert(CONFIG_MAX_DEVICES == 30, "CONFIG_TOO_MANY says so");

/*
 * The struct of a new device with its defaults, or, for a type that is one per machine, of the one there is. -ENOMEM;
 * -ENOSPC, which the caller logs as CONFIG_TOO_MANY with the place.
 */
int config_add_device(struct config *, const struct device_type *, void **cfg) must_check;

#endif
