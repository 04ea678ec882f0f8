// SPDX-License-Identifier: Apache-2.0
/*
 * acpi.c - the ACPI tables: RSDP, XSDT, FADT, MADT, MCFG and the DSDT with its devices, as bytes.
 *
 * Hardware-reduced ACPI: no fixed hardware but the sleep and reset registers, no SCI, no FACS, no
 * override of the timer's interrupt (GSI n is pin n of the one IOAPIC). No power button is
 * described, as no device raises one. Tables follow each other from addr in one buffer; a table
 * that points to another is written after it. Runs on the main thread while the machine is set up.
 * Spec: ACPI 6.3, 5.2 (tables); PCI Firmware 3.2. Calls: aml.h,
 * bytes.h.
 */
#include "aml.h"
#include "arch.h"
#include "bytes.h"
#include "vm.h"
#include <assert.h>
#include <stdio.h>

#define CPUS_MAX 254 /* 8-bit local APIC ids; 255 is the broadcast */

/* ---- tables (ACPI 5.2) ---- */

#define HEADER_LEN 36

static size_t table_open(struct bytes *b, const char *signature, uint8_t revision)
{
	size_t at;

	bytes_align(b, 16);
	at = b->len;
	bytes_put(b, signature, 4);
	bytes_u32(b, 0); /* length, at the end */
	bytes_u8(b, revision);
	bytes_u8(b, 0); /* checksum, at the end */
	bytes_put(b, "WHERRY", 6);
	bytes_put(b, "MICROVM ", 8);
	bytes_u32(b, 1);
	bytes_put(b, "WHRY", 4);
	bytes_u32(b, 1);
	return at;
}

static void table_close(struct bytes *b, size_t at)
{
	bytes_patch_u32(b, at + 4, (uint32_t)(b->len - at));
	bytes_checksum(b, at + 9, at, b->len - at);
}

/* ---- DSDT ---- */

/* Names in hexadecimal, so that the four characters last for every id (hard case C18). */
static void seg_name(char seg[5], char letter, unsigned i)
{
	snprintf(seg, 5, "%c%03X", letter, i & 0xfff);
}

static void dsdt_cpus(struct bytes *b, const struct vm *vm)
{
	for (unsigned id = 0; id < vm->ncpus; id++) {
		char seg[5];
		size_t dev;

		seg_name(seg, 'C', id);
		dev = aml_open_device(b, seg);
		aml_name_id(b, "_HID", "ACPI0007");
		aml_name_int(b, "_UID", id); /* ties it to the MADT's entry */
		aml_close(b, dev);
	}
}

/* INTA of each slot, straight to its GSI; no slot has another pin (ACPI 6.2.13). */
static void dsdt_prt(struct bytes *b, const struct vm *vm)
{
	unsigned n = 0;
	size_t prt;

	for (unsigned slot = 0; slot < ARRAY_LEN(vm->pci_gsi); slot++)
		n += vm->pci_gsi[slot] >= 0;
	if (n == 0)
		return;
	aml_name(b, "_PRT");
	prt = aml_open_package(b, n);
	for (unsigned slot = 0; slot < ARRAY_LEN(vm->pci_gsi); slot++) {
		size_t entry;

		if (vm->pci_gsi[slot] < 0)
			continue;
		entry = aml_open_package(b, 4);
		aml_int(b, slot << 16 | 0xffff); /* any function */
		aml_int(b, 0);                   /* INTA */
		aml_int(b, 0);                   /* no link device */
		aml_int(b, (uint32_t)vm->pci_gsi[slot]);
		aml_close(b, entry);
	}
	aml_close(b, prt);
}

static void dsdt_pci(struct bytes *b, const struct vm *vm)
{
	size_t dev = aml_open_device(b, "PCI0");
	struct aml_crs crs;

	aml_name_id(b, "_HID", "PNP0A08");
	aml_name_id(b, "_CID", "PNP0A03");
	aml_name_int(b, "_UID", 0);
	aml_name_int(b, "_SEG", 0);
	aml_name_int(b, "_BBN", 0);
	crs = aml_crs_open(b);
	aml_res_bus(b, 0, 0);
	aml_res_io(b, 0xcf8, 8);
	aml_res_window32(b, ARCH_PCI32_BASE, ARCH_PCI32_SIZE);
	aml_res_window64(b, arch_pci64_base(vm), ARCH_PCI64_SIZE);
	aml_crs_close(b, &crs);
	dsdt_prt(b, vm);
	aml_close(b, dev);

	/* Linux uses the ECAM that MCFG names only if a motherboard resource claims it. */
	dev = aml_open_device(b, "ECAM");
	aml_name_id(b, "_HID", "PNP0C02");
	aml_name_int(b, "_UID", 0);
	crs = aml_crs_open(b);
	aml_res_memory32(b, ARCH_ECAM_BASE, ARCH_ECAM_SIZE);
	aml_crs_close(b, &crs);
	aml_close(b, dev);
}

static int platform_cmp(const void *a, const void *b)
{
	const struct vm_platform *x = *(const struct vm_platform *const *)a;
	const struct vm_platform *y = *(const struct vm_platform *const *)b;

	return x->base < y->base ? -1 : x->base > y->base;
}

static void dsdt_platform_device(struct bytes *b, const struct vm_platform *p, unsigned i,
				 unsigned uid)
{
	struct aml_crs crs;
	char seg[5];
	size_t dev;

	seg_name(seg, 'D', i);
	dev = aml_open_device(b, seg);
	aml_name_id(b, "_HID", p->hid);
	aml_name_int(b, "_UID", uid);
	aml_name_int(b, "_STA", 0xf); /* present, enabled, shown, working */
	crs = aml_crs_open(b);
	if (p->is_pio)
		aml_res_io(b, p->base, p->len);
	else
		aml_res_memory32(b, p->base, p->len);
	if (p->port2)
		aml_res_io(b, p->port2, 1);
	if (p->gsi >= 0)
		aml_res_interrupt(b, (uint32_t)p->gsi, p->level);
	aml_crs_close(b, &crs);
	aml_close(b, dev);
}

/*
 * From low to high addresses: a kernel names its disks in the order of the nodes (hard cases B14,
 * B15).
 */
static void dsdt_platform(struct bytes *b, const struct vm *vm)
{
	const struct vm_platform *sorted[VM_PLATFORM_MAX];

	for (unsigned i = 0; i < vm->nplatform; i++)
		sorted[i] = &vm->platform[i];
	qsort(sorted, vm->nplatform, sizeof(sorted[0]), platform_cmp);
	for (unsigned i = 0; i < vm->nplatform; i++) {
		unsigned uid = 0; /* counts the nodes of one kind */

		for (unsigned j = 0; j < i; j++)
			uid += !strcmp(sorted[j]->hid, sorted[i]->hid);
		dsdt_platform_device(b, sorted[i], i, uid);
	}
}

static size_t put_dsdt(struct bytes *b, const struct vm *vm)
{
	size_t at = table_open(b, "DSDT", 2), scope, s5;

	scope = aml_open_scope(b, "\\_SB_");
	dsdt_cpus(b, vm);
	if (vm->has_pci)
		dsdt_pci(b, vm);
	dsdt_platform(b, vm);
	aml_close(b, scope);

	/* The first number is what the kernel writes into the sleep control register. */
	aml_name(b, "_S5_");
	s5 = aml_open_package(b, 4);
	aml_int(b, ARCH_SLEEP_TYPE_S5);
	aml_int(b, 0);
	aml_int(b, 0);
	aml_int(b, 0);
	aml_close(b, s5);
	table_close(b, at);
	return at;
}

/* ---- FADT (ACPI 5.2.9): zero but for these ---- */

enum {
	FADT_LEN = 276,
	FADT_BOOT_ARCH = 109,
	FADT_FLAGS = 112,
	FADT_RESET_REG = 116,
	FADT_RESET_VALUE = 128,
	FADT_MINOR = 131,
	FADT_X_DSDT = 140,
	FADT_SLEEP_CONTROL = 244,
	FADT_SLEEP_STATUS = 256,
};
enum { BOOT_ARCH_8042 = 1 << 1, BOOT_ARCH_NO_VGA = 1 << 2, BOOT_ARCH_NO_RTC = 1 << 5 };
enum {
	FADT_WBINVD = 1 << 0,
	FADT_NO_FIXED_POWER_BUTTON = 1 << 4,
	FADT_NO_FIXED_SLEEP_BUTTON = 1 << 5,
	FADT_RESET_REG_SUP = 1 << 10,
	FADT_HW_REDUCED = 1 << 20,
};

static bool has_platform(const struct vm *vm, const char *hid)
{
	for (unsigned i = 0; i < vm->nplatform; i++) {
		if (!strcmp(vm->platform[i].hid, hid))
			return true;
	}
	return false;
}

/*
 * A register of 8 bits at a port. The width is in bits: with 1 a kernel refuses to use it (hard
 * case C18).
 */
static void patch_port(struct bytes *b, size_t at, uint16_t port)
{
	const uint8_t gas[] = {1 /* I/O space */, 8 /* bits */, 0, 1 /* by bytes */};

	bytes_patch(b, at, gas, sizeof(gas));
	bytes_patch_u64(b, at + sizeof(gas), port);
}

static size_t put_fadt(struct bytes *b, const struct vm *vm, uint64_t dsdt)
{
	size_t at = table_open(b, "FACP", 6);
	unsigned boot_arch = BOOT_ARCH_NO_VGA;

	/*
	 * A kernel that trusts these does not probe, and time out on, what is not there (hard case
	 * C17).
	 */
	if (has_platform(vm, "PNP0303"))
		boot_arch |= BOOT_ARCH_8042;
	if (!has_platform(vm, "PNP0B00"))
		boot_arch |= BOOT_ARCH_NO_RTC;

	bytes_zero(b, FADT_LEN - HEADER_LEN);
	bytes_patch_u16(b, at + FADT_BOOT_ARCH, (uint16_t)boot_arch);
	bytes_patch_u32(b, at + FADT_FLAGS,
			FADT_WBINVD | FADT_NO_FIXED_POWER_BUTTON | FADT_NO_FIXED_SLEEP_BUTTON |
				FADT_RESET_REG_SUP | FADT_HW_REDUCED);
	patch_port(b, at + FADT_RESET_REG, ARCH_PORT_RESET);
	bytes_patch(b, at + FADT_RESET_VALUE, &(uint8_t){ARCH_RESET_VALUE}, 1);
	bytes_patch(b, at + FADT_MINOR, &(uint8_t){3}, 1);
	bytes_patch_u64(b, at + FADT_X_DSDT, dsdt);
	patch_port(b, at + FADT_SLEEP_CONTROL, ARCH_PORT_SLEEP_CONTROL);
	patch_port(b, at + FADT_SLEEP_STATUS, ARCH_PORT_SLEEP_STATUS);
	table_close(b, at);
	return at;
}

/* ---- MADT, MCFG, XSDT, RSDP ---- */

static size_t put_madt(struct bytes *b, const struct vm *vm)
{
	size_t at = table_open(b, "APIC", 5);

	bytes_u32(b, ARCH_LAPIC_BASE);
	bytes_u32(b, 0); /* no pair of 8259s to be masked: hardware-reduced */
	for (unsigned id = 0; id < vm->ncpus; id++) {
		bytes_u8(b, 0); /* local APIC */
		bytes_u8(b, 8);
		bytes_u8(b, (uint8_t)id); /* _UID of its device */
		bytes_u8(b, (uint8_t)id);
		bytes_u32(b, 1); /* enabled */
	}
	bytes_u8(b, 1); /* I/O APIC */
	bytes_u8(b, 12);
	bytes_u8(b, 0); /* what KVM's id register says */
	bytes_u8(b, 0);
	bytes_u32(b, ARCH_IOAPIC_BASE);
	bytes_u32(b, 0); /* its first GSI */
	table_close(b, at);
	return at;
}

static size_t put_mcfg(struct bytes *b)
{
	size_t at = table_open(b, "MCFG", 1);

	bytes_zero(b, 8);
	bytes_u64(b, ARCH_ECAM_BASE);
	bytes_u16(b, 0); /* segment */
	bytes_u8(b, 0);  /* first bus */
	bytes_u8(b, (uint8_t)((ARCH_ECAM_SIZE >> 20) - 1));
	bytes_u32(b, 0);
	table_close(b, at);
	return at;
}

#define RSDP_LEN 36

/*
 * At offset 0, where a kernel that scans for it finds it first. The first checksum is that of ACPI
 * 1.0's 20 bytes.
 */
static void patch_rsdp(struct bytes *b, uint64_t xsdt)
{
	bytes_patch(b, 0, "RSD PTR ", 8);
	bytes_patch(b, 9, "WHERRY", 6);
	bytes_patch(b, 15, &(uint8_t){2}, 1);
	bytes_patch_u32(b, 20, RSDP_LEN);
	bytes_patch_u64(b, 24, xsdt);
	bytes_checksum(b, 8, 0, 20);
	bytes_checksum(b, 32, 0, RSDP_LEN);
}

int acpi_build(const struct vm *vm, uint64_t addr, uint8_t *out, size_t cap)
{
	struct bytes b = {.out = out, .cap = cap};
	size_t dsdt, fadt, madt, mcfg = 0, xsdt;

	assert(vm->ncpus >= 1 && vm->ncpus <= CPUS_MAX && vm->nplatform <= VM_PLATFORM_MAX);
	assert(IS_ALIGNED(addr, 16));
	bytes_zero(&b, RSDP_LEN);
	dsdt = put_dsdt(&b, vm);
	fadt = put_fadt(&b, vm, addr + dsdt);
	madt = put_madt(&b, vm);
	if (vm->has_pci)
		mcfg = put_mcfg(&b);

	xsdt = table_open(&b, "XSDT", 1);
	bytes_u64(&b, addr + fadt);
	bytes_u64(&b, addr + madt);
	if (vm->has_pci)
		bytes_u64(&b, addr + mcfg);
	table_close(&b, xsdt);
	patch_rsdp(&b, addr + xsdt);
	return bytes_result(&b);
}
