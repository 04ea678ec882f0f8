// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_mmio.c - the memory-mapped transport: one 4 KiB window and one edge-triggered pin per device.
 *
 * A register map that calls virtio.c. Control registers take aligned 32-bit accesses only, everything else reads 0
 * and writes nothing; the configuration area takes any width (hard case B13). Registers are touched by vCPU threads,
 * the interrupt by the iothread too: what both use is atomic. Selectors are the driver's to serialise; they are
 * atomic so that a driver that does not can only confuse itself.
 * A shared memory region lies where the host put it for good; its registers are the driver's only way to find it.
 * Spec: virtio 1.2, 4.2.2 (registers), 4.2.3 (set-up). Calls: virtio.h, bus.h, irq.h, vm.h.
 */
#include "virtio.h"
#include "../vmm/irq.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include "../vmm/window.h"
#include <linux/virtio_mmio.h>

#define WINDOW 0x1000u
#define NO_SHM UINT32_MAX /* selected: ids are bytes */

struct virtio_mmio {
	struct transport tp;
	struct vm *vm; /* borrowed */
	struct irq irq;
	uint64_t base;
	unsigned doorbells; /* of the first queues */
	bool mapped;
	uint64_t shm_base; /* 0: nowhere */

	/* Atomic. */
	uint32_t interrupt_status;
	uint32_t features_sel, driver_features_sel, queue_sel, shm_sel;
};

static struct virtio_mmio *mmio_of(struct transport *tp)
{
	return container_of(tp, struct virtio_mmio, tp);
}

static uint32_t get(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void set(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* ---- interrupts ---- */

/*
 * Raised also if the bit is still set: the driver may have read the status already and be about to acknowledge it.
 * Release: pairs with the acquire of the status read, the driver finds what it is interrupted for.
 */
static void raise_irq(struct virtio_mmio *m, uint32_t bit)
{
	__atomic_fetch_or(&m->interrupt_status, bit, __ATOMIC_RELEASE);
	irq_raise(&m->irq);
}

static void mmio_irq_queue(struct transport *tp, unsigned queue)
{
	(void)queue; /* one bit stands for all queues */
	raise_irq(mmio_of(tp), VIRTIO_MMIO_INT_VRING);
}

static void mmio_irq_config(struct transport *tp)
{
	raise_irq(mmio_of(tp), VIRTIO_MMIO_INT_CONFIG);
}

/* ---- registers ---- */

static const struct {
	uint16_t off;
	uint16_t reg; /* enum virtq_reg */
	bool readable;
} queue_regs[] = {
	{VIRTIO_MMIO_QUEUE_NUM_MAX, VIRTQ_SIZE_MAX, true},
	{VIRTIO_MMIO_QUEUE_NUM, VIRTQ_SIZE, false},
	{VIRTIO_MMIO_QUEUE_READY, VIRTQ_READY, true},
	{VIRTIO_MMIO_QUEUE_DESC_LOW, VIRTQ_DESC_LO, false},
	{VIRTIO_MMIO_QUEUE_DESC_HIGH, VIRTQ_DESC_HI, false},
	{VIRTIO_MMIO_QUEUE_AVAIL_LOW, VIRTQ_AVAIL_LO, false},
	{VIRTIO_MMIO_QUEUE_AVAIL_HIGH, VIRTQ_AVAIL_HI, false},
	{VIRTIO_MMIO_QUEUE_USED_LOW, VIRTQ_USED_LO, false},
	{VIRTIO_MMIO_QUEUE_USED_HIGH, VIRTQ_USED_HI, false},
};

static uint32_t queue_reg_read(struct virtio_mmio *m, uint64_t off)
{
	for (unsigned i = 0; i < ARRAY_LEN(queue_regs); i++)
		if (queue_regs[i].off == off && queue_regs[i].readable)
			return virtio_queue_read(m->tp.dev, get(&m->queue_sel), queue_regs[i].reg);
	return 0;
}

static void queue_reg_write(struct virtio_mmio *m, uint64_t off, uint32_t v)
{
	for (unsigned i = 0; i < ARRAY_LEN(queue_regs); i++)
		if (queue_regs[i].off == off)
			virtio_queue_write(m->tp.dev, get(&m->queue_sel), queue_regs[i].reg, v);
}

/* 4.2.2: of a region that does not exist all is ones, its length tells. */
static uint32_t shm_read(struct virtio_mmio *m, uint64_t off)
{
	const struct virtio_dev *dev = m->tp.dev;

	if (!m->shm_base || get(&m->shm_sel) != dev->shm_id)
		return UINT32_MAX;
	switch (off) {
	case VIRTIO_MMIO_SHM_LEN_LOW:
		return (uint32_t)dev->shm->size;
	case VIRTIO_MMIO_SHM_LEN_HIGH:
		return (uint32_t)(dev->shm->size >> 32);
	case VIRTIO_MMIO_SHM_BASE_LOW:
		return (uint32_t)m->shm_base;
	default:
		return (uint32_t)(m->shm_base >> 32);
	}
}

static uint32_t reg_read(struct virtio_mmio *m, uint64_t off)
{
	struct virtio_dev *dev = m->tp.dev;

	switch (off) {
	case VIRTIO_MMIO_MAGIC_VALUE:
		return 'v' | 'i' << 8 | 'r' << 16 | 't' << 24;
	case VIRTIO_MMIO_VERSION:
		return 2;
	case VIRTIO_MMIO_DEVICE_ID:
		return dev->id;
	case VIRTIO_MMIO_VENDOR_ID:
		return 'W' | 'R' << 8 | 'R' << 16 | 'Y' << 24;
	case VIRTIO_MMIO_DEVICE_FEATURES:
		return virtio_features_read(dev, get(&m->features_sel));
	case VIRTIO_MMIO_INTERRUPT_STATUS:
		return __atomic_load_n(&m->interrupt_status, __ATOMIC_ACQUIRE);
	case VIRTIO_MMIO_STATUS:
		return virtio_status_read(dev);
	case VIRTIO_MMIO_SHM_LEN_LOW:
	case VIRTIO_MMIO_SHM_LEN_HIGH:
	case VIRTIO_MMIO_SHM_BASE_LOW:
	case VIRTIO_MMIO_SHM_BASE_HIGH:
		return shm_read(m, off);
	case VIRTIO_MMIO_CONFIG_GENERATION:
		return virtio_config_generation(dev);
	default:
		return queue_reg_read(m, off);
	}
}

static void reg_write(struct virtio_mmio *m, uint64_t off, uint32_t v)
{
	struct virtio_dev *dev = m->tp.dev;

	switch (off) {
	case VIRTIO_MMIO_DEVICE_FEATURES_SEL:
		set(&m->features_sel, v);
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES_SEL:
		set(&m->driver_features_sel, v);
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES:
		virtio_driver_features_write(dev, get(&m->driver_features_sel), v);
		break;
	case VIRTIO_MMIO_QUEUE_SEL:
		set(&m->queue_sel, v);
		break;
	case VIRTIO_MMIO_SHM_SEL:
		set(&m->shm_sel, v);
		break;
	case VIRTIO_MMIO_QUEUE_NOTIFY:
		virtio_queue_kick(dev, v);
		break;
	case VIRTIO_MMIO_INTERRUPT_ACK:
		/* The written bits only: others may have come since the driver looked. */
		__atomic_fetch_and(&m->interrupt_status, ~v, __ATOMIC_ACQ_REL);
		break;
	case VIRTIO_MMIO_STATUS:
		/* Eight bits are defined; a write of only others must not pass for the reset that 0 is. */
		if (!v || (uint8_t)v)
			virtio_status_write(dev, (uint8_t)v);
		break;
	default:
		queue_reg_write(m, off, v);
	}
}

static bool is_register(uint64_t off, unsigned len)
{
	return len == 4 && IS_ALIGNED(off, 4u);
}

static void mmio_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct virtio_mmio *m = owner;

	if (off >= VIRTIO_MMIO_CONFIG)
		virtio_config_read(m->tp.dev, off - VIRTIO_MMIO_CONFIG, data, len);
	else
		bus_store(data, len, is_register(off, len) ? reg_read(m, off) : 0);
}

static void mmio_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct virtio_mmio *m = owner;

	if (off >= VIRTIO_MMIO_CONFIG)
		virtio_config_write(m->tp.dev, off - VIRTIO_MMIO_CONFIG, data, len);
	else if (is_register(off, len))
		reg_write(m, off, (uint32_t)bus_load(data, len));
}

static const struct bus_ops mmio_ops = {.read = mmio_read, .write = mmio_write};

/* ---- life ---- */

static void mmio_reset(struct transport *tp)
{
	struct virtio_mmio *m = mmio_of(tp);

	set(&m->interrupt_status, 0);
	set(&m->features_sel, 0);
	set(&m->driver_features_sel, 0);
	set(&m->queue_sel, 0);
	set(&m->shm_sel, NO_SHM);
}

/* Registers and windows alike exit to the bus where KVM does not answer itself. */
static int range_add(struct virtio_mmio *m, uint64_t base, uint64_t len, const struct bus_ops *ops,
		     void *owner)
{
	return bus_add(&m->vm->mmio, &(struct bus_range){.base = base,
							 .len = len,
							 .ops = ops,
							 .owner = owner,
							 .name = m->tp.dev->base.name});
}

static int shm_add(struct virtio_mmio *m)
{
	struct window *shm = m->tp.dev->shm;
	uint64_t base;
	int r = window_alloc(shm, &base);

	if (!r)
		r = range_add(m, base, shm->size, &window_ops, shm);
	if (r)
		return r;
	m->shm_base = base;
	return window_place(shm, base);
}

static void shm_remove(struct virtio_mmio *m)
{
	struct window *shm = m->tp.dev->shm;

	if (!m->shm_base)
		return;
	if (window_place(shm, 0))
		log_warn("%s: KVM keeps its shared memory", m->tp.dev->base.name);
	bus_remove(&m->vm->mmio, m->shm_base, shm);
}

static void mmio_destroy(struct transport *tp)
{
	struct virtio_mmio *m = mmio_of(tp);

	shm_remove(m);
	if (m->mapped)
		bus_remove(&m->vm->mmio, m->base, m);
	while (m->doorbells--)
		vm_doorbell_del_value(m->vm, m->base + VIRTIO_MMIO_QUEUE_NOTIFY, m->doorbells,
				      m->tp.dev->vq[m->doorbells].kick_fd);
	irq_fini(&m->irq);
	free(m);
}

static const struct transport_ops mmio_transport = {
	.irq_queue = mmio_irq_queue,
	.irq_config = mmio_irq_config,
	.reset = mmio_reset,
	.destroy = mmio_destroy,
};

/* The doorbell is one register for all queues, the number is in the data: an eventfd for each value. */
static int doorbells_add(struct virtio_mmio *m)
{
	for (unsigned q = 0; q < m->tp.dev->nqueues; q++) {
		int r = vm_doorbell_add_value(m->vm, m->base + VIRTIO_MMIO_QUEUE_NOTIFY, q,
					      m->tp.dev->vq[q].kick_fd);

		if (r)
			return r;
		m->doorbells++;
	}
	return 0;
}

static int wire(struct virtio_mmio *m)
{
	int gsi = irq_gsi_alloc(m->vm), r;

	if (gsi < 0)
		return gsi;
	r = irq_edge_init(&m->irq, m->vm, (uint32_t)gsi);
	if (r)
		return r;
	r = vm_mmio_alloc(m->vm, WINDOW, &m->base);
	if (r)
		return r;
	r = doorbells_add(m);
	if (r)
		return r;
	r = range_add(m, m->base, WINDOW, &mmio_ops, m);
	if (r)
		return r;
	m->mapped = true;
	return vm_platform_add(
		m->vm, &(struct vm_platform){
			       .hid = "LNRO0005", .base = m->base, .len = WINDOW, .gsi = gsi});
}

int virtio_mmio_create(struct virtio_dev *dev, struct vm *vm)
{
	struct virtio_mmio *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	*m = (struct virtio_mmio){
		.tp = {&mmio_transport, dev}, .vm = vm, .irq = IRQ_INIT, .shm_sel = NO_SHM};
	r = wire(m);
	if (r)
		log_err("%s: virtio-mmio has %d interrupt pins, one for each device (%s): %s",
			dev->base.name, IRQ_FREE_PINS,
			log_remedy(-r, "configure fewer, or use transport pci"), strerror(-r));
	if (!r && dev->shm) {
		r = shm_add(m);
		if (r)
			log_err("%s: no room for %llu MiB of shared memory (%s): %s",
				dev->base.name, (unsigned long long)(dev->shm->size >> 20),
				log_remedy(-r, "make it smaller"), strerror(-r));
	}
	if (r) {
		mmio_destroy(&m->tp);
		return r;
	}
	dev->tp = &m->tp;
	return 0;
}
