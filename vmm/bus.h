// SPDX-License-Identifier: Apache-2.0
/*
 * bus.h - address ranges and who answers there: one bus for MMIO, one for ports.
 *
 * Accesses come from vCPU threads (KVM_EXIT_MMIO, KVM_EXIT_IO) or from tests. An access is delivered with its offset
 * in the range and its length, 1 to 8 bytes, in guest byte order; the owner must cope with every length and offset.
 * An access that is not wholly inside one range, or is in none, reads as all ones and its write is dropped; so does
 * an access to a disabled range (hard case B19). Ranges may be added, moved and removed while vCPUs run (a guest
 * moves its PCI BARs): the table has a lock, held only for the search, so an owner may be called once more just
 * after its range was removed and must outlive the vCPUs.
 */
#ifndef VMM_BUS_H
#define VMM_BUS_H

#include "base.h"
#include "log.h"
#include <pthread.h>

struct bus_ops {
	void (*read)(void *owner, uint64_t off, void *data, unsigned len);
	void (*write)(void *owner, uint64_t off, const void *data, unsigned len);
};

#define BUS_RANGES 256

struct bus_range {
	uint64_t base, len;
	const struct bus_ops *ops;
	void *owner;      /* borrowed */
	const char *name; /* borrowed */
};

struct bus {
	const char *name;
	pthread_rwlock_t lock; /* protects range[] and n; never held during a callback */
	struct bus_range range[BUS_RANGES]; /* sorted by base, never overlapping */
	unsigned n;
	struct log_limit unknown;
};

void bus_init(struct bus *, const char *name);
void bus_fini(struct bus *);
/* -EEXIST if it overlaps another range, -ENOSPC if the table is full, -EINVAL for len 0 or a wrap. */
int bus_add(struct bus *, const struct bus_range *) must_check;
/* Removes the range that starts at base and belongs to owner; nothing happens if there is none. */
void bus_remove(struct bus *, uint64_t base, const void *owner);
void bus_read(struct bus *, uint64_t addr, void *data, unsigned len);
void bus_write(struct bus *, uint64_t addr, const void *data, unsigned len);

/* Little-endian loads and stores of 1..8 bytes for register files: the low len bytes of a uint64_t. */
static inline uint64_t bus_load(const void *data, unsigned len)
{
	uint64_t v = 0;

	memcpy(&v, data, MIN(len, 8u));
	return le64toh(v);
}
static inline void bus_store(void *data, unsigned len, uint64_t v)
{
	v = htole64(v);
	memcpy(data, &v, MIN(len, 8u));
}

#endif
