// SPDX-License-Identifier: Apache-2.0
/*
 * t_hostile.c - what a guest can do that must hold up neither a vCPU nor a reset nor the end, and must not get out.
 *
 * A fault here is a hang more often than a wrong value, so that each case runs in a process of its own with an alarm:
 * dying of that is how it fails. Cases with an iothread run on both engines. The guest needs no vCPU: what it does lies
 * in its memory, or is written to the bus by the test.
 */
#include "bounded.h"
#include "fakeguest.h"
#include "fuse_door.h"
#include "../devices/pci.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include "../devices/virtio_fs.h"
#include "../vmm/arch.h"
#include <fcntl.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_mmio.h>
#include <sys/eventfd.h>

static uint16_t used_idx(struct fg_queue *q)
{
	struct vring_used *used = fg_ptr(q->fg, q->used, sizeof(*used));

	/* Acquire: pairs with the release of the device's publish(). */
	return le16toh(__atomic_load_n(&used->idx, __ATOMIC_ACQUIRE));
}

/* ---- a disk ---- */

#define SECTORS 65536u /* one for each value of avail.idx: 32 MiB */

static char disk[PATH_MAX];

/*
 * Sector k says that k + 2 chains have been published, and that the next sector to be read is k + 1: see
 * feed_itself().
 */
static void disk_make(void)
{
	const char *tmp = getenv("TMPDIR");
	uint8_t *all = calloc(SECTORS, 512);
	int fd;

	snprintf(disk, sizeof(disk), "%s/t_hostile.XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(disk);
	need(fd >= 0 && all);
	for (uint32_t k = 0; k < SECTORS; k++) {
		const uint16_t idx = htole16((uint16_t)(k + 2));
		const uint64_t next = htole64((k + 1) % SECTORS);

		memcpy(all + 512ull * k, &idx, 2);
		memcpy(all + 512ull * k + 2, &next, 8);
	}
	need(write(fd, all, 512ull * SECTORS) == (ssize_t)(512ull * SECTORS));
	free(all);
	close(fd);
}

static struct fakeguest *guest_with_disk(uint64_t mem, uint64_t features, uint16_t size)
{
	struct blk_config cfg = {.drive_id = (char[]){"d"},
				 .path_on_host = disk,
				 .queues = 1,
				 .queue_size = 256,
				 .discard = true};
	struct fakeguest *fg = fg_create(mem);
	struct device *d;

	need(!blk_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, features, size);
	return fg;
}

/* ---- a ring that the device itself keeps filling ---- */

/*
 * One chain, made available over and over by what it reads: two bytes of each sector go into avail.idx, eight into the
 * sector number of the chain's own header. Returns when it goes on by itself.
 */
static struct fakeguest *feed_itself(void)
{
	const struct virtio_blk_outhdr hdr = {.type = htole32(VIRTIO_BLK_T_IN)};
	struct fakeguest *fg = guest_with_disk(MIB(16), 0, 64);
	struct fg_queue *q = &fg->q[0];
	uint64_t h = fg_alloc(fg, sizeof(hdr), 16), rest = fg_alloc(fg, 512, 16);

	memcpy(fg_ptr(fg, h, sizeof(hdr)), &hdr, sizeof(hdr));
	fg_desc(q, 0, h, sizeof(hdr), VRING_DESC_F_NEXT, 1);
	fg_desc(q, 1, q->avail + 2, 2, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 2);
	fg_desc(q, 2, h + offsetof(struct virtio_blk_outhdr, sector), 8,
		VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 3);
	fg_desc(q, 3, rest, 502, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 4);
	fg_desc(q, 4, rest + 502, 1, VRING_DESC_F_WRITE, 0);
	fg_avail_push(q, 0);
	fg_kick(q);
	wait_until(used_idx(q) >= 100);
	return fg;
}

static bool reset_of_feeding(void)
{
	struct fakeguest *fg = feed_itself();

	fg_reset(fg);
	fg_destroy(fg);
	return true;
}

static bool end_of_feeding(void)
{
	fg_destroy(feed_itself());
	return true;
}

/* ---- requests that are large and many ---- */

/* Read from the page cache without going through a pool: only then is one request served after another. */
static bool served_in_turn(void)
{
	int fd = open(disk, O_RDONLY | O_CLOEXEC);
	struct iovec iov = {(char[1]){0}, 1};
	ssize_t n = preadv2(fd, &iov, 1, 0, RWF_NOWAIT);

	close(fd);
	return n == 1;
}

/* All 256 heads share one table: header, the whole disk, status. */
static void publish_large(struct fakeguest *fg)
{
	const struct virtio_blk_outhdr hdr = {.type = htole32(VIRTIO_BLK_T_IN)};
	const uint32_t len = 512 * SECTORS;
	struct fg_queue *q = &fg->q[0];
	uint64_t h = fg_alloc(fg, sizeof(hdr), 16), status = fg_alloc(fg, 1, 1);
	uint64_t buf = fg_alloc(fg, len, 4096);
	const struct vring_desc table[] = {
		{htole64(h), htole32(sizeof(hdr)), htole16(VRING_DESC_F_NEXT), htole16(1)},
		{htole64(buf), htole32(len), htole16(VRING_DESC_F_WRITE | VRING_DESC_F_NEXT),
		 htole16(2)},
		{htole64(status), htole32(1), htole16(VRING_DESC_F_WRITE), 0},
	};
	uint64_t at = fg_alloc(fg, sizeof(table), 16);

	memcpy(fg_ptr(fg, h, sizeof(hdr)), &hdr, sizeof(hdr));
	memcpy(fg_ptr(fg, at, sizeof(table)), table, sizeof(table));
	for (uint16_t i = 0; i < q->size; i++) {
		fg_desc(q, i, at, sizeof(table), VRING_DESC_F_INDIRECT, 0);
		fg_avail_push(q, i);
	}
}

static bool reset_of_large(void)
{
	struct fakeguest *fg = guest_with_disk(MIB(64), 1ull << VIRTIO_RING_F_INDIRECT_DESC, 256);
	struct fg_queue *q = &fg->q[0];
	unsigned served;

	publish_large(fg);
	fg_kick(q);
	wait_until(used_idx(q) > 0);
	fg_reset(fg);
	served = used_idx(q);
	printf("#   %u of %u were served\n", served, q->size);
	fg_destroy(fg);
	return served < 256;
}

/* ---- a share that holds a procfs ---- */

static uint64_t find_under(uint64_t node, const char *path)
{
	char name[NAME_MAX + 1];

	while (*path) {
		size_t n = strcspn(path, "/");

		snprintf(name, sizeof(name), "%.*s", (int)n, path);
		node = find(node, name);
		path += n + (path[n] == '/');
	}
	return node;
}

static int open_of(const char *path)
{
	struct fuse_open_out o;

	return ask_open_as(FUSE_OPEN, find_under(ROOT, path), O_RDONLY, &o);
}

/* The guest learns our process id from the link that /proc/self is, and then asks for our memory. */
static bool own_memory_by_proc(void)
{
	char self[32] = "", path[64];
	int mem, kmsg, plain, dir;
	struct fuse_open_out o;

	door_open_at("/", BY_MODE, true);
	session();
	need(ask(FUSE_READLINK, find_under(ROOT, "proc/self"), NULL, 0, self, sizeof(self) - 1) >
	     0);
	need(atoi(self) == getpid());
	snprintf(path, sizeof(path), "proc/%s/mem", self);
	mem = open_of(path);
	kmsg = open_of("proc/kmsg");
	plain = open_of("etc/passwd");
	dir = ask_open_as(FUSE_OPENDIR, find_under(ROOT, "proc"), 0, &o);
	printf("#   mem %d, kmsg %d, a file %d, /proc itself %d\n", mem, kmsg, plain, dir);
	door_close();
	return mem == -EACCES && kmsg == -EACCES && plain == sizeof(o) && dir == sizeof(o);
}

/* ---- the doorbell of a device whose queue 0 is not used ---- */

static void mm(struct vm *vm, uint64_t off, uint64_t v)
{
	uint8_t b[4];

	bus_store(b, 4, v);
	bus_write(&vm->mmio, ARCH_MMIO_BASE + off, b, 4);
}

static void start_queue_1(struct fg_queue *q)
{
	struct vm *vm = q->fg->vm;

	fg_ring(q, 64);
	mm(vm, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
	mm(vm, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
	mm(vm, VIRTIO_MMIO_DRIVER_FEATURES, 1u << (VIRTIO_F_VERSION_1 - 32));
	mm(vm, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_FEATURES_OK);
	mm(vm, VIRTIO_MMIO_QUEUE_SEL, 1);
	mm(vm, VIRTIO_MMIO_QUEUE_NUM, q->size);
	mm(vm, VIRTIO_MMIO_QUEUE_DESC_LOW, q->desc);
	mm(vm, VIRTIO_MMIO_QUEUE_AVAIL_LOW, q->avail);
	mm(vm, VIRTIO_MMIO_QUEUE_USED_LOW, q->used);
	mm(vm, VIRTIO_MMIO_QUEUE_READY, 1);
	mm(vm, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_DRIVER_OK);
}

static void publish_nonsense(struct fg_queue *q)
{
	const struct fuse_in_header h = {.len = sizeof(h), .opcode = 9999, .unique = 3};
	uint64_t buf = fg_alloc(q->fg, 256, 16);

	memcpy(fg_ptr(q->fg, buf, sizeof(h)), &h, sizeof(h));
	fg_desc(q, 0, buf, sizeof(h), VRING_DESC_F_NEXT, 1);
	fg_desc(q, 1, buf + 64, 64, VRING_DESC_F_WRITE, 0);
	fg_avail_push(q, 0);
}

static bool doorbell_without_queue_0(void)
{
	struct fs_config cfg = {.tag = (char[]){"t"},
				.share = {.path = (char[]){"/tmp"}},
				.fuse = BY_MODE,
				.queues = 1,
				.queue_size = 64};
	struct fakeguest *fg = fg_create(MIB(16));
	struct fg_queue *q = &fg->q[1];
	struct device *d;

	need(!fs_device.create(fg->vm, &cfg, 0, &d));
	fg->dev = container_of(d, struct virtio_dev, base);
	need(!virtio_attach(fg->dev, fg->vm) && !virtio_mmio_create(fg->dev, fg->vm) &&
	     !virtio_run(fg->dev));
	start_queue_1(q);
	/* The start looks into the ring once; the second request is found by the doorbell only. */
	publish_nonsense(q);
	fg_kick(q);
	wait_until(used_idx(q) == 1);
	publish_nonsense(q);
	/* What KVM does for a write of 1 to QueueNotify. */
	need(!eventfd_write(fg->dev->vq[1].kick_fd, 1));
	wait_until(used_idx(q) == 2);
	fg_destroy(fg);
	return true;
}

/* ---- nobody reads standard error ---- */

/* BAR 1 onto BAR 0: a warning that a guest can provoke. */
static void provoke(struct vm *vm)
{
	const uint64_t config = ARCH_ECAM_BASE + (1 << 15);
	uint8_t b[4];

	for (unsigned on = 0; on < 2; on++) {
		bus_store(b, 4, ARCH_PCI32_BASE);
		bus_write(&vm->mmio, config + PCI_BASE_ADDRESS_0, b, 4);
		bus_write(&vm->mmio, config + PCI_BASE_ADDRESS_1, b, 4);
		bus_store(b, 2, on ? PCI_COMMAND_MEMORY : 0);
		bus_write(&vm->mmio, config + PCI_COMMAND, b, 2);
	}
}

/* From now on a line has nowhere to go. */
static void fill(int pipe_end)
{
	need(!fcntl(pipe_end, F_SETFL, O_NONBLOCK));
	while (write(pipe_end, "x", 1) == 1)
		;
	need(!fcntl(pipe_end, F_SETFL, 0));
}

static bool stderr_is_full(void)
{
	struct fakeguest *fg = fg_create(MIB(1));
	int p[2], saved = dup(STDERR_FILENO);
	struct pci_host *pci = NULL;
	char line[512] = "";
	struct device *d;

	need(!rng_device.create(fg->vm, NULL, 0, &d));
	fg->dev = container_of(d, struct virtio_dev, base);
	need(!virtio_attach(fg->dev, fg->vm) && !pci_host_create(&pci, fg->vm) &&
	     !virtio_pci_create(fg->dev, fg->vm, pci));
	need(!pipe2(p, O_CLOEXEC) && dup2(p[1], STDERR_FILENO) == STDERR_FILENO);
	log_set_patience(0);
	provoke(fg->vm);
	need(read(p[0], line, sizeof(line) - 1) > 0 && strstr(line, "BAR"));
	fill(p[1]);
	for (unsigned i = 0; i < 1000; i++)
		provoke(fg->vm);
	need(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
	virtio_detach(fg->dev);
	pci_host_destroy(pci);
	fg_destroy(fg);
	return true;
}

/* ---- all ---- */

static bool engine_works(const char *engine)
{
	struct iothread *io = NULL;
	int r = iothread_create(&io, "try", strcmp(engine, "uring") ? LOOP_EPOLL : LOOP_URING, 8,
				NULL);

	iothread_destroy(io);
	return !r;
}

static void on_engine(const char *engine)
{
	if (!engine_works(engine)) {
		skip("this host refuses it", "the %s engine", engine);
		return;
	}
	setenv("WHERRY_ENGINE", engine, 1);
	ok(bounded(reset_of_feeding), "%s: a ring that feeds itself does not hold up a reset",
	   engine);
	ok(bounded(end_of_feeding), "%s: nor the end of the machine", engine);
	if (served_in_turn())
		ok(bounded(reset_of_large),
		   "%s: a reset waits for the request that is running, not for all in the ring",
		   engine);
	else
		skip("the file system of TMPDIR has no RWF_NOWAIT", "%s: reset of large requests",
		     engine);
	ok(bounded(own_memory_by_proc), "%s: a share of / does not open the memory of the VMM",
	   engine);
	ok(bounded(doorbell_without_queue_0), "%s: the doorbell of virtio-mmio needs no queue 0",
	   engine);
}

int main(void)
{
	disk_make();
	need(!sandbox_init());
	on_engine("uring");
	on_engine("epoll");
	ok(bounded(stderr_is_full), "a standard error that nobody reads does not hold a vCPU");
	unlink(disk);
	return done();
}
