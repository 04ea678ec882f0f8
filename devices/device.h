// SPDX-License-Identifier: Apache-2.0
/*
 * device.h - what a device type is: one row. Config keys, --flag, help, thread, filter and the
 * tests' device loop come from it. To add a device: one file here, one line in table.c.
 */
#ifndef DEVICES_DEVICE_H
#define DEVICES_DEVICE_H

#include "../vmm/base.h"
#include "../vmm/option.h"
#include "../vmm/sandbox.h"

struct vm;

struct device {
	char name[32]; /* "blk0", "rng": log prefix and thread name */
	const struct device_type *type;
	struct device *next; /* of the machine, in boot order; whoever made it keeps the list */
	/* Starts threads of its own, once the process is locked down. NULL: there are none. */
	int (*run)(struct device *);
	/*
	 * The host's side may have changed (a disk grew): looks again, tells the guest. On the main thread, while the machine
	 * runs. 0 or -errno (logged): all is as before. NULL: nothing can change.
	 */
	int (*refresh)(struct device *);
	/* Accepts a half-built device. After its thread has ended. */
	void (*destroy)(struct device *);
};

enum device_class {
	/* One per machine, made from its defaults even if the config does not name it. */
	DEVICE_PLATFORM,
	/* The struct device heads a struct virtio_dev; gets a transport and an iothread. */
	DEVICE_VIRTIO,
};

struct device_type {
	const char *name;    /* "blk": of instances, with their index if there may be many */
	const char *section; /* key in the JSON file: "drives", "fs", "entropy" */
	const char *flag;    /* command line: "drive" for --drive; NULL: nothing to set */
	const char *help;    /* one sentence */
	const char *id_key;  /* key whose value must be unique within the section, or NULL */
	enum device_class class;
	bool many; /* the section is an array of objects, not one object */
	struct opt_table opts;
	/* What its thread calls beyond the common list; NULL: nothing. */
	const struct syscalls *syscalls;
	/*
	 * Opens everything the device will ever need and checks it; starts nothing. index is the
	 * position among devices of this type. 0 or -errno (logged, naming the object and the
	 * remedy); *out only on success.
	 */
	int (*create)(struct vm *, const void *cfg, unsigned index, struct device **out);
};

/* The registry, NULL-terminated, in boot order (table.c). */
extern const struct device_type *const device_types[];

/* Fills the common head. */
void device_init(struct device *, const struct device_type *, unsigned index,
		 void (*destroy)(struct device *));

#endif
