// SPDX-License-Identifier: Apache-2.0
/*
 * mptable.c - the MP table: processors, buses and interrupt pins for kernels that boot without ACPI
 * (acpi=off).
 *
 * The floating pointer comes first, the configuration table right behind it. The caller puts both
 * where a kernel looks: the first KiB of the EBDA, the last KiB of base memory, or 0xf0000 to
 * 0xfffff. Runs on the main thread while the machine is set up. Spec: Intel MultiProcessor
 * Specification 1.4, chapter 4. Calls: bytes.h.
 */
#include "arch.h"
#include "bytes.h"
#include "vm.h"
#include <assert.h>

#define SPEC_REV       4 /* 1.4 */
#define PIN_CASCADE    2 /* ISA irq 2 is the cascade of the two PICs: no device can have it */
#define FLAG_ENABLED   1
#define FLAG_BOOT_CPU  2
#define INT_CONFORMS   0x0 /* to the bus: ISA edge and high, PCI level and low */
#define INT_LEVEL_HIGH 0xd
#define ALL_APICS      0xff
#define APIC_VERSION   0x14
#define CPU_SIGNATURE  0x600 /* family 6; kernels take the real one from CPUID */
#define CPU_FEATURES   0x201 /* FPU and APIC on the chip */

enum entry { ENTRY_CPU, ENTRY_BUS, ENTRY_IOAPIC, ENTRY_IO_INT, ENTRY_LOCAL_INT };
enum int_type { INT_VECTORED, INT_NMI, INT_SMI, INT_EXTINT };

/*
 * Identifiers are 8 bits wide and 0xff is the broadcast, so 254 processors and the IOAPIC are the
 * most (hard case C18).
 */
#define CPUS_MAX 254

struct mp {
	struct bytes b;
	const struct vm *vm;
	uint16_t entries;
	uint8_t ioapic_id; /* differs from every local APIC's */
	uint8_t pci_bus, isa_bus;
};

static void put_cpu(struct mp *mp, unsigned id)
{
	bytes_u8(&mp->b, ENTRY_CPU);
	bytes_u8(&mp->b, (uint8_t)id);
	bytes_u8(&mp->b, APIC_VERSION);
	bytes_u8(&mp->b, FLAG_ENABLED | (id == 0 ? FLAG_BOOT_CPU : 0));
	bytes_u32(&mp->b, CPU_SIGNATURE);
	bytes_u32(&mp->b, CPU_FEATURES);
	bytes_zero(&mp->b, 8);
	mp->entries++;
}

/* name is six characters, padded with blanks. */
static void put_bus(struct mp *mp, uint8_t id, const char *name)
{
	bytes_u8(&mp->b, ENTRY_BUS);
	bytes_u8(&mp->b, id);
	bytes_put(&mp->b, name, 6);
	mp->entries++;
}

static void put_ioapic(struct mp *mp)
{
	bytes_u8(&mp->b, ENTRY_IOAPIC);
	bytes_u8(&mp->b, mp->ioapic_id);
	bytes_u8(&mp->b, 0x11);
	bytes_u8(&mp->b, FLAG_ENABLED);
	bytes_u32(&mp->b, ARCH_IOAPIC_BASE);
	mp->entries++;
}

static void put_int(struct mp *mp, enum entry entry, enum int_type type, uint16_t flags,
		    uint8_t bus, unsigned irq, uint8_t apic, unsigned pin)
{
	bytes_u8(&mp->b, (uint8_t)entry);
	bytes_u8(&mp->b, (uint8_t)type);
	bytes_u16(&mp->b, flags);
	bytes_u8(&mp->b, bus);
	bytes_u8(&mp->b, (uint8_t)irq);
	bytes_u8(&mp->b, apic);
	bytes_u8(&mp->b, (uint8_t)pin);
	mp->entries++;
}

static uint16_t isa_flags(const struct vm *vm, unsigned pin)
{
	for (unsigned i = 0; i < vm->nplatform; i++) {
		if (vm->platform[i].gsi == (int)pin && vm->platform[i].level)
			return INT_LEVEL_HIGH;
	}
	return INT_CONFORMS;
}

/* The slots whose INTA is this pin; how many there are. */
static unsigned put_pci_pin(struct mp *mp, unsigned pin)
{
	unsigned n = 0;

	if (!mp->vm->has_pci)
		return 0;
	for (unsigned slot = 0; slot < ARRAY_LEN(mp->vm->pci_gsi); slot++) {
		if (mp->vm->pci_gsi[slot] != (int)pin)
			continue;
		put_int(mp, ENTRY_IO_INT, INT_VECTORED, INT_CONFORMS, mp->pci_bus, slot << 2,
			mp->ioapic_id, pin);
		n++;
	}
	return n;
}

/*
 * Every pin that no PCI slot has is the ISA irq of the same number, also those from 16 on, which no
 * ISA bus ever had: a kernel finds virtio_mmio.device=...:irq through such an entry and nothing
 * else. One pin, one owner: a kernel takes the first entry of a pin (hard case B17).
 */
static void put_io_ints(struct mp *mp)
{
	for (unsigned pin = 0; pin < VM_GSI_PINS; pin++) {
		if (put_pci_pin(mp, pin) || pin == PIN_CASCADE)
			continue;
		put_int(mp, ENTRY_IO_INT, INT_VECTORED, isa_flags(mp->vm, pin), mp->isa_bus, pin,
			mp->ioapic_id, pin);
	}
}

static void put_floating_pointer(struct mp *mp, uint64_t table)
{
	bytes_put(&mp->b, "_MP_", 4);
	bytes_u32(&mp->b, (uint32_t)table);
	bytes_u8(&mp->b, 1); /* length in units of 16 bytes */
	bytes_u8(&mp->b, SPEC_REV);
	bytes_zero(&mp->b, 6); /* checksum; features: there is a table, and no IMCR */
	bytes_checksum(&mp->b, 10, 0, 16);
}

static void put_header(struct mp *mp)
{
	bytes_put(&mp->b, "PCMP", 4);
	bytes_zero(&mp->b, 2); /* length, at the end */
	bytes_u8(&mp->b, SPEC_REV);
	bytes_zero(&mp->b, 1); /* checksum, at the end */
	bytes_put(&mp->b, "WHERRY  ", 8);
	bytes_put(&mp->b, "MICROVM     ", 12);
	bytes_zero(&mp->b, 6 + 2); /* no OEM table; number of entries, at the end */
	bytes_u32(&mp->b, ARCH_LAPIC_BASE);
	bytes_zero(&mp->b, 4); /* no extended table */
}

int mptable_build(const struct vm *vm, uint64_t addr, uint8_t *out, size_t cap)
{
	struct mp mp = {
		.b = {.out = out, .cap = cap},
		.vm = vm,
		.ioapic_id = (uint8_t)vm->ncpus,
		.isa_bus =
			vm->has_pci, /* kernels take a PCI bus's number for its id here: 0 is its */
	};
	size_t table = 16;

	assert(vm->ncpus >= 1 && vm->ncpus <= CPUS_MAX && IS_ALIGNED(addr, 16) && addr < MIB(1));
	put_floating_pointer(&mp, addr + table);
	put_header(&mp);
	for (unsigned id = 0; id < vm->ncpus; id++)
		put_cpu(&mp, id);
	if (vm->has_pci)
		put_bus(&mp, mp.pci_bus, "PCI   ");
	put_bus(&mp, mp.isa_bus, "ISA   ");
	put_ioapic(&mp);
	put_io_ints(&mp);
	put_int(&mp, ENTRY_LOCAL_INT, INT_EXTINT, INT_CONFORMS, mp.isa_bus, 0, 0, 0);
	put_int(&mp, ENTRY_LOCAL_INT, INT_NMI, INT_CONFORMS, mp.isa_bus, 0, ALL_APICS, 1);

	bytes_patch_u16(&mp.b, table + 4, (uint16_t)(mp.b.len - table));
	bytes_patch_u16(&mp.b, table + 34, mp.entries);
	bytes_checksum(&mp.b, table + 7, table, mp.b.len - table);
	return bytes_result(&mp.b);
}
