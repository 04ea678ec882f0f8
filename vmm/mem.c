// SPDX-License-Identifier: Apache-2.0
/*
 * mem.c - guest RAM and the translation of guest-physical addresses.
 *
 * One host mapping, cut into at most two regions around the hole below 4 GiB (hard case C7). Every
 * access goes through mem_span(): one range, in one region, or nothing. That is what keeps a
 * wrapped sum, the hole, the seam between the regions (adjacent on the host, 1 GiB apart in the
 * guest) and device memory out of reach (A6, A25). Buffers may also lie in a window: the one kind
 * of device memory that is memory. Nothing changes after mem_create() but where a window is, so
 * there are no locks. Calls: mmap, madvise, log.h.
 */
#include "mem.h"
#include "log.h"
#include "window.h"
#include <linux/mman.h>
#include <sys/mman.h>

#define PAGE      KIB(4)
#define HUGE_PAGE MIB(2)

static int size_check(uint64_t size, enum mem_pages pages)
{
	uint64_t unit = pages == MEM_PAGES_HUGETLB_2M ? HUGE_PAGE : PAGE;

	if (size && IS_ALIGNED(size, unit))
		return 0;
	log_err("memory: %llu bytes of RAM: must be a multiple of %llu KiB and not 0",
		(unsigned long long)size, (unsigned long long)(unit >> 10));
	return -EINVAL;
}

/* Not MAP_NORESERVE: a pool too small must fail here, not as a SIGBUS of a running guest. */
static int map_hugetlb(struct mem *m, uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);

	if (p == MAP_FAILED) {
		log_err("memory: cannot reserve %llu huge pages of 2 MiB (raise vm.nr_hugepages or "
			"leave out \"huge_pages\"): %m",
			(unsigned long long)(size / HUGE_PAGE));
		return -ENOMEM;
	}
	m->map = p;
	m->map_len = size;
	m->region[0].host = p;
	return 0;
}

/*
 * RAM must begin at a huge page of the host, or none of the guest's would coincide with one: the
 * mapping is a huge page longer and RAM begins at the first boundary in it. MAP_NORESERVE, because
 * a guest rarely touches all it has.
 */
static int map_anonymous(struct mem *m, uint64_t size, enum mem_pages pages)
{
	size_t len;
	void *p = MAP_FAILED;

	errno = ENOMEM; /* for a size that does not even fit */
	if (!__builtin_add_overflow(size, HUGE_PAGE, &len))
		p = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		log_err("memory: cannot map %llu MiB of RAM (lower mem_size_mib, or raise ulimit "
			"-v or "
			"vm.overcommit_memory): %m",
			(unsigned long long)(size >> 20));
		return -ENOMEM;
	}
	m->map = p;
	m->map_len = len;
	m->region[0].host = (uint8_t *)ALIGN_UP((uintptr_t)p, HUGE_PAGE);
	/* Only speed depends on it: a kernel without huge pages says EINVAL (hard case C25). */
	if (madvise(p, len, pages == MEM_PAGES_THP ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) < 0)
		log_debug("memory: madvise for the page size: %m");
	return 0;
}

static void cut_regions(struct mem *m, uint64_t size)
{
	uint64_t low = MIN(size, (uint64_t)MEM_LOW_END);

	m->total = size;
	m->nregions = 1;
	m->region[0].base = 0;
	m->region[0].len = low;
	if (low == size)
		return;
	m->nregions = 2;
	m->region[1] = (struct mem_region){
		.base = MEM_HIGH,
		.len = size - low,
		.host = m->region[0].host + low,
	};
}

int mem_create(struct mem **out, uint64_t size, enum mem_pages pages)
{
	struct mem *m = NULL;
	int r = size_check(size, pages);

	if (r < 0)
		goto fail;
	r = -ENOMEM;
	m = calloc(1, sizeof(*m));
	if (!m)
		goto fail;
	r = pages == MEM_PAGES_HUGETLB_2M ? map_hugetlb(m, size) : map_anonymous(m, size, pages);
	if (r < 0)
		goto fail;
	/* A core dump is for our own state, not for gigabytes of a guest's secrets. Not fatal (hard
	 * case C25). */
	if (madvise(m->map, m->map_len, MADV_DONTDUMP) < 0)
		log_debug("memory: MADV_DONTDUMP: %m");
	cut_regions(m, size);
	*out = m;
	return 0;
fail:
	mem_destroy(m);
	return r;
}

void mem_destroy(struct mem *m)
{
	if (!m)
		return;
	if (m->map)
		munmap(m->map, m->map_len);
	free(m);
}

void *mem_window(const struct mem *m, gpa_t gpa, uint64_t n)
{
	for (const struct window *w = m->windows; w; w = w->next) {
		/* One load: the guest may move the window meanwhile, the host's side stays. */
		uint64_t base = __atomic_load_n(&w->base, __ATOMIC_RELAXED);

		if (base && gpa.v >= base && gpa.v - base < w->size && n &&
		    n <= w->size - (gpa.v - base))
			return w->host + (gpa.v - base);
	}
	return NULL;
}

int mem_read(const struct mem *m, gpa_t gpa, void *dst, size_t n)
{
	const void *src = mem_span(m, gpa, n);

	if (!n)
		return 0;
	if (!src)
		return -EFAULT;
	/* The guest may write at the same moment: the copy may be torn, but from here on it does
	 * not change (A7). */
	memcpy(dst, src, n);
	return 0;
}

int mem_write(struct mem *m, gpa_t gpa, const void *src, size_t n)
{
	void *dst = mem_span(m, gpa, n);

	if (!n)
		return 0;
	if (!dst)
		return -EFAULT;
	memcpy(dst, src, n);
	return 0;
}
