// SPDX-License-Identifier: Apache-2.0
/*
 * floor.c - the floor for a VMM: the least software that can serve the payload one disk.
 *
 *   floor POLL_US PAYLOAD.elf CMDLINE DISK [direct]
 *
 * One vCPU, one virtio-mmio window, one device thread, one preadv per request, doorbells by ioeventfd, no interrupts,
 * a serial port that is always ready and reads standard input. direct: the disk with O_DIRECT; one preadv for a request
 * that is alone, io_uring for more.
 * The thread looks at the queue (and the ring) for POLL_US after the last request before it sleeps (0: sleeps at once).
 * What a product needs beside this (checks of what the guest says, above all) is the distance to it, which bench.sh prints.
 * Not for any guest but the payload. Spec: virtio 1.2, 2.7, 4.2, 5.2; Linux boot.rst (64-bit entry).
 */
#include <asm/bootparam.h>
#include <elf.h>
#include <err.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/kvm.h>
#include <linux/serial_reg.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MEM        (64u << 20)
#define WINDOW     0xd0000000u
#define QUEUE_SIZE 256u
#define COM1       0x3f8
#define I8042      0x64
#define ZERO_PAGE  0x7000u
#define PAGE_TABLE 0x9000u
#define CMDLINE    0x20000u
#define VCPUID_MAX 256

static struct {
	uint8_t *mem;
	int disk, kick;
	bool direct;
	uint64_t poll_ns, sectors;
	/* The window's registers. */
	uint32_t features_sel, status, num;
	uint64_t desc, avail, used;
} m;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void *guest(uint64_t a, uint64_t len)
{
	if (a > MEM || len > MEM - a)
		errx(1, "guest address %llx", (unsigned long long)a);
	return m.mem + a;
}

/* ---- the device: all of it on its one thread ---- */

/* By its head, which is not used again before it is answered. */
static struct request {
	uint32_t type;
	off_t off;
	int n;
	struct iovec v[QUEUE_SIZE];
	uint8_t *status;
} requests[QUEUE_SIZE];

struct queue {
	const struct vring_desc *desc;
	const struct vring_avail *avail;
	struct vring_used *used;
	uint16_t next;
	/* With O_DIRECT. */
	struct io_uring ring;
	unsigned in_ring;
	bool kick_in_ring;
	uint64_t kicks;
};

static bool empty(const struct queue *q)
{
	return __atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) == q->next;
}

static struct request *parse(const struct queue *q, uint16_t head)
{
	const struct vring_desc *d = q->desc;
	const struct virtio_blk_outhdr *h = guest(d[head].addr, sizeof(*h));
	struct request *r = &requests[head];
	uint16_t i = d[head].next;

	r->type = h->type;
	r->off = (off_t)h->sector * 512;
	for (r->n = 0; d[i].flags & VRING_DESC_F_NEXT; i = d[i].next)
		r->v[r->n++] = (struct iovec){guest(d[i].addr, d[i].len), d[i].len};
	r->status = guest(d[i].addr, 1);
	return r;
}

static ssize_t transfer(const struct request *r)
{
	if (r->type == VIRTIO_BLK_T_IN)
		return preadv(m.disk, r->v, r->n, r->off);
	return r->type == VIRTIO_BLK_T_OUT ? pwritev(m.disk, r->v, r->n, r->off) : 0;
}

static void answer(struct queue *q, const struct request *r, ssize_t result)
{
	struct vring_used *used = q->used;

	*r->status = result < 0 ? VIRTIO_BLK_S_IOERR : VIRTIO_BLK_S_OK;
	used->ring[used->idx % m.num] = (struct vring_used_elem){
		.id = (uint32_t)(r - requests),
		.len = r->type == VIRTIO_BLK_T_IN ? (uint32_t)result + 1 : 1};
	/* The entry before the index; the guest's load of it is the partner. */
	__atomic_store_n(&used->idx, (uint16_t)(used->idx + 1), __ATOMIC_RELEASE);
}

/* ---- with O_DIRECT, where a call waits for the disk: a ring for requests that come while others are out ---- */

/* With the newest way of running completions that there is, as native.c. */
static void ring_create(struct io_uring *ring)
{
	if (io_uring_queue_init(QUEUE_SIZE, ring,
				IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
					IORING_SETUP_TASKRUN_FLAG) &&
	    io_uring_queue_init(QUEUE_SIZE, ring, 0))
		errx(1, "io_uring is refused");
}

static void ring_add(struct queue *q, struct request *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);

	if (r->type == VIRTIO_BLK_T_IN)
		io_uring_prep_readv(sqe, m.disk, r->v, (unsigned)r->n, (uint64_t)r->off);
	else if (r->type == VIRTIO_BLK_T_OUT)
		io_uring_prep_writev(sqe, m.disk, r->v, (unsigned)r->n, (uint64_t)r->off);
	else
		io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, r);
	q->in_ring++;
}

/* What has come out of the ring, the doorbell too: its completion has no request. */
static bool ring_reap(struct queue *q)
{
	struct io_uring_cqe *cqe;
	bool any = false;

	while (!io_uring_peek_cqe(&q->ring, &cqe)) {
		struct request *r = io_uring_cqe_get_data(cqe);

		if (r) {
			answer(q, r, cqe->res);
			q->in_ring--;
		} else {
			q->kick_in_ring = false;
		}
		io_uring_cqe_seen(&q->ring, cqe);
		any = true;
	}
	return any;
}

static void ring_wait(struct queue *q)
{
	struct io_uring_sqe *sqe;

	if (!q->kick_in_ring) {
		sqe = io_uring_get_sqe(&q->ring);
		io_uring_prep_read(sqe, m.kick, &q->kicks, sizeof(q->kicks), 0);
		io_uring_sqe_set_data(sqe, NULL);
		q->kick_in_ring = true;
	}
	io_uring_submit_and_wait(&q->ring, 1);
}

/* ---- its loop ---- */

/* One that is alone is quicker without the ring. */
static bool take_all(struct queue *q)
{
	bool any = false;

	for (; !empty(q); any = true) {
		struct request *r = parse(q, q->avail->ring[q->next++ % m.num]);

		if (m.direct && (q->in_ring || !empty(q)))
			ring_add(q, r);
		else
			answer(q, r, transfer(r));
	}
	if (any && q->in_ring)
		io_uring_submit(&q->ring);
	return any;
}

/* No doorbells are asked for while the thread is awake. */
static void sleep_until_kicked(struct queue *q)
{
	uint64_t v;

	q->used->flags = 0;
	__atomic_thread_fence(
		__ATOMIC_SEQ_CST); /* the flag before the last look; the guest's fence is the partner */
	if (empty(q)) {
		if (m.direct)
			ring_wait(q);
		else if (read(m.kick, &v, sizeof(v)) != sizeof(v))
			err(1, "eventfd");
	}
	q->used->flags = VRING_USED_F_NO_NOTIFY;
}

static void *serve(void *arg)
{
	struct queue q = {
		.desc = guest(m.desc, QUEUE_SIZE * sizeof(*q.desc)),
		.avail = guest(m.avail, sizeof(*q.avail) + QUEUE_SIZE * 2),
		.used = guest(m.used, sizeof(*q.used) + QUEUE_SIZE * sizeof(q.used->ring[0]))};
	uint64_t idle_since = now_ns();

	if (m.direct)
		ring_create(&q.ring);
	q.used->flags = VRING_USED_F_NO_NOTIFY;
	for (;;) {
		bool any = take_all(&q);

		if (m.direct)
			any |= ring_reap(&q);
		if (!any && m.poll_ns && now_ns() - idle_since < m.poll_ns) {
			__builtin_ia32_pause();
			continue;
		}
		if (!any)
			sleep_until_kicked(&q);
		idle_since = m.poll_ns ? now_ns() : 0;
	}
	return arg;
}

static uint32_t reg_read(uint32_t reg)
{
	switch (reg) {
	case VIRTIO_MMIO_MAGIC_VALUE:
		return 0x74726976;
	case VIRTIO_MMIO_VERSION:
		return 2;
	case VIRTIO_MMIO_DEVICE_ID:
		return VIRTIO_ID_BLOCK;
	case VIRTIO_MMIO_DEVICE_FEATURES:
		return m.features_sel == 1 ? 1u << (VIRTIO_F_VERSION_1 - 32) : 0;
	case VIRTIO_MMIO_QUEUE_NUM_MAX:
		return QUEUE_SIZE;
	case VIRTIO_MMIO_STATUS:
		return m.status;
	case VIRTIO_MMIO_CONFIG:
		return (uint32_t)m.sectors;
	case VIRTIO_MMIO_CONFIG + 4:
		return (uint32_t)(m.sectors >> 32);
	default:
		return 0;
	}
}

/* Addresses are below 4 GiB: their high halves are 0. */
static void reg_write(uint32_t reg, uint32_t v)
{
	pthread_t thread;

	switch (reg) {
	case VIRTIO_MMIO_DEVICE_FEATURES_SEL:
		m.features_sel = v;
		break;
	case VIRTIO_MMIO_QUEUE_NUM:
		m.num = v;
		break;
	case VIRTIO_MMIO_QUEUE_DESC_LOW:
		m.desc = v;
		break;
	case VIRTIO_MMIO_QUEUE_AVAIL_LOW:
		m.avail = v;
		break;
	case VIRTIO_MMIO_QUEUE_USED_LOW:
		m.used = v;
		break;
	case VIRTIO_MMIO_STATUS:
		if (v & ~m.status & VIRTIO_CONFIG_S_DRIVER_OK)
			pthread_create(&thread, NULL, serve, NULL);
		m.status = v;
		break;
	}
}

/* ---- the machine ---- */

static uint64_t load(const char *path)
{
	int fd = open(path, O_RDONLY);
	Elf64_Ehdr e;
	Elf64_Phdr p;

	if (fd < 0 || pread(fd, &e, sizeof(e), 0) != sizeof(e))
		err(1, "%s", path);
	for (unsigned i = 0; i < e.e_phnum; i++) {
		if (pread(fd, &p, sizeof(p), (off_t)(e.e_phoff + i * sizeof(p))) != sizeof(p))
			err(1, "%s", path);
		if (p.p_type != PT_LOAD)
			continue;
		if (pread(fd, guest(p.p_paddr, p.p_memsz), p.p_filesz, (off_t)p.p_offset) !=
		    (ssize_t)p.p_filesz)
			err(1, "%s", path);
	}
	close(fd);
	return e.e_entry;
}

static void write_boot_data(const char *cmdline)
{
	struct boot_params *bp = guest(ZERO_PAGE, sizeof(*bp));
	uint64_t *table = guest(PAGE_TABLE, 3 * 4096);

	bp->hdr.cmd_line_ptr = CMDLINE;
	snprintf(guest(CMDLINE, 2048), 2048, "%s virtio_mmio.device=4K@0x%x:5", cmdline, WINDOW);
	/* The first GiB, identity, in pages of 2 MiB. */
	table[0] = (PAGE_TABLE + 0x1000) | 3;
	table[512] = (PAGE_TABLE + 0x2000) | 3;
	for (uint64_t i = 0; i < 512; i++)
		table[1024 + i] = i << 21 | 0x83;
}

static struct kvm_segment segment(uint16_t selector, uint8_t type)
{
	bool code = type & 8;

	return (struct kvm_segment){.limit = 0xfffff,
				    .selector = selector,
				    .type = type,
				    .present = 1,
				    .s = 1,
				    .l = code,
				    .db = !code,
				    .g = 1};
}

static void set_entry(int kvm, int cpu, uint64_t entry)
{
	struct kvm_regs r = {.rip = entry, .rsi = ZERO_PAGE, .rflags = 2};
	struct kvm_cpuid2 *id = calloc(1, sizeof(*id) + VCPUID_MAX * sizeof(id->entries[0]));
	struct kvm_sregs s;

	id->nent = VCPUID_MAX;
	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, id) || ioctl(cpu, KVM_SET_CPUID2, id) ||
	    ioctl(cpu, KVM_GET_SREGS, &s))
		err(1, "CPUID");
	s.cs = segment(0x10, 11);
	s.ds = s.es = s.fs = s.gs = s.ss = segment(0x18, 3);
	s.cr0 = 0x80000001;
	s.cr3 = PAGE_TABLE;
	s.cr4 = 0x20;
	s.efer = 0x500;
	if (ioctl(cpu, KVM_SET_SREGS, &s) || ioctl(cpu, KVM_SET_REGS, &r))
		err(1, "registers");
	free(id);
}

static int make_machine(int kvm)
{
	struct kvm_userspace_memory_region ram = {.memory_size = MEM};
	struct kvm_ioeventfd doorbell = {.addr = WINDOW + VIRTIO_MMIO_QUEUE_NOTIFY, .len = 4};
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);

	m.mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ram.userspace_addr = (uint64_t)m.mem;
	m.kick = eventfd(0, 0);
	doorbell.fd = m.kick;
	if (vm < 0 || ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000ul) ||
	    ioctl(vm, KVM_SET_USER_MEMORY_REGION, &ram) || ioctl(vm, KVM_IOEVENTFD, &doorbell))
		err(1, "/dev/kvm");
	return vm;
}

static uint8_t port_read(uint16_t p)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	uint8_t v = 0xff;

	if (p == COM1 + UART_LSR)
		return UART_LSR_THRE | UART_LSR_TEMT | (poll(&in, 1, 0) > 0 ? UART_LSR_DR : 0);
	if (p == COM1 && read(STDIN_FILENO, &v, 1) != 1)
		return 0xff;
	return v;
}

/* False: the guest has ended. */
static bool port(const struct kvm_run *run)
{
	uint8_t *data = (uint8_t *)run + run->io.data_offset;
	size_t n = (size_t)run->io.size * run->io.count;

	if (run->io.direction == KVM_EXIT_IO_IN) {
		memset(data, port_read(run->io.port), n);
	} else if (run->io.port == COM1) {
		fwrite(data, 1, n, stdout);
		if (memchr(data, '\n', n))
			fflush(stdout);
	}
	return run->io.direction == KVM_EXIT_IO_IN || run->io.port != I8042;
}

static void memory(struct kvm_run *run)
{
	uint32_t reg = (uint32_t)run->mmio.phys_addr - WINDOW, v = 0;

	memcpy(&v, run->mmio.data, sizeof(v));
	if (run->mmio.is_write) {
		reg_write(reg, v);
		return;
	}
	v = reg_read(reg);
	memcpy(run->mmio.data, &v, sizeof(v));
}

static void run_machine(int cpu, struct kvm_run *run)
{
	while (!ioctl(cpu, KVM_RUN, 0)) {
		if (run->exit_reason == KVM_EXIT_IO) {
			if (!port(run))
				return;
		} else if (run->exit_reason == KVM_EXIT_MMIO) {
			memory(run);
		} else {
			errx(1, "exit reason %u", run->exit_reason);
		}
	}
	err(1, "KVM_RUN");
}

int main(int argc, char **argv)
{
	int kvm = open("/dev/kvm", O_RDWR), vm, cpu;
	struct kvm_run *run;
	struct stat st;

	m.direct = argc == 6 && !strcmp(argv[5], "direct");
	if (argc != 5 && !m.direct)
		errx(2, "usage: floor POLL_US PAYLOAD.elf CMDLINE DISK [direct]");
	m.poll_ns = strtoull(argv[1], NULL, 10) * 1000;
	m.disk = open(argv[4], O_RDWR | (m.direct ? O_DIRECT : 0));
	if (m.disk < 0 || fstat(m.disk, &st))
		err(1, "%s", argv[4]);
	m.sectors = (uint64_t)st.st_size / 512;
	if (kvm < 0)
		err(1, "/dev/kvm");
	vm = make_machine(kvm);
	cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	run = mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
		   MAP_SHARED, cpu, 0);
	if (cpu < 0 || run == MAP_FAILED)
		err(1, "vCPU");
	write_boot_data(argv[3]);
	set_entry(kvm, cpu, load(argv[2]));
	run_machine(cpu, run);
	return 0;
}
