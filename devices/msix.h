// SPDX-License-Identifier: Apache-2.0
/*
 * msix.h - the MSI-X capability of a PCI function: vector table, pending bits, one struct irq per vector.
 *
 * Table and pending bits take the first 4 KiB of a BAR of their own. msix_raise() may be called on any thread and takes
 * no lock; everything else comes from vCPU threads, through the BAR or the configuration space.
 * Spec: PCI Local Bus 3.0, 6.8.2 and 6.8.3.
 */
#ifndef DEVICES_MSIX_H
#define DEVICES_MSIX_H

#include "../vmm/irq.h"
#include "../vmm/log.h"
#include "pci.h"

#define MSIX_MAX      128u /* 2 KiB of table */
#define MSIX_BAR_SIZE 0x1000u

struct msix_vector {
	struct irq irq;
	uint32_t word[4];     /* as the guest sees the entry: address low, high, data, control */
	bool masked, pending; /* atomic */
};

struct msix {
	struct pci_dev *pci;  /* borrowed */
	pthread_mutex_t lock; /* flags, the table and its routes; only irq.c's is taken inside */
	unsigned cap, n;
	uint16_t flags; /* PCI_MSIX_FLAGS_ENABLE and _MASKALL, as last written */
	bool enabled;   /* atomic */
	struct msix_vector *vec;
	struct log_limit no_route;
};

/*
 * Adds the capability for n vectors, with its table in BAR bar, which is the caller's to fill (MSIX_BAR_SIZE, ops
 * that call msix_read and msix_write). Before pci_host_add(). -ENOMEM, -ENOSPC, -EMFILE.
 */
int msix_init(struct msix *, struct pci_dev *, struct vm *, unsigned bar, unsigned n) must_check;
void msix_fini(struct msix *); /* half-built or zeroed is fine */

/* Any offset and length. */
void msix_read(struct msix *, uint64_t off, void *data, unsigned len);
void msix_write(struct msix *, uint64_t off, const void *data, unsigned len);
/* From the function's config_written(), whatever was written. */
void msix_config_written(struct msix *);

/* The guest has switched from the pin to messages. Any thread. */
bool msix_enabled(const struct msix *);
/* Sends vector v, or keeps it pending while it is masked. Numbers past the table are nothing (hard case B2). */
void msix_raise(struct msix *, unsigned v);
/* Nothing is pending any more: the device was reset. */
void msix_clear(struct msix *);

#endif
