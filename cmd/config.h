// SPDX-License-Identifier: Apache-2.0
/*
 * config.h - the one typed model of a machine, and the ways to fill it.
 *
 * The file format is Firecracker's --config-file JSON plus our own keys; a section is a key of the file. Fixed sections
 * (boot-source, machine-config) are structs here; every other one belongs to a row of the device registry and is
 * filled through its option table, from the file and from --FLAG key=value,... alike. Unknown keys, missing ones and bad
 * values are refused with the path to the key, the line and column, and what would be accepted. // and block comments are
 * allowed; null means absent, [] that there are none.
 */
#ifndef CMD_CONFIG_H
#define CMD_CONFIG_H

#include "../devices/device.h"
#include <stdio.h>

struct boot_source {
	char *kernel_image_path, *initrd_path, *boot_args;
};

enum { TRANSPORT_AUTO, TRANSPORT_PCI, TRANSPORT_MMIO };
enum { PAGES_TRANSPARENT, PAGES_NONE, PAGES_2M };

struct machine_config {
	uint32_t vcpu_count;
	uint32_t mem_size_mib;
	int huge_pages, transport;
	char *cpu_mask;
};

struct config_device {
	const struct device_type *type;
	void *cfg; /* described by type->opts */
};

struct config {
	struct boot_source boot;
	struct machine_config machine;
	struct config_device *dev; /* in the order given */
	unsigned ndev;
};

/* Those that take a slot; platform devices (serial, rtc, ...) do not. */
#define CONFIG_MAX_DEVICES 30

/* Every default. -ENOMEM. */
int config_init(struct config *) must_check;
void config_fini(struct config *);

/* Reads a file into a config fresh from config_init(). 0 or -errno; one logged line per fault, the first one ends it. */
int config_load(struct config *, const char *path) must_check;
/* Adds (or, for a section that is one object, changes) a device from a flag's text. Same errors; flag is for messages. */
int config_add_flag(struct config *, const struct device_type *, const char *text) must_check;
/*
 * What only the whole can tell: required keys, ids used twice, two root drives, RAM that huge pages cannot make up, more
 * devices than the transport has interrupts for. Puts the root drive first, so that it
 * is /dev/vda whatever the order in the file. 0 or -EINVAL (logged).
 */
int config_check(struct config *) must_check;
/* The effective model as JSON that loads again to the same model. */
void config_print(const struct config *, FILE *);
/* The fixed sections' tables by their key, for `wherry devices`; NULL at the end. */
const struct opt_table *config_section(unsigned i, const char **key, const char **help);

#endif
