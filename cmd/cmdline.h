// SPDX-License-Identifier: Apache-2.0
/*
 * cmdline.h - the guest kernel's command line: the default one, and what the devices add to it.
 */
#ifndef CMD_CMDLINE_H
#define CMD_CMDLINE_H

#include "../vmm/vm.h"
#include "config.h"

/* TRANSPORT_PCI or TRANSPORT_MMIO: the configured one, or what boot_args imply. */
int cmdline_transport(const struct config *);
/*
 * boot_args or the default, then root=... of the root drive, then (mmio) a virtio_mmio.device= for each window, before
 * any " -- ". -E2BIG, logged, if it does not fit cap.
 */
int cmdline_build(const struct config *, const struct vm *, bool mmio, char *out, size_t cap)
	must_check;

#endif
