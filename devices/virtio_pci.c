// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_pci.c - the PCI transport: one function, two or three BARs, MSI-X with the pin as fallback.
 *
 *   BAR 0, 16 KiB   0x0000 common   0x1000 ISR   0x2000 device configuration   0x3000 notify, 4 bytes per queue
 *   BAR 1,  4 KiB   MSI-X table and pending bits
 *   BAR 2, 64-bit   the shared memory region of a device that has one: memory, not registers (hard case B20)
 *
 * A page for each, so that the notify page never shares one with registers that must exit; MSI-X is apart because it
 * knows nothing of virtio. Registers are touched by vCPU threads, interrupts come from the iothread: what both use is
 * atomic or, for the pin, under a lock of its own. Locks: host, then dev->lock, then ours.
 * Spec: virtio 1.2, 4.1. Calls: virtio.h, pci.h, msix.h, irq.h, vm.h.
 */
#include "virtio.h"
#include "msix.h"
#include "pci.h"
#include "../vmm/irq.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include "../vmm/window.h"
#include <assert.h>
#include <linux/virtio_pci.h>

#define REGS_BAR  0
#define MSIX_BAR  1
#define SHM_BAR   2
#define REGS_SIZE 0x4000u

#define COMMON_OFF  0x0000u
#define ISR_OFF     0x1000u
#define CONFIG_OFF  0x2000u
#define NOTIFY_OFF  0x3000u
#define PART_SIZE   0x1000u
#define NOTIFY_STEP 4u
#define QUEUES_MAX  (PART_SIZE / NOTIFY_STEP)

#define ISR_QUEUE  1u
#define ISR_CONFIG VIRTIO_PCI_ISR_CONFIG

#define CFG_DATA_OFF offsetof(struct virtio_pci_cfg_cap, pci_cfg_data)

struct virtio_pci {
	struct transport tp;
	struct pci_dev pci;
	struct msix msix;
	struct vm *vm;    /* borrowed */
	unsigned cfg_cap; /* where the configuration access capability is (4.1.4.9) */
	struct log_limit shm_misplaced;

	/* Atomic. Selectors are the driver's to serialise; vectors are read by the iothread. */
	uint32_t features_sel, driver_features_sel;
	uint16_t queue_sel, config_vector;
	uint16_t *queue_vector; /* nqueues */

	pthread_mutex_t lock; /* the pin: what follows. A leaf. */
	struct irq intx;
	bool has_intx, intx_disabled, line;
	uint8_t isr;
};

static struct virtio_pci *vp_of(struct transport *tp)
{
	return container_of(tp, struct virtio_pci, tp);
}

static struct virtio_pci *vp_of_pci(struct pci_dev *pci)
{
	return container_of(pci, struct virtio_pci, pci);
}

#define get(p)    __atomic_load_n(p, __ATOMIC_RELAXED)
#define set(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)

/* ---- the pin: level, from the first cause until ISR is read (hard case B7) ---- */

/* Under the lock. */
static void intx_update(struct virtio_pci *vp)
{
	bool want = vp->isr && !vp->intx_disabled && !msix_enabled(&vp->msix);

	if (!vp->has_intx || want == vp->line)
		return;
	vp->line = want;
	irq_set_level(&vp->intx, want);
}

static void intx_raise(struct virtio_pci *vp, uint8_t cause)
{
	pthread_mutex_lock(&vp->lock);
	vp->isr |= cause;
	intx_update(vp);
	pthread_mutex_unlock(&vp->lock);
}

static uint8_t isr_take(struct virtio_pci *vp)
{
	uint8_t v;

	pthread_mutex_lock(&vp->lock);
	v = vp->isr;
	vp->isr = 0;
	intx_update(vp);
	pthread_mutex_unlock(&vp->lock);
	return v;
}

/* ---- interrupts ---- */

static void interrupt(struct virtio_pci *vp, uint16_t vector, uint8_t cause)
{
	if (msix_enabled(&vp->msix))
		msix_raise(&vp->msix, vector); /* NO_VECTOR is past every table */
	else
		intx_raise(vp, cause);
}

static void pci_irq_queue(struct transport *tp, unsigned queue)
{
	struct virtio_pci *vp = vp_of(tp);

	interrupt(vp, get(&vp->queue_vector[queue]), ISR_QUEUE);
}

static void pci_irq_config(struct transport *tp)
{
	struct virtio_pci *vp = vp_of(tp);

	interrupt(vp, get(&vp->config_vector), ISR_CONFIG);
}

/* ---- common configuration ---- */

/* Fields that are registers of the selected queue. */
static const struct {
	uint8_t off, len;
	uint8_t reg; /* enum virtq_reg */
} queue_regs[] = {
	{VIRTIO_PCI_COMMON_Q_SIZE, 2, VIRTQ_SIZE},
	{VIRTIO_PCI_COMMON_Q_ENABLE, 2, VIRTQ_READY},
	{VIRTIO_PCI_COMMON_Q_DESCLO, 4, VIRTQ_DESC_LO},
	{VIRTIO_PCI_COMMON_Q_DESCHI, 4, VIRTQ_DESC_HI},
	{VIRTIO_PCI_COMMON_Q_AVAILLO, 4, VIRTQ_AVAIL_LO},
	{VIRTIO_PCI_COMMON_Q_AVAILHI, 4, VIRTQ_AVAIL_HI},
	{VIRTIO_PCI_COMMON_Q_USEDLO, 4, VIRTQ_USED_LO},
	{VIRTIO_PCI_COMMON_Q_USEDHI, 4, VIRTQ_USED_HI},
};

/* 4.1.3.1: every field is accessed whole and in its own width; offset and width together name it. */
#define FIELD(off, len) ((off) << 8 | (len))

static uint32_t queue_reg_read(struct virtio_pci *vp, uint64_t off, unsigned len)
{
	for (unsigned i = 0; i < ARRAY_LEN(queue_regs); i++)
		if (queue_regs[i].off == off && queue_regs[i].len == len)
			return virtio_queue_read(vp->tp.dev, get(&vp->queue_sel),
						 queue_regs[i].reg);
	return 0;
}

static uint16_t queue_vector_read(struct virtio_pci *vp)
{
	uint16_t q = get(&vp->queue_sel);

	return q < vp->tp.dev->nqueues ? get(&vp->queue_vector[q]) : VIRTIO_MSI_NO_VECTOR;
}

static uint32_t common_read(struct virtio_pci *vp, uint64_t off, unsigned len)
{
	struct virtio_dev *dev = vp->tp.dev;

	switch (FIELD(off, len)) {
	case FIELD(VIRTIO_PCI_COMMON_DFSELECT, 4):
		return get(&vp->features_sel);
	case FIELD(VIRTIO_PCI_COMMON_DF, 4):
		return virtio_features_read(dev, get(&vp->features_sel));
	case FIELD(VIRTIO_PCI_COMMON_GFSELECT, 4):
		return get(&vp->driver_features_sel);
	case FIELD(VIRTIO_PCI_COMMON_GF, 4):
		return virtio_driver_features_read(dev, get(&vp->driver_features_sel));
	case FIELD(VIRTIO_PCI_COMMON_MSIX, 2):
		return get(&vp->config_vector);
	case FIELD(VIRTIO_PCI_COMMON_NUMQ, 2):
		return dev->nqueues;
	case FIELD(VIRTIO_PCI_COMMON_STATUS, 1):
		return virtio_status_read(dev);
	case FIELD(VIRTIO_PCI_COMMON_CFGGENERATION, 1):
		return virtio_config_generation(dev);
	case FIELD(VIRTIO_PCI_COMMON_Q_SELECT, 2):
		return get(&vp->queue_sel);
	case FIELD(VIRTIO_PCI_COMMON_Q_MSIX, 2):
		return queue_vector_read(vp);
	case FIELD(VIRTIO_PCI_COMMON_Q_NOFF, 2):
		return get(&vp->queue_sel) < dev->nqueues ? get(&vp->queue_sel) : 0;
	default:
		return queue_reg_read(vp, off, len);
	}
}

/* A number past the table reads back as NO_VECTOR: that is how the driver learns (4.1.5.1.2.1, hard case B2). */
static uint16_t vector_of(const struct virtio_pci *vp, uint32_t v)
{
	return v < vp->msix.n ? (uint16_t)v : VIRTIO_MSI_NO_VECTOR;
}

static void queue_reg_write(struct virtio_pci *vp, uint64_t off, unsigned len, uint32_t v)
{
	/* 4.1.4.3.2: a driver must not write 0 to queue_enable; there is no way back but reset. */
	if (off == VIRTIO_PCI_COMMON_Q_ENABLE && !v)
		return;
	for (unsigned i = 0; i < ARRAY_LEN(queue_regs); i++)
		if (queue_regs[i].off == off && queue_regs[i].len == len)
			virtio_queue_write(vp->tp.dev, get(&vp->queue_sel), queue_regs[i].reg, v);
}

static void common_write(struct virtio_pci *vp, uint64_t off, unsigned len, uint32_t v)
{
	struct virtio_dev *dev = vp->tp.dev;
	uint16_t q = get(&vp->queue_sel);

	switch (FIELD(off, len)) {
	case FIELD(VIRTIO_PCI_COMMON_DFSELECT, 4):
		set(&vp->features_sel, v);
		break;
	case FIELD(VIRTIO_PCI_COMMON_GFSELECT, 4):
		set(&vp->driver_features_sel, v);
		break;
	case FIELD(VIRTIO_PCI_COMMON_GF, 4):
		virtio_driver_features_write(dev, get(&vp->driver_features_sel), v);
		break;
	case FIELD(VIRTIO_PCI_COMMON_MSIX, 2):
		set(&vp->config_vector, vector_of(vp, v));
		break;
	case FIELD(VIRTIO_PCI_COMMON_STATUS, 1):
		virtio_status_write(dev, (uint8_t)v);
		break;
	case FIELD(VIRTIO_PCI_COMMON_Q_SELECT, 2):
		set(&vp->queue_sel, (uint16_t)v);
		break;
	case FIELD(VIRTIO_PCI_COMMON_Q_MSIX, 2):
		if (q < dev->nqueues)
			set(&vp->queue_vector[q], vector_of(vp, v));
		break;
	default:
		queue_reg_write(vp, off, len, v);
	}
}

/* ---- BAR 0 ---- */

static void regs_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct virtio_pci *vp = owner;
	uint64_t in = off % PART_SIZE;

	memset(data, 0, len);
	switch (off - in) {
	case COMMON_OFF:
		bus_store(data, len, common_read(vp, in, len));
		break;
	case ISR_OFF:
		if (in == 0)
			bus_store(data, len, isr_take(vp));
		break;
	case CONFIG_OFF:
		virtio_config_read(vp->tp.dev, in, data, len);
		break;
	}
}

/* Kicks come here where there is no ioeventfd: without KVM, and through the configuration access window (B10). */
static void regs_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct virtio_pci *vp = owner;
	uint64_t in = off % PART_SIZE;

	if (off - in == COMMON_OFF && len <= 4)
		common_write(vp, in, len, (uint32_t)bus_load(data, len));
	else if (off - in == CONFIG_OFF)
		virtio_config_write(vp->tp.dev, in, data, len);
	else if (off - in == NOTIFY_OFF && IS_ALIGNED(in, NOTIFY_STEP))
		virtio_queue_kick(vp->tp.dev, (uint32_t)(in / NOTIFY_STEP));
}

static const struct bus_ops regs_ops = {.read = regs_read, .write = regs_write};

static void vectors_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct virtio_pci *vp = owner;

	msix_read(&vp->msix, off, data, len);
}

static void vectors_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct virtio_pci *vp = owner;

	msix_write(&vp->msix, off, data, len);
}

static const struct bus_ops vectors_ops = {.read = vectors_read, .write = vectors_write};

/* Where KVM answers these are not called. */
static void shm_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct virtio_pci *vp = owner;

	window_ops.read(vp->tp.dev->shm, off, data, len);
}

static void shm_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct virtio_pci *vp = owner;

	window_ops.write(vp->tp.dev->shm, off, data, len);
}

static const struct bus_ops shm_ops = {.read = shm_read, .write = shm_write};

/* The doorbells go where the BAR goes (B10, B11). One that KVM refuses exits and is kicked by regs_write(). */
static void doorbells_move(struct virtio_pci *vp, uint64_t old, uint64_t addr)
{
	struct virtio_dev *dev = vp->tp.dev;

	for (unsigned q = 0; q < dev->nqueues; q++) {
		uint64_t off = NOTIFY_OFF + q * NOTIFY_STEP;
		int fd = dev->vq[q].kick_fd, r;

		if (old)
			vm_doorbell_del(vp->vm, old + off, 0, fd);
		r = addr ? vm_doorbell_add(vp->vm, addr + off, 0, fd) : 0;
		if (r)
			log_debug("%s: no doorbell for queue %u: %s", vp->pci.name, q,
				  strerror(-r));
	}
}

/* Over RAM, say: its accesses exit, those that RAM does not answer, and it is no buffer of anybody's. */
static void shm_move(struct virtio_pci *vp, uint64_t addr)
{
	int r = window_place(vp->tp.dev->shm, addr);

	if (r)
		log_limited(&vp->shm_misplaced, LOG_WARN,
			    "%s: the guest put its shared memory at 0x%llx: %s; not mapped there",
			    vp->pci.name, (unsigned long long)addr, strerror(-r));
}

static void pci_bar_moved(struct pci_dev *pci, unsigned i, uint64_t old)
{
	struct virtio_pci *vp = vp_of_pci(pci);

	if (i == REGS_BAR)
		doorbells_move(vp, old, pci->bar[i].addr);
	if (i == SHM_BAR)
		shm_move(vp, pci->bar[i].addr);
}

/* ---- configuration space ---- */

static bool touches(unsigned off, unsigned len, unsigned start, unsigned n)
{
	return off < start + n && start < off + len;
}

/*
 * The window into the BARs (4.1.4.9, B9): the capability says BAR, offset and width, its data bytes are the access.
 * Whatever the guest put there that is not a whole aligned access inside a BAR of ours is no access.
 */
struct access {
	const struct pci_bar *bar;
	uint32_t off, len;
};

static bool access_get(struct virtio_pci *vp, struct access *a)
{
	const uint8_t *cap = vp->pci.config + vp->cfg_cap;
	unsigned bar = cap[VIRTIO_PCI_CAP_BAR];

	a->off = pci_get(cap, VIRTIO_PCI_CAP_OFFSET, 4);
	a->len = pci_get(cap, VIRTIO_PCI_CAP_LENGTH, 4);
	if (bar >= PCI_BARS || !vp->pci.bar[bar].size)
		return false;
	a->bar = &vp->pci.bar[bar];
	return (a->len == 1 || a->len == 2 || a->len == 4) && IS_ALIGNED(a->off, a->len) &&
	       a->off < a->bar->size;
}

static void pci_config_reading(struct pci_dev *pci, unsigned off, unsigned len)
{
	struct virtio_pci *vp = vp_of_pci(pci);
	unsigned data = vp->cfg_cap + CFG_DATA_OFF;
	struct access a;

	if (touches(off, len, PCI_STATUS, 2)) {
		pthread_mutex_lock(&vp->lock);
		pci->config[PCI_STATUS] &= (uint8_t)~PCI_STATUS_INTERRUPT;
		if (vp->isr)
			pci->config[PCI_STATUS] |= PCI_STATUS_INTERRUPT;
		pthread_mutex_unlock(&vp->lock);
	}
	if (touches(off, len, data, 4) && access_get(vp, &a))
		a.bar->ops->read(vp, a.off, pci->config + data, a.len);
}

static void pci_config_written(struct pci_dev *pci, unsigned off, unsigned len)
{
	struct virtio_pci *vp = vp_of_pci(pci);
	unsigned data = vp->cfg_cap + CFG_DATA_OFF;
	struct access a;

	if (touches(off, len, data, 4) && access_get(vp, &a))
		a.bar->ops->write(vp, a.off, pci->config + data, a.len);
	msix_config_written(&vp->msix);
	pthread_mutex_lock(&vp->lock);
	vp->intx_disabled = pci_get(pci->config, PCI_COMMAND, 2) & PCI_COMMAND_INTX_DISABLE;
	intx_update(vp);
	pthread_mutex_unlock(&vp->lock);
}

/* Base class and subclass; drivers go by the ids, this is for the eyes of lspci. */
static uint16_t class_of(uint16_t id)
{
	switch (id) {
	case VIRTIO_ID_BLOCK:
		return 0x0100;
	case VIRTIO_ID_FS:
	case VIRTIO_ID_9P:
		return 0x0180;
	default:
		return 0x00ff;
	}
}

static void identity_init(struct virtio_pci *vp)
{
	uint8_t *c = vp->pci.config;
	uint16_t id = (uint16_t)(0x1040 + vp->tp.dev->id);

	pci_put(c, PCI_VENDOR_ID, 2, 0x1af4);
	pci_put(c, PCI_DEVICE_ID, 2, id);
	pci_put(c, PCI_REVISION_ID, 1, 1);
	pci_put(c, PCI_CLASS_DEVICE, 2, class_of(vp->tp.dev->id));
	pci_put(c, PCI_SUBSYSTEM_VENDOR_ID, 2, 0x1af4);
	pci_put(c, PCI_SUBSYSTEM_ID, 2, id);
}

static struct virtio_pci_cap part(uint8_t type, uint32_t off, uint32_t len, uint8_t cap_len)
{
	return (struct virtio_pci_cap){.cap_len = cap_len,
				       .cfg_type = type,
				       .bar = REGS_BAR,
				       .offset = htole32(off),
				       .length = htole32(len)};
}

/* 4.1.4.7: a length and an offset of 64 bits each, and the region's id. */
static void shm_init(struct virtio_pci *vp)
{
	const struct virtio_dev *dev = vp->tp.dev;
	uint64_t size = dev->shm->size;
	struct virtio_pci_cap64 shm = {.cap = {.cap_len = sizeof(shm),
					       .cfg_type = VIRTIO_PCI_CAP_SHARED_MEMORY_CFG,
					       .bar = SHM_BAR,
					       .id = dev->shm_id,
					       .length = htole32((uint32_t)size)},
				       .length_hi = htole32((uint32_t)(size >> 32))};

	vp->pci.bar[SHM_BAR] =
		(struct pci_bar){.size = size, .is64 = true, .prefetch = true, .ops = &shm_ops};
	pci_add_cap(&vp->pci, PCI_CAP_ID_VNDR, &shm, sizeof(shm));
}

static void parts_init(struct virtio_pci *vp)
{
	const struct virtio_dev *dev = vp->tp.dev;
	struct virtio_pci_cap common = part(VIRTIO_PCI_CAP_COMMON_CFG, COMMON_OFF,
					    sizeof(struct virtio_pci_common_cfg), sizeof(common));
	struct virtio_pci_cap isr = part(VIRTIO_PCI_CAP_ISR_CFG, ISR_OFF, 4, sizeof(isr));
	struct virtio_pci_cap config = part(VIRTIO_PCI_CAP_DEVICE_CFG, CONFIG_OFF,
					    (uint32_t)dev->config_len, sizeof(config));
	struct virtio_pci_notify_cap notify = {.cap = part(VIRTIO_PCI_CAP_NOTIFY_CFG, NOTIFY_OFF,
							   dev->nqueues * NOTIFY_STEP,
							   sizeof(notify)),
					       .notify_off_multiplier = htole32(NOTIFY_STEP)};
	struct virtio_pci_cfg_cap window = {
		.cap = part(VIRTIO_PCI_CAP_PCI_CFG, 0, 0, sizeof(window))};

	pci_add_cap(&vp->pci, PCI_CAP_ID_VNDR, &common, sizeof(common));
	pci_add_cap(&vp->pci, PCI_CAP_ID_VNDR, &notify, sizeof(notify));
	pci_add_cap(&vp->pci, PCI_CAP_ID_VNDR, &isr, sizeof(isr));
	/* A capability of length 0 makes drivers give up (B8). */
	if (dev->config_len)
		pci_add_cap(&vp->pci, PCI_CAP_ID_VNDR, &config, sizeof(config));
	vp->cfg_cap = pci_add_cap(&vp->pci, PCI_CAP_ID_VNDR, &window, sizeof(window));
	vp->pci.wmask[vp->cfg_cap + VIRTIO_PCI_CAP_BAR] = 0xff;
	memset(vp->pci.wmask + vp->cfg_cap + VIRTIO_PCI_CAP_OFFSET, 0xff,
	       sizeof(window) - VIRTIO_PCI_CAP_OFFSET);
}

/* ---- life ---- */

static void vectors_forget(struct virtio_pci *vp)
{
	set(&vp->config_vector, VIRTIO_MSI_NO_VECTOR);
	for (unsigned q = 0; q < vp->tp.dev->nqueues; q++)
		set(&vp->queue_vector[q], VIRTIO_MSI_NO_VECTOR);
}

/* What virtio brought in; the vector table belongs to the function and stays, as command and BARs do (A17). */
static void pci_reset(struct transport *tp)
{
	struct virtio_pci *vp = vp_of(tp);

	set(&vp->features_sel, 0);
	set(&vp->driver_features_sel, 0);
	set(&vp->queue_sel, 0);
	vectors_forget(vp);
	msix_clear(&vp->msix);
	isr_take(vp);
}

static void pci_destroy(struct transport *tp)
{
	struct virtio_pci *vp = vp_of(tp);

	pci_host_remove(&vp->pci);
	msix_fini(&vp->msix);
	if (vp->has_intx)
		irq_fini(&vp->intx);
	free(vp->queue_vector);
	free(vp);
}

static const struct transport_ops pci_transport = {
	.irq_queue = pci_irq_queue,
	.irq_config = pci_irq_config,
	.reset = pci_reset,
	.destroy = pci_destroy,
};

/* A vector for each queue and one for configuration changes, as many as the table holds. */
static int function_init(struct virtio_pci *vp)
{
	struct pci_dev *pci = &vp->pci;
	int r;

	identity_init(vp);
	pci->name = vp->tp.dev->base.name;
	pci->bar_owner = vp;
	pci->bar[REGS_BAR] = (struct pci_bar){.size = REGS_SIZE, .ops = &regs_ops};
	pci->bar[MSIX_BAR] = (struct pci_bar){.size = MSIX_BAR_SIZE, .ops = &vectors_ops};
	r = msix_init(&vp->msix, pci, vp->vm, MSIX_BAR, MIN(vp->tp.dev->nqueues + 1u, MSIX_MAX));
	if (r)
		return r;
	parts_init(vp);
	if (vp->tp.dev->shm)
		shm_init(vp);
	pci->bar_moved = pci_bar_moved;
	pci->config_written = pci_config_written;
	pci->config_reading = pci_config_reading;
	return 0;
}

static int pin_init(struct virtio_pci *vp)
{
	int r;

	if (vp->pci.intx_gsi < 0)
		return 0;
	r = irq_level_init(&vp->intx, vp->vm, (uint32_t)vp->pci.intx_gsi);
	vp->has_intx = !r;
	return r;
}

int virtio_pci_create(struct virtio_dev *dev, struct vm *vm, struct pci_host *host)
{
	struct virtio_pci *vp = calloc(1, sizeof(*vp));
	int r = -ENOMEM;

	assert(dev->nqueues <= QUEUES_MAX && dev->config_len <= PART_SIZE);
	if (!vp)
		goto fail;
	vp->tp = (struct transport){&pci_transport, dev};
	vp->vm = vm;
	pthread_mutex_init(&vp->lock, NULL);
	vp->queue_vector = calloc(dev->nqueues, sizeof(*vp->queue_vector));
	if (!vp->queue_vector)
		goto fail;
	vectors_forget(vp);
	r = function_init(vp);
	if (!r)
		r = pci_host_add(host, &vp->pci, true);
	if (!r)
		r = pin_init(vp);
	if (r)
		goto fail;
	dev->tp = &vp->tp;
	return 0;
fail:
	log_err("%s: virtio-pci: %s (fewer devices%s, or raise ulimit -n)", dev->base.name,
		strerror(-r), dev->shm ? ", a smaller window" : "");
	if (vp)
		pci_destroy(&vp->tp);
	return r;
}
