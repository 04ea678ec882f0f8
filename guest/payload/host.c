// SPDX-License-Identifier: Apache-2.0
/*
 * host.c - what the host's KVM costs, without a device: spin (speed of ring 3), pio (a port the VMM answers), cpuid
 * (an exit KVM answers).
 */
#include "bench.h"

#define COM1_LSR 0x3fd
#define SPINS    100000000ul

/* Two instructions a turn. */
static void spin(void)
{
	uint64_t n = SPINS, t0 = cpu_tsc();

	asm volatile("1: dec %0; jnz 1b" : "+r"(n)::"cc");
	print("RESULT dev=host op=spin mips=%lu\n",
	      2 * SPINS / 1000 * clock_tsc_khz / (cpu_tsc() - t0));
}

void host_job(struct job *j)
{
	uint64_t t0 = cpu_tsc(), n = j->n ? j->n : 10000;
	bool pio = text_equal(j->op, "pio");
	uint32_t r[4];

	if (text_equal(j->op, "spin")) {
		spin();
		return;
	}
	if (!pio && !text_equal(j->op, "cpuid"))
		give_up("host:%s: unknown", j->op);
	j->bs = 0;
	stat_begin();
	for (uint64_t i = 0; i < n; i++) {
		uint64_t t = cpu_tsc();

		if (pio)
			port_in8(COM1_LSR);
		else
			cpu_id(0, r);
		stat_add(cpu_tsc() - t);
	}
	stat_print("host", j, &(struct tally){.cycles = cpu_tsc() - t0, .all = n});
}
