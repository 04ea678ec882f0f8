// SPDX-License-Identifier: Apache-2.0
/*
 * map.c - guest-physical addresses above the 4 GiB that boot.S maps: shared memory regions lie there.
 *
 * The page tables are memory like any other, and ring 3 may write them; an entry that was not present needs no flush.
 * Pages are of 2 MiB, identity-mapped, user-accessible, accessed and dirty already, as boot.S has them.
 * Spec: Intel SDM 3A, 4.5 (four-level paging).
 */
#include "payload.h"

#define ENTRIES   512u
#define TABLES    64u /* of 1 GiB each, and what points to them */
#define LARGE     (2ull << 20)
#define LOW       (4ull << 30)
#define PRESENT   1u
#define TABLE     0x67u
#define PAGE      0xe7u
#define ADDRESSES (1ull << 46)

extern uint64_t pml4[ENTRIES];
static uint64_t tables[TABLES][ENTRIES] POOL;
static unsigned used;

static uint64_t *below(uint64_t *entry)
{
	if (!(*entry & PRESENT)) {
		if (used == TABLES)
			give_up("no page table is left");
		memset(tables[used], 0, sizeof(tables[0]));
		*entry = (uint64_t)tables[used++] | TABLE;
	}
	return (uint64_t *)(*entry & ~0xfffull);
}

bool map_memory(uint64_t address, uint64_t len)
{
	if (address >= ADDRESSES || len > ADDRESSES - address)
		return false;
	for (uint64_t a = MAX(address & -LARGE, LOW); a < address + len; a += LARGE) {
		uint64_t *pdpt = below(&pml4[a >> 39]);
		uint64_t *pd = below(&pdpt[a >> 30 & (ENTRIES - 1)]);

		pd[a >> 21 & (ENTRIES - 1)] = a | PAGE;
	}
	return true;
}
