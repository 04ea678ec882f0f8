// SPDX-License-Identifier: Apache-2.0
/*
 * t_hostile.c - what a guest can do that must neither hold a reset, nor the end of the machine, nor the escape key.
 *
 * Each test runs in a process of its own with an alarm: a fault here is a hang, and the alarm is how it is seen.
 */
#include "fakeguest.h"
#include "tap.h"
#include "../devices/serial.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include "../devices/virtio_fs.h"
#include "../vmm/arch.h"
#include "../vmm/sandbox.h"
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_mmio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

static void nap(long ms)
{
	const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* fn in a child that is killed after the given time; true if it came to its end and said yes. */
static bool bounded(bool (*fn)(void), unsigned seconds)
{
	int status = 0;
	pid_t pid = fork();

	need(pid >= 0);
	if (!pid) {
		alarm(seconds);
		_exit(fn() ? 0 : 1);
	}
	need(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		printf("#   ended by signal %d (14: it hung)\n", WTERMSIG(status));
	else if (WEXITSTATUS(status) > 1)
		printf("#   exit status %d\n", WEXITSTATUS(status));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* ---- a ring that the device itself keeps filling ---- */

/*
 * One chain, made available over and over by what it reads: two bytes of each sector go into avail.idx, eight into the
 * sector number of the chain's own header. No vCPU is needed to keep it going.
 */
#define SECTORS 65536u

static int selffeeding_disk(char *path)
{
	int fd = mkstemp(path);
	uint8_t *all = calloc(SECTORS, 512);

	need(fd >= 0 && all);
	for (uint32_t k = 0; k < SECTORS; k++) {
		const uint16_t idx = htole16((uint16_t)(k + 2));
		const uint64_t next = htole64((k + 1) % SECTORS);

		memcpy(all + 512ull * k, &idx, 2);
		memcpy(all + 512ull * k + 2, &next, 8);
	}
	need(write(fd, all, 512ull * SECTORS) == (ssize_t)(512ull * SECTORS));
	free(all);
	return fd;
}

static struct fakeguest *selffeeding(char *path)
{
	struct blk_config cfg = {.drive_id = (char[]){"d"}, .path_on_host = path};
	struct fakeguest *fg = fg_create(MIB(16));
	const struct virtio_blk_outhdr hdr = {.type = htole32(VIRTIO_BLK_T_IN)};
	struct fg_queue *q = &fg->q[0];
	uint64_t h, rest;
	struct device *d;

	need(!blk_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, 0, 64);
	h = fg_alloc(fg, 16, 16);
	rest = fg_alloc(fg, 512, 16);
	memcpy(fg_ptr(fg, h, 16), &hdr, sizeof(hdr));
	fg_desc(q, 0, h, 16, VRING_DESC_F_NEXT, 1);
	fg_desc(q, 1, q->avail + 2, 2, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 2);
	fg_desc(q, 2, h + 8, 8, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 3);
	fg_desc(q, 3, rest, 502, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 4);
	fg_desc(q, 4, rest + 502, 1, VRING_DESC_F_WRITE, 0);
	fg_avail_push(q, 0);
	fg_kick(q);
	return fg;
}

static char disk[64];

static bool reset_of_selffeeding(void)
{
	struct fakeguest *fg = selffeeding(disk);
	struct vring_used *used = fg_ptr(fg, fg->q[0].used, 4);
	uint16_t a, b;

	nap(200);
	a = __atomic_load_n(&used->idx, __ATOMIC_RELAXED);
	nap(50);
	b = __atomic_load_n(&used->idx, __ATOMIC_RELAXED);
	printf("#   used.idx goes on by itself: %u, then %u\n", a, b);
	fflush(stdout);
	fg_reset(fg);
	return true;
}

static bool end_of_selffeeding(void)
{
	struct fakeguest *fg = selffeeding(disk);

	nap(200);
	fg_destroy(fg);
	return true;
}

/* ---- requests that are large and many: a reset waits for the one that is running, not for all ---- */

static bool reset_of_large(void)
{
	struct blk_config cfg = {.drive_id = (char[]){"d"}, .path_on_host = disk};
	struct fakeguest *fg = fg_create(MIB(64));
	struct virtio_blk_outhdr hdr = {.type = htole32(VIRTIO_BLK_T_IN)};
	struct fg_queue *q = &fg->q[0];
	struct timespec t0, t1;
	uint64_t h, buf, table;
	struct device *d;
	double s;

	need(!blk_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, 1ull << VIRTIO_RING_F_INDIRECT_DESC, 256);
	h = fg_alloc(fg, 16, 16);
	buf = fg_alloc(fg, MIB(32), 4096);
	table = fg_alloc(fg, 16 * 4, 16);
	memcpy(fg_ptr(fg, h, 16), &hdr, sizeof(hdr));
	/* All 256 heads share one table: header, the whole disk (32 MiB), status. */
	{
		struct vring_desc *t = fg_ptr(fg, table, 48);

		t[0] = (struct vring_desc){htole64(h), 16, VRING_DESC_F_NEXT, 1};
		t[1] = (struct vring_desc){htole64(buf), (uint32_t)MIB(32),
					   VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 2};
		t[2] = (struct vring_desc){htole64(h + 8), 1, VRING_DESC_F_WRITE, 0};
	}
	for (uint16_t i = 0; i < 256; i++) {
		fg_desc(q, i, table, 48, VRING_DESC_F_INDIRECT, 0);
		fg_avail_push(q, i);
	}
	fg_kick(q);
	nap(20);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	fg_reset(fg);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
	printf("#   reset took %.3f s\n", s);
	fflush(stdout);
	return s < 0.5;
}

/* ---- a file whose read never ends ---- */

static uint64_t unique;

static int ask(struct fakeguest *fg, uint32_t op, uint64_t node, const void *arg, uint32_t n,
	       void *out, uint32_t room)
{
	uint8_t rd[512], wr[8192];
	struct fuse_in_header h = {
		.len = 40 + n, .opcode = op, .unique = unique += 2, .nodeid = node};
	struct fuse_out_header o;
	long used;

	memcpy(rd, &h, sizeof(h));
	memcpy(rd + 40, arg, n);
	used = fg_call(&fg->q[1], rd, 40 + n, wr, 16 + room);
	if (used < 16)
		return -1000;
	memcpy(&o, wr, sizeof(o));
	memcpy(out, wr + 16, (size_t)used - 16);
	return o.error;
}

static bool end_of_endless_read(void)
{
	struct fs_config cfg = {.tag = (char[]){"t"},
				.share = {.path = (char[]){"/"}, .readonly = true},
				.fuse = {FUSE_CACHE_AUTO, UINT32_MAX, UINT32_MAX, UINT32_MAX},
				.queue_size = 64};
	const struct fuse_init_in init = {.major = 7, .minor = 31};
	const struct fuse_open_in open_in = {.flags = O_RDONLY};
	struct fuse_read_in read_in = {.size = 4096};
	struct fakeguest *fg = fg_create(MIB(16));
	uint8_t out[8192];
	struct fuse_entry_out e;
	struct fuse_open_out o;
	struct device *d;
	uint64_t node = 1;

	need(!fs_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, 0, 64);
	need(!ask(fg, FUSE_INIT, 0, &init, 16, out, 64));
	need(!ask(fg, FUSE_LOOKUP, node, "proc", 5, &e, sizeof(e)));
	node = e.nodeid;
	need(!ask(fg, FUSE_LOOKUP, node, "kmsg", 5, &e, sizeof(e)));
	if (ask(fg, FUSE_OPEN, e.nodeid, &open_in, sizeof(open_in), &o, sizeof(o))) {
		printf("#   /proc/kmsg cannot be opened here\n");
		return true;
	}
	read_in.fh = o.fh;
	/* What is in the log first, then one that waits. */
	for (unsigned i = 0; i < 3000; i++) {
		uint8_t rd[80];
		struct fuse_in_header h = {
			.len = 80, .opcode = FUSE_READ, .unique = 7, .nodeid = e.nodeid};
		struct fg_buf r = {rd, 80}, w[1] = {{NULL, 16 + 4096}};
		struct vring_used *used = fg_ptr(fg, fg->q[1].used, 4);
		unsigned ms = 0;

		memcpy(rd, &h, 40);
		memcpy(rd + 40, &read_in, 40);
		fg_add(&fg->q[1], &r, 1, w, 1, NULL);
		while (__atomic_load_n(&used->idx, __ATOMIC_ACQUIRE) == fg->q[1].used_seen &&
		       ms < 300)
			nap(ms += 1);
		if (ms >= 300)
			break;
		fg_used(&fg->q[1], NULL);
	}
	fg_destroy(fg);
	return true;
}

/* ---- a share that holds a procfs: the way to our own memory ---- */

static char secret[] = "this is the memory of the VMM, not a file of the share";

static bool own_memory_by_proc(void)
{
	struct fs_config cfg = {.tag = (char[]){"t"},
				.share = {.path = (char[]){"/"}, .readonly = true},
				.fuse = {FUSE_CACHE_AUTO, UINT32_MAX, UINT32_MAX, UINT32_MAX},
				.queue_size = 64};
	const struct fuse_init_in init = {.major = 7, .minor = 31};
	const struct fuse_open_in open_in = {.flags = O_RDONLY};
	struct fuse_read_in read_in = {.size = sizeof(secret), .offset = (uintptr_t)secret};
	struct fakeguest *fg = fg_create(MIB(16));
	uint8_t out[8192] = {0};
	char link[64] = "";
	struct fuse_entry_out e;
	struct fuse_open_out o;
	struct device *d;
	int r;

	need(!fs_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, 0, 64);
	need(!ask(fg, FUSE_INIT, 0, &init, 16, out, 64));
	need(!ask(fg, FUSE_LOOKUP, 1, "proc", 5, &e, sizeof(e)));
	o.fh = e.nodeid;
	/* The guest is told our process id by the link "self". */
	need(!ask(fg, FUSE_LOOKUP, o.fh, "self", 5, &e, sizeof(e)));
	r = ask(fg, FUSE_READLINK, e.nodeid, "", 0, link, sizeof(link));
	printf("#   readlink of /proc/self by the guest: %d, %s (we are %d)\n", r, link, getpid());
	need(!ask(fg, FUSE_LOOKUP, o.fh, link, (uint32_t)strlen(link) + 1, &e, sizeof(e)));
	need(!ask(fg, FUSE_LOOKUP, e.nodeid, "mem", 4, &e, sizeof(e)));
	r = ask(fg, FUSE_OPEN, e.nodeid, &open_in, sizeof(open_in), &o, sizeof(o));
	if (!r) {
		read_in.fh = o.fh;
		memset(out, 0, sizeof(out));
		r = ask(fg, FUSE_READ, e.nodeid, &read_in, sizeof(read_in), out, sizeof(secret));
		printf("#   read by the guest: %d, \"%s\"\n", r, (char *)out);
	}
	fflush(stdout);
	fg_destroy(fg);
	return r != 0 || memcmp(out, secret, sizeof(secret)) != 0;
}

/* ---- the escape ---- */

static void out8(struct vm *vm, uint16_t port, uint8_t v)
{
	bus_write(&vm->pio, port, &v, 1);
}

/* The guest loops its transmitter back until the receiver is full, and never reads. */
static bool escape_with_full_receiver(void)
{
	struct serial_config cfg = {.input = true};
	struct vm_params params = {.mem_size = MIB(2), .pages = MEM_PAGES_SMALL, .ncpus = 1};
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	struct termios raw;
	struct device *d;
	struct vm *vm;

	need(master >= 0 && !grantpt(master) && !unlockpt(master));
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	need(slave >= 0 && !tcgetattr(slave, &raw));
	cfmakeraw(&raw);
	tcsetattr(slave, TCSANOW, &raw);
	dup2(slave, STDIN_FILENO);
	need(!vm_create_bare(&vm, &params));
	need(!serial_device.create(vm, &cfg, 0, &d));
	need(!d->run(d));
	nap(50);
	out8(vm, 0x3f8 + 4, 0x10);
	for (unsigned i = 0; i < 5000; i++)
		out8(vm, 0x3f8, 'x');
	need(write(master, "\001x", 2) == 2);
	for (unsigned i = 0; i < 100 && vm_get_end(vm) == VM_RUNNING; i++)
		nap(10);
	return vm_get_end(vm) == VM_USER;
}

/* The terminal's mode is changed by someone else (stty in another window, a job of the same shell). */
static bool mode_of_terminal_changes(void)
{
	struct serial_config cfg = {.input = true};
	struct vm_params params = {.mem_size = MIB(2), .pages = MEM_PAGES_SMALL, .ncpus = 1};
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	struct termios t;
	struct device *d;
	struct vm *vm;

	need(master >= 0 && !grantpt(master) && !unlockpt(master));
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	need(slave >= 0 && !tcgetattr(slave, &t));
	dup2(slave, STDIN_FILENO);
	need(!vm_create_bare(&vm, &params));
	need(!serial_device.create(vm, &cfg, 0, &d));
	need(!d->run(d));
	nap(50);
	for (unsigned i = 0; i < 20; i++) {
		t.c_lflag ^= ICANON;
		tcsetattr(slave, TCSANOW, &t);
		nap(5);
	}
	return true;
}

/* A terminal that takes a little at a time wakes its writer when there is no room yet. */
#define SLOW_BYTES 400000u

static bool slow_terminal(void)
{
	struct serial_config cfg = {.input = true};
	struct vm_params params = {.mem_size = MIB(2), .pages = MEM_PAGES_SMALL, .ncpus = 1};
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), slave,
	    saved = dup(STDOUT_FILENO);
	struct termios t;
	struct device *d;
	struct vm *vm;
	char buf[100];
	unsigned idle = 0, turn = 0;
	size_t got = 0, sent = 0;

	need(master >= 0 && !grantpt(master) && !unlockpt(master));
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	need(slave >= 0 && !tcgetattr(slave, &t));
	cfmakeraw(&t);
	tcsetattr(slave, TCSANOW, &t);
	dup2(slave, STDIN_FILENO);
	dup2(slave, STDOUT_FILENO);
	need(!vm_create_bare(&vm, &params));
	need(!serial_device.create(vm, &cfg, 0, &d));
	need(!d->run(d));
	dup2(saved, STDOUT_FILENO);
	while (got < SLOW_BYTES && idle < 200) {
		uint8_t lsr = 0;
		ssize_t n;

		while (bus_read(&vm->pio, 0x3f8 + 5, &lsr, 1), sent < SLOW_BYTES && lsr & 0x20) {
			out8(vm, 0x3f8, 'x');
			sent++;
		}
		if (++turn % 64 == 0) {
			tcflow(slave, TCOOFF);
			nap(1);
			tcflow(slave, TCOON);
		}
		n = read(master, buf, sizeof(buf));
		got += n > 0 ? (size_t)n : 0;
		idle = n > 0 ? 0 : idle + 1;
		if (idle)
			nap(2);
	}
	printf("#   %zu of %zu bytes came through\n", got, sent);
	fflush(stdout);
	return got == SLOW_BYTES;
}

/* ---- the doorbell of a device whose queue 0 is not used ---- */

static void mm(struct vm *vm, uint64_t off, uint32_t v)
{
	uint8_t b[4];

	bus_store(b, 4, v);
	bus_write(&vm->mmio, ARCH_MMIO_BASE + off, b, 4);
}

static bool doorbell_without_queue_0(void)
{
	struct fs_config cfg = {.tag = (char[]){"t"},
				.share = {.path = (char[]){"/tmp"}},
				.fuse = {FUSE_CACHE_AUTO, UINT32_MAX, UINT32_MAX, UINT32_MAX},
				.queue_size = 64};
	struct fakeguest *fg = fg_create(MIB(16));
	struct fg_queue *q = &fg->q[1];
	struct vring_used *used;
	struct virtio_dev *v;
	struct device *d;
	uint64_t buf;

	need(!fs_device.create(fg->vm, &cfg, 0, &d));
	v = container_of(d, struct virtio_dev, base);
	need(!virtio_attach(v, fg->vm) && !virtio_mmio_create(v, fg->vm) && !virtio_run(v));
	fg->dev = v;
	fg_ring(q, 64);
	used = fg_ptr(fg, q->used, 4);
	mm(fg->vm, VIRTIO_MMIO_STATUS, 3);
	mm(fg->vm, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
	mm(fg->vm, VIRTIO_MMIO_DRIVER_FEATURES, 1);
	mm(fg->vm, VIRTIO_MMIO_STATUS, 11);
	mm(fg->vm, VIRTIO_MMIO_QUEUE_SEL, 1);
	mm(fg->vm, VIRTIO_MMIO_QUEUE_NUM, 64);
	mm(fg->vm, VIRTIO_MMIO_QUEUE_DESC_LOW, (uint32_t)q->desc);
	mm(fg->vm, VIRTIO_MMIO_QUEUE_AVAIL_LOW, (uint32_t)q->avail);
	mm(fg->vm, VIRTIO_MMIO_QUEUE_USED_LOW, (uint32_t)q->used);
	mm(fg->vm, VIRTIO_MMIO_QUEUE_READY, 1);
	mm(fg->vm, VIRTIO_MMIO_STATUS, 15);
	nap(50); /* the kick of the start is over */
	buf = fg_alloc(fg, 256, 16);
	memcpy(fg_ptr(fg, buf, 40),
	       &(struct fuse_in_header){.len = 40, .opcode = 9999, .unique = 3}, 40);
	fg_desc(q, 0, buf, 40, VRING_DESC_F_NEXT, 1);
	fg_desc(q, 1, buf + 64, 64, VRING_DESC_F_WRITE, 0);
	fg_avail_push(q, 0);
	/* What KVM does for a write to QueueNotify. */
	eventfd_write(v->vq[0].kick_fd, 1);
	for (unsigned i = 0; i < 50 && !__atomic_load_n(&used->idx, __ATOMIC_ACQUIRE); i++)
		nap(10);
	return used->idx == 1;
}

/* ---- the common list of the filters ---- */

/* A thread of ours has no business with other processes' threads; as root it could end any. */
static bool filter_keeps_signals_inside(void)
{
	const struct syscalls *none[] = {NULL};
	int status;
	pid_t victim = fork(), pid;

	if (!victim) {
		pause();
		_exit(0);
	}
	pid = fork();
	if (!pid) {
		if (sandbox_init() || sandbox_enter("t", none, 0))
			_exit(2);
		_exit(syscall(SYS_tgkill, victim, victim, SIGKILL) ? 3 : 0);
	}
	waitpid(pid, &status, 0);
	nap(20);
	printf("#   the sandboxed process: %d (0: the signal was sent)\n", WEXITSTATUS(status));
	fflush(stdout);
	if (waitpid(victim, &status, WNOHANG) == 0) {
		kill(victim, SIGKILL);
		waitpid(victim, NULL, 0);
		return true;
	}
	return false;
}

/* What cmd/term.c does in its handler when one of our threads crashes. */
static void on_fatal(int sig)
{
	raise(sig);
}

static bool crash_keeps_its_signal(void)
{
	const struct syscalls *none[] = {NULL};
	int status;
	pid_t pid = fork();

	if (!pid) {
		sigaction(SIGSEGV,
			  &(struct sigaction){.sa_handler = on_fatal,
					      .sa_flags = SA_RESETHAND | SA_NODEFER},
			  NULL);
		if (sandbox_init() || sandbox_enter("t", none, 0))
			_exit(2);
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGSEGV);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

int main(void)
{
	int fd;

	snprintf(disk, sizeof(disk), "/tmp/t_hostile.XXXXXX");
	fd = selffeeding_disk(disk);
	need(!sandbox_init());
	ok(bounded(reset_of_selffeeding, 4), "a ring that feeds itself does not hold up a reset");
	ok(bounded(end_of_selffeeding, 4), "nor the end of the machine");
	ok(bounded(reset_of_large, 30),
	   "a reset waits for the request that is running, not for all in the ring");
	ok(bounded(end_of_endless_read, 8), "a read that never ends does not hold up the end");
	ok(bounded(own_memory_by_proc, 8), "a share of / does not hand out the memory of the VMM");
	ok(bounded(escape_with_full_receiver, 5),
	   "Ctrl-A x works whatever the guest did to its receiver");
	ok(bounded(mode_of_terminal_changes, 5), "the terminal's mode may change under us");
	ok(bounded(slow_terminal, 8), "a slow terminal gets everything");
	ok(bounded(doorbell_without_queue_0, 5), "virtio-mmio: a doorbell works without queue 0");
	ok(bounded(filter_keeps_signals_inside, 5),
	   "no filter lets a thread signal other processes");
	ok(bounded(crash_keeps_its_signal, 5),
	   "a crash on a filtered thread ends by its own signal");
	close(fd);
	unlink(disk);
	return done();
}
