// SPDX-License-Identifier: Apache-2.0
/*
 * device.h - what a device type is: one row. Config keys, --flag, help, thread, filter and the tests' device loop come
 * from it. To add a device: one file here, one line in table.c.
 */
#ifndef DEVICES_DEVICE_H
#define DEVICES_DEVICE_H

#include "../vmm/base.h"
#include "../vmm/option.h"
#include "../vmm/sandbox.h"

struct vm;

struct device {
	char name[32]; /* "blk0", "fs1": log prefix and thread name */
	const struct device_type *type;
	void (*destroy)(struct device *); /* accepts a half-built device; after its thread has ended */
};

enum device_class {
	DEVICE_PLATFORM, /* one per machine, made from its defaults even if the config does not name it */
	DEVICE_VIRTIO,	 /* the struct device is the head of a struct virtio_dev; gets a transport and an iothread */
};

struct device_type {
	const char *name;	/* "blk": stem of instance names */
	const char *section;	/* key in the JSON file: "drives", "fs", "entropy" */
	const char *flag;	/* command line: "drive" for --drive */
	const char *help;	/* one sentence */
	const char *id_key;	/* key whose value must be unique within the section, or NULL */
	enum device_class class;
	bool many;		/* the section is an array of objects, not one object */
	struct opt_table opts;
	struct syscalls syscalls; /* what its thread calls beyond the common list */
	/*
	 * Opens everything the device will ever need and checks it; starts nothing. index is the position among devices
	 * of this type. 0 or -errno (logged, naming the object and the remedy); *out only on success.
	 */
	int (*create)(struct vm *, const void *cfg, unsigned index, struct device **out);
};

/* The registry, NULL-terminated, in boot order (table.c). */
extern const struct device_type *const device_types[];

/* Fills the common head. */
void device_init(struct device *, const struct device_type *, unsigned index, void (*destroy)(struct device *));

#endif
