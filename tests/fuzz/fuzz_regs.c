// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_regs.c - every register of a machine under a driver that is nothing but bytes.
 *
 * A bare vm with an rng, a disk and a share, on PCI or virtio-mmio as the first byte says, with their iothreads
 * running. The rest of the input is a row of steps, a byte of what and its operands: accesses through the vm's own
 * buses to configuration space (ECAM and CF8/CFC), BARs, MSI-X, virtio registers and the window into the BARs, of odd
 * widths and at odd places; writes to the memory in which the rings lie; and what bytes alone would hardly find
 * (negotiate and start, publish a chain, write the configuration). Whatever comes, a read gives no more than it was asked
 * for, of a device's configuration only what is the driver's changes, a device that was reset is as new, and the machine
 * can be taken apart. What two inputs share is the disk's and the share's content.
 */
#include "input.h"
#include "../../devices/pci.h"
#include "../../devices/table.h"
#include "../../devices/virtio_blk.h"
#include "../../devices/virtio_fs.h"
#include "../../vmm/arch.h"
#include "../../vmm/log.h"
#include "../fakeguest.h"
#include <dirent.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_pci.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define RAM      MIB(1)
#define DISK_LEN KIB(64)
#define NDEV     3u
#define BLK      1u
#define RING     32u
/* Of the memory the steps write to: rings and buffers of all devices. */
#define REACH   0x8000u
#define PER_DEV 0x2000u
#define PER_Q   0x1000u
#define AVAIL   0x200u
#define USED    0x400u
#define BUF     0x800u
#define REPLY   0xc00u

struct target {
	struct vm *vm;
	struct pci_host *pci;
	struct device *dev[NDEV];
	struct virtio_dev *v[NDEV];
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64], disk[80], share[80];

/* ---- accesses ---- */

/* Eight canary bytes on either side: an owner that writes more than len is seen. */
static uint64_t rd(struct bus *bus, uint64_t addr, unsigned len)
{
	uint8_t b[24];

	memset(b, 0xc3, sizeof(b));
	bus_read(bus, addr, b + 8, len);
	for (unsigned i = 0; i < sizeof(b); i++)
		must((i >= 8 && i < 8 + len) || b[i] == 0xc3);
	return bus_load(b + 8, len);
}

static void wr(struct bus *bus, uint64_t addr, unsigned len, uint64_t v)
{
	uint8_t b[8];

	bus_store(b, 8, v);
	bus_write(bus, addr, b, len);
}

static uint64_t ecam(unsigned i)
{
	return ARCH_ECAM_BASE + ((uint64_t)(i + 1) << 15);
}

/* Of a device: its window or one of its BARs, wherever that is now. */
static uint64_t place(struct target *t, unsigned dev, unsigned which)
{
	if (!t->pci)
		return ARCH_MMIO_BASE + 0x1000ull * dev;
	if (which % 4 == 0)
		return ecam(dev);
	return rd(&t->vm->mmio, ecam(dev) + PCI_BASE_ADDRESS_0 + 4 * (which % 2), 4) & ~0xfull;
}

/* Low offsets are the ones that mean something; BAR 0 has a part in each page. */
static uint64_t offset(struct input *in)
{
	uint8_t b = (uint8_t)take(in, 1);

	return b < 0xc0 ? b & 0x7f : (take(in, 2) & 0x3fff);
}

/* ---- whole steps ---- */

struct regs {
	struct bus *bus;
	uint64_t base;
	bool pci;
};

static struct regs regs_of(struct target *t, unsigned dev)
{
	return (struct regs){&t->vm->mmio, place(t, dev, 2), t->pci};
}

static void status_write(const struct regs *r, uint8_t v)
{
	if (r->pci)
		wr(r->bus, r->base + VIRTIO_PCI_COMMON_STATUS, 1, v);
	else
		wr(r->bus, r->base + VIRTIO_MMIO_STATUS, 4, v);
}

static void reg_write(const struct regs *r, unsigned pci_off, unsigned pci_len, unsigned mmio_off,
		      uint64_t v)
{
	if (r->pci)
		wr(r->bus, r->base + pci_off, pci_len, v);
	else
		wr(r->bus, r->base + mmio_off, 4, v);
}

static uint64_t ring_at(unsigned dev, unsigned q)
{
	return dev * PER_DEV + q * PER_Q;
}

static void queue_setup(const struct regs *r, unsigned dev, unsigned q, uint16_t size)
{
	uint64_t at = ring_at(dev, q);

	reg_write(r, VIRTIO_PCI_COMMON_Q_SELECT, 2, VIRTIO_MMIO_QUEUE_SEL, q);
	reg_write(r, VIRTIO_PCI_COMMON_Q_SIZE, 2, VIRTIO_MMIO_QUEUE_NUM, size);
	reg_write(r, VIRTIO_PCI_COMMON_Q_DESCLO, 4, VIRTIO_MMIO_QUEUE_DESC_LOW, at);
	reg_write(r, VIRTIO_PCI_COMMON_Q_AVAILLO, 4, VIRTIO_MMIO_QUEUE_AVAIL_LOW, at + AVAIL);
	reg_write(r, VIRTIO_PCI_COMMON_Q_USEDLO, 4, VIRTIO_MMIO_QUEUE_USED_LOW, at + USED);
	if (r->pci)
		wr(r->bus, r->base + VIRTIO_PCI_COMMON_Q_MSIX, 2, q);
	reg_write(r, VIRTIO_PCI_COMMON_Q_ENABLE, 2, VIRTIO_MMIO_QUEUE_READY, 1);
}

static void negotiate(const struct regs *r, uint32_t low, uint32_t high)
{
	status_write(r, 0);
	status_write(r, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	status_write(r, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
	reg_write(r, VIRTIO_PCI_COMMON_GFSELECT, 4, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0);
	reg_write(r, VIRTIO_PCI_COMMON_GF, 4, VIRTIO_MMIO_DRIVER_FEATURES, low);
	reg_write(r, VIRTIO_PCI_COMMON_GFSELECT, 4, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
	reg_write(r, VIRTIO_PCI_COMMON_GF, 4, VIRTIO_MMIO_DRIVER_FEATURES, high);
	status_write(r, VIRTIO_CONFIG_S_FEATURES_OK);
}

/* Bits say what is left out or wrong: a feature that is not offered, a queue, a size that is no power of two. */
static void step_start(struct target *t, struct input *in, unsigned dev)
{
	uint8_t how = (uint8_t)take(in, 1);
	struct regs r;

	if (t->pci)
		wr(&t->vm->mmio, ecam(dev) + PCI_COMMAND, 2, PCI_COMMAND_MEMORY);
	r = regs_of(t, dev);
	negotiate(&r, (how & 3u) << VIRTIO_RING_F_INDIRECT_DESC, how & 0x80 ? 3 : 1);
	for (unsigned q = 0; q < t->v[dev]->nqueues; q++)
		if (!(how >> 4 & 1u << q))
			queue_setup(&r, dev, q, how & 8 ? RING - 8 : RING);
	status_write(&r, VIRTIO_CONFIG_S_DRIVER_OK);
}

static void step_reset(struct target *t, unsigned dev)
{
	struct virtio_dev *v = t->v[dev];

	virtio_status_write(v, 0);
	must(virtio_status_read(v) == 0 && virtio_driver_features_read(v, 0) == 0);
	for (unsigned q = 0; q < v->nqueues; q++) {
		must(virtio_queue_read(v, q, VIRTQ_SIZE) == v->queue_size);
		for (enum virtq_reg reg = VIRTQ_READY; reg <= VIRTQ_USED_HI; reg++)
			must(virtio_queue_read(v, q, reg) == 0);
	}
}

static void ram_put(struct target *t, uint64_t at, const void *p, size_t n)
{
	must(!mem_write(t->vm->mem, GPA(at), p, n));
}

/* A chain of two: what a request of the device looks like, roughly, and room for its reply. */
static void step_publish(struct target *t, struct input *in, unsigned dev)
{
	unsigned q = (unsigned)take(in, 1) % t->v[dev]->nqueues;
	uint64_t at = ring_at(dev, q);
	struct virtio_blk_outhdr blk = {.type = (uint32_t)take(in, 1) % 9, .sector = take(in, 1)};
	struct fuse_in_header fuse = {.len = (uint32_t)(40 + take(in, 1)),
				      .opcode = (uint32_t)take(in, 1) % 56,
				      .nodeid = take(in, 1) % 4};
	uint16_t head = (uint16_t)(take(in, 1) % (RING - 1)), idx;
	uint16_t rd_len = (uint16_t)(take(in, 2) % 0x400), wr_len = (uint16_t)(take(in, 2) % 0x400);
	const struct vring_desc d[] = {{at + BUF, rd_len, VRING_DESC_F_NEXT, (uint16_t)(head + 1)},
				       {at + REPLY, wr_len, VRING_DESC_F_WRITE, 0}};

	if (dev == BLK)
		ram_put(t, at + BUF, &blk, sizeof(blk));
	else
		ram_put(t, at + BUF, &fuse, sizeof(fuse));
	ram_put(t, at + 16ull * head, d, sizeof(d));
	must(!mem_read(t->vm->mem, GPA(at + AVAIL + 2), &idx, 2));
	ram_put(t, at + AVAIL + 4 + 2ull * (idx % RING), &head, 2);
	idx++;
	ram_put(t, at + AVAIL + 2, &idx, 2);
	virtio_queue_kick(t->v[dev], q);
}

/* MSI-X on, and an entry with an address, or the whole of it masked. */
static void step_msix(struct target *t, struct input *in, unsigned dev)
{
	uint64_t table = place(t, dev, 1);
	uint8_t how = (uint8_t)take(in, 1);

	for (unsigned cap = (unsigned)rd(&t->vm->mmio, ecam(dev) + PCI_CAPABILITY_LIST, 1), n = 0;
	     cap && n < 16; cap = (unsigned)rd(&t->vm->mmio, ecam(dev) + cap + 1, 1), n++)
		if (rd(&t->vm->mmio, ecam(dev) + cap, 1) == PCI_CAP_ID_MSIX)
			wr(&t->vm->mmio, ecam(dev) + cap + 2, 2, (uint64_t)(how & 3) << 14);
	wr(&t->vm->mmio, table + 16 * (how >> 4 & 3), 8, 0xfee00000);
	wr(&t->vm->mmio, table + 16 * (how >> 4 & 3) + 8, 8, (uint64_t)(how >> 2 & 1) << 32 | 33);
}

static void step_ram(struct target *t, struct input *in)
{
	uint64_t at = take(in, 2) % REACH, v = take(in, 2);

	ram_put(t, MIN(at, (uint64_t)REACH - 2), &v, 2);
}

/* The window that a PCI device has into its BARs: place, width, then the access. */
static void step_window(struct target *t, struct input *in, unsigned dev, unsigned len)
{
	struct bus *bus = &t->vm->mmio;
	uint64_t cap = ecam(dev) + 0x40 + (take(in, 1) & 0x7f);

	wr(bus, cap + offsetof(struct virtio_pci_cap, bar), 1, take(in, 1) & 1);
	wr(bus, cap + offsetof(struct virtio_pci_cap, offset), 4, offset(in));
	wr(bus, cap + offsetof(struct virtio_pci_cap, length), 4, len);
	wr(bus, cap + sizeof(struct virtio_pci_cap), 4, take(in, 4));
	rd(bus, cap + sizeof(struct virtio_pci_cap), 4);
}

static void step_config_ports(struct target *t, struct input *in, unsigned dev, unsigned len)
{
	struct bus *bus = &t->vm->pio;

	wr(bus, 0xcf8, 4, 1u << 31 | (dev + 1) << 11 | (take(in, 1) & 0xfc));
	wr(bus, 0xcfc + (take(in, 1) & 3), len, take(in, 4));
	rd(bus, 0xcf8 + (take(in, 1) & 7), len);
}

/* The device's configuration, before its first byte and behind its last one too, where it is by now. */
static void step_configure(struct target *t, struct input *in, unsigned dev, unsigned len)
{
	const struct virtio_dev *v = t->v[dev];
	uint64_t at = place(t, dev, 2) + (t->pci ? 0x2000 : VIRTIO_MMIO_CONFIG);
	uint64_t off = (take(in, 1) & 0x7f) - 8u;
	uint8_t before[256], after[256];

	must(v->config_len <= sizeof(before));
	virtio_config_read(t->v[dev], 0, before, sizeof(before));
	wr(&t->vm->mmio, at + off, len, take(in, len));
	virtio_config_read(t->v[dev], 0, after, sizeof(after));
	if (!(virtio_status_read(t->v[dev]) & VIRTIO_CONFIG_S_FEATURES_OK))
		must(!memcmp(before, after, sizeof(before)));
	memcpy(before + v->config_rw, after + v->config_rw, v->config_rw_len);
	must(!memcmp(before, after, sizeof(before)));
	rd(&t->vm->mmio, at + off, len);
}

/* One step that is an access, of a width from the first byte. */
static void step_access(struct target *t, struct input *in, uint8_t op, unsigned dev)
{
	const unsigned len = 1u << (op >> 6), port_len = MIN(len, 4u);
	uint64_t at;

	switch (op & 7) {
	case 0:
	case 1:
		at = place(t, dev, (unsigned)take(in, 1)) + offset(in);
		wr(&t->vm->mmio, at, len, take(in, len));
		break;
	case 2:
		step_configure(t, in, dev, len);
		break;
	case 3:
	case 4:
		at = place(t, dev, (unsigned)take(in, 1)) + offset(in);
		rd(&t->vm->mmio, at, len);
		break;
	case 5: /* any width, any place */
		at = take(in, 8);
		wr(&t->vm->mmio, at, 1u + (op >> 5), take(in, 8));
		rd(&t->vm->mmio, at, 1u + (op >> 5));
		break;
	case 6:
		step_config_ports(t, in, dev, port_len);
		break;
	default:
		at = take(in, 2);
		wr(&t->vm->pio, at, port_len, take(in, 4));
		rd(&t->vm->pio, at, port_len);
	}
}

static void step(struct target *t, struct input *in)
{
	uint8_t op = (uint8_t)take(in, 1);
	unsigned dev = (op >> 4) % NDEV, len = 1u << (op >> 6);

	switch (op & 15) {
	case 8:
		step_ram(t, in);
		break;
	case 9:
		step_start(t, in, dev);
		break;
	case 10:
	case 11:
		step_publish(t, in, dev);
		break;
	case 12:
		step_reset(t, dev);
		break;
	case 13:
		if (t->pci)
			step_msix(t, in, dev);
		break;
	case 14:
		step_window(t, in, dev, len);
		break;
	case 15: /* a BAR moves */
		wr(&t->vm->mmio, ecam(dev) + PCI_BASE_ADDRESS_0 + 4 * (len & 1), 4,
		   ARCH_PCI32_BASE + (take(in, 2) << 12));
		break;
	default:
		step_access(t, in, op, dev);
	}
}

/* ---- life ---- */

/* What guests have left in the share. */
static void clear(void)
{
	DIR *d = opendir(share);
	struct dirent *e;

	must(d != NULL);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' || (e->d_name[1] && e->d_name[1] != '.'))
			if (unlinkat(dirfd(d), e->d_name, 0))
				unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	closedir(d);
	rmdir(share);
	unlink(disk);
	rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *tmp = getenv("TMPDIR");
	const struct rlimit limit = {MIB(4), MIB(4)};
	int fd;

	(void)argc;
	(void)argv;
	/* The sanitizers make calls that no thread of ours may. */
	setenv("WHERRY_SECCOMP", "off", 1);
	setrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_IGN);
	log_set_level(LOG_ERR);
	snprintf(dir, sizeof(dir), "%.40s/fuzz_regs.XXXXXX", tmp ? tmp : "/tmp");
	must(mkdtemp(dir) != NULL);
	snprintf(disk, sizeof(disk), "%s/disk", dir);
	snprintf(share, sizeof(share), "%s/share", dir);
	must(!mkdir(share, 0755));
	fd = open(disk, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	must(fd >= 0 && !ftruncate(fd, DISK_LEN));
	close(fd);
	atexit(clear);
	return 0;
}

static void create(struct target *t, bool pci)
{
	struct vm_params params = {.mem_size = RAM, .pages = MEM_PAGES_SMALL, .ncpus = 1};
	const struct blk_config blk = {.drive_id = (char[]){"d"},
				       .path_on_host = disk,
				       .cache_type = BLK_CACHE_WRITEBACK,
				       .queues = 1,
				       .queue_size = 256,
				       .discard = true};
	const struct fs_config fs = {.tag = (char[]){"t"},
				     .share = {.path = share},
				     .fuse = {.cache = FUSE_CACHE_AUTO},
				     .queues = 1,
				     .queue_size = 64};

	must(!vm_create_bare(&t->vm, &params));
	must(!rng_device.create(t->vm, NULL, 0, &t->dev[0]));
	must(!blk_device.create(t->vm, &blk, 0, &t->dev[1]));
	must(!fs_device.create(t->vm, &fs, 0, &t->dev[2]));
	if (pci)
		must(!pci_host_create(&t->pci, t->vm));
	for (unsigned i = 0; i < NDEV; i++) {
		t->v[i] = container_of(t->dev[i], struct virtio_dev, base);
		must(!virtio_attach(t->v[i], t->vm));
		must(!(pci ? virtio_pci_create(t->v[i], t->vm, t->pci)
			   : virtio_mmio_create(t->v[i], t->vm)));
		must(!virtio_run(t->v[i]));
	}
}

static void destroy(struct target *t)
{
	for (unsigned i = 0; i < NDEV; i++)
		virtio_detach(t->v[i]);
	for (unsigned i = 0; i < NDEV; i++)
		t->dev[i]->destroy(t->dev[i]);
	must(t->vm->mmio.n == (t->pci ? 1 : 0));
	pci_host_destroy(t->pci);
	vm_destroy(t->vm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t = {0};
	struct input in = {data, size};

	create(&t, take(&in, 1) & 1);
	while (in.left)
		step(&t, &in);
	destroy(&t);
	return 0;
}
