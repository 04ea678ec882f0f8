// SPDX-License-Identifier: Apache-2.0
/*
 * mem.h - guest RAM, and the only doors to it.
 *
 *   guest-physical                                    host
 *   0 .............. low end (<= 3 GiB)        region 0: base 0
 *   [hole: PCI window, ECAM, IOAPIC, LAPIC]
 *   4 GiB .......... 4 GiB + rest              region 1: base 4 GiB
 *
 * RAM is anonymous private memory, 2 MiB aligned, MADV_HUGEPAGE; optionally hugetlb. An address that is not wholly
 * inside one region is refused by every function, with checked arithmetic: MMIO is never a legal target (hard cases
 * A6, A25). Regions do not change after mem_create(), so all functions may be called on any thread without a lock.
 */
#ifndef VMM_MEM_H
#define VMM_MEM_H

#include "base.h"
#include <sys/uio.h>

#define MEM_LOW_END GIB(3) /* RAM below this; the rest starts at MEM_HIGH */
#define MEM_HIGH    GIB(4)
#define MEM_REGIONS 2

struct mem_region {
	uint64_t base, len; /* guest-physical; len is page aligned, 0: there is none */
	uint8_t *host;
};

struct window; /* window.h */

struct mem {
	struct mem_region region[MEM_REGIONS];
	unsigned nregions;
	uint64_t total;
	struct window
		*windows; /* all there are, made before the vCPUs run; what has them owns them */
	void *map;        /* the one host mapping behind all regions, incl. alignment slack */
	size_t map_len;
};

enum mem_pages { MEM_PAGES_THP, MEM_PAGES_SMALL, MEM_PAGES_HUGETLB_2M };

/* Maps size bytes (a multiple of 4 KiB, 2 MiB for hugetlb) of zeroed guest RAM. -EINVAL, -ENOMEM (logged). */
int mem_create(struct mem **out, uint64_t size, enum mem_pages pages) must_check;
void mem_destroy(struct mem *);

/* Copy between guest RAM and host memory. 0, or -EFAULT with nothing copied. */
int mem_read(const struct mem *, gpa_t, void *dst, size_t n) must_check;
int mem_write(struct mem *, gpa_t, const void *src, size_t n) must_check;

static inline void *mem_region_span(const struct mem_region *r, gpa_t gpa, uint64_t n)
{
	/*
	 * Differences only: no sum of the guest's numbers is ever formed, so none can wrap. What is below the base comes
	 * out beyond any length, as no region reaches the end of the address space.
	 */
	const uint64_t off = gpa.v - r->base;

	return off < r->len && n <= r->len - off ? r->host + off : NULL;
}
/*
 * The host address of n bytes of guest RAM, or NULL if they are not all inside one region or n is 0. For buffers
 * that are handed to the kernel (iovecs), and for rings that live as long as the device is started. Inline, as it is
 * asked for every descriptor.
 */
static inline void *mem_span(const struct mem *m, gpa_t gpa, uint64_t n)
{
	void *p = NULL;

	for (unsigned i = 0; i < MEM_REGIONS && !p && n; i++)
		p = mem_region_span(&m->region[i], gpa, n);
	return p;
}

/* What is not RAM: all in one window, or NULL. */
rare void *mem_window(const struct mem *, gpa_t, uint64_t n);
/*
 * The same for buffers alone, which may also lie in a window (window.h), all in one: another device's DAX pages are good
 * for direct I/O. They may be inaccessible or go at any moment: system calls then say EFAULT, our own copies get zeros
 * (window_init()).
 */
static inline void *mem_buffer(const struct mem *m, gpa_t gpa, uint64_t n)
{
	void *p = mem_span(m, gpa, n);

	return p ? p : mem_window(m, gpa, n);
}

#endif
