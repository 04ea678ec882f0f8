// SPDX-License-Identifier: Apache-2.0
/*
 * clock.c - how fast the time stamp counter runs, from kvmclock.
 *
 * KVM fills the structure whose address ring 0 gave it: ns = (ticks << shift) * mul >> 32.
 * Spec: Linux Documentation/virt/kvm/x86/msr.rst.
 */
#include "payload.h"
#include "start.h"

uint64_t clock_tsc_khz;

void clock_init(void)
{
	uint64_t v;

	if (clock_tsc_khz)
		return;
	if (!start_pvclock.mul)
		give_up("there is no kvmclock: give tsc_khz=");
	v = (1000000ull << 32) / start_pvclock.mul;
	clock_tsc_khz =
		start_pvclock.shift < 0 ? v << -start_pvclock.shift : v >> start_pvclock.shift;
}

bool clock_passed(uint64_t since_tsc, uint64_t ms)
{
	return cpu_tsc() - since_tsc > clock_tsc_khz * ms;
}

uint64_t clock_us_since_start(void)
{
	return (cpu_tsc() - start_tsc) * 1000 / clock_tsc_khz;
}
