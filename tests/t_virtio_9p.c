// SPDX-License-Identifier: Apache-2.0
/*
 * t_virtio_9p.c - virtio-9p through real rings, on both engines of the loop: its tag, its options, layouts, used lengths,
 * what is no message, and resets.
 *
 * What the 9P server behind it does is in t_p9.c and those beside it. Hard cases A10, A11, A16, A18, E1, E4, E5, E25.
 */
#include "fakeguest.h"
#include "tap.h"
#include "../devices/table.h"
#include "../devices/virtio_9p.h"
#include <dirent.h>
#include <fcntl.h>
#include <linux/virtio_9p.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_ring.h>
#include <stdio.h>

#define BOTH  (1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC)
#define TAG   (1ull << VIRTIO_9P_MOUNT_TAG)
#define ROOT  1u
#define MSIZE ((uint32_t)MIB(1))
#define ROOM  200u

static char top[64];
static int dir;
static struct fakeguest *fg;
static uint64_t offer;  /* features asked for */
static uint16_t number; /* of the last message */

/* ---- the device ---- */

static struct p9_device_config config(const char *tag, uint32_t queue_size)
{
	static char tag_copy[300];

	snprintf(tag_copy, sizeof(tag_copy), "%s", tag);
	return (struct p9_device_config){.tag = tag_copy,
					 .share = {.path = top, .locks = SHARE_LOCKS_HOST},
					 .p9 = {.msize_max = (queue_size - 4) * 4096},
					 .queue_size = queue_size};
}

static void open_9p(uint64_t features)
{
	struct p9_device_config cfg = config("tag", 512);
	struct device *d;

	cfg.p9.msize_max = MSIZE;
	fg = fg_create(MIB(64));
	need(!p9_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, features, 512);
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

/* ---- messages ---- */

/* Into buf; the length. more: what it says to have beside its body. */
static uint32_t message(void *buf, uint8_t type, const void *body, uint32_t n, uint32_t more)
{
	const struct p9_header h = {.size = le32_of((uint32_t)P9_HEADER + n + more),
				    .type = type,
				    .tag = le16_of(++number)};

	memcpy(buf, &h, sizeof(h));
	memcpy((char *)buf + sizeof(h), body, n);
	return (uint32_t)P9_HEADER + n;
}

/* The error, or the body's length; used is what the ring said. */
static int judge(const void *answer, long used, uint8_t type)
{
	struct p9_rlerror e;
	struct p9_header h;

	if (used < (long)sizeof(h))
		return -1000;
	memcpy(&h, answer, sizeof(h));
	if (le32_get(h.size) != used || le16_get(h.tag) != number)
		return -1001;
	if (h.type == type + 1)
		return (int)(used - (long)sizeof(h));
	memcpy(&e, (const char *)answer + sizeof(h), sizeof(e));
	return h.type == P9_RLERROR && used == P9_SHORT ? -(int)le32_get(e.ecode) : -1002;
}

static int ask(uint8_t type, const void *body, uint32_t n, void *out, uint32_t room)
{
	uint8_t rd[512], wr[4096];
	uint32_t len = message(rd, type, body, n, 0);
	int r;

	need(P9_HEADER + n <= sizeof(rd) && P9_HEADER + room <= sizeof(wr));
	r = judge(wr, fg_call(&fg->q[0], rd, len, wr, (uint32_t)P9_HEADER + room), type);
	if (r > 0)
		memcpy(out, wr + P9_HEADER, (size_t)r);
	return r;
}

static uint32_t ask_version(uint32_t msize)
{
	struct {
		struct p9_tversion in;
		le16 len;
		char version[8];
	} __attribute__((packed)) body = {{le32_of(msize)}, le16_of(8), "9P2000.L"};
	struct p9_rversion o;
	uint8_t out[ROOM];

	need(ask(P9_TVERSION, &body, sizeof(body), out, ROOM) == sizeof(o) + 2 + 8);
	memcpy(&o, out, sizeof(o));
	return le32_get(o.msize);
}

static uint32_t session(void)
{
	const struct {
		struct p9_tattach in;
		le16 uname, aname;
		le32 uid;
	} __attribute__((packed)) body = {.in = {le32_of(ROOT), le32_of(P9_NOFID)}};
	uint32_t msize = ask_version(UINT32_MAX);
	uint8_t out[ROOM];

	need(ask(P9_TATTACH, &body, sizeof(body), out, ROOM) == sizeof(struct p9_rattach));
	return msize;
}

static void open_fid(uint32_t fid, const char *name)
{
	const struct p9_tlopen open = {le32_of(fid), le32_of(O_RDWR)};
	struct {
		struct p9_twalk in;
		le16 len;
		char name[16];
	} __attribute__((packed))
	body = {{le32_of(ROOT), le32_of(fid), le16_of(1)}, le16_of((uint16_t)strlen(name)), {0}};
	uint8_t out[ROOM];

	memcpy(body.name, name, strlen(name));
	need(ask(P9_TWALK, &body, (uint32_t)(sizeof(body) - 16 + strlen(name)), out, ROOM) == 15);
	need(ask(P9_TLOPEN, &open, sizeof(open), out, ROOM) == 17);
}

static int getattr(uint32_t fid)
{
	const struct p9_tgetattr in = {.fid = le32_of(fid)};
	uint8_t out[ROOM];
	int r = ask(P9_TGETATTR, &in, sizeof(in), out, ROOM);

	return r == sizeof(struct p9_rgetattr) ? 0 : r;
}

/* ---- set-up ---- */

static int try_create(const struct p9_device_config *cfg)
{
	struct device *d;
	int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC), r;

	fg = fg_create(MIB(4));
	need(saved >= 0 && null >= 0);
	dup2(null, STDERR_FILENO);
	r = p9_device.create(fg->vm, cfg, 0, &d);
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
	struct p9_device_config cfg = config("tag", 512);
	unsigned before = descriptors();
	char path[80];

	is(try_create(&cfg), 0, "a device is made");
	cfg.p9.msize_max++;
	is(try_create(&cfg), -EINVAL, "a message has to fit into a queue (E1)");
	cfg = config("tag", 64);
	is(try_create(&cfg), 0, "a small one");
	cfg.p9.msize_max = MSIZE;
	is(try_create(&cfg), -EINVAL, "into a small one");
	cfg = config("tag", 1024);
	is(try_create(&cfg), 0, "a large one into a large one");
	snprintf(path, sizeof(path), "%s/none", top);
	cfg.share.path = path;
	is(try_create(&cfg), -ENOENT, "a directory that is not there is refused");
	host_write("file", "x", 1);
	snprintf(path, sizeof(path), "%s/file", top);
	is(try_create(&cfg), -ENOTDIR, "and a file");
	is(descriptors(), before, "nothing is left open");
}

static void test_options(void)
{
	static const struct {
		const char *text;
		bool good;
	} trials[] = {
		{"msize_max=4096", true},    {"msize_max=4095", false},
		{"msize_max=4177920", true}, {"msize_max=4177921", false},
		{"queue_size=64", true},     {"queue_size=1024", true},
		{"queue_size=32", false},    {"queue_size=2048", false},
		{"queue_size=100", false},   {"poll_us=0", true},
		{"poll_us=1001", false},     {"multidevs=forbid", true},
		{"multidevs=warn", true},    {"multidevs=none", false},
		{"submounts=true", false},   {"locks=host", true},
		{"security_label=1", false}, {"tag=", false},
	};
	struct p9_device_config cfg;
	char err[OPT_ERR_MAX];

	need(!opt_defaults(&p9_device.opts, &cfg));
	ok(cfg.p9.msize_max == MSIZE && cfg.p9.multidevs == P9_REMAP && cfg.queue_size == 512 &&
		   cfg.poll_us == 50 && cfg.share.xattr,
	   "messages are of a mebibyte, numbers unique");
	for (unsigned i = 0; i < ARRAY_LEN(trials); i++) {
		const int r = opt_parse_list(&p9_device.opts, &cfg, trials[i].text,
					     (bool[64]){false}, err);

		is(!r, trials[i].good, "%s is %s", trials[i].text,
		   trials[i].good ? "accepted" : "refused");
	}
	opt_fini(&p9_device.opts, &cfg);
}

/* The length, and then as many bytes and no NUL (E25). */
static void test_tag(unsigned len)
{
	struct p9_device_config cfg;
	char tag[256] = {0};
	uint8_t got[300];
	struct device *d;

	memset(tag, 't', len);
	cfg = config(tag, 64);
	memset(got, 0xa7, sizeof(got));
	fg = fg_create(MIB(4));
	need(!p9_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	is(fg->dev->id, VIRTIO_ID_9P, "it is a 9P transport");
	is(fg->dev->nqueues, 1, "with a queue");
	is(fg->dev->config_len, 2 + len, "a tag of %u bytes", len);
	ok(fg->dev->features & TAG, "is offered");
	virtio_config_read(fg->dev, 0, got, 2 + len);
	ok(got[0] == len && !got[1] && !memcmp(got + 2, tag, len), "and is what was given");
	virtio_config_read(fg->dev, 0, got, sizeof(got));
	ok(!memcmp(got + 2, tag, len) && got[2 + len] != 't', "without anything behind it");
	fg_destroy(fg);
}

/* ---- requests ---- */

static void test_requests(void)
{
	const struct p9_tgetattr in = {.fid = le32_of(ROOT)};
	uint8_t rd[64], wr[64];
	uint32_t len;

	is(getattr(ROOT), -EIO, "before Tversion there is no session");
	is(session(), MSIZE, "a mebibyte is agreed on");
	is(getattr(ROOT), 0, "and the root is there");
	is(ask(200, "", 0, NULL, ROOM), -EOPNOTSUPP, "what is not known is answered");
	len = message(rd, P9_TGETATTR, &in, sizeof(in), 0);
	is(judge(wr, fg_call(&fg->q[0], rd, len, wr, P9_SHORT), P9_TGETATTR), -EINVAL,
	   "room for an error alone gets one");
	len = message(rd, P9_TGETATTR, &in, sizeof(in), 1);
	is(judge(wr, fg_call(&fg->q[0], rd, len, wr, sizeof(wr)), P9_TGETATTR), -EINVAL,
	   "so does a message that is shorter than it says");
}

static void test_pieces(void)
{
	const struct p9_tgetattr in = {.fid = le32_of(ROOT)};
	const uint32_t n = (uint32_t)(P9_HEADER + sizeof(in));
	const uint32_t room = (uint32_t)(P9_HEADER + sizeof(struct p9_rgetattr));
	struct fg_buf a[2], b[2];
	unsigned good = 0;
	uint64_t gpa[2];
	uint8_t rd[64];

	for (uint32_t i = 0; i <= n + room; i++) {
		const uint32_t rcut = MIN(i, n), wcut = i > n ? i - n : 0;
		uint32_t used = 0;

		message(rd, P9_TGETATTR, &in, sizeof(in), 0);
		a[0] = (struct fg_buf){rd, rcut};
		a[1] = (struct fg_buf){rd + rcut, n - rcut};
		b[0] = (struct fg_buf){NULL, wcut};
		b[1] = (struct fg_buf){NULL, room - wcut};
		fg_add(&fg->q[0], a, 2, b, 2, gpa);
		need(fg_used(&fg->q[0], &used) >= 0);
		good += judge(fg_ptr(fg, gpa[0], room), used, P9_TGETATTR) ==
			sizeof(struct p9_rgetattr);
	}
	is(good, n + room + 1, "a message is served wherever its buffers are cut");
}

/* As Linux lays it out: 11 bytes for the answer's beginning, data in pages of its own (E4). */
static int data(uint8_t type, uint32_t fid, uint64_t off, const uint8_t *bytes, uint32_t n,
		uint64_t *pages)
{
	const struct p9_twrite in = {le32_of(fid), le64_of(off), le32_of(n)};
	const bool write = type == P9_TWRITE;
	const unsigned npages = (n + 4095) / 4096;
	struct fg_buf rd[258], wr[258];
	uint64_t gpa[258];
	uint32_t used = 0;
	uint8_t head[64];
	int r;

	rd[0] = (struct fg_buf){head, message(head, type, &in, sizeof(in), write ? n : 0)};
	wr[0] = (struct fg_buf){NULL, P9_SHORT};
	for (unsigned i = 0; i < npages; i++) {
		const uint32_t len = MIN(4096u, n - 4096 * i);

		rd[i + 1] = (struct fg_buf){write ? bytes + 4096 * i : NULL, len};
		wr[i + 1] = (struct fg_buf){NULL, len};
	}
	fg_add(&fg->q[0], rd, write ? 1 + npages : 1, wr, write ? 1 : 1 + npages, gpa);
	need(fg_used(&fg->q[0], &used) >= 0);
	r = judge(fg_ptr(fg, gpa[0], P9_SHORT), used, type);
	if (pages)
		*pages = gpa[1];
	return r;
}

static void test_data(void)
{
	static uint8_t bytes[MIB(1)];
	const uint32_t most = MSIZE - 24;
	uint64_t pages = 0;

	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 24);
	session();
	host_write("data", "", 0);
	open_fid(2, "data");
	is(data(P9_TWRITE, 2, 1, bytes, most, NULL), 4, "1 MiB in pages is written");
	is(data(P9_TREAD, 2, 1, NULL, most, &pages), 4 + most, "and read");
	ok(!memcmp(fg_ptr(fg, pages, most), bytes, most), "into the pages that follow 11 bytes");
	is(data(P9_TREAD, 2, 2, NULL, 1, &pages), 5, "a byte too");
	is(*(uint8_t *)fg_ptr(fg, pages, 1), bytes[1], "into its own");
	is(data(P9_TREAD, 2, most - 4999, NULL, 8192, &pages), 4 + 5000, "a short one is short");
	is(data(P9_TREAD, ROOT, 0, NULL, 4096, NULL), -EBADF, "an error has room before the pages");
	is(data(P9_TREADDIR, 2, 0, NULL, 4096, NULL), -ENOTDIR, "of a listing too");
	open_fid(3, "data");
	is(data(P9_TWRITE, 3, 0, bytes, 1, NULL), 4, "a byte is written");
}

/* Hundreds out at once, every one of which leaves the thread. */
static void test_batch(void)
{
	const struct p9_tclunk in = {le32_of(2)};
	const uint32_t room = P9_HEADER;
	unsigned good = 0;
	uint8_t rd[64];

	for (unsigned i = 0; i < 200; i++) {
		struct fg_buf r, w = {NULL, P9_SHORT};

		r = (struct fg_buf){rd, message(rd, P9_TFSYNC, &in, sizeof(in), 0)};
		fg_add(&fg->q[0], &r, 1, &w, 1, NULL);
	}
	for (unsigned i = 0; i < 200; i++) {
		uint32_t used = 0;

		need(fg_used(&fg->q[0], &used) >= 0);
		good += used == room;
	}
	is(good, 200, "200 fsyncs that are out together all come back");
}

/* ---- lies ---- */

static void broken(const void *rd, uint32_t rd_len, uint32_t room, const char *what)
{
	struct fg_buf r = {rd, rd_len}, w = {NULL, room};
	uint32_t used = 1;

	fg_add(&fg->q[0], &r, rd_len > 0, &w, room > 0, NULL);
	need(fg_used(&fg->q[0], &used) >= 0);
	is(used, 0, "%s comes back empty", what);
	ok(fg_wait_broken(fg), "and breaks the device");
	fg_start(fg, offer, 512);
	session();
	is(getattr(ROOT), 0, "until it is reset");
}

static void test_broken(void)
{
	const struct p9_tgetattr in = {.fid = le32_of(ROOT)};
	uint8_t rd[64];
	uint32_t len = message(rd, P9_TGETATTR, &in, sizeof(in), 0);

	broken(rd, P9_HEADER - 1, ROOM, "less than a header");
	broken(rd, len, P9_SHORT - 1, "a message without room for an error");
	broken(rd, len, 0, "one without any room");
	broken(NULL, 0, ROOM, "room without a message");
}

/* ---- resets ---- */

/* Sent, and not waited for. */
static void send_out(uint8_t type, const void *body, uint32_t n)
{
	struct fg_buf r, w = {NULL, ROOM};
	uint8_t rd[64];

	r = (struct fg_buf){rd, message(rd, type, body, n, 0)};
	fg_add(&fg->q[0], &r, 1, &w, 1, NULL);
}

/* Fsyncs, locks that wait, a flush of one, and the beginning of another session: all out. */
static void leave_out(void)
{
	struct {
		struct p9_tlock in;
		le16 client;
	} __attribute__((packed)) lock = {.in = {.fid = le32_of(3),
						 .type = P9_LOCK_WRLCK,
						 .flags = le32_of(P9_LOCK_BLOCK),
						 .proc_id = le32_of(1)}};
	const struct p9_tclunk sync = {le32_of(2)};
	struct p9_tflush flush;
	uint8_t out[ROOM];

	open_fid(2, "data");
	open_fid(3, "data");
	need(ask(P9_TLOCK, &lock, sizeof(lock), out, ROOM) == 1 && *out == P9_LOCK_SUCCESS);
	lock.in.proc_id = le32_of(2);
	for (unsigned k = 0; k < 8; k++) {
		send_out(P9_TFSYNC, &sync, sizeof(sync));
		send_out(P9_TLOCK, &lock, sizeof(lock));
	}
	flush.oldtag = le16_of(number);
	send_out(P9_TFLUSH, &flush, sizeof(flush));
	send_out(P9_TVERSION, "\0\0\1\0\10\0009P2000.L", 14);
}

static void test_reset(void)
{
	unsigned before = 0;

	session();
	for (unsigned i = 0; i < 20; i++) {
		leave_out();
		fg_start(fg, offer, 512); /* a reset first, with what is out */
		if (i == 0)
			before = descriptors();
		need(getattr(ROOT) == -EIO);
		session();
		if (getattr(2) != -EBADF)
			ok(0, "a fid lives on after reset %u", i);
	}
	is(descriptors(), before, "twenty resets with requests in flight leave nothing behind");
}

/* The device goes while the guest holds things and waits for more. */
static void test_end(void)
{
	leave_out();
	fg_destroy(fg);
}

static void run(const char *engine, uint64_t features)
{
	unsigned before = descriptors();

	offer = features | TAG;
	setenv("WHERRY_ENGINE", engine, 1);
	printf("# %s%s\n", engine, features ? ", event index and indirect descriptors" : "");
	open_9p(offer);
	ok(!strcmp(iothread_engine(fg->dev->io), engine), "the engine is %s", engine);
	test_requests();
	test_pieces();
	test_data();
	test_batch();
	test_broken();
	test_reset();
	test_end();
	is(descriptors(), before, "the end of the device leaves nothing behind");
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(top, sizeof(top), "%.40s/t_virtio_9p.XXXXXX", tmp ? tmp : "/tmp");
	need(mkdtemp(top));
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(dir >= 0 && !sandbox_init());
	test_create();
	test_options();
	test_tag(1);
	test_tag(255);
	run("uring", 0);
	run("uring", BOTH);
	run("epoll", 0);
	run("epoll", BOTH);
	unlinkat(dir, "file", 0);
	unlinkat(dir, "data", 0);
	need(!rmdir(top));
	close(dir);
	return done();
}
