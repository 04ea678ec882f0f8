// SPDX-License-Identifier: Apache-2.0
/*
 * t_mem.c - guest RAM: where it lies, and every address that must be refused.
 *
 * Sizes around the hole are those of hard case C7; the addresses are A5, A6 and A25. RAM is mapped
 * but hardly touched.
 */
#include "../vmm/log.h"
#include "../vmm/mem.h"
#include "../vmm/window.h"
#include "tap.h"
#include <stdio.h>

static void test_layout(void)
{
	static const uint64_t mib[] = {1, 128, 3071, 3072, 3073, 3330, 4096, 5120, 8192};

	for (unsigned i = 0; i < ARRAY_LEN(mib); i++) {
		uint64_t size = MIB(mib[i]), low = MIN(size, (uint64_t)MEM_LOW_END);
		struct mem *m;

		need(!mem_create(&m, size, MEM_PAGES_THP));
		ok(m->total == size && m->region[0].base == 0 && m->region[0].len == low,
		   "%u MiB: RAM begins at 0 and ends below the hole", (unsigned)mib[i]);
		if (size == low)
			ok(m->nregions == 1, "%u MiB: there is nothing above", (unsigned)mib[i]);
		else
			ok(m->nregions == 2 && m->region[1].base == GIB(4) &&
				   m->region[1].len == size - low,
			   "%u MiB: the rest begins at 4 GiB", (unsigned)mib[i]);
		ok(IS_ALIGNED((uintptr_t)m->region[0].host, MIB(2)) &&
			   IS_ALIGNED((uintptr_t)m->region[m->nregions - 1].host, MIB(2)),
		   "%u MiB: every region begins at a huge page of the host", (unsigned)mib[i]);
		ok(mem_span(m, GPA(0), low) == m->region[0].host && !mem_span(m, GPA(low), 1) &&
			   !mem_span(m, GPA(GIB(4) - 1), 1),
		   "%u MiB: low RAM can be had to its end, and the hole not at all",
		   (unsigned)mib[i]);
		mem_destroy(m);
	}
}

static void test_refused(void)
{
	const uint64_t size = GIB(3) + MIB(4), end = GIB(4) + MIB(4);
	static const uint64_t devices[] = {0xc0000000, 0xe0000000, 0xf0000000, 0xfec00000,
					   0xfee00000};
	struct mem *m;
	char byte;

	need(!mem_create(&m, size, MEM_PAGES_SMALL));
	ok(mem_span(m, GPA(GIB(3) - 1), 1) && !mem_span(m, GPA(GIB(3) - 1), 2),
	   "a span over the end of low RAM is refused, though the host mapping goes on");
	ok(mem_span(m, GPA(end - 4096), 4096) && !mem_span(m, GPA(end - 1), 4096),
	   "a span over the end of RAM is refused");
	ok(!mem_span(m, GPA(GIB(4) - 1), 2), "a span from the hole into RAM is refused");
	ok(!mem_span(m, GPA(0), size), "a span over the hole is refused");
	ok(!mem_span(m, GPA(1), UINT64_MAX) && !mem_span(m, GPA(GIB(4) + 1), UINT64_MAX),
	   "a length that wraps the sum is refused");
	ok(!mem_span(m, GPA(UINT64_MAX), 1) && !mem_span(m, GPA(UINT64_MAX), 2) &&
		   !mem_span(m, GPA(UINT64_MAX - 4095), 8192),
	   "an address at the end of the address space is refused");
	ok(!mem_span(m, GPA(end), 1) && !mem_span(m, GPA(end), 0),
	   "the first address after RAM is refused");
	ok(!mem_span(m, GPA(0), 0), "a span of no bytes is no span");
	for (unsigned i = 0; i < ARRAY_LEN(devices); i++)
		ok(!mem_span(m, GPA(devices[i]), 1) &&
			   mem_read(m, GPA(devices[i]), &byte, 1) == -EFAULT &&
			   mem_write(m, GPA(devices[i]), &byte, 1) == -EFAULT,
		   "device memory at 0x%llx is refused", (unsigned long long)devices[i]);
	mem_destroy(m);
}

static void test_copy(void)
{
	char buf[8] = "unmoved", zero[8] = "nonzero";
	struct mem *m;

	need(!mem_create(&m, GIB(3) + MIB(2), MEM_PAGES_THP));
	ok(!mem_read(m, GPA(GIB(4)), zero, 8) && !memcmp(zero, "\0\0\0\0\0\0\0\0", 8),
	   "RAM begins as zeros");
	ok(!mem_write(m, GPA(GIB(4) + MIB(2) - 8), "lastword", 8), "the last word can be written");
	ok(!mem_read(m, GPA(GIB(4) + MIB(2) - 8), zero, 8) && !memcmp(zero, "lastword", 8),
	   "and read back");
	ok(!memcmp(m->region[1].host + MIB(2) - 8, "lastword", 8), "it lies where the region says");
	is(mem_read(m, GPA(GIB(3) - 4), buf, 8), -EFAULT,
	   "a copy over the end of a region is refused");
	ok(!memcmp(buf, "unmoved", 8), "and nothing is copied");
	is(mem_write(m, GPA(GIB(3) - 4), buf, 8), -EFAULT, "so is one into RAM");
	ok(!mem_read(m, GPA(GIB(3) - 4), zero, 4) && !memcmp(zero, "\0\0\0\0", 4),
	   "and nothing is written");
	is(mem_read(m, GPA(GIB(3)), buf, 0), 0, "a copy of no bytes looks at no address");
	is(mem_write(m, GPA(UINT64_MAX), buf, 0), 0, "in either direction");
	mem_destroy(m);
}

/* Does the mapping that holds addr have this two-letter flag? (proc(5), smaps) */
static bool has_vmflag(const void *addr, const char *flag)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	bool inside = false, found = false;
	unsigned long from, to;
	char line[512];

	need(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)addr >= from && (uintptr_t)addr < to;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			found = strstr(line, flag);
	}
	fclose(f);
	return found;
}

static void test_advice(void)
{
	struct mem *m;

	need(!mem_create(&m, MIB(64), MEM_PAGES_THP));
	ok(has_vmflag(m->region[0].host, " dd"), "RAM stays out of core dumps");
	if (!access("/sys/kernel/mm/transparent_hugepage", F_OK))
		ok(has_vmflag(m->region[0].host, " hg"), "RAM asks for huge pages");
	else
		skip("this kernel has none", "RAM asks for huge pages");
	mem_destroy(m);
}

static void test_bad_sizes(void)
{
	struct mem *m = (struct mem *)&m;

	is(mem_create(&m, 0, MEM_PAGES_THP), -EINVAL, "no RAM at all is refused");
	is(mem_create(&m, MIB(1) + 1, MEM_PAGES_THP), -EINVAL, "half a page is refused");
	is(mem_create(&m, MIB(3), MEM_PAGES_HUGETLB_2M), -EINVAL, "half a huge page is refused");
	is(mem_create(&m, UINT64_MAX - 4095, MEM_PAGES_THP), -ENOMEM,
	   "a size that wraps is refused");
	is(mem_create(&m, 1ull << 60, MEM_PAGES_THP), -ENOMEM, "a size no host has is refused");
	is(mem_create(&m, 1ull << 50, MEM_PAGES_HUGETLB_2M), -ENOMEM,
	   "a huge page pool too small is refused");
	ok(m == (struct mem *)&m, "and the result is never touched");
	mem_destroy(NULL);
}

static void test_hugetlb(void)
{
	struct mem *m;

	if (mem_create(&m, MIB(4), MEM_PAGES_HUGETLB_2M) < 0) {
		skip("vm.nr_hugepages is too low", "RAM of reserved huge pages");
		return;
	}
	ok(!mem_write(m, GPA(MIB(4) - 1), "x", 1) && has_vmflag(m->region[0].host, " ht"),
	   "RAM of reserved huge pages");
	mem_destroy(m);
}

static void test_buffers(void)
{
	static uint8_t host[2][64];
	struct window far = {.host = host[0], .size = 64, .base = GIB(64)};
	struct window near = {.host = host[1], .size = 64, .base = GIB(5), .next = &far};
	struct mem *m;

	need(!mem_create(&m, MIB(2), MEM_PAGES_SMALL));
	ok(mem_buffer(m, GPA(5), 8) == m->region[0].host + 5 && !mem_buffer(m, GPA(GIB(5)), 1),
	   "without windows a buffer lies in RAM");
	m->windows = &near;
	ok(mem_buffer(m, GPA(GIB(5) + 1), 63) == host[1] + 1 &&
		   mem_buffer(m, GPA(GIB(64)), 64) == host[0] &&
		   mem_buffer(m, GPA(5), 8) == m->region[0].host + 5,
	   "with them in either");
	ok(!mem_buffer(m, GPA(GIB(5) + 1), 64) && !mem_buffer(m, GPA(GIB(5) - 1), 2) &&
		   !mem_buffer(m, GPA(GIB(64) + 64), 1) &&
		   !mem_buffer(m, GPA(GIB(64) + 8), UINT64_MAX) &&
		   !mem_buffer(m, GPA(MIB(2) - 1), 2) && !mem_buffer(m, GPA(GIB(5)), 0),
	   "but all in one, and some of it");
	near.base = 0;
	ok(!mem_buffer(m, GPA(GIB(5)), 1) && !mem_buffer(m, GPA(64), UINT64_MAX) &&
		   mem_buffer(m, GPA(0), 1) == m->region[0].host,
	   "and not in one that is nowhere");
	ok(!mem_span(m, GPA(GIB(64)), 1) && mem_read(m, GPA(GIB(64)), host[1], 1) == -EFAULT,
	   "what is dereferenced lies in RAM only");
	mem_destroy(m);
}

int main(void)
{
	test_layout();
	test_refused();
	test_copy();
	test_buffers();
	test_advice();
	test_bad_sizes();
	test_hugetlb();
	return done();
}
