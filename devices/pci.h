// SPDX-License-Identifier: Apache-2.0
/*
 * pci.h - one PCI bus: configuration space by ECAM and by ports CF8/CFC, BARs, capabilities.
 *
 * A function is bytes plus a mask of writable bits; the bus does every width and every offset (hard case B12), sizes
 * and moves BARs (B11), and tells the function what changed. Absent functions read all ones.
 * Threads: vCPUs, serialised by the host's lock (order: host lock before a device's lock).
 */
#ifndef DEVICES_PCI_H
#define DEVICES_PCI_H

#include "../vmm/base.h"
#include "../vmm/bus.h"
#include <linux/pci_regs.h>
#include <pthread.h>

struct vm;
struct pci_host;
struct pci_dev;

#define PCI_CFG_SIZE 256
#define PCI_SLOTS    32
#define PCI_BARS     6

/* A memory BAR. size 0: not there. A 64-bit BAR takes index i and i+1. */
struct pci_bar {
	uint64_t size; /* power of two, >= 16 */
	bool is64, prefetch;
	const struct bus_ops *ops; /* what answers inside; owner is bar_owner */
	uint64_t addr;             /* where it is mapped now; 0: not mapped */
};

struct pci_dev {
	const char *name; /* borrowed */
	uint8_t slot;
	uint8_t config[PCI_CFG_SIZE]; /* as the guest reads it */
	uint8_t wmask[PCI_CFG_SIZE];  /* bits the guest may change */
	uint8_t cap_last,
		cap_end; /* pci_add_cap()'s: the newest capability and the first byte after it */
	struct pci_bar bar[PCI_BARS];
	void *bar_owner;
	struct pci_host *host;
	int intx_gsi; /* -1: none */
	/* The hooks run under the host's lock. */
	/* BAR i is now at bar[i].addr, or was unmapped (0; old is where it was). May be NULL. */
	void (*bar_moved)(struct pci_dev *, unsigned i, uint64_t old);
	/* Configuration bytes off..off+len were written. May be NULL. */
	void (*config_written)(struct pci_dev *, unsigned off, unsigned len);
	/* Bytes about to be read, to be brought up to date in config[]. May be NULL. */
	void (*config_reading)(struct pci_dev *, unsigned off, unsigned len);
};

/*
 * Host bridge at 00:00.0, ECAM and CF8/CFC on the vm's buses (and the reset register 0xcf9 between the two ports);
 * sets vm->has_pci. -errno (logged).
 */
int pci_host_create(struct pci_host **out, struct vm *) must_check;
/* After every function was removed. NULL is fine. */
void pci_host_destroy(struct pci_host *);
/*
 * Puts dev into the next free slot and assigns its BARs: below 4 GiB, or the 64-bit window for prefetchable 64-bit
 * ones larger than 16 MiB; memory decoding is off until the guest enables it. Identity, capabilities and bar[] are
 * filled before; the bus does command, status, BARs and the interrupt bytes. intx: gives it INTA and a GSI of its own,
 * noted in vm->pci_gsi[slot], as long as there are pins; without one intx_gsi is -1. -ENOSPC.
 */
int pci_host_add(struct pci_host *, struct pci_dev *, bool intx) must_check;
/* Unmaps its BARs and empties its slot. Nothing happens if it was not added. */
void pci_host_remove(struct pci_dev *);
/*
 * Appends a capability: body is all its len bytes, id and next are filled in here. Returns its offset. Asserts that it
 * fits.
 */
unsigned pci_add_cap(struct pci_dev *, uint8_t id, const void *body, unsigned len);

/* Little-endian fields of a configuration space. */
static inline uint32_t pci_get(const uint8_t *config, unsigned off, unsigned len)
{
	return (uint32_t)bus_load(config + off, len);
}
static inline void pci_put(uint8_t *config, unsigned off, unsigned len, uint32_t v)
{
	bus_store(config + off, len, v);
}

#endif
