// SPDX-License-Identifier: Apache-2.0
/*
 * t_virtio_mmio.c - the register file of virtio-mmio, through the bus, against the table of virtio 1.2, 4.2.2.
 *
 * Includes the transport to look at its interrupt. Hard cases A16, A20, A28, B1, B13, B14.
 */
#include "../devices/virtio_mmio.c"
#include "fakeguest.h"
#include "echo.h"
#include "tap.h"
#include <sys/mman.h>

#define S(bit) VIRTIO_CONFIG_S_##bit

struct rig {
	struct fakeguest *fg;
	struct echo echo;
	struct virtio_mmio *m;
	uint64_t base;
};

static uint64_t rd(struct rig *r, uint64_t off, unsigned len)
{
	uint8_t b[8];

	bus_read(&r->fg->vm->mmio, r->base + off, b, len);
	return bus_load(b, len);
}

static void wr(struct rig *r, uint64_t off, unsigned len, uint64_t v)
{
	uint8_t b[8];

	bus_store(b, len, v);
	bus_write(&r->fg->vm->mmio, r->base + off, b, len);
}

static uint32_t rd32(struct rig *r, uint64_t off)
{
	return (uint32_t)rd(r, off, 4);
}

static void wr32(struct rig *r, uint64_t off, uint32_t v)
{
	wr(r, off, 4, v);
}

static void rig_create(struct rig *r, uint16_t nqueues)
{
	struct vm *vm;

	r->fg = fg_create(MIB(16));
	vm = r->fg->vm;
	echo_init(&r->echo, nqueues);
	need(!virtio_attach(&r->echo.v, vm));
	need(!virtio_mmio_create(&r->echo.v, vm));
	need(!virtio_run(&r->echo.v));
	r->fg->dev = &r->echo.v;
	r->m = mmio_of(r->echo.v.tp);
	r->base = r->m->base;
}

static void setup_queue(struct rig *r, uint32_t i, uint16_t size)
{
	struct fg_queue *q = &r->fg->q[i];

	fg_ring(q, size);
	wr32(r, VIRTIO_MMIO_QUEUE_SEL, i);
	wr32(r, VIRTIO_MMIO_QUEUE_NUM, size);
	wr32(r, VIRTIO_MMIO_QUEUE_DESC_LOW, (uint32_t)q->desc);
	wr32(r, VIRTIO_MMIO_QUEUE_DESC_HIGH, (uint32_t)(q->desc >> 32));
	wr32(r, VIRTIO_MMIO_QUEUE_AVAIL_LOW, (uint32_t)q->avail);
	wr32(r, VIRTIO_MMIO_QUEUE_AVAIL_HIGH, (uint32_t)(q->avail >> 32));
	wr32(r, VIRTIO_MMIO_QUEUE_USED_LOW, (uint32_t)q->used);
	wr32(r, VIRTIO_MMIO_QUEUE_USED_HIGH, (uint32_t)(q->used >> 32));
	wr32(r, VIRTIO_MMIO_QUEUE_READY, 1);
}

static void start(struct rig *r)
{
	wr32(r, VIRTIO_MMIO_STATUS, 0);
	wr32(r, VIRTIO_MMIO_STATUS, S(ACKNOWLEDGE) | S(DRIVER));
	wr32(r, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
	wr32(r, VIRTIO_MMIO_DRIVER_FEATURES, 1);
	wr32(r, VIRTIO_MMIO_STATUS, S(ACKNOWLEDGE) | S(DRIVER) | S(FEATURES_OK));
	need(rd32(r, VIRTIO_MMIO_STATUS) & S(FEATURES_OK));
	for (uint32_t i = 0; i < r->echo.v.nqueues; i++)
		setup_queue(r, i, 8);
	wr32(r, VIRTIO_MMIO_STATUS, S(ACKNOWLEDGE) | S(DRIVER) | S(FEATURES_OK) | S(DRIVER_OK));
}

/* Publishes a request by hand, so that the kick goes through the register. */
static void publish(struct rig *r, uint32_t i, uint64_t buf)
{
	struct fg_queue *q = &r->fg->q[i];

	fg_desc(q, 0, buf, 4, VRING_DESC_F_NEXT, 1);
	fg_desc(q, 1, buf + 4, 4, VRING_DESC_F_WRITE, 0);
	fg_avail_push(q, 0);
}

/* Low half, then high. */
static uint64_t shm(struct rig *r, uint64_t off)
{
	return rd32(r, off) | (uint64_t)rd32(r, off + 4) << 32;
}

static void t_registers(struct rig *r)
{
	is(rd32(r, VIRTIO_MMIO_MAGIC_VALUE), 0x74726976, "the magic value is there");
	is(rd32(r, VIRTIO_MMIO_VERSION), 2, "version 2");
	is(rd32(r, VIRTIO_MMIO_DEVICE_ID), ECHO_ID, "the device's id");
	ok(rd32(r, VIRTIO_MMIO_VENDOR_ID) != 0, "a vendor");
	is(rd32(r, VIRTIO_MMIO_DEVICE_FEATURES), 3u << 28, "the first word of features");
	wr32(r, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 1);
	is(rd32(r, VIRTIO_MMIO_DEVICE_FEATURES), 1, "the second");
	wr32(r, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 2);
	is(rd32(r, VIRTIO_MMIO_DEVICE_FEATURES), 0, "a third is 0");
	is(rd32(r, VIRTIO_MMIO_QUEUE_NUM_MAX), 64, "a queue shows its largest size");
	wr32(r, VIRTIO_MMIO_QUEUE_SEL, r->echo.v.nqueues);
	is(rd32(r, VIRTIO_MMIO_QUEUE_NUM_MAX), 0, "one that is not there shows 0");
	wr32(r, VIRTIO_MMIO_QUEUE_SEL, UINT32_MAX);
	is(rd32(r, VIRTIO_MMIO_QUEUE_NUM_MAX) + rd32(r, VIRTIO_MMIO_QUEUE_READY), 0,
	   "whatever its number");
	wr32(r, VIRTIO_MMIO_SHM_SEL, 0);
	ok(shm(r, VIRTIO_MMIO_SHM_LEN_LOW) == UINT64_MAX &&
		   shm(r, VIRTIO_MMIO_SHM_BASE_LOW) == UINT64_MAX,
	   "there is no shared memory region");
	wr32(r, VIRTIO_MMIO_STATUS, S(ACKNOWLEDGE));
	wr32(r, VIRTIO_MMIO_STATUS, 0x100);
	is(rd32(r, VIRTIO_MMIO_STATUS), S(ACKNOWLEDGE),
	   "a status with none of the eight bits is no reset");
}

static void t_widths(struct rig *r)
{
	unsigned bad = 0;

	for (unsigned off = 0; off < VIRTIO_MMIO_CONFIG; off++)
		for (unsigned len = 1; len <= 8; len++)
			if ((len != 4 || off % 4) && off + len <= VIRTIO_MMIO_CONFIG)
				bad += rd(r, off, len) != 0;
	is(bad, 0, "control registers read 0 unless whole and aligned");
	wr(r, VIRTIO_MMIO_STATUS, 1, 0);
	wr(r, VIRTIO_MMIO_STATUS, 2, 0);
	wr(r, VIRTIO_MMIO_STATUS, 8, 0);
	is(rd32(r, VIRTIO_MMIO_STATUS), S(ACKNOWLEDGE), "and are not written");
	is(rd(r, VIRTIO_MMIO_CONFIG, 1), 1, "configuration is read by the byte");
	is(rd(r, VIRTIO_MMIO_CONFIG + 1, 2), 0x0302, "at any offset");
	is(rd(r, VIRTIO_MMIO_CONFIG, 8), 0x060504030201, "up to eight, 0 past its end");
	is(rd(r, VIRTIO_MMIO_CONFIG + 6, 4), 0, "and wholly past it");
	is(rd(r, 0xffc, 4), 0, "to the end of the window");
	wr(r, VIRTIO_MMIO_CONFIG, 8, UINT64_MAX);
	is(rd(r, VIRTIO_MMIO_CONFIG, 8), 0x060504030201,
	   "and, before FEATURES_OK, not the driver's to write");
	is(rd32(r, VIRTIO_MMIO_CONFIG_GENERATION), 0, "the generation is readable");
}

/* B13: any width, at any place; what lies outside of the driver's bytes, or outside of the area, is left alone. */
static void t_config_write(struct rig *r)
{
	uint64_t was = rd(r, VIRTIO_MMIO_CONFIG, 8), v = 0x8182838485868788;
	unsigned bad = 0;

	start(r);
	for (unsigned len = 1; len <= 8; len++)
		for (unsigned off = 0; off < 9; off++) {
			v += 0x0102030405060708;
			wr(r, VIRTIO_MMIO_CONFIG + off, len, v);
			was = echo_config_after(was, off, len, v);
			bad += rd(r, VIRTIO_MMIO_CONFIG, 8) != was;
		}
	is(bad, 0, "the driver writes the bytes that are its own, in any width, and no others");
	wr(r, VIRTIO_MMIO_CONFIG - 4, 8, UINT64_MAX);
	wr(r, VIRTIO_MMIO_CONFIG - 1, 4, UINT64_MAX);
	wr(r, 0xff8, 8, UINT64_MAX);
	is(rd(r, VIRTIO_MMIO_CONFIG, 8), was, "an access that begins in a register is none");
	ok(rd32(r, VIRTIO_MMIO_CONFIG_GENERATION) == 0 && irq_silent(&r->m->irq),
	   "what the driver writes is no news to it");
	wr32(r, VIRTIO_MMIO_STATUS, 0);
	wr(r, VIRTIO_MMIO_CONFIG, 8, 0);
	is(rd(r, VIRTIO_MMIO_CONFIG, 8), was, "after a reset it has none until FEATURES_OK");
}

static void same_again(struct virtio_dev *v, void *arg)
{
	(void)v;
	(void)arg;
}

static void t_requests(struct rig *r)
{
	struct vring_used *used;
	uint64_t buf = fg_alloc(r->fg, 64, 64);
	uint32_t last = r->echo.v.nqueues - 1u;

	memcpy(fg_ptr(r->fg, buf, 4), "ping", 4);
	start(r);
	is(rd32(r, VIRTIO_MMIO_QUEUE_READY), 1, "QueueReady reads back");
	ok(irq_silent(&r->m->irq), "starting does not interrupt");
	publish(r, last, buf);
	wr32(r, VIRTIO_MMIO_QUEUE_NOTIFY, last);
	ok(irq_arrives(&r->m->irq), "a notify of queue %u is answered by an interrupt", last);
	used = fg_ptr(r->fg, r->fg->q[last].used, 70);
	ok(__atomic_load_n(&used->idx, __ATOMIC_ACQUIRE) == 1 && used->ring[0].len == 4 &&
		   !memcmp(fg_ptr(r->fg, buf + 4, 4), "ping", 4),
	   "with the request done");
	is(rd32(r, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING,
	   "and a status that says used ring");
	virtio_config_changed(&r->echo.v, same_again, NULL);
	ok(irq_arrives(&r->m->irq), "a configuration change interrupts");
	is(rd32(r, VIRTIO_MMIO_INTERRUPT_STATUS), 3, "and adds its bit");
	wr32(r, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
	is(rd32(r, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_CONFIG,
	   "ACK clears the written bits only");
	wr32(r, VIRTIO_MMIO_QUEUE_NOTIFY, 77);
	wr32(r, VIRTIO_MMIO_QUEUE_NOTIFY, UINT32_MAX);
	wr32(r, VIRTIO_MMIO_QUEUE_SEL, 0);
	wr32(r, VIRTIO_MMIO_QUEUE_NUM, 4);
	wr32(r, VIRTIO_MMIO_QUEUE_READY, 0);
	is(rd32(r, VIRTIO_MMIO_QUEUE_READY), 1, "a live queue does not change");
	wr32(r, VIRTIO_MMIO_STATUS, 0);
	ok(!rd32(r, VIRTIO_MMIO_STATUS) && !rd32(r, VIRTIO_MMIO_INTERRUPT_STATUS) &&
		   !rd32(r, VIRTIO_MMIO_QUEUE_READY),
	   "when the write of 0 returns all is at power-on");
	wr32(r, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 1);
	wr32(r, VIRTIO_MMIO_STATUS, 0);
	is(rd32(r, VIRTIO_MMIO_DEVICE_FEATURES), 3u << 28, "selectors too");
}

static void t_described(struct rig *r)
{
	const struct vm_platform *p = &r->fg->vm->platform[0];

	ok(r->fg->vm->nplatform == 1 && !strcmp(p->hid, "LNRO0005") && p->base == r->base &&
		   p->len == 0x1000 && p->gsi == (int)r->m->irq.gsi && !p->level && !p->is_pio,
	   "the boot tables get its window and its edge-triggered pin");
}

static void t_one(uint16_t nqueues)
{
	struct rig r;
	uint64_t magic = 0;

	rig_create(&r, nqueues);
	t_described(&r);
	t_registers(&r);
	t_widths(&r);
	t_config_write(&r);
	t_requests(&r);
	start(&r);
	virtio_detach(&r.echo.v);
	bus_read(&r.fg->vm->mmio, r.base, &magic, 4);
	is(magic, 0xffffffff, "a detached device leaves the bus");
	r.fg->dev = NULL;
	fg_destroy(r.fg);
}

/* Two devices with a region each, and where the driver finds them. */
static void t_shm(void)
{
	struct fakeguest *fg = fg_create(MIB(16));
	struct rig r[2] = {{.fg = fg}, {.fg = fg}};
	struct window *w[2];
	uint64_t base[2], v = 0;

	for (unsigned i = 0; i < 2; i++) {
		need(!window_create(&w[i], fg->vm, "echo", i ? MIB(2) : GIB(8)));
		echo_init(&r[i].echo, 1);
		r[i].echo.v.shm = w[i];
		r[i].echo.v.shm_id = (uint8_t)(i ? 255 : 0);
		need(!virtio_attach(&r[i].echo.v, fg->vm));
		need(!virtio_mmio_create(&r[i].echo.v, fg->vm));
		need(!virtio_run(&r[i].echo.v));
		r[i].m = mmio_of(r[i].echo.v.tp);
		r[i].base = r[i].m->base;
		is(shm(&r[i], VIRTIO_MMIO_SHM_LEN_LOW), -1, "before one is selected there is none");
		wr32(&r[i], VIRTIO_MMIO_SHM_SEL, r[i].echo.v.shm_id);
		is(shm(&r[i], VIRTIO_MMIO_SHM_LEN_LOW), i ? MIB(2) : GIB(8),
		   "a shared memory region tells its length");
		base[i] = shm(&r[i], VIRTIO_MMIO_SHM_BASE_LOW);
		ok(base[i] == w[i]->base && IS_ALIGNED(base[i], w[i]->size) &&
			   base[i] > fg->vm->mem->total,
		   "and its place, above RAM");
		ok(mem_buffer(fg->vm->mem, GPA(base[i]), w[i]->size) == w[i]->host, "where it is");
		wr32(&r[i], VIRTIO_MMIO_SHM_SEL, 1);
		ok(shm(&r[i], VIRTIO_MMIO_SHM_LEN_LOW) == UINT64_MAX &&
			   shm(&r[i], VIRTIO_MMIO_SHM_BASE_LOW) == UINT64_MAX,
		   "another id tells nothing");
		wr32(&r[i], VIRTIO_MMIO_SHM_SEL, r[i].echo.v.shm_id | 0x100);
		is(shm(&r[i], VIRTIO_MMIO_SHM_LEN_LOW), -1, "nor does one of more than a byte");
	}
	wr32(&r[0], VIRTIO_MMIO_SHM_SEL, 0);
	wr32(&r[0], VIRTIO_MMIO_STATUS, 0);
	ok(shm(&r[0], VIRTIO_MMIO_SHM_LEN_LOW) == UINT64_MAX && w[0]->base == base[0],
	   "a reset forgets the selection, and the region stays");
	/* An access by exit: what KVM emulates, or has no slot for. */
	need(mmap(window_hold(w[1], 0, MIB(2)), MIB(2), PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == w[1]->host);
	window_mapped(w[1], 0, MIB(2), true);
	memcpy(w[1]->host + 16, "12345678", 8);
	bus_read(&fg->vm->mmio, base[1] + 16, &v, 8);
	ok(!memcmp(&v, "12345678", 8), "the bus reads what lies in it");
	bus_write(&fg->vm->mmio, base[1] + MIB(2) - 4, "abcd", 4);
	ok(!memcmp(w[1]->host + MIB(2) - 4, "abcd", 4), "and writes it");
	for (unsigned i = 0; i < 2; i++) {
		virtio_detach(&r[i].echo.v);
		is(w[i]->base, 0, "a detached device takes its region away");
		window_destroy(w[i]);
	}
	bus_read(&fg->vm->mmio, base[1], &v, 8);
	ok(v == UINT64_MAX && fg->vm->mmio.n == 0, "and leaves the bus");
	fg_destroy(fg);
}

/* A region that finds no place: the device is refused with nothing left behind. */
static void t_shm_large(void)
{
	struct fakeguest *fg = fg_create(MIB(16));
	struct window *w;
	struct echo e;

	need(!window_create(&w, fg->vm, "echo", GIB(64)));
	echo_init(&e, 1);
	e.v.shm = w;
	need(!virtio_attach(&e.v, fg->vm));
	is(virtio_mmio_create(&e.v, fg->vm), -ENOSPC, "a region without a place is refused");
	ok(!e.v.tp && fg->vm->mmio.n == 0 && w->base == 0, "and leaves nothing");
	virtio_detach(&e.v);
	window_destroy(w);
	fg_destroy(fg);
}

/* Pins run out before windows do: the last device is refused with nothing left behind. */
static void t_many(void)
{
	struct fakeguest *fg = fg_create(MIB(16));
	static struct echo e[32];
	unsigned n = 0;

	for (; n < ARRAY_LEN(e); n++) {
		echo_init(&e[n], 1);
		need(!virtio_attach(&e[n].v, fg->vm));
		if (virtio_mmio_create(&e[n].v, fg->vm))
			break;
	}
	ok(n > 0 && n < ARRAY_LEN(e) && fg->vm->nplatform == n && fg->vm->mmio.n == n && !e[n].v.tp,
	   "%u devices find pins, the next is refused", n);
	for (unsigned i = 0; i <= n; i++)
		virtio_detach(&e[i].v);
	is(fg->vm->mmio.n, 0, "and all of them leave");
	fg_destroy(fg);
}

int main(void)
{
	t_one(1);
	t_one(3);
	t_shm();
	t_shm_large();
	t_many();
	return done();
}
