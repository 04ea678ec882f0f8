// SPDX-License-Identifier: Apache-2.0
/*
 * t_mptable.c - the MP table, read back entry by entry as a kernel does.
 */
#include "tap.h"
#include "../vmm/arch.h"
#include "../vmm/vm.h"

#define ADDR 0xf0000ull
#define CAP  0x10000u

/* What a kernel knows after reading the table. Entry of a pin: what it is wired to. */
struct seen {
	unsigned cpus, boot_cpus, buses, ioapics, extints, nmis, entries;
	bool cpu_id[256];
	int isa_bus, pci_bus, ioapic_id;
	struct pin {
		unsigned isa, pci; /* how many entries */
		unsigned irq, flags;
		uint32_t slots;
	} pin[VM_GSI_PINS];
	bool good;
};

static struct vm *machine(unsigned ncpus, bool pci)
{
	struct vm *vm = calloc(1, sizeof(*vm));

	need(vm);
	vm->ncpus = ncpus;
	vm->has_pci = pci;
	for (unsigned i = 0; i < ARRAY_LEN(vm->pci_gsi); i++)
		vm->pci_gsi[i] = -1;
	return vm;
}

static unsigned get(const uint8_t *p, unsigned n)
{
	uint32_t v = 0;

	memcpy(&v, p, n);
	return le32toh(v);
}

static unsigned sum(const uint8_t *p, size_t n)
{
	uint8_t s = 0;

	while (n--)
		s = (uint8_t)(s + *p++);
	return s;
}

static void see_int(struct seen *s, const uint8_t *e)
{
	struct pin *pin;

	s->good &= e[1] == 0 && e[6] == s->ioapic_id && e[7] < VM_GSI_PINS;
	if (!s->good)
		return;
	pin = &s->pin[e[7]];
	pin->flags = get(e + 2, 2);
	if (e[4] == s->pci_bus) {
		pin->pci++;
		pin->slots |= 1u << (e[5] >> 2);
		s->good &= (e[5] & 3) == 0;
	} else {
		pin->isa++;
		pin->irq = e[5];
		s->good &= e[4] == s->isa_bus;
	}
}

static size_t see(struct seen *s, const uint8_t *e)
{
	switch (e[0]) {
	case 0:
		s->good &= !s->cpu_id[e[1]] && (e[3] & 1) && get(e + 8, 4) == 0x201;
		s->cpu_id[e[1]] = true;
		s->boot_cpus += (e[3] & 2) && e[1] == 0;
		s->cpus++;
		return 20;
	case 1:
		*(memcmp(e + 2, "ISA   ", 6) ? &s->pci_bus : &s->isa_bus) = e[1];
		s->buses++;
		return 8;
	case 2:
		s->good &= !s->cpu_id[e[1]] && (e[3] & 1) && get(e + 4, 4) == ARCH_IOAPIC_BASE;
		s->ioapic_id = e[1];
		s->ioapics++;
		return 8;
	case 3:
		see_int(s, e);
		return 8;
	case 4:
		s->extints += e[1] == 3 && e[6] == 0 && e[7] == 0;
		s->nmis += e[1] == 1 && e[6] == 0xff && e[7] == 1;
		return 8;
	default:
		s->good = false;
		return 8;
	}
}

static struct seen read_table(const struct vm *vm)
{
	struct seen s = {.isa_bus = -1, .pci_bus = -1, .ioapic_id = -1, .good = true};
	uint8_t *out = calloc(1, CAP);
	int n = mptable_build(vm, ADDR, out, CAP);
	const uint8_t *t, *e;
	size_t len;

	need(n > 0);
	s.good &= !memcmp(out, "_MP_", 4) && out[8] == 1 && out[9] == 4 && sum(out, 16) == 0;
	s.good &= out[11] == 0 && out[12] == 0 && get(out + 4, 4) >= ADDR;
	need(s.good);
	t = out + (get(out + 4, 4) - ADDR);
	len = get(t + 4, 2);
	s.good &= !memcmp(t, "PCMP", 4) && t[6] == 4 && get(t + 36, 4) == ARCH_LAPIC_BASE;
	need(t + len == out + n);
	s.good &= sum(t, len) == 0;
	for (e = t + 44; e < t + len; s.entries++)
		e += see(&s, e);
	s.good &= e == t + len && s.entries == get(t + 34, 2);
	free(out);
	return s;
}

static void test_cpus(unsigned ncpus)
{
	struct vm *vm = machine(ncpus, false);
	struct seen s = read_table(vm);

	ok(s.good, "the table of %u CPUs is whole: pointer, sums, lengths, count of entries",
	   ncpus);
	ok(s.cpus == ncpus && s.boot_cpus == 1 && s.cpu_id[ncpus - 1],
	   "each CPU is enabled under its own id and CPU 0 boots");
	ok(s.ioapics == 1 && !s.cpu_id[s.ioapic_id], "the IOAPIC's id is no CPU's");
	ok(s.extints == 1 && s.nmis == 1, "LINT0 of CPU 0 is ExtINT, LINT1 of all is NMI");
	free(vm);
}

static void test_isa(void)
{
	struct vm *vm = machine(2, false);
	bool identity = true, conforms = true;
	struct seen s;

	vm->platform[vm->nplatform++] =
		(struct vm_platform){"LNRO0005", 0xf0000000, 4096, .gsi = 21, .level = true};
	vm->platform[vm->nplatform++] =
		(struct vm_platform){"LNRO0005", 0xf0001000, 4096, .gsi = 22};
	s = read_table(vm);
	for (unsigned i = 0; i < VM_GSI_PINS; i++) {
		identity &= i == 2 || (s.pin[i].isa == 1 && s.pin[i].pci == 0 && s.pin[i].irq == i);
		conforms &= i == 21 || s.pin[i].flags == 0;
	}
	ok(s.buses == 1 && s.isa_bus == 0, "without PCI there is one bus, ISA");
	ok(identity, "every pin but 2 is the ISA irq of its number, once, up to 23");
	is(s.pin[2].isa, 0, "irq 2, the cascade, has no pin");
	ok(conforms, "a pin is edge-triggered as ISA has it");
	is(s.pin[21].flags, 0xd, "a level-triggered device's pin says level, active high");
	free(vm);
}

static void test_pci(void)
{
	struct vm *vm = machine(4, true);
	struct seen s;

	vm->pci_gsi[0] = -1;
	vm->pci_gsi[1] = 10;
	vm->pci_gsi[2] = 20;
	vm->pci_gsi[31] = 10;
	s = read_table(vm);
	ok(s.good && s.buses == 2 && s.pci_bus == 0 && s.isa_bus == 1,
	   "with PCI its bus has id 0, which is its number, and ISA another");
	ok(s.pin[10].pci == 2 && s.pin[10].slots == (1u << 1 | 1u << 31) && s.pin[10].isa == 0,
	   "two slots share a pin, which is no ISA irq then");
	ok(s.pin[20].pci == 1 && s.pin[20].slots == 1u << 2 && s.pin[20].isa == 0 &&
		   s.pin[20].flags == 0,
	   "a slot has a pin of its own and conforms to the bus");
	ok(s.pin[4].isa == 1 && s.pin[4].irq == 4, "COM1 keeps its pin");
	vm->has_pci = false;
	s = read_table(vm);
	ok(s.good && s.pin[10].isa == 1 && s.pin[10].pci == 0,
	   "slots count for nothing without a host bridge");
	free(vm);
}

static void test_bounds(void)
{
	struct vm *vm = machine(32, true);
	bool refused = true, untouched = true;
	uint8_t *small = malloc(CAP);
	int n;

	need(small);
	for (unsigned i = 0; i < ARRAY_LEN(vm->pci_gsi); i++)
		vm->pci_gsi[i] = (int16_t)(5 + i % 4);
	n = mptable_build(vm, ADDR, small, CAP);
	need(n > 0);
	for (size_t cap = 0; cap < (size_t)n; cap++) {
		memset(small, 0xa5, CAP);
		refused &= mptable_build(vm, ADDR, small, cap) == -ENOSPC;
		for (size_t i = cap; i < (size_t)n + 64; i++)
			untouched &= small[i] == 0xa5;
	}
	ok(refused, "any smaller area is refused with -ENOSPC");
	ok(untouched, "and nothing is written beyond it");
	is(mptable_build(vm, ADDR, small, (size_t)n), n, "an area of the very size will do");
	free(small);
	free(vm);
}

int main(void)
{
	test_cpus(1);
	test_cpus(2);
	test_cpus(4);
	test_cpus(32);
	test_cpus(254);
	test_isa();
	test_pci();
	test_bounds();
	return done();
}
