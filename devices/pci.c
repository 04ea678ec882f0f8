// SPDX-License-Identifier: Apache-2.0
/*
 * pci.c - configuration space of one bus, and where its BARs are.
 *
 * Both doors, the memory window (ECAM) and the ports CF8/CFC, lead to two functions that copy bytes under the host's
 * lock; writes go through a mask of writable bits, so every width and every offset is the same code (hard case B12).
 * After a write that touched the command register or a BAR the bus ranges are brought to where the bytes now say they
 * are; a BAR that finds its place occupied is unmapped until the place is free (B11).
 * Spec: PCI Local Bus 3.0, 3.2.2.3 (CF8/CFC), 6.1-6.2.5 (header, BARs); PCI Express 7.2.2 (ECAM). Calls: bus.h, vm.h.
 */
#include "pci.h"
#include "../vmm/arch.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include <assert.h>

#define PORT_ADDRESS     0xcf8u /* 4 bytes; a byte access to the second is the reset register */
#define PORT_RESET_OFF   1u
#define PORT_DATA_OFF    4u
#define PORT_LEN         8u
#define ADDRESS_ENABLE   0x80000000u
#define RESET_CPU        0x04u
#define WINDOW64_MIN_BAR MIB(16)

#define BAR_OFF(i) (PCI_BASE_ADDRESS_0 + 4 * (i))
#define BARS_END   BAR_OFF(PCI_BARS)
#define COMMAND_BITS                                                                       \
	(PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY | PCI_COMMAND_SERR | \
	 PCI_COMMAND_INTX_DISABLE)

struct pci_host {
	struct vm *vm; /* borrowed */
	pthread_mutex_t
		lock; /* everything below and all functions' config; before any device's lock */
	struct pci_dev *slot[PCI_SLOTS]; /* borrowed */
	struct pci_dev bridge;
	uint32_t address; /* CF8 */
	uint64_t next32, next64;
	bool ecam_added, ports_added;
	struct log_limit overlaps;
};

/* ---- BARs ---- */

/* Where the bytes in config[] put BAR i now; 0: nowhere. */
static uint64_t bar_wanted(const struct pci_dev *d, unsigned i)
{
	uint64_t addr = pci_get(d->config, BAR_OFF(i), 4) & (uint32_t)PCI_BASE_ADDRESS_MEM_MASK;

	if (!(pci_get(d->config, PCI_COMMAND, 2) & PCI_COMMAND_MEMORY))
		return 0;
	if (d->bar[i].is64)
		addr |= (uint64_t)pci_get(d->config, BAR_OFF(i + 1), 4) << 32;
	return addr;
}

static void bar_move(struct pci_dev *d, unsigned i, uint64_t addr)
{
	struct pci_bar *bar = &d->bar[i];
	struct bus *bus = &d->host->vm->mmio;
	uint64_t old = bar->addr;
	struct bus_range range = {.base = addr,
				  .len = bar->size,
				  .ops = bar->ops,
				  .owner = d->bar_owner,
				  .name = d->name};
	int r = 0;

	if (old)
		bus_remove(bus, old, d->bar_owner);
	if (addr)
		r = bus_add(bus, &range);
	if (r)
		log_limited(&d->host->overlaps, LOG_WARN,
			    "%s: the guest put BAR %u at 0x%llx: %s; not mapped there", d->name, i,
			    (unsigned long long)addr, strerror(-r));
	bar->addr = r ? 0 : addr;
	if (d->bar_moved && bar->addr != old)
		d->bar_moved(d, i, old);
}

static void bars_follow(struct pci_dev *d)
{
	for (unsigned i = 0; i < PCI_BARS; i++)
		if (d->bar[i].size && d->bar[i].addr != bar_wanted(d, i))
			bar_move(d, i, bar_wanted(d, i));
}

/* The one that was written first; then whoever waited for the place it has left. */
static void bars_update(struct pci_host *h, struct pci_dev *d)
{
	bars_follow(d);
	for (unsigned i = 0; i < PCI_SLOTS; i++)
		if (h->slot[i])
			bars_follow(h->slot[i]);
}

/* ---- configuration space ---- */

static struct pci_dev *function_at(struct pci_host *h, unsigned slot, unsigned fn)
{
	return fn || slot >= PCI_SLOTS ? NULL : h->slot[slot];
}

/* How many of len bytes at reg are inside. */
static unsigned bytes_inside(unsigned reg, unsigned len)
{
	return reg < PCI_CFG_SIZE ? MIN(len, PCI_CFG_SIZE - reg) : 0;
}

/* Nobody there, or no such byte: all ones. */
static void config_read(struct pci_host *h, unsigned slot, unsigned fn, unsigned reg, void *data,
			unsigned len)
{
	unsigned n = bytes_inside(reg, len);
	struct pci_dev *d;

	memset(data, 0xff, len);
	pthread_mutex_lock(&h->lock);
	d = function_at(h, slot, fn);
	if (d && n) {
		if (d->config_reading)
			d->config_reading(d, reg, n);
		memcpy(data, d->config + reg, n);
	}
	pthread_mutex_unlock(&h->lock);
}

static bool touches(unsigned off, unsigned len, unsigned start, unsigned end)
{
	return off < end && off + len > start;
}

static void config_set(struct pci_host *h, struct pci_dev *d, unsigned reg, const uint8_t *data,
		       unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint8_t *b = &d->config[reg + i], mask = d->wmask[reg + i];

		*b = (uint8_t)((*b & ~mask) | (data[i] & mask));
	}
	if (touches(reg, n, PCI_COMMAND, PCI_COMMAND + 2) ||
	    touches(reg, n, PCI_BASE_ADDRESS_0, BARS_END))
		bars_update(h, d);
	if (d->config_written)
		d->config_written(d, reg, n);
}

static void config_write(struct pci_host *h, unsigned slot, unsigned fn, unsigned reg,
			 const void *data, unsigned len)
{
	unsigned n = bytes_inside(reg, len);
	struct pci_dev *d;

	pthread_mutex_lock(&h->lock);
	d = function_at(h, slot, fn);
	if (d && n)
		config_set(h, d, reg, data, n);
	pthread_mutex_unlock(&h->lock);
}

/* ---- the doors ---- */

/* Offset: slot 5 bits, function 3, register 12. One bus, so there is nothing above. */
static void ecam_read(void *owner, uint64_t off, void *data, unsigned len)
{
	config_read(owner, off >> 15 & 0x1f, off >> 12 & 7, off & 0xfff, data, len);
}

static void ecam_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	config_write(owner, off >> 15 & 0x1f, off >> 12 & 7, off & 0xfff, data, len);
}

static const struct bus_ops ecam_ops = {.read = ecam_read, .write = ecam_write};

/* What the address register points at; an absent slot where it is disabled or names another bus. */
struct target {
	unsigned slot, fn, reg;
};

static struct target port_target(struct pci_host *h, uint64_t off)
{
	struct target t = {.slot = PCI_SLOTS};
	uint32_t a;

	pthread_mutex_lock(&h->lock);
	a = h->address;
	pthread_mutex_unlock(&h->lock);
	if (!(a & ADDRESS_ENABLE) || (a >> 16 & 0xff))
		return t;
	t.slot = a >> 11 & 0x1f;
	t.fn = a >> 8 & 7;
	t.reg = (a & 0xfc) + (unsigned)(off - PORT_DATA_OFF);
	return t;
}

static bool in_data_port(uint64_t off, unsigned len)
{
	return off >= PORT_DATA_OFF && off + len <= PORT_LEN;
}

static void port_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct pci_host *h = owner;
	struct target t;

	memset(data, 0xff, len);
	if (in_data_port(off, len)) {
		t = port_target(h, off);
		config_read(h, t.slot, t.fn, t.reg, data, len);
	} else if (off + len <= PORT_DATA_OFF) {
		pthread_mutex_lock(&h->lock);
		bus_store(data, len, h->address >> (8 * off));
		pthread_mutex_unlock(&h->lock);
	}
}

static void port_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct pci_host *h = owner;
	struct target t;

	if (in_data_port(off, len)) {
		t = port_target(h, off);
		config_write(h, t.slot, t.fn, t.reg, data, len);
	} else if (off == 0 && len == 4) {
		/* Only a whole dword is the address (3.2.2.3.2); parts of it are other registers. */
		pthread_mutex_lock(&h->lock);
		h->address = (uint32_t)bus_load(data, len) & 0x80fffffc;
		pthread_mutex_unlock(&h->lock);
	} else if (off == PORT_RESET_OFF && len == 1 && (bus_load(data, len) & RESET_CPU)) {
		vm_set_end(h->vm, VM_RESET, "reset register 0xcf9");
	}
}

static const struct bus_ops port_ops = {.read = port_read, .write = port_write};

/* ---- functions ---- */

unsigned pci_add_cap(struct pci_dev *d, uint8_t id, const void *body, unsigned len)
{
	unsigned off = d->cap_end ? ALIGN_UP(d->cap_end, 4u) : PCI_STD_HEADER_SIZEOF;

	assert(len >= 2 && off + len < PCI_CFG_SIZE);
	memcpy(d->config + off, body, len);
	d->config[off + PCI_CAP_LIST_ID] = id;
	d->config[off + PCI_CAP_LIST_NEXT] = 0;
	if (d->cap_last)
		d->config[d->cap_last + PCI_CAP_LIST_NEXT] = (uint8_t)off;
	else
		d->config[PCI_CAPABILITY_LIST] = (uint8_t)off;
	d->config[PCI_STATUS] |= PCI_STATUS_CAP_LIST;
	d->cap_last = (uint8_t)off;
	d->cap_end = (uint8_t)(off + len);
	return off;
}

static void header_init(struct pci_dev *d)
{
	pci_put(d->config, PCI_COMMAND, 2, 0);
	pci_put(d->wmask, PCI_COMMAND, 2, COMMAND_BITS);
	d->wmask[PCI_CACHE_LINE_SIZE] = 0xff;
	d->wmask[PCI_LATENCY_TIMER] = 0xff;
	d->wmask[PCI_INTERRUPT_LINE] = 0xff;
	d->intx_gsi = -1;
}

/* From a window that only ever grows: a function that is removed does not come back. */
static int window_take(uint64_t *next, uint64_t end, uint64_t size, uint64_t *out)
{
	uint64_t addr = ALIGN_UP(*next, size);

	if (addr >= end || size > end - addr)
		return -ENOSPC;
	*next = addr + size;
	*out = addr;
	return 0;
}

/* Address and type bits into config[]; the address bits above the size are the ones a guest can change (6.2.5.1). */
static int bar_assign(struct pci_host *h, struct pci_dev *d, unsigned i)
{
	const struct pci_bar *bar = &d->bar[i];
	uint64_t addr, mask = ~(bar->size - 1);
	uint32_t type = 0;
	int r;

	assert(bar->size >= 16 && is_pow2(bar->size));
	if (bar->is64 && bar->prefetch && bar->size > WINDOW64_MIN_BAR)
		r = window_take(&h->next64, arch_pci64_base(h->vm) + ARCH_PCI64_SIZE, bar->size,
				&addr);
	else
		r = window_take(&h->next32, ARCH_PCI32_BASE + ARCH_PCI32_SIZE, bar->size, &addr);
	if (r)
		return r;
	if (bar->is64)
		type |= PCI_BASE_ADDRESS_MEM_TYPE_64;
	if (bar->prefetch)
		type |= PCI_BASE_ADDRESS_MEM_PREFETCH;
	pci_put(d->config, BAR_OFF(i), 4, (uint32_t)addr | type);
	pci_put(d->wmask, BAR_OFF(i), 4, (uint32_t)mask);
	if (bar->is64) {
		assert(i + 1 < PCI_BARS && !d->bar[i + 1].size);
		pci_put(d->config, BAR_OFF(i + 1), 4, (uint32_t)(addr >> 32));
		pci_put(d->wmask, BAR_OFF(i + 1), 4, (uint32_t)(mask >> 32));
	}
	return 0;
}

/* There are fewer pins than slots: one that gets none lives on messages alone (B17). */
static void intx_assign(struct pci_host *h, struct pci_dev *d, unsigned slot)
{
	int gsi = irq_gsi_alloc(h->vm);

	if (gsi < 0) {
		log_debug("%s: no interrupt pin left, MSI-X only", d->name);
		return;
	}
	d->intx_gsi = gsi;
	h->vm->pci_gsi[slot] = (int16_t)gsi;
	d->config[PCI_INTERRUPT_PIN] = 1;
	d->config[PCI_INTERRUPT_LINE] = (uint8_t)gsi;
}

int pci_host_add(struct pci_host *h, struct pci_dev *d, bool intx)
{
	unsigned slot = 0;
	int r;

	while (slot < PCI_SLOTS && h->slot[slot])
		slot++;
	if (slot == PCI_SLOTS)
		return -ENOSPC;
	header_init(d);
	for (unsigned i = 0; i < PCI_BARS; i++) {
		r = d->bar[i].size ? bar_assign(h, d, i) : 0;
		if (r)
			return r;
	}
	if (intx)
		intx_assign(h, d, slot);
	d->host = h;
	d->slot = (uint8_t)slot;
	pthread_mutex_lock(&h->lock);
	h->slot[slot] = d;
	pthread_mutex_unlock(&h->lock);
	return 0;
}

void pci_host_remove(struct pci_dev *d)
{
	struct pci_host *h = d->host;

	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	for (unsigned i = 0; i < PCI_BARS; i++)
		if (d->bar[i].addr)
			bar_move(d, i, 0);
	h->slot[d->slot] = NULL;
	h->vm->pci_gsi[d->slot] = -1;
	pthread_mutex_unlock(&h->lock);
	d->host = NULL;
}

/* ---- the host bridge ---- */

/* An identity no driver binds to; only the class matters, by which kernels believe that there is a bus (B12). */
static int bridge_add(struct pci_host *h)
{
	struct pci_dev *d = &h->bridge;

	d->name = "pci host bridge";
	pci_put(d->config, PCI_VENDOR_ID, 2, 0x8086);
	pci_put(d->config, PCI_DEVICE_ID, 2, 0x0d57);
	pci_put(d->config, PCI_CLASS_DEVICE, 2, 0x0600);
	return pci_host_add(h, d, false);
}

static int doors_add(struct pci_host *h)
{
	int r = bus_add(&h->vm->mmio, &(struct bus_range){.base = ARCH_ECAM_BASE,
							  .len = ARCH_ECAM_SIZE,
							  .ops = &ecam_ops,
							  .owner = h,
							  .name = "pci ecam"});

	if (r)
		return r;
	h->ecam_added = true;
	r = bus_add(&h->vm->pio, &(struct bus_range){.base = PORT_ADDRESS,
						     .len = PORT_LEN,
						     .ops = &port_ops,
						     .owner = h,
						     .name = "pci ports"});
	h->ports_added = !r;
	return r;
}

int pci_host_create(struct pci_host **out, struct vm *vm)
{
	struct pci_host *h = calloc(1, sizeof(*h));
	int r = -ENOMEM;

	if (!h)
		goto fail;
	h->vm = vm;
	pthread_mutex_init(&h->lock, NULL);
	h->next32 = ARCH_PCI32_BASE;
	h->next64 = arch_pci64_base(vm);
	r = bridge_add(h);
	if (!r)
		r = doors_add(h);
	if (r)
		goto fail;
	vm->has_pci = true;
	*out = h;
	return 0;
fail:
	log_err("pci: cannot make the host bridge: %s", strerror(-r));
	pci_host_destroy(h);
	return r;
}

void pci_host_destroy(struct pci_host *h)
{
	if (!h)
		return;
	if (h->ports_added)
		bus_remove(&h->vm->pio, PORT_ADDRESS, h);
	if (h->ecam_added)
		bus_remove(&h->vm->mmio, ARCH_ECAM_BASE, h);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
