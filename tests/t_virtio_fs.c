// SPDX-License-Identifier: Apache-2.0
/*
 * t_virtio_fs.c - virtio-fs through real rings, on both engines of the loop: queues, layouts, used lengths, reset,
 * and a file that is cut while it is mapped.
 *
 * What the FUSE server behind it does is in t_fuse.c and t_fuse_ops.c. Hard cases A10, A11, A16, A18, A23, A26, D1, D7,
 * D67, D68, D69.
 */
#include "fakeguest.h"
#include "tap.h"
#include "../devices/table.h"
#include "../devices/virtio_fs.h"
#include "../vmm/window.h"
#include <dirent.h>
#include <fcntl.h>
#include <linux/virtio_fs.h>
#include <stdio.h>
#include <sys/syscall.h>

#define HDR_IN  ((uint32_t)sizeof(struct fuse_in_header))
#define HDR_OUT ((uint32_t)sizeof(struct fuse_out_header))
#define BOTH    (1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC)

enum { FORGETS, REQUESTS };

static char top[64];
static int dir;
static struct fakeguest *fg;
static uint64_t unique, offer; /* of the last request; features asked for */
static unsigned on_queue;      /* which request queue is used */

/* ---- the device ---- */

static struct fs_config config(const char *tag, uint32_t queue_size)
{
	static char tag_copy[64];

	snprintf(tag_copy, sizeof(tag_copy), "%s", tag);
	return (struct fs_config){.tag = tag_copy,
				  .share = {.path = top},
				  .fuse = {.cache = FUSE_CACHE_AUTO,
					   .entry_ttl_ms = UINT32_MAX,
					   .attr_ttl_ms = UINT32_MAX,
					   .negative_ttl_ms = UINT32_MAX},
				  .queues = 1,
				  .queue_size = queue_size};
}

static void open_fs_as(uint64_t features, struct fs_config cfg)
{
	struct device *d;

	fg = fg_create(MIB(64));
	need(!fs_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, features, 512);
}

static void open_fs(uint64_t features)
{
	open_fs_as(features, config("tag", 512));
}

static void host_write(const char *name, const void *data, size_t n)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	need(fd >= 0 && write(fd, data, n) == (ssize_t)n);
	close(fd);
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- requests ---- */

static struct fg_queue *requests(void)
{
	return &fg->q[REQUESTS + on_queue];
}

/* Into buf; the length. */
static uint32_t message(void *buf, uint32_t opcode, uint64_t node, const void *arg, uint32_t n)
{
	struct fuse_in_header h = {
		.len = HDR_IN + n, .opcode = opcode, .unique = unique += 2, .nodeid = node};

	memcpy(buf, &h, sizeof(h));
	if (n)
		memcpy((char *)buf + HDR_IN, arg, n);
	return h.len;
}

/* The error, or the body's length; used is what the ring said. */
static int judge(const void *reply, long used)
{
	struct fuse_out_header h;

	if (used < (long)HDR_OUT)
		return -1000;
	memcpy(&h, reply, sizeof(h));
	if (h.len != used || h.unique != unique)
		return -1001;
	return h.error ? h.error : (int)(h.len - HDR_OUT);
}

static int ask(uint32_t opcode, uint64_t node, const void *arg, uint32_t n, void *out,
	       uint32_t room)
{
	uint8_t rd[1024], wr[4096];
	uint32_t len = message(rd, opcode, node, arg, n);
	int r;

	need(HDR_IN + n <= sizeof(rd) && HDR_OUT + room <= sizeof(wr));
	r = judge(wr, fg_call(requests(), rd, len, wr, HDR_OUT + room));
	if (r > 0)
		memcpy(out, wr + HDR_OUT, (size_t)r);
	return r;
}

static uint32_t session(void)
{
	const struct fuse_init_in in = {.major = 7, .minor = 31, .flags = UINT32_MAX};
	struct fuse_init_out o;

	need(ask(FUSE_INIT, 0, &in, 16, &o, sizeof(o)) == sizeof(o));
	return o.max_write;
}

static uint64_t find(const char *name)
{
	struct fuse_entry_out e;

	need(ask(FUSE_LOOKUP, FUSE_ROOT_ID, name, (uint32_t)strlen(name) + 1, &e, sizeof(e)) ==
	     sizeof(e));
	return e.nodeid;
}

static uint64_t open_node(uint64_t node)
{
	const struct fuse_open_in in = {.flags = O_RDWR};
	struct fuse_open_out o;

	need(ask(FUSE_OPEN, node, &in, sizeof(in), &o, sizeof(o)) == sizeof(o));
	return o.fh;
}

static int getattr(uint64_t node)
{
	const struct fuse_getattr_in in = {0};
	struct fuse_attr_out o;
	int r = ask(FUSE_GETATTR, node, &in, sizeof(in), &o, sizeof(o));

	return MIN(r, 0);
}

/* ---- set-up ---- */

static int try_create(const struct fs_config *cfg)
{
	struct device *d;
	int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC), r;

	fg = fg_create(MIB(4));
	need(saved >= 0 && null >= 0);
	dup2(null, STDERR_FILENO);
	r = fs_device.create(fg->vm, cfg, 0, &d);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(null);
	if (!r)
		d->destroy(d);
	fg_destroy(fg);
	return r;
}

static void test_create(void)
{
	struct fs_config cfg = config("tag", 512);
	char none[80], file[80];

	is(try_create(&cfg), 0, "a device is made");
	snprintf(none, sizeof(none), "%s/none", top);
	cfg.share.path = none;
	is(try_create(&cfg), -ENOENT, "a directory that is not there is refused");
	host_write("file", "x", 1);
	snprintf(file, sizeof(file), "%s/file", top);
	cfg.share.path = file;
	is(try_create(&cfg), -ENOTDIR, "and a file");
	cfg.share.path = top;
	cfg.fuse.writeback = true;
	is(try_create(&cfg), 0, "writes may be held back in a cache");
	cfg.fuse.cache = FUSE_CACHE_NEVER;
	is(try_create(&cfg), -EINVAL, "but not in none");
}

/* What the options accept. */
static void test_options(void)
{
	static const struct {
		const char *text;
		bool good;
	} trials[] = {
		{"dax=0", true},
		{"dax=2", true},
		{"dax=4096", true},
		{"dax=1", false},
		{"dax=3", false},
		{"dax=4294967296", false},
		{"queues=1", true},
		{"queues=32", true},
		{"queues=0", false},
		{"queues=33", false},
		{"poll_us=0", true},
		{"poll_us=1000", true},
		{"poll_us=1001", false},
		{"dax_policy=inode", true},
		{"dax_policy=never", false},
		{"dax_min_size=0", true},
		{"writeback=on", true},
		{"cache=writeback", false},
	};
	struct fs_config cfg;
	char err[OPT_ERR_MAX];

	need(!opt_defaults(&fs_device.opts, &cfg));
	ok(cfg.queues == 1 && !cfg.dax && !cfg.fuse.writeback && cfg.poll_us == 50 &&
		   cfg.fuse.dax_min_size == 32768 && cfg.fuse.cache == FUSE_CACHE_AUTO,
	   "a share has one queue, no window and looks for requests for a while");
	for (unsigned i = 0; i < ARRAY_LEN(trials); i++) {
		const int r = opt_parse_list(&fs_device.opts, &cfg, trials[i].text,
					     (bool[64]){false}, err);

		is(!r, trials[i].good, "%s is %s", trials[i].text,
		   trials[i].good ? "accepted" : "refused");
	}
	opt_fini(&fs_device.opts, &cfg);
}

static void test_config_space(void)
{
	static const char longest[] = "123456789012345678901234567890123456";
	const struct fs_config cfg = config(longest, 64);
	uint8_t got[64];
	struct device *d;

	fg = fg_create(MIB(4));
	need(!fs_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	is(fg->dev->id, VIRTIO_ID_FS, "it is a file system device");
	is(fg->dev->nqueues, 2, "with a queue for forgets and one for requests");
	virtio_config_read(fg->dev, 0, got, sizeof(got));
	ok(!memcmp(got, longest, 36), "a tag may fill its field");
	ok(got[36] == 1 && !got[37] && !got[38] && !got[39], "there is one request queue");
	ok(!got[40] && !got[63], "and nothing behind");
	fg_destroy(fg);
}

static void test_max_write(void)
{
	struct fs_config cfg = config("tag", 64);
	struct device *d;

	fg = fg_create(MIB(64));
	need(!fs_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, 0, 64);
	is(session(), 60 * 4096, "a small ring leaves four descriptors for headers");
	fg_destroy(fg);
	open_fs(0);
	is(session(), MIB(1), "a large one carries 1 MiB");
	fg_destroy(fg);
}

/* ---- requests ---- */

static void test_requests(void)
{
	const struct fuse_getattr_in in = {0};
	uint8_t rd[256], wr[256];
	uint32_t len;

	host_write("hello", "world", 5);
	is(getattr(FUSE_ROOT_ID), -EIO, "before INIT there is no session");
	session();
	is(getattr(find("hello")), 0, "a file is found");
	is(ask(9999, FUSE_ROOT_ID, NULL, 0, NULL, 0), -ENOSYS, "what is not known is answered");
	len = message(rd, FUSE_GETATTR, FUSE_ROOT_ID, &in, sizeof(in));
	memset(wr, 0x5a, sizeof(wr));
	is(judge(wr, fg_call(&fg->q[REQUESTS], rd, len, wr, 20)), -EINVAL,
	   "room for 4 bytes of attributes is too little");
	len = message(rd, FUSE_GETATTR, FUSE_ROOT_ID, &in, sizeof(in));
	is(judge(wr, fg_call(&fg->q[FORGETS], rd, len, wr, 256)), sizeof(struct fuse_attr_out),
	   "either queue takes any request");
}

/* Nothing to write to, and nothing is written. */
static void test_forget(void)
{
	const struct fuse_forget_in in = {1};
	uint64_t node = find("hello"); /* the second lookup of it */
	uint8_t rd[64], wr[64];
	uint32_t len;

	len = message(rd, FUSE_FORGET, node, &in, sizeof(in));
	is(fg_call(&fg->q[FORGETS], rd, len, NULL, 0), 0, "a forget comes back empty");
	is(getattr(node), 0, "the other lookup holds");
	len = message(rd, FUSE_FORGET, node, &in, sizeof(in));
	is(fg_call(&fg->q[FORGETS], rd, len, wr, sizeof(wr)), 0, "also one that brings room");
	is(getattr(node), -ESTALE, "then it is forgotten");
}

static void test_pieces(void)
{
	const uint32_t n = HDR_IN + 6, room = HDR_OUT + sizeof(struct fuse_entry_out);
	struct fg_buf a[2], b[2];
	uint8_t rd[64];
	uint64_t gpa[2];
	unsigned good = 0;

	for (uint32_t i = 0; i <= n + room; i++) {
		const uint32_t rcut = MIN(i, n), wcut = i > n ? i - n : 0;
		uint32_t used = 0;

		message(rd, FUSE_LOOKUP, FUSE_ROOT_ID, "hello", 6);
		a[0] = (struct fg_buf){rd, rcut};
		a[1] = (struct fg_buf){rd + rcut, n - rcut};
		b[0] = (struct fg_buf){NULL, wcut};
		b[1] = (struct fg_buf){NULL, room - wcut};
		fg_add(&fg->q[REQUESTS], a, 2, b, 2, gpa);
		need(fg_used(&fg->q[REQUESTS], &used) >= 0);
		good += judge(fg_ptr(fg, gpa[0], room), used) == sizeof(struct fuse_entry_out);
	}
	is(good, n + room + 1, "a request is served wherever its buffers are cut");
}

/* A megabyte in descriptors of a page, as Linux sends it. */
static void data(uint32_t opcode, uint64_t node, uint64_t fh, const uint8_t *bytes)
{
	const struct fuse_write_in in = {.fh = fh, .size = MIB(1)};
	struct fg_buf rd[258], wr[257];
	const bool write = opcode == FUSE_WRITE;
	const unsigned nrd = write ? 257 : 1, nwr = write ? 1 : 257;
	uint8_t head[128];
	uint64_t gpa[257];
	uint32_t used = 0;
	int r;

	rd[0] = (struct fg_buf){head, message(head, opcode, node, &in, sizeof(in))};
	wr[0] = (struct fg_buf){NULL,
				HDR_OUT + (write ? (uint32_t)sizeof(struct fuse_write_out) : 0)};
	for (unsigned i = 0; i < 256; i++) {
		rd[i + 1] = (struct fg_buf){bytes + 4096 * i, 4096};
		wr[i + 1] = (struct fg_buf){NULL, 4096};
	}
	if (write)
		((struct fuse_in_header *)head)->len += (uint32_t)MIB(1);
	fg_add(&fg->q[REQUESTS], rd, nrd, wr, nwr, gpa);
	need(fg_used(&fg->q[REQUESTS], &used) >= 0);
	r = judge(fg_ptr(fg, gpa[0], wr[0].len), used);
	is(r, write ? sizeof(struct fuse_write_out) : MIB(1), "1 MiB in pages is %s",
	   write ? "written" : "read");
	if (!write)
		ok(!memcmp(fg_ptr(fg, gpa[1], MIB(1)), bytes, MIB(1)), "and comes back unchanged");
}

static void test_data(void)
{
	static uint8_t bytes[MIB(1)];
	uint64_t node, fh;

	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 24);
	host_write("data", "", 0);
	node = find("data");
	fh = open_node(node);
	data(FUSE_WRITE, node, fh, bytes);
	data(FUSE_READ, node, fh, bytes);
}

/* Hundreds out at once, every one of which leaves the thread. */
static void test_batch(void)
{
	const uint32_t room = HDR_OUT;
	struct fuse_fsync_in in = {0};
	uint64_t node = find("data");
	uint8_t rd[64];
	unsigned good = 0;

	in.fh = open_node(node);
	for (unsigned i = 0; i < 200; i++) {
		struct fg_buf r = {rd, message(rd, FUSE_FSYNC, node, &in, sizeof(in))},
			      w = {NULL, room};

		fg_add(&fg->q[REQUESTS], &r, 1, &w, 1, NULL);
	}
	for (unsigned i = 0; i < 200; i++) {
		uint32_t used = 0;

		need(fg_used(&fg->q[REQUESTS], &used) >= 0);
		good += used == room;
	}
	is(good, 200, "200 fsyncs that are out together all come back");
}

/* ---- lies ---- */

static void broken(const void *rd, uint32_t rd_len, uint32_t room, const char *what)
{
	struct fg_buf r = {rd, rd_len}, w = {NULL, room};
	uint32_t used = 1;

	fg_add(&fg->q[REQUESTS], &r, rd_len > 0, &w, room > 0, NULL);
	need(fg_used(&fg->q[REQUESTS], &used) >= 0);
	is(used, 0, "%s comes back empty", what);
	ok(fg_wait_broken(fg), "and breaks the device");
	fg_start(fg, offer, 512);
	session();
	is(getattr(FUSE_ROOT_ID), 0, "until it is reset");
}

static void test_broken(void)
{
	const struct fuse_getattr_in in = {0};
	uint8_t rd[128] = {0};
	uint32_t len = message(rd, FUSE_GETATTR, FUSE_ROOT_ID, &in, sizeof(in));

	broken(rd, HDR_IN - 1, 200, "less than a header");
	broken(rd, len - 1, 200, "less than the header says");
	broken(rd, len, HDR_OUT - 1, "a request without room for a header");
	broken(rd, len, 0, "one without any room");
	broken(NULL, 0, 200, "room without a request");
}

/* ---- reset ---- */

static void test_reset(void)
{
	struct fuse_fsync_in in = {0};
	unsigned before = 0;
	uint8_t rd[64];

	session();
	for (unsigned i = 0; i < 20; i++) {
		uint64_t node = find("data");
		struct fg_buf r, w = {NULL, HDR_OUT};

		in.fh = open_node(node);
		r = (struct fg_buf){rd, message(rd, FUSE_FSYNC, node, &in, sizeof(in))};
		for (unsigned k = 0; k < 8; k++)
			fg_add(&fg->q[REQUESTS], &r, 1, &w, 1, NULL);
		fg_start(fg, offer, 512); /* a reset first, with what is out */
		if (i == 0)
			before = descriptors();
		need(getattr(FUSE_ROOT_ID) == -EIO);
		session();
		if (getattr(node) != -ESTALE)
			ok(0, "a node lives on after reset %u", i);
	}
	is(descriptors(), before, "twenty resets with requests in flight leave nothing behind");
}

/* The device goes while the guest holds things and waits for more. */
static void test_end(void)
{
	struct fuse_fsync_in in = {0};
	struct fg_buf r, w = {NULL, HDR_OUT};
	uint64_t node = find("data");
	uint8_t rd[64];

	in.fh = open_node(node);
	r = (struct fg_buf){rd, message(rd, FUSE_FSYNC, node, &in, sizeof(in))};
	for (unsigned k = 0; k < 8; k++)
		fg_add(&fg->q[REQUESTS], &r, 1, &w, 1, NULL);
	fg_destroy(fg);
}

/* ---- several queues ---- */

#define QUEUES 3

/* A lock that another has: its request waits. */
static void lock_on(unsigned queue, uint64_t node, uint64_t fh, uint64_t owner)
{
	const struct fuse_lk_in in = {
		.fh = fh, .owner = owner, .lk = {.end = INT64_MAX, .type = F_WRLCK}};
	struct fg_buf r, w = {NULL, HDR_OUT};
	uint8_t rd[256];

	r = (struct fg_buf){rd, message(rd, FUSE_SETLKW, node, &in, sizeof(in))};
	fg_add(&fg->q[REQUESTS + queue], &r, 1, &w, 1, NULL);
}

static void fsync_on(unsigned queue, uint64_t node, uint64_t fh)
{
	const struct fuse_fsync_in in = {.fh = fh};
	struct fg_buf r, w = {NULL, HDR_OUT};
	uint8_t rd[64];

	r = (struct fg_buf){rd, message(rd, FUSE_FSYNC, node, &in, sizeof(in))};
	fg_add(&fg->q[REQUESTS + queue], &r, 1, &w, 1, NULL);
}

static unsigned used_of(unsigned queue, unsigned n)
{
	unsigned good = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t used = 0;

		need(fg_used(&fg->q[REQUESTS + queue], &used) >= 0);
		good += used == HDR_OUT;
	}
	return good;
}

static void test_queues(void)
{
	unsigned before = descriptors(), good = 0;
	struct fs_config cfg = config("tag", 512);
	const struct fuse_forget_in one = {1};
	uint64_t node = 0, fh;
	uint8_t rd[64];

	cfg.queues = QUEUES;
	cfg.share.locks = SHARE_LOCKS_HOST;
	open_fs_as(BOTH, cfg);
	is(fg->dev->nqueues, 1 + QUEUES, "each request queue is one beside that for forgets");
	is(fg->dev->nthreads, QUEUES, "and has a thread");
	session();
	for (on_queue = 0; on_queue < QUEUES; on_queue++) {
		node = find("hello");
		is(getattr(node), 0, "queue %u knows what the others do", on_queue);
	}
	for (on_queue = QUEUES; on_queue--;) {
		uint32_t len = message(rd, FUSE_FORGET, node, &one, sizeof(one));

		is(getattr(node), 0, "until the last of them");
		is(fg_call(requests(), rd, len, NULL, 0), 0, "forgets");
	}
	on_queue = QUEUES - 1;
	is(getattr(node), -ESTALE, "what it knew");
	node = find("data");
	fh = open_node(node);
	for (unsigned i = 0; i < 60; i++)
		fsync_on(i % QUEUES, node, fh);
	for (unsigned i = 0; i < QUEUES; i++)
		good += used_of(i, 60 / QUEUES);
	is(good, 60, "requests of one file are out on all queues and come back on theirs");
	for (unsigned i = 0; i < QUEUES; i++)
		lock_on(i, node, fh, 7 + i);
	for (unsigned i = 0; i < 30; i++)
		fsync_on(i % QUEUES, node, fh);
	fg_start(fg, BOTH, 512);
	is(getattr(FUSE_ROOT_ID), -EIO, "a reset ends all that is out, on every queue");
	session();
	node = find("data");
	lock_on(0, node, open_node(node), 1);
	is(used_of(0, 1), 1, "and leaves no lock behind");
	on_queue = 0;
	fg_destroy(fg);
	is(descriptors(), before, "the end of it leaves nothing behind");
}

/* ---- a window ---- */

/* What is there, or -1, asked as KVM does: not ended by the answer, beside whatever maps, so no sanitizer is to see it. */
static int peek(const struct window *w, uint64_t off)
{
	unsigned char byte;
	int pair[2], c = -1;

	need(!pipe(pair));
	if (syscall(SYS_write, pair[1], w->host + off, 1) == 1) {
		need(read(pair[0], &byte, 1) == 1);
		c = byte;
	}
	close(pair[0]);
	close(pair[1]);
	return c;
}

/* Nothing but the device's own thread does anything about it (D67). */
static void test_window(void)
{
	const struct fuse_setupmapping_in in = {.len = MIB(2),
						.flags = FUSE_SETUPMAPPING_FLAG_READ};
	struct fs_config cfg = config("tag", 512);
	unsigned before = descriptors();
	const struct window *w;
	char data[8192];
	int fd;

	memset(data, 'd', sizeof(data));
	host_write("cut", data, sizeof(data));
	cfg.dax = 2;
	open_fs_as(BOTH, cfg);
	session();
	w = fg->dev->shm;
	is(ask(FUSE_SETUPMAPPING, find("cut"), &in, sizeof(in), NULL, 0), 0, "a file is mapped");
	ok(peek(w, 4096) == 'd' && !peek(w, 8192), "and zeros behind its end");
	fd = openat(dir, "cut", O_WRONLY | O_CLOEXEC);
	need(fd >= 0 && !ftruncate(fd, 1));
	while (peek(w, 4096) < 0)
		sched_yield();
	ok(peek(w, 0) == 'd' && !peek(w, 4096), "the host cuts it, and there are more of them");
	need(pwrite(fd, data, sizeof(data), 0) == sizeof(data));
	while (peek(w, 4096) != 'd')
		sched_yield();
	close(fd);
	ok(1, "it grows again, and there are none");
	unlinkat(dir, "cut", 0);
	fg_destroy(fg);
	is(descriptors(), before, "nothing of it is left open");
}

static void run(const char *engine, uint64_t features)
{
	unsigned before = descriptors();

	offer = features;
	setenv("WHERRY_ENGINE", engine, 1);
	printf("# %s%s\n", engine, features ? ", event index and indirect descriptors" : "");
	open_fs(features);
	ok(!strcmp(iothread_engine(fg->dev->io), engine), "the engine is %s", engine);
	test_requests();
	test_forget();
	test_pieces();
	test_data();
	test_batch();
	test_broken();
	test_reset();
	test_end();
	test_queues();
	test_window();
	is(descriptors(), before, "the end of the device leaves nothing behind");
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(top, sizeof(top), "%.40s/t_virtio_fs.XXXXXX", tmp ? tmp : "/tmp");
	need(mkdtemp(top));
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(dir >= 0 && !sandbox_init());
	test_create();
	test_options();
	test_config_space();
	test_max_write();
	run("uring", 0);
	run("uring", BOTH);
	run("epoll", 0);
	run("epoll", BOTH);
	unlinkat(dir, "file", 0);
	unlinkat(dir, "hello", 0);
	unlinkat(dir, "data", 0);
	need(!rmdir(top));
	close(dir);
	return done();
}
