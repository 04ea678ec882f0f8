// SPDX-License-Identifier: Apache-2.0
/*
 * table.h - the rows of the device types, each defined at the end of its own file; table.c puts
 * them in order.
 */
#ifndef DEVICES_TABLE_H
#define DEVICES_TABLE_H

#include "device.h"

extern const struct device_type serial_device;  /* serial.c */
extern const struct device_type i8042_device;   /* i8042.c */
extern const struct device_type pvpanic_device; /* pvpanic.c */
extern const struct device_type rtc_device;     /* rtc.c */
extern const struct device_type rng_device;     /* virtio_rng.c */
extern const struct device_type blk_device;     /* virtio_blk.c */
extern const struct device_type fs_device;      /* virtio_fs.c */
extern const struct device_type p9_device;      /* virtio_9p.c */

#endif
