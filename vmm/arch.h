// SPDX-License-Identifier: Apache-2.0
/*
 * arch.h - what an architecture has to provide; x86*.c with acpi.c and mptable.c is one.
 *
 *   x86_64 guest-physical map
 *   0x00000000_00007000  boot_params ("zero page")        0x00000000_00006000  PVH start info, module, memory map
 *   0x00000000_00009000  page tables (identity, 4 GiB)    0x00000000_00020000  command line
 *   0x00000000_000e0000  ACPI tables, RSDP first          0x00000000_000f0000  MP table, its floating pointer first
 *   0x00000000_00100000  kernel                           ..0xc0000000         RAM, initrd at its top
 *   0x00000000_c0000000  32-bit PCI window (512 MiB)      0x00000000_e0000000  ECAM of bus 0 (1 MiB)
 *   0x00000000_f0000000  virtio-mmio windows, 4 KiB each  0x00000000_fec00000  IOAPIC   0xfee00000 LAPIC
 *   0x00000000_fffbc000  KVM identity map page, then TSS  0x00000001_00000000  RAM above 4 GiB, then 64-bit PCI window,
 *                                                                              then windows (window.h) that are no BAR
 */
#ifndef VMM_ARCH_H
#define VMM_ARCH_H

#include "base.h"

struct vm;

#define ARCH_PCI32_BASE  0xc0000000ull
#define ARCH_PCI32_SIZE  0x20000000ull
#define ARCH_ECAM_BASE   0xe0000000ull
#define ARCH_ECAM_SIZE   0x00100000ull /* bus 0 only */
#define ARCH_MMIO_BASE   0xf0000000ull
#define ARCH_MMIO_SIZE   0x01000000ull
#define ARCH_IOAPIC_BASE 0xfec00000ull
#define ARCH_LAPIC_BASE  0xfee00000ull

/* Ports of the ACPI fixed hardware (hardware-reduced): FADT sleep registers and reset register. */
#define ARCH_PORT_SLEEP_CONTROL 0x600
#define ARCH_PORT_SLEEP_STATUS  0x601
#define ARCH_PORT_RESET         0x602
#define ARCH_RESET_VALUE        0x01
#define ARCH_SLEEP_TYPE_S5      5

/* Where the PCI host bridge's 64-bit window lies for this vm: above all RAM, 1 GiB aligned. */
uint64_t arch_pci64_base(const struct vm *);
#define ARCH_PCI64_SIZE   GIB(64)
#define ARCH_WINDOWS_SIZE GIB(64) /* what follows it */

/* Irqchip, PIT, TSS and identity map page: before the first vCPU (hard case C6). -errno (logged). */
int arch_vm_init(struct vm *) must_check;
/* The sleep and reset registers, port 0x61 and what else a PC answers by itself, on vm->pio. */
int arch_platform_init(struct vm *) must_check;

enum arch_entry { ARCH_ENTRY_LINUX64, ARCH_ENTRY_PVH32 };

/* What boot_load() found out and arch_boot_write() needs. */
struct arch_boot {
	enum arch_entry entry;
	uint64_t entry_addr;
	uint64_t kernel_start, kernel_end; /* load_end incl. bss / init_size */
	uint64_t initrd_addr, initrd_size; /* size 0: none */
	char cmdline[4096];
	uint8_t setup_header[0x290 - 0x1f1]; /* bzImage: as in the image, the rest zero */
	unsigned setup_header_len;           /* 0: not a bzImage */
};

/* Boot parameters, page tables, GDT, ACPI and MP tables into RAM. -errno (logged). */
int arch_boot_write(struct vm *, const struct arch_boot *) must_check;
/* Whether every name of a cpu_mask is a feature that can be hidden; false: a sentence of at most n bytes in err. */
bool arch_cpu_mask_check(const char *names, char *err, size_t n);
/* CPUID, MSRs, local APIC; for vCPU 0 the entry registers (boot is NULL for the others). -errno (logged). */
int arch_vcpu_init(struct vm *, int vcpu_fd, unsigned id, const struct arch_boot *boot) must_check;
/* One line with the registers, for fatal exits. */
void arch_vcpu_dump(int vcpu_fd, unsigned id);

/* Parts of x86.c, exported for their tests: bytes written to out (at most cap), or -ENOSPC. */
int acpi_build(const struct vm *, uint64_t addr, uint8_t *out, size_t cap) must_check;
int mptable_build(const struct vm *, uint64_t addr, uint8_t *out, size_t cap) must_check;

#endif
