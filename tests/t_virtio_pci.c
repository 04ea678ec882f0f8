// SPDX-License-Identifier: Apache-2.0
/*
 * t_virtio_pci.c - virtio over PCI: capabilities, common configuration, MSI-X, the pin, the access window.
 *
 * Finds everything as a driver does, by the capabilities of configuration space, and works through the buses. Includes
 * the transport to look at its interrupts. Hard cases A17, A28, B1 to B11, B20.
 */
#include "../devices/virtio_pci.c"
#include "../vmm/arch.h"
#include "fakeguest.h"
#include "echo.h"
#include "tap.h"
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#define S(bit) VIRTIO_CONFIG_S_##bit
#define NQ     2u

struct rig {
	struct fakeguest *fg;
	struct pci_host *host;
	struct echo echo;
	struct virtio_pci *vp;
	uint64_t ecam, common, isr, config, notify, table, pba;
	unsigned msix_cap, window_cap, shm_cap, ncaps;
	struct window *shm;
};

static uint64_t rd(struct rig *r, uint64_t addr, unsigned len)
{
	uint8_t b[8];

	bus_read(&r->fg->vm->mmio, addr, b, len);
	return bus_load(b, len);
}

static void wr(struct rig *r, uint64_t addr, unsigned len, uint64_t v)
{
	uint8_t b[8];

	bus_store(b, len, v);
	bus_write(&r->fg->vm->mmio, addr, b, len);
}

static uint64_t bar_addr(struct rig *r, unsigned bar)
{
	return rd(r, r->ecam + PCI_BASE_ADDRESS_0 + 4 * bar, 4) & ~0xfull;
}

/* ---- discovery ---- */

static void found_virtio_cap(struct rig *r, unsigned cap)
{
	uint64_t at = bar_addr(r, (unsigned)rd(r, r->ecam + cap + VIRTIO_PCI_CAP_BAR, 1)) +
		      rd(r, r->ecam + cap + VIRTIO_PCI_CAP_OFFSET, 4);

	switch (rd(r, r->ecam + cap + VIRTIO_PCI_CAP_CFG_TYPE, 1)) {
	case VIRTIO_PCI_CAP_COMMON_CFG:
		r->common = at;
		break;
	case VIRTIO_PCI_CAP_NOTIFY_CFG:
		r->notify = at;
		break;
	case VIRTIO_PCI_CAP_ISR_CFG:
		r->isr = at;
		break;
	case VIRTIO_PCI_CAP_DEVICE_CFG:
		r->config = at;
		break;
	case VIRTIO_PCI_CAP_PCI_CFG:
		r->window_cap = cap;
		break;
	case VIRTIO_PCI_CAP_SHARED_MEMORY_CFG:
		r->shm_cap = cap;
		break;
	}
}

static void discover(struct rig *r)
{
	unsigned cap = (unsigned)rd(r, r->ecam + PCI_CAPABILITY_LIST, 1);

	r->common = r->isr = r->config = r->notify = 0;
	for (r->ncaps = 0; cap && r->ncaps < 16; r->ncaps++) {
		uint8_t id = (uint8_t)rd(r, r->ecam + cap, 1);

		if (id == PCI_CAP_ID_VNDR)
			found_virtio_cap(r, cap);
		if (id == PCI_CAP_ID_MSIX)
			r->msix_cap = cap;
		cap = (unsigned)rd(r, r->ecam + cap + 1, 1);
	}
	r->table = bar_addr(r, (unsigned)rd(r, r->ecam + r->msix_cap + PCI_MSIX_TABLE, 4) & 7);
	r->pba = bar_addr(r, (unsigned)rd(r, r->ecam + r->msix_cap + PCI_MSIX_PBA, 4) & 7) +
		 (rd(r, r->ecam + r->msix_cap + PCI_MSIX_PBA, 4) & ~7ull);
}

static void rig_create(struct rig *r, bool with_config, uint64_t shm)
{
	*r = (struct rig){.fg = fg_create(MIB(16))};
	echo_init(&r->echo, NQ);
	if (shm) {
		need(!window_create(&r->shm, r->fg->vm, "echo", shm));
		r->echo.v.shm = r->shm;
		r->echo.v.shm_id = 3;
	}
	if (!with_config) {
		r->echo.v.config = NULL;
		r->echo.v.config_len = 0;
		r->echo.v.config_rw = r->echo.v.config_rw_len = 0;
	}
	need(!pci_host_create(&r->host, r->fg->vm));
	need(!virtio_attach(&r->echo.v, r->fg->vm));
	need(!virtio_pci_create(&r->echo.v, r->fg->vm, r->host));
	need(!virtio_run(&r->echo.v));
	r->fg->dev = &r->echo.v;
	r->vp = vp_of(r->echo.v.tp);
	r->ecam = ARCH_ECAM_BASE + ((uint64_t)r->vp->pci.slot << 15);
	discover(r);
	wr(r, r->ecam + PCI_COMMAND, 2, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

static void rig_destroy(struct rig *r)
{
	virtio_detach(&r->echo.v);
	is(rd(r, r->ecam, 4), 0xffffffff, "a detached device leaves its slot");
	is(rd(r, r->common, 4), 0xffffffff, "and its place");
	pci_host_destroy(r->host);
	ok(!r->shm || r->shm->base == 0, "and takes its shared memory with it");
	window_destroy(r->shm);
	r->fg->dev = NULL;
	fg_destroy(r->fg);
}

/* ---- the driver ---- */

static uint64_t cfg(struct rig *r, unsigned off, unsigned len)
{
	return rd(r, r->common + off, len);
}

static void set_cfg(struct rig *r, unsigned off, unsigned len, uint64_t v)
{
	wr(r, r->common + off, len, v);
}

static void setup_queue(struct rig *r, uint16_t i, uint16_t vector)
{
	struct fg_queue *q = &r->fg->q[i];

	fg_ring(q, 8);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_SELECT, 2, i);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_SIZE, 2, 8);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_DESCLO, 4, (uint32_t)q->desc);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_DESCHI, 4, q->desc >> 32);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_AVAILLO, 4, (uint32_t)q->avail);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_AVAILHI, 4, q->avail >> 32);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_USEDLO, 4, (uint32_t)q->used);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_USEDHI, 4, q->used >> 32);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_MSIX, 2, vector);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_ENABLE, 2, 1);
}

/* Queue i on vector i + 1, configuration changes on 0; NO_VECTOR everywhere without MSI-X. */
static void start(struct rig *r, bool vectors)
{
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, S(ACKNOWLEDGE) | S(DRIVER));
	set_cfg(r, VIRTIO_PCI_COMMON_GFSELECT, 4, 1);
	set_cfg(r, VIRTIO_PCI_COMMON_GF, 4, 1);
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, S(ACKNOWLEDGE) | S(DRIVER) | S(FEATURES_OK));
	need(cfg(r, VIRTIO_PCI_COMMON_STATUS, 1) & S(FEATURES_OK));
	set_cfg(r, VIRTIO_PCI_COMMON_MSIX, 2, vectors ? 0 : VIRTIO_MSI_NO_VECTOR);
	for (uint16_t i = 0; i < NQ; i++)
		setup_queue(r, i, vectors ? (uint16_t)(i + 1) : VIRTIO_MSI_NO_VECTOR);
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0xf);
}

static void request(struct rig *r, unsigned i)
{
	struct fg_queue *q = &r->fg->q[i];
	uint64_t buf = fg_alloc(r->fg, 64, 64);

	fg_desc(q, 0, buf, 4, VRING_DESC_F_NEXT, 1);
	fg_desc(q, 1, buf + 4, 4, VRING_DESC_F_WRITE, 0);
	fg_avail_push(q, 0);
	wr(r, r->notify + i * 4, 2, i);
}

static uint16_t used_idx(struct rig *r, unsigned i)
{
	struct vring_used *u = fg_ptr(r->fg, r->fg->q[i].used, 70);

	return __atomic_load_n(&u->idx, __ATOMIC_ACQUIRE);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* The requests of queue i are done and the device is back in its loop: what it was to raise it has raised. */
static void settle(struct rig *r, unsigned i)
{
	time_t deadline = time(NULL) + 10;

	while (used_idx(r, i) != r->fg->q[i].avail_idx && time(NULL) < deadline)
		sched_yield();
	is(used_idx(r, i), r->fg->q[i].avail_idx, "the requests of queue %u are done", i);
	loop_call(r->echo.v.io, nothing, NULL);
}

/* ---- tests ---- */

static void t_identity(struct rig *r)
{
	is(rd(r, r->ecam, 4), (0x1040u + ECHO_ID) << 16 | 0x1af4,
	   "vendor and device id of a modern device");
	ok(rd(r, r->ecam + PCI_REVISION_ID, 1) >= 1, "a revision that is not transitional");
	ok(rd(r, r->ecam + PCI_SUBSYSTEM_ID, 2) >= 0x40, "a subsystem id that is not transitional");
	ok(r->common && r->isr && r->notify && r->config && r->window_cap && r->msix_cap &&
		   r->ncaps == 6,
	   "all capabilities are found");
	is(rd(r, r->ecam + r->msix_cap + PCI_MSIX_FLAGS, 2) & PCI_MSIX_FLAGS_QSIZE, NQ,
	   "a vector per queue and one more");
}

static void t_common(struct rig *r)
{
	unsigned bad = 0;

	is(cfg(r, VIRTIO_PCI_COMMON_NUMQ, 2), NQ, "the number of queues is told");
	is(cfg(r, VIRTIO_PCI_COMMON_MSIX, 2), 0xffff, "no vector at power-on, not vector 0");
	is(cfg(r, VIRTIO_PCI_COMMON_Q_SIZE, 2), 64, "a queue shows its largest size");
	is(cfg(r, VIRTIO_PCI_COMMON_Q_MSIX, 2), 0xffff, "and has no vector");
	set_cfg(r, VIRTIO_PCI_COMMON_DFSELECT, 4, 1);
	is(cfg(r, VIRTIO_PCI_COMMON_DF, 4), 1, "features by word");
	is(cfg(r, VIRTIO_PCI_COMMON_DFSELECT, 4), 1, "selectors read back");
	set_cfg(r, VIRTIO_PCI_COMMON_Q_SELECT, 2, 1);
	is(cfg(r, VIRTIO_PCI_COMMON_Q_NOFF, 2), 1, "each queue has a notify address of its own");
	set_cfg(r, VIRTIO_PCI_COMMON_Q_SELECT, 2, 0xffff);
	is(cfg(r, VIRTIO_PCI_COMMON_Q_SELECT, 2), 0xffff,
	   "a queue that is not there can be selected");
	ok(!cfg(r, VIRTIO_PCI_COMMON_Q_SIZE, 2) && !cfg(r, VIRTIO_PCI_COMMON_Q_ENABLE, 2) &&
		   !cfg(r, VIRTIO_PCI_COMMON_Q_DESCLO, 4) && !cfg(r, VIRTIO_PCI_COMMON_Q_NOFF, 2) &&
		   cfg(r, VIRTIO_PCI_COMMON_Q_MSIX, 2) == 0xffff,
	   "and reads as absent");
	set_cfg(r, VIRTIO_PCI_COMMON_Q_MSIX, 2, 0);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_SIZE, 2, 4);
	set_cfg(r, VIRTIO_PCI_COMMON_Q_ENABLE, 2, 1);
	is(cfg(r, VIRTIO_PCI_COMMON_Q_MSIX, 2), 0xffff, "writes to it are dropped");
	set_cfg(r, VIRTIO_PCI_COMMON_Q_SELECT, 2, 0);
	for (uint16_t v = 0; v < 200; v++) {
		set_cfg(r, VIRTIO_PCI_COMMON_Q_MSIX, 2, v);
		bad += cfg(r, VIRTIO_PCI_COMMON_Q_MSIX, 2) != (v <= NQ ? v : 0xffff);
		set_cfg(r, VIRTIO_PCI_COMMON_MSIX, 2, v);
		bad += cfg(r, VIRTIO_PCI_COMMON_MSIX, 2) != (v <= NQ ? v : 0xffff);
	}
	is(bad, 0, "a vector past the table reads back NO_VECTOR");
	for (unsigned off = 0; off < 0x100; off++)
		for (unsigned len = 1; len <= 8; len++)
			set_cfg(r, off, len, 0xa5a5a5a5a5a5a5a5), cfg(r, off, len);
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
	is(cfg(r, VIRTIO_PCI_COMMON_STATUS, 1), 0, "any write of any width is survived, and reset");
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, S(ACKNOWLEDGE));
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 4, 0);
	is(cfg(r, VIRTIO_PCI_COMMON_STATUS, 1), S(ACKNOWLEDGE),
	   "a field is written in its own width only");
	is(cfg(r, VIRTIO_PCI_COMMON_STATUS, 2), 0, "and so read");
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
}

static void t_config(struct rig *r)
{
	is(rd(r, r->config, 1), 1, "device configuration by the byte");
	is(rd(r, r->config + 2, 4), 0x06050403, "by the dword");
	is(rd(r, r->config + 4, 8), 0x0605, "past its end 0");
	wr(r, r->config, 8, 0);
	is(rd(r, r->config, 8), 0x060504030201,
	   "before FEATURES_OK it is not the driver's to write");
}

/* 4.1.4.6: the device must take any width at any offset of this part. */
static void t_config_write(struct rig *r)
{
	uint64_t was = rd(r, r->config, 8), v = 0x8182838485868788;
	unsigned bad = 0;

	start(r, false);
	for (unsigned len = 1; len <= 8; len++)
		for (unsigned off = 0; off < 9; off++) {
			v += 0x0102030405060708;
			wr(r, r->config + off, len, v);
			was = echo_config_after(was, off, len, v);
			bad += rd(r, r->config, 8) != was;
		}
	is(bad, 0, "the driver writes the bytes that are its own, in any width, and no others");
	for (unsigned at = 8; at < PART_SIZE; at += 8)
		wr(r, r->config + at, 8, UINT64_MAX);
	is(rd(r, r->config, 8), was, "past their end there is nothing");
	ok(cfg(r, VIRTIO_PCI_COMMON_CFGGENERATION, 1) == 0 && rd(r, r->isr, 1) == 0,
	   "what the driver writes is no news to it");
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
	wr(r, r->config, 8, 0);
	is(rd(r, r->config, 8), was, "after a reset it has none until FEATURES_OK");
}

static void program(struct rig *r, unsigned v, uint32_t data, bool masked)
{
	wr(r, r->table + v * 16, 4, 0xfee00000);
	wr(r, r->table + v * 16 + 4, 4, 0);
	wr(r, r->table + v * 16 + 8, 4, data);
	wr(r, r->table + v * 16 + 12, 4, masked);
}

static void msix_flags(struct rig *r, unsigned flags)
{
	wr(r, r->ecam + r->msix_cap + PCI_MSIX_FLAGS, 2, flags);
}

static void t_table(struct rig *r)
{
	unsigned bad = 0;

	is(rd(r, r->table + 12, 4), 1, "entries are masked at power-on");
	program(r, 0, 0x4041, true);
	ok(rd(r, r->table, 4) == 0xfee00000 && rd(r, r->table + 8, 8) == 0x100004041,
	   "an entry reads back");
	wr(r, r->table + 8, 8, 0xfffffffe00004042);
	is(rd(r, r->table + 8, 8), 0x4042, "of the control word only the mask bit exists");
	wr(r, r->table + 8, 1, 0xff);
	wr(r, r->table + 9, 4, 0);
	wr(r, r->table + 8, 2, 0);
	is(rd(r, r->table + 8, 4), 0x4042, "only whole aligned words are written");
	wr(r, r->pba, 8, UINT64_MAX);
	is(rd(r, r->pba, 8), 0, "pending bits are read-only");
	for (uint64_t off = (NQ + 1) * 16; off < 0x1000; off += 4) {
		wr(r, r->table + off, 4, UINT32_MAX);
		bad += rd(r, r->table + off, 4) != 0;
	}
	is(bad, 0, "past table and pending bits there is nothing");
	wr(r, r->table + 12, 4, 1);
}

static const struct irq *vector(struct rig *r, unsigned v)
{
	return &r->vp->msix.vec[v].irq;
}

static void t_function_mask(struct rig *r)
{
	msix_flags(r, PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	for (unsigned v = 0; v <= NQ; v++)
		program(r, v, 0x40 + v, false);
	start(r, true);
	request(r, 0);
	settle(r, 0);
	ok(irq_silent(vector(r, 1)), "a masked function is silent");
	ok(used_idx(r, 0) == 1 && rd(r, r->pba, 4) == 2,
	   "the request is done and its vector pending");
	msix_flags(r, PCI_MSIX_FLAGS_ENABLE);
	ok(irq_arrives(vector(r, 1)), "unmasking delivers it");
	is(rd(r, r->pba, 8), 0, "and then it is not pending");
	ok(irq_silent(vector(r, 0)) && irq_silent(vector(r, 2)), "nothing else was raised");
}

static void t_vector_mask(struct rig *r)
{
	request(r, 1);
	ok(irq_arrives(vector(r, 2)), "another queue has another vector");
	wr(r, r->table + 2 * 16 + 12, 4, 1);
	request(r, 1);
	settle(r, 1);
	ok(irq_silent(vector(r, 2)) && rd(r, r->pba, 4) == 4, "a masked vector is kept pending");
	request(r, 0);
	ok(irq_arrives(vector(r, 1)), "while the others are delivered");
	wr(r, r->table + 2 * 16 + 8, 4, 0x99);
	wr(r, r->table + 2 * 16 + 12, 4, 0);
	ok(irq_arrives(vector(r, 2)), "and delivered, once, when it is unmasked");
	ok(irq_silent(vector(r, 2)), "only once");
	wr(r, r->table + 16 + 8, 4, 0x55);
	request(r, 0);
	ok(irq_arrives(vector(r, 1)), "a live entry may be programmed anew");
	is(rd(r, r->isr, 1), 0, "ISR is not used beside MSI-X");
}

/* The device raises while the guest masks and unmasks: whoever comes second delivers (hard case B4). */
static void t_mask_race(struct rig *r)
{
	unsigned lost = 0;

	for (unsigned i = 0; i < 2000; i++) {
		wr(r, r->table + 16 + 12, 4, 1);
		request(r, 0);
		for (unsigned k = 0; k < i % 8; k++)
			wr(r, r->table + 16 + 8, 4, k);
		wr(r, r->table + 16 + 12, 4, 0);
		lost += !irq_arrives(vector(r, 1));
	}
	is(lost, 0, "no interrupt is lost between mask and unmask");
	program(r, 1, 0x55, false);
}

static void t_vector_none(struct rig *r)
{
	r->echo.v.tp->ops->irq_config(r->echo.v.tp);
	ok(irq_arrives(vector(r, 0)), "a configuration change has its own vector");
	set_cfg(r, VIRTIO_PCI_COMMON_MSIX, 2, 0xffff);
	r->echo.v.tp->ops->irq_config(r->echo.v.tp);
	ok(irq_silent(vector(r, 0)), "without a vector it is silent");

	wr(r, r->table + 16 + 12, 4, 1);
	request(r, 0);
	settle(r, 0);
	is(rd(r, r->pba, 4), 2, "something is pending");
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
	is(rd(r, r->pba, 4), 0, "a reset forgets it");
	set_cfg(r, VIRTIO_PCI_COMMON_Q_SELECT, 2, 1);
	is(cfg(r, VIRTIO_PCI_COMMON_Q_MSIX, 2), 0xffff, "and the vectors");
	is(cfg(r, VIRTIO_PCI_COMMON_GFSELECT, 4), 0, "and the selectors");
	is(rd(r, r->table + 8, 4), 0x40, "but not the function's table");
	msix_flags(r, 0);
}

static void t_pin(struct rig *r)
{
	const struct irq *pin = &r->vp->intx;

	need(r->vp->has_intx);
	start(r, false);
	request(r, 0);
	settle(r, 0);
	is(r->vp->line, 1, "without MSI-X the pin is asserted");
	ok(rd(r, r->ecam + PCI_STATUS, 2) & PCI_STATUS_INTERRUPT, "and the status register tells");
	request(r, 1);
	settle(r, 1);
	r->echo.v.tp->ops->irq_config(r->echo.v.tp);
	is(r->vp->line, 1, "more causes leave it asserted");
	wr(r, r->ecam + PCI_COMMAND, 2, PCI_COMMAND_MEMORY | PCI_COMMAND_INTX_DISABLE);
	is(r->vp->line, 0, "the disable bit lowers it");
	wr(r, r->ecam + PCI_COMMAND, 2, PCI_COMMAND_MEMORY);
	is(r->vp->line, 1, "and lets it up again");
	is(rd(r, r->isr, 1), 3, "ISR tells all causes");
	is(r->vp->line, 0, "reading it lowers the pin");
	ok(rd(r, r->isr, 1) == 0 && !(rd(r, r->ecam + PCI_STATUS, 2) & PCI_STATUS_INTERRUPT),
	   "and clears it");
	request(r, 0);
	settle(r, 0);
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
	ok(!r->vp->line && rd(r, r->isr, 1) == 0, "a reset lowers it too");
	ok(irq_silent(pin), "in the end it is low");
}

/* ---- the window of configuration space ---- */

static void window(struct rig *r, unsigned bar, uint32_t off, uint32_t len)
{
	uint64_t cap = r->ecam + r->window_cap;

	wr(r, cap + VIRTIO_PCI_CAP_BAR, 1, bar);
	wr(r, cap + VIRTIO_PCI_CAP_OFFSET, 4, off);
	wr(r, cap + VIRTIO_PCI_CAP_LENGTH, 4, len);
}

static uint32_t window_rd(struct rig *r, unsigned len)
{
	return (uint32_t)rd(r, r->ecam + r->window_cap + CFG_DATA_OFF, len);
}

static void window_wr(struct rig *r, unsigned len, uint32_t v)
{
	wr(r, r->ecam + r->window_cap + CFG_DATA_OFF, len, v);
}

static void t_window(struct rig *r)
{
	static const struct {
		uint32_t bar, off, len;
	} bad[] = {{0, 0, 0}, {0, 0, 3}, {0, 0, 8},      {0, 0, UINT32_MAX},
		   {0, 1, 2}, {0, 2, 4}, {0, 0x4000, 4}, {0, UINT32_MAX - 3, 4},
		   {2, 0, 4}, {6, 0, 4}, {255, 0, 4},    {0, 0x80000000, 4}};
	unsigned wrong = 0;

	is(rd(r, r->ecam + r->window_cap + VIRTIO_PCI_CAP_LEN, 1), 20,
	   "the access window is 20 bytes long");
	window(r, 0, COMMON_OFF + VIRTIO_PCI_COMMON_NUMQ, 2);
	is(window_rd(r, 2), NQ, "a register is read through it");
	window(r, 0, COMMON_OFF + VIRTIO_PCI_COMMON_STATUS, 1);
	window_wr(r, 1, S(ACKNOWLEDGE));
	is(window_rd(r, 1), S(ACKNOWLEDGE), "and written");
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		window(r, bad[i].bar, bad[i].off, bad[i].len);
		window_wr(r, 4, 0x11223344);
		wrong += window_rd(r, 4) != 0x11223344;
	}
	is(wrong, 0, "what is no access does nothing");
	is(cfg(r, VIRTIO_PCI_COMMON_STATUS, 1), S(ACKNOWLEDGE), "to nobody");
	start(r, false);
	window(r, 0, NOTIFY_OFF + 4, 2);
	fg_desc(&r->fg->q[1], 0, fg_alloc(r->fg, 16, 16), 16, VRING_DESC_F_WRITE, 0);
	fg_avail_push(&r->fg->q[1], 0);
	window_wr(r, 2, 1);
	settle(r, 1);
	is(used_idx(r, 1), 1, "a queue can be kicked through it");
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
}

static void t_window_config(struct rig *r)
{
	uint64_t was = rd(r, r->config, 8);
	unsigned bad = 0;

	start(r, false);
	for (unsigned len = 1; len <= 4; len *= 2)
		for (unsigned off = 0; off < 8; off += len) {
			uint32_t v = 0x41424344u + off * 0x11111111u;

			window(r, 0, CONFIG_OFF + off, len);
			window_wr(r, len, v);
			was = echo_config_after(was, off, len, v);
			bad += rd(r, r->config, 8) != was;
			bad += window_rd(r, len) !=
			       (was >> 8 * off & (UINT32_MAX >> (32 - 8 * len)));
		}
	is(bad, 0, "the driver's bytes of the configuration are written and read through it");
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
}

static void t_move(struct rig *r)
{
	uint64_t to = ARCH_PCI32_BASE + 0x1000000;

	start(r, false);
	wr(r, r->ecam + PCI_BASE_ADDRESS_0, 4, to);
	discover(r);
	is(r->common, to, "the registers are found where their BAR was moved");
	request(r, 0);
	settle(r, 0);
	is(used_idx(r, 0), 1, "and requests go on");
	wr(r, r->notify + NQ * 4, 2, 0);
	wr(r, r->notify + 0xffc, 4, 0);
	wr(r, r->notify + 1, 1, 0);
	is(rd(r, r->notify, 4), 0, "notify addresses of no queue are nothing, and read 0");
	set_cfg(r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
}

static void t_no_config(void)
{
	struct rig r;

	rig_create(&r, false, 0);
	ok(!r.config && r.ncaps == 5, "a device without configuration has no capability for it");
	rig_destroy(&r);
}

/* ---- shared memory ---- */

static uint64_t shm_bar(struct rig *r)
{
	return bar_addr(r, SHM_BAR) | rd(r, r->ecam + PCI_BASE_ADDRESS_0 + 4 * (SHM_BAR + 1), 4)
					      << 32;
}

static void set_shm_bar(struct rig *r, uint64_t at)
{
	wr(r, r->ecam + PCI_BASE_ADDRESS_0 + 4 * SHM_BAR, 4, (uint32_t)at);
	wr(r, r->ecam + PCI_BASE_ADDRESS_0 + 4 * (SHM_BAR + 1), 4, at >> 32);
}

/* Where both the guest's accesses that exit and the buffers of devices find the byte at off of the window. */
static bool shm_at(struct rig *r, uint64_t at, uint64_t off)
{
	r->shm->host[off]++;
	return r->shm->base == at && rd(r, at + off, 1) == r->shm->host[off] &&
	       mem_buffer(r->fg->vm->mem, GPA(at + off), 1) == r->shm->host + off;
}

static bool shm_nowhere(struct rig *r, uint64_t at)
{
	return r->shm->base == 0 && rd(r, at, 4) == UINT32_MAX &&
	       !mem_buffer(r->fg->vm->mem, GPA(at), 1);
}

static void t_shm_found(struct rig *r)
{
	uint64_t cap = r->ecam + r->shm_cap;

	ok(r->shm_cap && r->ncaps == 7, "a shared memory region has its capability");
	is(rd(r, cap + VIRTIO_PCI_CAP_LEN, 1), 24, "of 24 bytes");
	ok(rd(r, cap + offsetof(struct virtio_pci_cap, id), 1) == 3 &&
		   rd(r, cap + VIRTIO_PCI_CAP_BAR, 1) == SHM_BAR,
	   "with the region's id and BAR");
	is(rd(r, cap + VIRTIO_PCI_CAP_OFFSET, 4) |
		   rd(r, cap + offsetof(struct virtio_pci_cap64, offset_hi), 4) << 32,
	   0, "it begins where the BAR does");
	is(rd(r, cap + VIRTIO_PCI_CAP_LENGTH, 4) |
		   rd(r, cap + offsetof(struct virtio_pci_cap64, length_hi), 4) << 32,
	   r->shm->size, "and is as long");
	is(rd(r, r->ecam + PCI_BASE_ADDRESS_0 + 4 * SHM_BAR, 4) & 0xf,
	   PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
	   "a 64-bit prefetchable one");
}

static void t_shm_moves(struct rig *r)
{
	uint64_t a = shm_bar(r), b = a + 2 * r->shm->size, ones = UINT64_MAX;
	uint64_t last = r->shm->size - 1;

	/* What a file would be. */
	need(mmap(window_hold(r->shm, 0, r->shm->size), r->shm->size, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == r->shm->host);
	window_mapped(r->shm, 0, r->shm->size, true);
	ok(shm_at(r, a, 0) && shm_at(r, a, last), "it is where its BAR is");
	wr(r, a + 5, 2, 0x4142);
	ok(r->shm->host[5] == 0x42 && r->shm->host[6] == 0x41, "and can be written");
	set_shm_bar(r, b);
	ok(shm_at(r, b, 0) && shm_at(r, b, last) && !mem_buffer(r->fg->vm->mem, GPA(a), 1),
	   "it moves with its BAR, and what is mapped in it too");
	wr(r, r->ecam + PCI_COMMAND, 2, PCI_COMMAND_MASTER);
	ok(shm_nowhere(r, b), "without memory decoding it is nowhere");
	set_shm_bar(r, ones);
	is(shm_bar(r), ~(r->shm->size - 1), "its size is found");
	set_shm_bar(r, a);
	wr(r, r->ecam + PCI_COMMAND, 2, PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
	ok(shm_at(r, a, 0), "and it comes back");
	set_shm_bar(r, ones);
	ok(r->shm->base == 0, "sizing it while it decodes harms nobody");
	set_shm_bar(r, 0);
	ok(r->shm->base == 0 &&
		   mem_buffer(r->fg->vm->mem, GPA(0), 1) == r->fg->vm->mem->region[0].host,
	   "nor does a place at 0");
	set_shm_bar(r, b);
	ok(shm_at(r, b, 7), "each time it comes back");
}

/* Over RAM, which answers itself, and over a device, whose place is taken. */
static void t_shm_misplaced(struct rig *r)
{
	uint64_t a = shm_bar(r);

	log_set_level(LOG_ERR);
	set_shm_bar(r, ARCH_ECAM_BASE & ~(r->shm->size - 1));
	ok(r->shm->base == 0 && rd(r, r->ecam, 2) == 0x1af4, "over other devices it is nowhere");
	set_shm_bar(r, a);
	ok(shm_at(r, a, 0), "until it leaves");
	log_set_level(LOG_WARN);
}

static void t_shm_over_ram(void)
{
	struct rig r;

	rig_create(&r, true, MIB(2));
	log_set_level(LOG_ERR);
	set_shm_bar(&r, MIB(4));
	ok(r.shm->base == 0 && mem_buffer(r.fg->vm->mem, GPA(MIB(4)), 1) ==
				       r.fg->vm->mem->region[0].host + MIB(4),
	   "a small region over RAM is nowhere, and RAM stays");
	set_shm_bar(&r, ARCH_PCI32_BASE + MIB(64));
	ok(r.shm->base == ARCH_PCI32_BASE + MIB(64), "below 4 GiB it may lie");
	log_set_level(LOG_WARN);
	rig_destroy(&r);
}

/* The configuration access window reaches every BAR. */
static void t_shm_window(struct rig *r)
{
	memcpy(r->shm->host + 8, "wxyz", 4);
	window(r, SHM_BAR, 8, 4);
	is(window_rd(r, 4), 0x7a797877, "shared memory is read through the access window");
	window_wr(r, 4, 0x64636261);
	ok(!memcmp(r->shm->host + 8, "abcd", 4), "and written");
}

static void t_shm(void)
{
	struct rig r;

	rig_create(&r, true, GIB(8));
	t_shm_found(&r);
	t_shm_moves(&r);
	t_shm_misplaced(&r);
	t_shm_window(&r);
	start(&r, false);
	request(&r, 0);
	settle(&r, 0);
	set_cfg(&r, VIRTIO_PCI_COMMON_STATUS, 1, 0);
	ok(r.shm->base != 0, "a reset leaves it where it is");
	rig_destroy(&r);
}

int main(void)
{
	struct rig r;

	rig_create(&r, true, 0);
	t_identity(&r);
	t_common(&r);
	t_config(&r);
	t_config_write(&r);
	t_table(&r);
	t_function_mask(&r);
	t_vector_mask(&r);
	t_mask_race(&r);
	t_vector_none(&r);
	t_pin(&r);
	t_window(&r);
	t_window_config(&r);
	t_move(&r);
	rig_destroy(&r);
	t_no_config();
	t_shm();
	t_shm_over_ram();
	return done();
}
