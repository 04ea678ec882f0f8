// SPDX-License-Identifier: Apache-2.0
/*
 * t_storm.c - several vCPUs that write registers of the same devices at once: start, reset, kicks, BARs, vectors, rings.
 *
 * For the thread sanitizer, and for what never comes back: an alarm ends it. Nothing is judged but that it ends.
 */
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
#include <time.h>

#define NDEV 3u
#define NCPU 3u
#define RING 32u

static struct vm *vm;
static struct pci_host *pci;
static struct device *dev[NDEV];
static struct virtio_dev *v[NDEV];
static bool stop;

static uint32_t rnd(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

static uint64_t rd(uint64_t addr, unsigned len)
{
	uint8_t b[8] = {0};

	bus_read(&vm->mmio, addr, b, len);
	return bus_load(b, len);
}

static void wr(uint64_t addr, unsigned len, uint64_t val)
{
	uint8_t b[8];

	bus_store(b, 8, val);
	bus_write(&vm->mmio, addr, b, len);
}

static uint64_t ecam(unsigned i)
{
	return ARCH_ECAM_BASE + ((uint64_t)(i + 1) << 15);
}

static uint64_t regs(unsigned i)
{
	return pci ? rd(ecam(i) + PCI_BASE_ADDRESS_0, 4) & ~0xfull : ARCH_MMIO_BASE + 0x1000ull * i;
}

static void reg(unsigned i, unsigned off, unsigned len, unsigned moff, uint64_t val)
{
	if (pci)
		wr(regs(i) + off, len, val);
	else
		wr(regs(i) + moff, 4, val);
}
#define STATUS(i, s) reg(i, VIRTIO_PCI_COMMON_STATUS, 1, VIRTIO_MMIO_STATUS, s)

static uint64_t ring_at(unsigned i, unsigned q)
{
	return i * 0x4000 + q * 0x2000;
}

static void start(unsigned i, uint32_t *s)
{
	if (pci)
		wr(ecam(i) + PCI_COMMAND, 2, PCI_COMMAND_MEMORY);
	STATUS(i, 0);
	STATUS(i, 3);
	reg(i, VIRTIO_PCI_COMMON_GFSELECT, 4, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0);
	reg(i, VIRTIO_PCI_COMMON_GF, 4, VIRTIO_MMIO_DRIVER_FEATURES, (rnd(s) & 3ull) << 28);
	reg(i, VIRTIO_PCI_COMMON_GFSELECT, 4, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
	reg(i, VIRTIO_PCI_COMMON_GF, 4, VIRTIO_MMIO_DRIVER_FEATURES, 1);
	STATUS(i, 11);
	for (unsigned q = 0; q < v[i]->nqueues; q++) {
		uint64_t at = ring_at(i, q);

		reg(i, VIRTIO_PCI_COMMON_Q_SELECT, 2, VIRTIO_MMIO_QUEUE_SEL, q);
		reg(i, VIRTIO_PCI_COMMON_Q_SIZE, 2, VIRTIO_MMIO_QUEUE_NUM, RING);
		reg(i, VIRTIO_PCI_COMMON_Q_DESCLO, 4, VIRTIO_MMIO_QUEUE_DESC_LOW, at);
		reg(i, VIRTIO_PCI_COMMON_Q_AVAILLO, 4, VIRTIO_MMIO_QUEUE_AVAIL_LOW, at + 0x400);
		reg(i, VIRTIO_PCI_COMMON_Q_USEDLO, 4, VIRTIO_MMIO_QUEUE_USED_LOW, at + 0x800);
		reg(i, VIRTIO_PCI_COMMON_Q_MSIX, 2, VIRTIO_MMIO_VENDOR_ID, q);
		reg(i, VIRTIO_PCI_COMMON_Q_ENABLE, 2, VIRTIO_MMIO_QUEUE_READY, 1);
	}
	STATUS(i, 15);
}

__attribute__((no_sanitize("thread"))) static void publish(unsigned i, uint32_t *s)
{
	unsigned q = rnd(s) % v[i]->nqueues;
	uint64_t at = ring_at(i, q), buf = at + 0xc00;
	uint8_t *p = mem_span(vm->mem, GPA(at), 0x2000);
	uint16_t head = (uint16_t)(rnd(s) % (RING - 1)), *idx = (uint16_t *)(void *)(p + 0x402);
	struct vring_desc *d = (struct vring_desc *)(void *)p + head;
	struct virtio_blk_outhdr blk = {.type = rnd(s) % 5, .sector = rnd(s) % 8};
	struct fuse_in_header fuse = {.len = 48, .opcode = rnd(s) % 30, .nodeid = 1};

	if (i == 1)
		memcpy(p + 0xc00, &blk, sizeof(blk));
	else
		memcpy(p + 0xc00, &fuse, sizeof(fuse));
	d[0] = (struct vring_desc){buf, i == 1 ? 16 : 48, VRING_DESC_F_NEXT, (uint16_t)(head + 1)};
	d[1] = (struct vring_desc){buf + 0x400, 513, VRING_DESC_F_WRITE, 0};
	((uint16_t *)(void *)(p + 0x404))[*idx % RING] = head;
	__atomic_fetch_add(idx, 1, __ATOMIC_RELEASE);
	if (pci)
		wr(regs(i) + 0x3000 + 4 * q, 2, q);
	else
		wr(regs(i) + VIRTIO_MMIO_QUEUE_NOTIFY, 4, q);
}

static void *vcpu(void *arg)
{
	uint32_t seed = (uint32_t)(uintptr_t)arg * 2654435761u, *s = &seed;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		unsigned i = rnd(s) % NDEV, op = rnd(s) % 16;

		if (op < 2)
			start(i, s);
		else if (op < 10)
			publish(i, s);
		else if (op == 10)
			STATUS(i, rnd(s) % 16);
		else if (op == 11)
			STATUS(i, 0);
		else if (op == 12)
			rd(regs(i) + rnd(s) % 0x4000, 1u << rnd(s) % 4);
		else if (op == 13 && pci)
			wr(ecam(i) + PCI_BASE_ADDRESS_0 + 4 * (rnd(s) & 1), 4,
			   ARCH_PCI32_BASE + ((uint64_t)(rnd(s) % 16) << 14));
		else if (op == 14 && pci)
			wr(ecam(i) + 0x42 + rnd(s) % 0x80, 4, rnd(s));
		else if (pci)
			wr((rd(ecam(i) + PCI_BASE_ADDRESS_1, 4) & ~0xfull) + 4 * (rnd(s) % 12), 4,
			   rnd(s));
		else
			wr(regs(i) + rnd(s) % 0x110, 4, rnd(s));
	}
	return NULL;
}

static void storm(bool with_pci, unsigned ms)
{
	static char path[] = "/tmp/t_storm.XXXXXX", dirs[] = "/tmp/t_storm_d.XXXXXX";
	struct vm_params params = {.mem_size = MIB(1), .pages = MEM_PAGES_SMALL, .ncpus = NCPU};
	struct blk_config blk = {.drive_id = (char[]){"d"}, .path_on_host = path};
	struct fs_config fs = {.tag = (char[]){"t"},
			       .share = {.path = dirs},
			       .fuse = {FUSE_CACHE_AUTO, UINT32_MAX, UINT32_MAX, UINT32_MAX},
			       .queue_size = 64};
	pthread_t t[NCPU];
	static int fd = -1;

	if (fd < 0) {
		fd = mkstemp(path);
		need(fd >= 0 && !ftruncate(fd, MIB(1)) && mkdtemp(dirs));
	}
	stop = false;
	pci = NULL;
	need(!vm_create_bare(&vm, &params));
	need(!rng_device.create(vm, NULL, 0, &dev[0]));
	need(!blk_device.create(vm, &blk, 0, &dev[1]));
	need(!fs_device.create(vm, &fs, 0, &dev[2]));
	if (with_pci)
		need(!pci_host_create(&pci, vm));
	for (unsigned i = 0; i < NDEV; i++) {
		v[i] = container_of(dev[i], struct virtio_dev, base);
		need(!virtio_attach(v[i], vm));
		need(!(pci ? virtio_pci_create(v[i], vm, pci) : virtio_mmio_create(v[i], vm)));
		need(!virtio_run(v[i]));
	}
	for (uintptr_t i = 0; i < NCPU; i++)
		need(!pthread_create(&t[i], NULL, vcpu, (void *)(i + 1)));
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < NCPU; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < NDEV; i++)
		virtio_detach(v[i]);
	for (unsigned i = 0; i < NDEV; i++)
		dev[i]->destroy(dev[i]);
	pci_host_destroy(pci);
	vm_destroy(vm);
	ok(1, "%s: a storm of register writes passes", with_pci ? "pci" : "mmio");
}

int main(void)
{
	const char *ms = getenv("STORM_MS");

	log_set_level(LOG_ERR);
	alarm(100);
	storm(true, ms ? (unsigned)atoi(ms) : 1000);
	storm(false, ms ? (unsigned)atoi(ms) : 1000);
	return done();
}
