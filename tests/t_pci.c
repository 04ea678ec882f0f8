// SPDX-License-Identifier: Apache-2.0
/*
 * t_pci.c - configuration space through both doors, sizing and moving of BARs.
 *
 * Functions here are made of bytes and remember what the bus told them; accesses go through the buses of a vm without
 * KVM, as a vCPU's would. Hard cases B11, B12, B17, B19.
 */
#include "../devices/pci.h"
#include "../vmm/arch.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include "tap.h"

struct fn {
	struct pci_dev pci;
	uint64_t off; /* of the last access inside a BAR */
	unsigned len;
	unsigned moves, last_bar;
	uint64_t last_old;
	unsigned written_off, written_len, readings;
};

static void bar_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct fn *f = owner;

	f->off = off;
	f->len = len;
	bus_store(data, len, 0xabcd);
}

static void bar_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct fn *f = owner;

	(void)data;
	f->off = off;
	f->len = len;
}

static const struct bus_ops bar_ops = {.read = bar_read, .write = bar_write};

static void moved(struct pci_dev *d, unsigned i, uint64_t old)
{
	struct fn *f = container_of(d, struct fn, pci);

	f->moves++;
	f->last_bar = i;
	f->last_old = old;
}

static void written(struct pci_dev *d, unsigned off, unsigned len)
{
	struct fn *f = container_of(d, struct fn, pci);

	f->written_off = off;
	f->written_len = len;
}

static void reading(struct pci_dev *d, unsigned off, unsigned len)
{
	struct fn *f = container_of(d, struct fn, pci);

	(void)off;
	(void)len;
	f->readings++;
}

static void fn_init(struct fn *f, const char *name)
{
	*f = (struct fn){.pci = {.name = name,
				 .bar_owner = f,
				 .bar_moved = moved,
				 .config_written = written,
				 .config_reading = reading}};
	pci_put(f->pci.config, PCI_VENDOR_ID, 2, 0x1af4);
	pci_put(f->pci.config, PCI_DEVICE_ID, 2, 0x1234);
	f->pci.bar[0] = (struct pci_bar){.size = 0x4000, .ops = &bar_ops};
	f->pci.bar[2] = (struct pci_bar){.size = 0x1000, .is64 = true, .ops = &bar_ops};
}

/* ---- the doors ---- */

static uint64_t ecam(const struct fn *f, unsigned reg)
{
	return ARCH_ECAM_BASE + ((uint64_t)f->pci.slot << 15) + reg;
}

static uint64_t ecam_get(struct vm *vm, uint64_t addr, unsigned len)
{
	uint64_t v = 0;

	bus_read(&vm->mmio, addr, &v, len);
	return bus_load(&v, len);
}

static void ecam_put(struct vm *vm, uint64_t addr, unsigned len, uint64_t v)
{
	uint8_t b[8];

	bus_store(b, len, v);
	bus_write(&vm->mmio, addr, b, len);
}

static uint32_t port_get(struct vm *vm, uint64_t port, unsigned len)
{
	uint8_t b[4];

	bus_read(&vm->pio, port, b, len);
	return (uint32_t)bus_load(b, len);
}

static void port_put(struct vm *vm, uint64_t port, unsigned len, uint32_t v)
{
	uint8_t b[4];

	bus_store(b, len, v);
	bus_write(&vm->pio, port, b, len);
}

static uint32_t cf8(unsigned slot, unsigned reg)
{
	return 0x80000000u | slot << 11 | (reg & 0xfc);
}

static void t_ecam(struct vm *vm, struct fn *f)
{
	unsigned bad = 0;

	is(ecam_get(vm, ARCH_ECAM_BASE, 4), 0x0d578086, "the host bridge is function 00:00.0");
	is(ecam_get(vm, ARCH_ECAM_BASE + PCI_CLASS_DEVICE, 2), 0x0600, "with the class of one");
	is(ecam_get(vm, ecam(f, 0), 4), 0x12341af4, "a function answers at its slot");
	is(ecam_get(vm, ecam(f, 1), 2), 0x341a, "at any offset");
	is(ecam_get(vm, ecam(f, 0), 8), 0x0010000012341af4, "a quadword reads two registers");
	is(ecam_get(vm, ARCH_ECAM_BASE + (9u << 15), 4), 0xffffffff,
	   "an absent slot reads all ones");
	is(ecam_get(vm, ecam(f, 0) + 0x1000, 4), 0xffffffff, "an absent function too");
	is(ecam_get(vm, ecam(f, 0x100), 4), 0xffffffff, "there is no extended configuration space");
	is(ecam_get(vm, ecam(f, 0xfc), 8), 0xffffffff00000000,
	   "a read across its end gets what there is");
	ecam_put(vm, ecam(f, 0xfc), 8, UINT64_MAX);
	ecam_put(vm, ARCH_ECAM_BASE + (9u << 15), 4, 0);
	ecam_put(vm, ecam(f, 0), 4, 0);
	is(ecam_get(vm, ecam(f, 0), 4), 0x12341af4, "read-only bytes stay");
	for (unsigned reg = 0; reg < 0x1000; reg++)
		for (unsigned len = 1; len <= 8; len++) {
			uint8_t want[8], got[8];

			for (unsigned i = 0; i < len; i++)
				want[i] = reg + i < 256 ? f->pci.config[reg + i] : 0xff;
			if (reg + len > 0x1000)
				continue;
			bus_read(&vm->mmio, ecam(f, reg), got, len);
			bad += memcmp(got, want, len) != 0;
		}
	is(bad, 0, "every width at every offset reads the same bytes");
}

static void t_ports(struct vm *vm, struct fn *f)
{
	unsigned slot = f->pci.slot, bad = 0;

	port_put(vm, 0xcf8, 4, 0x80000000);
	is(port_get(vm, 0xcf8, 4), 0x80000000, "the address register reads back");
	is(port_get(vm, 0xcfc, 4), 0x0d578086, "and selects the host bridge");
	port_put(vm, 0xcf8, 4, cf8(slot, 0));
	is(port_get(vm, 0xcfe, 2), 0x1234, "a word of the data port is a word of the register");
	is(port_get(vm, 0xcff, 1), 0x12, "a byte a byte");
	port_put(vm, 0xcf8, 4, cf8(slot, 0) & 0x7fffffff);
	is(port_get(vm, 0xcfc, 4), 0xffffffff, "without the enable bit it reads all ones");
	port_put(vm, 0xcf8, 4, cf8(slot, 0) | 1 << 16);
	is(port_get(vm, 0xcfc, 4), 0xffffffff, "as does another bus");
	port_put(vm, 0xcf8, 4, cf8(slot, 0) | 1 << 8);
	is(port_get(vm, 0xcfc, 4), 0xffffffff, "another function");
	port_put(vm, 0xcf8, 4, cf8(30, 0));
	is(port_get(vm, 0xcfc, 4), 0xffffffff, "and an empty slot");
	port_put(vm, 0xcf8, 4, cf8(slot, 0));
	port_put(vm, 0xcf8, 1, 0);
	port_put(vm, 0xcfb, 1, 1);
	port_put(vm, 0xcf8, 2, 0);
	is(port_get(vm, 0xcf8, 4), cf8(slot, 0), "only a whole dword changes the address");
	is(port_get(vm, 0xcfb, 1), 0x80, "whose bytes can be read");
	is(port_get(vm, 0xcfa, 4), 0xffffffff, "an access across both ports is none");
	for (unsigned reg = 0; reg < 256; reg++) {
		port_put(vm, 0xcf8, 4, cf8(slot, reg));
		bad += port_get(vm, 0xcfc + (reg & 3), 1) != f->pci.config[reg];
	}
	is(bad, 0, "both doors show the same bytes");
	port_put(vm, 0xcf8, 4, cf8(slot, PCI_INTERRUPT_LINE));
	port_put(vm, 0xcfc, 1, 0x5a);
	is(ecam_get(vm, ecam(f, PCI_INTERRUPT_LINE), 1), 0x5a, "and take the same writes");
	ok(f->written_off == PCI_INTERRUPT_LINE && f->written_len == 1 && f->readings > 256,
	   "the function hears of both");
}

static void t_caps(struct fn *f)
{
	uint8_t body[5] = {0xee, 0xee, 1, 2, 3};
	unsigned a = pci_add_cap(&f->pci, PCI_CAP_ID_VNDR, body, sizeof(body));
	unsigned b = pci_add_cap(&f->pci, PCI_CAP_ID_MSIX, body, sizeof(body));

	ok(a == 0x40 && b == 0x48, "capabilities begin after the header, on dwords");
	ok(f->pci.config[PCI_CAPABILITY_LIST] == a &&
		   (f->pci.config[PCI_STATUS] & PCI_STATUS_CAP_LIST),
	   "the header leads to the first");
	ok(f->pci.config[a] == PCI_CAP_ID_VNDR && f->pci.config[a + 1] == b &&
		   f->pci.config[b] == PCI_CAP_ID_MSIX && f->pci.config[b + 1] == 0 &&
		   !memcmp(f->pci.config + b + 2, body + 2, 3),
	   "the first to the second, with their bodies");
}

/* ---- BARs ---- */

static bool at(struct vm *vm, struct fn *f, uint64_t addr, uint64_t off)
{
	uint16_t v;

	f->off = UINT64_MAX;
	bus_read(&vm->mmio, addr, &v, 2);
	return v == 0xabcd && f->off == off && f->len == 2;
}

static uint64_t bar_now(struct vm *vm, struct fn *f, unsigned i)
{
	return ecam_get(vm, ecam(f, PCI_BASE_ADDRESS_0 + 4 * i), 4) & ~0xfull;
}

static void t_sizing(struct vm *vm, struct fn *f)
{
	uint64_t bar0 = ecam(f, PCI_BASE_ADDRESS_0), bar2 = ecam(f, PCI_BASE_ADDRESS_2);
	uint64_t addr0 = ecam_get(vm, bar0, 4), addr2 = ecam_get(vm, bar2, 4);

	ok(addr0 >= ARCH_PCI32_BASE && addr0 < ARCH_PCI32_BASE + ARCH_PCI32_SIZE &&
		   !(addr0 & 0x3fff),
	   "BARs are placed in the window, aligned to their size");
	is(addr2 & 0xf, PCI_BASE_ADDRESS_MEM_TYPE_64, "a 64-bit BAR says so");
	ecam_put(vm, bar0, 4, UINT32_MAX);
	is(ecam_get(vm, bar0, 4), 0xffffc000, "all ones read back the size");
	ecam_put(vm, bar2, 4, UINT32_MAX);
	ecam_put(vm, bar2 + 4, 4, UINT32_MAX);
	is(ecam_get(vm, bar2, 4), 0xfffff004, "of a 64-bit BAR in its lower");
	is(ecam_get(vm, bar2 + 4, 4), 0xffffffff, "and its upper half");
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_1), 4, UINT32_MAX);
	is(ecam_get(vm, ecam(f, PCI_BASE_ADDRESS_1), 4), 0, "a BAR that is not there reads 0");
	ecam_put(vm, bar0, 4, addr0);
	ecam_put(vm, bar2, 4, addr2);
	ecam_put(vm, bar2 + 4, 4, 0);
	is(f->moves, 0, "sizing with decoding off moves nothing");
}

static void t_moving(struct vm *vm, struct fn *f)
{
	uint64_t a0 = bar_now(vm, f, 0), a2 = bar_now(vm, f, 2), to = ARCH_PCI32_BASE + 0x1000000;
	unsigned moves;

	ok(!at(vm, f, a0, 0), "nobody answers before memory decoding is on");
	ecam_put(vm, ecam(f, PCI_COMMAND), 2, PCI_COMMAND_MEMORY);
	ok(at(vm, f, a0 + 0x10, 0x10) && at(vm, f, a2 + 4, 4), "then both BARs do");
	is(f->moves, 2, "and the function was told of each");
	ecam_put(vm, ecam(f, PCI_COMMAND), 2, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	is(f->moves, 2, "a write that moves nothing tells nothing");
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_0), 4, (uint32_t)to);
	ok(at(vm, f, to + 8, 8) && !at(vm, f, a0, 0), "a BAR moves when it is written");
	ok(f->last_bar == 0 && f->last_old == a0 && f->pci.bar[0].addr == to,
	   "and the function learns from where");

	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_3), 4, 0x12);
	ok(at(vm, f, 0x1200000000ull + a2, 0), "a 64-bit BAR moves above 4 GiB by its upper half");
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_2), 4, UINT32_MAX);
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_3), 4, UINT32_MAX);
	is(f->pci.bar[2].addr, 0, "where it would wrap it is not mapped");
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_3), 4, 0);
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_2), 4, (uint32_t)a2);
	ok(at(vm, f, a2, 0), "and it comes back");

	moves = f->moves;
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_0), 4, (uint32_t)a2);
	is(f->pci.bar[0].addr, 0, "a BAR on top of another one is not mapped");
	ok(at(vm, f, a2, 0), "which stays where it is");
	is(f->moves, moves + 1, "the function is told that it was unmapped");
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_0), 4, ARCH_ECAM_BASE);
	is(f->pci.bar[0].addr, 0, "nor over the configuration space");
	is(ecam_get(vm, ecam(f, 0), 4), 0x12341af4, "which still answers");
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_0), 4, 0);
	is(f->pci.bar[0].addr, 0, "a BAR at 0 is not mapped");
	ecam_put(vm, ecam(f, PCI_COMMAND), 1, 0);
	ok(!f->pci.bar[2].addr && !at(vm, f, a2, 0), "decoding off unmaps");
}

/* Two functions change places: for a moment both are at one, and in the end each is where it was told to be. */
static void t_swap(struct vm *vm, struct fn *f, struct fn *g)
{
	uint64_t a = ARCH_PCI32_BASE + 0x2000000, b = ARCH_PCI32_BASE + 0x3000000;

	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_0), 4, (uint32_t)a);
	ecam_put(vm, ecam(g, PCI_BASE_ADDRESS_0), 4, (uint32_t)b);
	ecam_put(vm, ecam(f, PCI_COMMAND), 2, PCI_COMMAND_MEMORY);
	ecam_put(vm, ecam(g, PCI_COMMAND), 2, PCI_COMMAND_MEMORY);
	ecam_put(vm, ecam(f, PCI_BASE_ADDRESS_0), 4, (uint32_t)b);
	ok(at(vm, g, b, 0) && !f->pci.bar[0].addr, "who comes to an occupied place waits");
	ecam_put(vm, ecam(g, PCI_BASE_ADDRESS_0), 4, (uint32_t)a);
	ok(at(vm, f, b, 0) && at(vm, g, a, 0), "until it is free");
	pci_host_remove(&g->pci);
	ok(!at(vm, g, a, 0), "a function that is removed is unmapped");
	is(ecam_get(vm, ARCH_ECAM_BASE + (2u << 15), 4), 0xffffffff, "and absent");
}

static void t_window64(struct vm *vm, struct pci_host *h)
{
	struct fn f;

	fn_init(&f, "large");
	f.pci.bar[4] =
		(struct pci_bar){.size = GIB(1), .is64 = true, .prefetch = true, .ops = &bar_ops};
	is(pci_host_add(h, &f.pci, false), 0, "a BAR of 1 GiB finds room");
	is(bar_now(vm, &f, 4) | ecam_get(vm, ecam(&f, PCI_BASE_ADDRESS_5), 4) << 32,
	   arch_pci64_base(vm), "in the 64-bit window");
	is(ecam_get(vm, ecam(&f, PCI_BASE_ADDRESS_4), 1) & 0xf,
	   PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
	   "and says that it is prefetchable");
	is(ecam_get(vm, ecam(&f, PCI_INTERRUPT_PIN), 1), 0, "a function without a pin shows none");
	pci_host_remove(&f.pci);
}

/* The window of a share: 8 GiB, in what the boot tables say is the bridge's, with RAM above 4 GiB or without (B20). */
static void t_large(uint64_t ram)
{
	struct vm_params params = {.mem_size = ram, .pages = MEM_PAGES_SMALL, .ncpus = 1};
	uint64_t base, bar, size = GIB(8);
	struct pci_host *h;
	struct fn f, g;
	struct vm *vm;

	need(!vm_create_bare(&vm, &params));
	need(!pci_host_create(&h, vm));
	base = arch_pci64_base(vm);
	fn_init(&f, "large");
	f.pci.bar[4] =
		(struct pci_bar){.size = size, .is64 = true, .prefetch = true, .ops = &bar_ops};
	g = f;
	g.pci.bar_owner = &g;
	need(!pci_host_add(h, &f.pci, false) && !pci_host_add(h, &g.pci, false));
	bar = bar_now(vm, &f, 4) | ecam_get(vm, ecam(&f, PCI_BASE_ADDRESS_5), 4) << 32;
	ok(bar >= base && bar + size <= base + ARCH_PCI64_SIZE && IS_ALIGNED(bar, size) &&
		   !mem_span(vm->mem, GPA(bar), 1),
	   "%llu MiB of RAM: a BAR of 8 GiB lies above it, in the bridge's window, aligned",
	   (unsigned long long)(ram >> 20));
	is(bar_now(vm, &g, 4) | ecam_get(vm, ecam(&g, PCI_BASE_ADDRESS_5), 4) << 32, bar + size,
	   "and another follows");
	ecam_put(vm, ecam(&f, PCI_BASE_ADDRESS_4), 4, UINT32_MAX);
	ecam_put(vm, ecam(&f, PCI_BASE_ADDRESS_5), 4, UINT32_MAX);
	ok(ecam_get(vm, ecam(&f, PCI_BASE_ADDRESS_4), 4) == 0xc &&
		   ecam_get(vm, ecam(&f, PCI_BASE_ADDRESS_5), 4) == 0xfffffffe,
	   "its size is found over both halves");
	pci_host_remove(&f.pci);
	pci_host_remove(&g.pci);
	pci_host_destroy(h);
	vm_destroy(vm);
}

static void t_full(struct vm *vm, struct pci_host *h)
{
	static struct fn f[PCI_SLOTS];
	unsigned n = 0, pins = 0;

	while (n < PCI_SLOTS) {
		fn_init(&f[n], "many");
		if (pci_host_add(h, &f[n].pci, true))
			break;
		pins += f[n].pci.intx_gsi >= 0;
		ok(vm->pci_gsi[f[n].pci.slot] == f[n].pci.intx_gsi &&
			   ecam_get(vm, ecam(&f[n], PCI_INTERRUPT_PIN), 1) ==
				   (f[n].pci.intx_gsi >= 0),
		   "slot %u: pin and boot tables agree", f[n].pci.slot);
		n++;
	}
	is(n, PCI_SLOTS - 2, "the bus takes a function for each slot that is left");
	ok(pins > 0 && pins < n, "of which some get a pin of their own, the rest none");
	for (unsigned i = 0; i < n; i++)
		pci_host_remove(&f[i].pci);
}

int main(void)
{
	struct vm_params params = {.mem_size = MIB(16), .pages = MEM_PAGES_SMALL, .ncpus = 1};
	struct pci_host *h;
	struct fn f, g;
	struct vm *vm;

	log_set_level(LOG_ERR);
	need(!vm_create_bare(&vm, &params));
	need(!pci_host_create(&h, vm));
	ok(vm->has_pci, "the boot tables will describe the bus");
	fn_init(&f, "one");
	t_caps(&f);
	need(!pci_host_add(h, &f.pci, true));
	ok(f.pci.slot == 1 && f.pci.intx_gsi >= 0 && vm->pci_gsi[1] == f.pci.intx_gsi &&
		   ecam_get(vm, ecam(&f, PCI_INTERRUPT_PIN), 1) == 1,
	   "the first function is in slot 1, with INTA");
	fn_init(&g, "two");
	need(!pci_host_add(h, &g.pci, false));
	t_sizing(vm, &f);
	t_ecam(vm, &f);
	t_ports(vm, &f);
	t_moving(vm, &f);
	t_swap(vm, &f, &g);
	t_window64(vm, h);
	t_large(MIB(128));
	t_large(GIB(3));
	t_large(GIB(3) + MIB(2));
	t_large(GIB(21));
	t_full(vm, h);
	port_put(vm, 0xcf9, 1, 0x02);
	is(vm_get_end(vm), VM_RUNNING, "the reset register can be prepared");
	port_put(vm, 0xcf9, 1, 0x06);
	is(vm_get_end(vm), VM_RESET, "and resets the machine");
	pci_host_remove(&f.pci);
	pci_host_destroy(h);
	is(port_get(vm, 0xcf8, 4), 0xffffffff, "with the host bridge its ports are gone");
	vm_destroy(vm);
	return done();
}
