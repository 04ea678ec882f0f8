// SPDX-License-Identifier: Apache-2.0
/*
 * start.c - between boot.S and main(): the little that ring 0 does, and the first of ring 3.
 *
 * Ring 0 copies the command line (which lies wherever the loader put it), fills the IDT and asks for kvmclock. It runs
 * before .bss is cleared, so what it writes is in .data.
 * Spec: Xen x86/HVM direct boot ABI (hvm_start_info), Linux boot.rst (boot_params), Linux kvm/x86/msr.rst.
 */
#include "start.h"
#include "payload.h"

#define PVH_MAGIC               0x336ec578u
#define PVH_CMDLINE             24
#define BOOT_CMDLINE            0x228 /* boot_params.hdr.cmd_line_ptr */
#define BOOT_EXT_CMDLINE        0xc8
#define KVM_CPUID               0x40000000u
#define KVM_SIGNATURE           0x4b4d564bu /* "KVMK", the first word of four */
#define KVM_CLOCKSOURCE2        3
#define MSR_KVM_SYSTEM_TIME_NEW 0x4b564d01u
#define VECTORS                 32
#define GATE                    0x8e00u /* present, interrupt gate */

#define EARLY __attribute__((section(".data")))

char cmdline[CMDLINE_MAX] EARLY = "";
struct start_pvclock start_pvclock EARLY __attribute__((aligned(64))) = {.version = 1};
bool start_quiet EARLY = false;

uint64_t start_tsc EARLY = 0;

extern uint64_t idt[VECTORS][2];
extern const uint8_t traps[];
extern uint8_t bss_start[], bss_end[];

static uint64_t load32(uint64_t a)
{
	uint32_t v;

	__builtin_memcpy(&v, (const void *)a, sizeof(v));
	return v;
}

static uint64_t cmdline_address(uint64_t pvh, uint64_t boot_params)
{
	if (pvh && load32(pvh) == PVH_MAGIC)
		return load32(pvh + PVH_CMDLINE) | load32(pvh + PVH_CMDLINE + 4) << 32;
	if (boot_params)
		return load32(boot_params + BOOT_CMDLINE) | load32(boot_params + BOOT_EXT_CMDLINE)
								    << 32;
	return 0;
}

static void clock_ask(void)
{
	uint32_t r[4];

	cpu_id(KVM_CPUID, r);
	if (r[1] != KVM_SIGNATURE)
		return;
	cpu_id(KVM_CPUID + 1, r);
	if (r[0] >> KVM_CLOCKSOURCE2 & 1)
		asm volatile("wrmsr" ::"c"(MSR_KVM_SYSTEM_TIME_NEW),
			     "a"((uint32_t)(uint64_t)&start_pvclock | 1), "d"(0)
			     : "memory");
}

void start_ring0(uint64_t pvh, uint64_t boot_params)
{
	const char *line = (const char *)cmdline_address(pvh, boot_params);

	start_tsc = cpu_tsc();
	for (uint64_t i = 0; i < VECTORS; i++) {
		uint64_t a = (uint64_t)traps + 16 * i;

		idt[i][0] = (a & 0xffff) | 0x10u << 16 | (uint64_t)GATE << 32 |
			    (a >> 16 & 0xffff) << 48;
	}
	for (size_t i = 0; line && i + 1 < sizeof(cmdline) && line[i]; i++)
		cmdline[i] = line[i];
	clock_ask();
}

void start_ring3(void)
{
	memset(bss_start, 0, (size_t)(bss_end - bss_start));
	payload_main();
}

/* frame: vector, error, rip, cs, rflags, rsp, ss. */
void start_trap(const uint64_t *frame, uint64_t cr2)
{
	if (!start_quiet)
		print("\nBail out! exception %lu error=%lx rip=%lx cs=%lx rsp=%lx cr2=%lx\n",
		      frame[0], frame[1], frame[2], frame[3], frame[5], cr2);
}

/* ---- what the compiler calls by itself ---- */

void *memcpy(void *to, const void *from, size_t n)
{
	void *r = to;

	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
	return r;
}

void *memset(void *p, int c, size_t n)
{
	void *r = p;

	asm volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(c) : "memory");
	return r;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a, *y = b;

	for (; n; x++, y++, n--)
		if (*x != *y)
			return *x - *y;
	return 0;
}

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}
