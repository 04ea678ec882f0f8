// SPDX-License-Identifier: Apache-2.0
/*
 * table.c - the registry: every device type there is, in boot order.
 *
 * The order is what a guest sees: PCI slots and virtio-mmio windows are handed out along it, so
 * drives keep their names (hard case B15). A new device type adds a line here and one in table.h;
 * its keys, flag, help, thread and filter come from its row. A table that grep finds, rather than
 * constructors whose order the linker chooses.
 */
#include "table.h"
#include <stdio.h>

const struct device_type *const device_types[] = {
	&serial_device, &i8042_device, &pvpanic_device, &rtc_device, &rng_device,
	&blk_device,    &fs_device,    &p9_device,      NULL,
};

void device_init(struct device *d, const struct device_type *type, unsigned index,
		 void (*destroy)(struct device *))
{
	*d = (struct device){.type = type, .destroy = destroy};
	if (type->many)
		snprintf(d->name, sizeof(d->name), "%s%u", type->name, index);
	else
		snprintf(d->name, sizeof(d->name), "%s", type->name);
}
