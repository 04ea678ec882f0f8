// SPDX-License-Identifier: Apache-2.0
/*
 * t_storm.c - vCPUs that all write registers of the same devices at once: start, reset, kicks, BARs, vectors, rings.
 *
 * One of the devices has four queues and three threads. For the thread sanitizer, and for what never comes back (an
 * alarm ends it). When the storm is over, every device has to serve an honest driver.
 */
#include "echo.h"
#include "fakeguest.h"
#include "tap.h"
#include "../devices/pci.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include "../devices/virtio_fs.h"
#include "../vmm/arch.h"
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_pci.h>
#include <sched.h>

#define NDEV       4u
#define NCPU       3u
#define RING       32u
#define STEPS      6000u /* of each vCPU */
#define PATIENCE_S 100

enum { RNG, BLK, FS, ECHO };

/* The part of guest memory that a queue of a device has during the storm. */
#define PER_QUEUE 0x2000u
#define AVAIL     0x400u
#define USED      0x800u
#define BUF       0xc00u
#define REPLY     0x1000u

struct storm {
	struct fakeguest *fg;
	struct vm *vm;
	struct pci_host *pci; /* NULL: virtio-mmio */
	struct echo echo;     /* four queues, three threads */
	struct device *dev[NDEV];
	struct virtio_dev *v[NDEV];
	char disk[32], dir[32];
};

struct vcpu {
	struct storm *s;
	uint32_t seed;
	pthread_t thread;
};

static uint32_t rnd(struct vcpu *c)
{
	c->seed ^= c->seed << 13;
	c->seed ^= c->seed >> 17;
	c->seed ^= c->seed << 5;
	return c->seed;
}

/*
 * A device whose BAR was laid over another one's gets that one's rings: then two threads work in the same guest memory,
 * which is the guest's affair. Ring words are atomic; these copy what is the driver's to change at any moment.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:copy_desc\nrace:cursor_get\nrace:cursor_put\nrace:put_header\n";
}

/* ---- registers ---- */

static uint64_t rd(struct storm *s, uint64_t addr, unsigned len)
{
	uint8_t b[8] = {0};

	bus_read(&s->vm->mmio, addr, b, len);
	return bus_load(b, len);
}

static void wr(struct storm *s, uint64_t addr, unsigned len, uint64_t val)
{
	uint8_t b[8];

	bus_store(b, 8, val);
	bus_write(&s->vm->mmio, addr, b, len);
}

static uint64_t config(unsigned i)
{
	return ARCH_ECAM_BASE + ((uint64_t)(i + 1) << 15);
}

static uint64_t bar(struct storm *s, unsigned i, unsigned nr)
{
	return rd(s, config(i) + PCI_BASE_ADDRESS_0 + 4 * nr, 4) & PCI_BASE_ADDRESS_MEM_MASK;
}

/* Wherever they are now. */
static uint64_t regs(struct storm *s, unsigned i)
{
	return s->pci ? bar(s, i, 0) : ARCH_MMIO_BASE + 0x1000ull * i;
}

/* The same register of both transports. */
static void reg(struct storm *s, unsigned i, unsigned pci_off, unsigned pci_len, unsigned mmio_off,
		uint64_t val)
{
	if (s->pci)
		wr(s, regs(s, i) + pci_off, pci_len, val);
	else
		wr(s, regs(s, i) + mmio_off, 4, val);
}

static void status(struct storm *s, unsigned i, uint8_t val)
{
	reg(s, i, VIRTIO_PCI_COMMON_STATUS, 1, VIRTIO_MMIO_STATUS, val);
}

static void features(struct storm *s, unsigned i, unsigned word, uint32_t val)
{
	reg(s, i, VIRTIO_PCI_COMMON_GFSELECT, 4, VIRTIO_MMIO_DRIVER_FEATURES_SEL, word);
	reg(s, i, VIRTIO_PCI_COMMON_GF, 4, VIRTIO_MMIO_DRIVER_FEATURES, val);
}

static uint64_t ring_at(unsigned i, unsigned q)
{
	return (4 * i + q) * PER_QUEUE;
}

static void queue(struct storm *s, unsigned i, unsigned q)
{
	uint64_t at = ring_at(i, q);

	reg(s, i, VIRTIO_PCI_COMMON_Q_SELECT, 2, VIRTIO_MMIO_QUEUE_SEL, q);
	reg(s, i, VIRTIO_PCI_COMMON_Q_SIZE, 2, VIRTIO_MMIO_QUEUE_NUM, RING);
	reg(s, i, VIRTIO_PCI_COMMON_Q_DESCLO, 4, VIRTIO_MMIO_QUEUE_DESC_LOW, at);
	reg(s, i, VIRTIO_PCI_COMMON_Q_AVAILLO, 4, VIRTIO_MMIO_QUEUE_AVAIL_LOW, at + AVAIL);
	reg(s, i, VIRTIO_PCI_COMMON_Q_USEDLO, 4, VIRTIO_MMIO_QUEUE_USED_LOW, at + USED);
	if (s->pci)
		wr(s, regs(s, i) + VIRTIO_PCI_COMMON_Q_MSIX, 2, q);
	reg(s, i, VIRTIO_PCI_COMMON_Q_ENABLE, 2, VIRTIO_MMIO_QUEUE_READY, 1);
}

static void start(struct vcpu *c, unsigned i)
{
	struct storm *s = c->s;

	if (s->pci)
		wr(s, config(i) + PCI_COMMAND, 2, PCI_COMMAND_MEMORY);
	status(s, i, 0);
	status(s, i, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
	features(s, i, 0, (rnd(c) & 3u) << VIRTIO_RING_F_INDIRECT_DESC);
	features(s, i, 1, 1u << (VIRTIO_F_VERSION_1 - 32));
	status(s, i, VIRTIO_CONFIG_S_FEATURES_OK);
	for (unsigned q = 0; q < s->v[i]->nqueues; q++)
		queue(s, i, q);
	status(s, i, VIRTIO_CONFIG_S_DRIVER_OK);
}

/* ---- rings ---- */

/* A request of some kind, put where other vCPUs put theirs: guests may race, so the sanitizer does not look here. */
__attribute__((no_sanitize("thread"))) static void publish(struct vcpu *c, unsigned i)
{
	struct storm *s = c->s;
	unsigned q = rnd(c) % s->v[i]->nqueues;
	uint64_t at = ring_at(i, q);
	uint8_t *p = mem_span(s->vm->mem, GPA(at), PER_QUEUE);
	struct vring_avail *avail = (struct vring_avail *)(void *)(p + AVAIL);
	uint16_t head = (uint16_t)(rnd(c) % (RING - 1));
	struct vring_desc *d = (struct vring_desc *)(void *)p + head;
	const struct virtio_blk_outhdr blk = {.type = rnd(c) % 5, .sector = rnd(c) % 8};
	const struct fuse_in_header fuse = {.len = 48, .opcode = rnd(c) % 30, .nodeid = 1};

	if (i == BLK)
		memcpy(p + BUF, &blk, sizeof(blk));
	else
		memcpy(p + BUF, &fuse, sizeof(fuse));
	d[0] = (struct vring_desc){at + BUF, i == BLK ? 16 : 48, VRING_DESC_F_NEXT,
				   (uint16_t)(head + 1)};
	d[1] = (struct vring_desc){at + REPLY, 513, VRING_DESC_F_WRITE, 0};
	avail->ring[avail->idx % RING] = head;
	__atomic_fetch_add(&avail->idx, 1, __ATOMIC_RELEASE);
	if (s->pci)
		wr(s, regs(s, i) + 0x3000 + 4 * q, 2, q);
	else
		wr(s, regs(s, i) + VIRTIO_MMIO_QUEUE_NOTIFY, 4, q);
}

/* ---- the storm ---- */

static void step_pci(struct vcpu *c, unsigned i)
{
	struct storm *s = c->s;
	const uint64_t place = ARCH_PCI32_BASE + ((uint64_t)(rnd(c) % 16) << 14);

	switch (rnd(c) % 3) {
	case 0:
		wr(s, config(i) + PCI_BASE_ADDRESS_0 + 4 * (rnd(c) & 1), 4, place);
		break;
	case 1:
		wr(s, config(i) + 0x42 + rnd(c) % 0x80, 4, rnd(c));
		break;
	default:
		wr(s, bar(s, i, 1) + 4 * (rnd(c) % 12), 4, rnd(c));
		break;
	}
}

static void step(struct vcpu *c)
{
	struct storm *s = c->s;
	unsigned i = rnd(c) % NDEV, op = rnd(c) % 16;

	if (op < 2)
		start(c, i);
	else if (op < 10)
		publish(c, i);
	else if (op == 10)
		status(s, i, (uint8_t)(rnd(c) % 16));
	else if (op == 11)
		status(s, i, 0);
	else if (op == 12)
		rd(s, regs(s, i) + rnd(c) % 0x4000, 1u << rnd(c) % 4);
	else if (s->pci)
		step_pci(c, i);
	else
		wr(s, regs(s, i) + rnd(c) % 0x110, 4, rnd(c));
}

static void *vcpu_run(void *arg)
{
	for (unsigned i = 0; i < STEPS; i++)
		step(arg);
	return NULL;
}

/* ---- the calm after it ---- */

/* The transport has the interrupts, so the ring is looked at until the request is there. */
static void serve(struct storm *s, unsigned i, unsigned queue_nr, const void *req, uint32_t len,
		  uint32_t room)
{
	struct fg_queue *q = &s->fg->q[queue_nr];
	const struct fg_buf r = {req, len}, w = {NULL, room};
	struct vring_used *used;

	s->fg->dev = s->v[i];
	fg_start(s->fg, 0, RING);
	fg_add(q, &r, len > 0, &w, 1, NULL);
	used = fg_ptr(s->fg, q->used, sizeof(*used));
	while (__atomic_load_n(&used->idx, __ATOMIC_ACQUIRE) != 1)
		sched_yield();
	ok(used->ring[0].len > 0 && used->ring[0].len <= room,
	   "%s: %s serves an honest driver after the storm", s->pci ? "pci" : "mmio",
	   s->dev[i]->name);
	fg_reset(s->fg); /* the next one has the same rings */
}

static void all_serve(struct storm *s)
{
	const struct virtio_blk_outhdr id = {.type = htole32(VIRTIO_BLK_T_GET_ID)};
	const struct {
		struct fuse_in_header h;
		struct fuse_init_in in;
	} init = {{.len = sizeof(init), .opcode = FUSE_INIT, .unique = 2},
		  {.major = FUSE_KERNEL_VERSION, .minor = 36}};

	/* All of them first: any may still have a ring where the driver's heap is. */
	for (unsigned i = 0; i < NDEV; i++)
		virtio_status_write(s->v[i], 0);
	serve(s, RNG, 0, NULL, 0, 64);
	serve(s, BLK, 0, &id, sizeof(id), 21);
	serve(s, FS, 1, &init, sizeof(init), 256);
	for (unsigned q = 0; q < s->v[ECHO]->nqueues; q++)
		serve(s, ECHO, q, "echo", 4, 4);
}

/* ---- life ---- */

static void devices_create(struct storm *s)
{
	struct blk_config blk = {.drive_id = (char[]){"d"},
				 .path_on_host = s->disk,
				 .queues = 2,
				 .queue_size = 256,
				 .discard = true,
				 .poll_us = 50};
	struct fs_config fs = {.tag = (char[]){"t"},
			       .share = {.path = s->dir},
			       .fuse = {.cache = FUSE_CACHE_AUTO},
			       .queues = 2,
			       .queue_size = 64};

	need(!rng_device.create(s->vm, NULL, 0, &s->dev[RNG]));
	need(!blk_device.create(s->vm, &blk, 0, &s->dev[BLK]));
	need(!fs_device.create(s->vm, &fs, 0, &s->dev[FS]));
	echo_init(&s->echo, 4);
	s->echo.v.nthreads = 3;
	s->echo.v.poll_us = 20;
	s->dev[ECHO] = &s->echo.v.base;
	for (unsigned i = 0; i < NDEV; i++) {
		s->v[i] = container_of(s->dev[i], struct virtio_dev, base);
		need(!virtio_attach(s->v[i], s->vm));
		need(!(s->pci ? virtio_pci_create(s->v[i], s->vm, s->pci)
			      : virtio_mmio_create(s->v[i], s->vm)));
		need(!virtio_run(s->v[i]));
	}
}

static void storm_end(struct storm *s)
{
	for (unsigned i = 0; i < NDEV; i++)
		virtio_detach(s->v[i]);
	for (unsigned i = 0; i < NDEV; i++)
		if (s->dev[i]->destroy)
			s->dev[i]->destroy(s->dev[i]);
	pci_host_destroy(s->pci);
	s->fg->dev = NULL;
	fg_destroy(s->fg);
	unlink(s->disk);
	need(!rmdir(s->dir));
}

static void storm(bool with_pci)
{
	struct storm s = {.fg = fg_create(MIB(1)),
			  .disk = "/tmp/t_storm.XXXXXX",
			  .dir = "/tmp/t_storm.XXXXXX"};
	struct vcpu cpu[NCPU];
	int fd = mkstemp(s.disk);

	need(fd >= 0 && !ftruncate(fd, MIB(1)) && !close(fd) && mkdtemp(s.dir));
	s.vm = s.fg->vm;
	if (with_pci)
		need(!pci_host_create(&s.pci, s.vm));
	devices_create(&s);
	for (unsigned i = 0; i < NCPU; i++) {
		cpu[i] = (struct vcpu){.s = &s, .seed = (i + 1) * 2654435761u};
		need(!pthread_create(&cpu[i].thread, NULL, vcpu_run, &cpu[i]));
	}
	for (unsigned i = 0; i < NCPU; i++)
		need(!pthread_join(cpu[i].thread, NULL));
	all_serve(&s);
	storm_end(&s);
}

static void on_engine(const char *engine)
{
	printf("# %s\n", engine);
	setenv("WHERRY_ENGINE", engine, 1);
	storm(true);
	storm(false);
}

int main(void)
{
	log_set_level(LOG_ERR);
	alarm(PATIENCE_S);
	on_engine("uring");
	on_engine("epoll");
	return done();
}
