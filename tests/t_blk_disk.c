// SPDX-License-Identifier: Apache-2.0
/*
 * t_blk_disk.c - virtio-blk on a disk that fails, stops short, or answers when it likes.
 *
 * The functions of disk.h are defined here, in place of disk.c.
 */
#include "fakeguest.h"
#include "capture.h"
#include "tap.h"
#include "../devices/disk.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include <linux/virtio_blk.h>

#define DISK_LEN MIB(1)
#define FLUSH    (1ull << VIRTIO_BLK_F_FLUSH)
#define PENDING  64

/* Of the iothread's, but for the settings, which are made while no request is out. */
static struct {
	int read_res, write_res, flush_res; /* 1: all of it; else the result */
	bool later;                         /* results come when the test says so */
	struct io_op *op[PENDING];
	int res[PENDING];
	unsigned n;
	unsigned reads, changes, flushes, ranges;
	unsigned changes_at_flush; /* how many were complete when the last flush began */
	int range_res;
	bool unmap;
} host;

int disk_open(struct disk **out, const char *name, const struct disk_config *cfg)
{
	struct disk *d = calloc(1, sizeof(*d));

	(void)name;
	need(d);
	*d = (struct disk){.file.fd = -1,
			   .cached.fd = -1,
			   .size = DISK_LEN,
			   .readonly = cfg->readonly,
			   .refs = 1,
			   .geometry = {.logical = 4096,
					.physical = 16384,
					.align = 4096,
					.io_min = 65536,
					.io_opt = 1048576,
					.discard = 32768}};
	*out = d;
	return 0;
}

int disk_again(struct disk **out, const struct disk *old, const char *name, const char *path)
{
	(void)out, (void)old, (void)name, (void)path;
	return -ENOSYS;
}

struct disk *disk_get(struct disk *d)
{
	__atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
	return d;
}

void disk_put(struct disk *d)
{
	if (d && !__atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL))
		free(d);
}

void disk_bounce_fini(struct disk_bounce *b)
{
	(void)b;
}

const struct syscalls disk_syscalls;

static int answer(struct disk_op *op, int res)
{
	if (!host.later)
		return res;
	need(host.n < PENDING);
	host.op[host.n] = &op->io;
	host.res[host.n++] = res;
	return -EINPROGRESS;
}

static int sum(const struct iovec *iov, unsigned n)
{
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		len += iov[i].iov_len;
	return (int)len;
}

int disk_readv(struct disk *d, struct iothread *io, struct disk_bounce *b, struct disk_op *op,
	       struct iovec *iov, unsigned n, uint64_t off)
{
	(void)d, (void)io, (void)b;
	host.reads++;
	for (unsigned i = 0; i < n; i++)
		memset(iov[i].iov_base, (int)(off / 512), iov[i].iov_len);
	return answer(op, host.read_res == 1 ? sum(iov, n) : host.read_res);
}

int disk_writev(struct disk *d, struct iothread *io, struct disk_bounce *b, struct disk_op *op,
		struct iovec *iov, unsigned n, uint64_t off)
{
	(void)d, (void)io, (void)b, (void)off;
	host.changes++;
	return answer(op, host.write_res == 1 ? sum(iov, n) : host.write_res);
}

int disk_flush(struct disk *d, struct iothread *io, struct disk_op *op)
{
	(void)d, (void)io;
	host.flushes++;
	host.changes_at_flush = host.changes;
	return answer(op, host.flush_res == 1 ? 0 : host.flush_res);
}

int disk_discard(struct disk *d, struct iothread *io, struct disk_op *op)
{
	(void)d, (void)io;
	host.changes++;
	host.ranges += op->nranges;
	return answer(op, host.range_res);
}

int disk_zero(struct disk *d, struct iothread *io, struct disk_op *op, bool unmap)
{
	host.unmap = unmap;
	return disk_discard(d, io, op);
}

/* ---- the guest ---- */

static struct fakeguest *fg;

static void start(int cache_type, uint64_t features)
{
	struct blk_config cfg = {.drive_id = (char[]){"d"},
				 .path_on_host = (char[]){"x"},
				 .cache_type = cache_type,
				 .discard = true,
				 .queues = 1,
				 .queue_size = 256};
	struct device *d;

	memset(&host, 0, sizeof(host));
	host.read_res = host.write_res = host.flush_res = 1;
	fg = fg_create(MIB(8));
	need(!blk_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, features, 64);
}

/* Header and len bytes of data to or from sector; *status_gpa says where the answer will be. */
static uint16_t add(uint32_t type, uint64_t sector, uint32_t len, uint64_t *status_gpa)
{
	struct virtio_blk_outhdr hdr = {.type = htole32(type), .sector = htole64(sector)};
	const struct fg_buf rd[] = {{&hdr, sizeof(hdr)}, {.len = len}};
	const struct fg_buf wr[] = {{.len = len}, {.len = 1}};
	uint64_t gpa[2];
	uint16_t head;

	if (type == VIRTIO_BLK_T_IN) {
		head = fg_add(&fg->q[0], rd, 1, wr, 2, gpa);
		*status_gpa = gpa[1];
	} else {
		head = fg_add(&fg->q[0], rd, len ? 2 : 1, &wr[1], 1, status_gpa);
	}
	return head;
}

static uint8_t status_at(uint64_t gpa)
{
	return *(uint8_t *)fg_ptr(fg, gpa, 1);
}

static int request(uint32_t type, uint32_t len, uint32_t *used)
{
	uint64_t gpa;

	add(type, 0, len, &gpa);
	need(fg_used(&fg->q[0], used) >= 0);
	return status_at(gpa);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* Returns once the iothread has looked at everything that was kicked. */
static void settle(void)
{
	for (unsigned i = 0; i < 3; i++)
		loop_call(fg->dev->io, nothing, NULL);
}

static void complete_newest(void *arg)
{
	struct io_op *op = host.op[--host.n];

	(void)arg;
	op->done(op, host.res[host.n]);
}

static unsigned pending(void)
{
	settle();
	return __atomic_load_n(&host.n, __ATOMIC_RELAXED);
}

/* Until n operations are with the disk; a kick is noticed when it is noticed. */
static bool wait_pending(unsigned n)
{
	for (unsigned i = 0; i < 10000 && pending() < n; i++)
		sched_yield();
	return pending() == n;
}

/* ---- tests ---- */

static void test_errors(void)
{
	uint32_t used = 0;

	start(BLK_CACHE_WRITEBACK, FLUSH);
	host.read_res = -EIO;
	is(request(VIRTIO_BLK_T_IN, 1024, &used), VIRTIO_BLK_S_IOERR,
	   "a read that fails on the host fails in the guest");
	is(used, 1, "and nothing but the status is filled");
	host.read_res = 512;
	is(request(VIRTIO_BLK_T_IN, 1024, &used), VIRTIO_BLK_S_IOERR,
	   "so does one that stops short");
	is(used, 513, "what was read is counted");
	host.read_res = -EOPNOTSUPP;
	is(request(VIRTIO_BLK_T_IN, 1024, NULL), VIRTIO_BLK_S_IOERR,
	   "whatever the host calls it, it is an I/O error");
	host.write_res = -ENOSPC;
	is(request(VIRTIO_BLK_T_OUT, 1024, &used), VIRTIO_BLK_S_IOERR,
	   "a full host disk is an error of the write");
	host.write_res = 512;
	is(request(VIRTIO_BLK_T_OUT, 1024, NULL), VIRTIO_BLK_S_IOERR,
	   "so is a write that stops short");
	host.flush_res = -EIO;
	is(request(VIRTIO_BLK_T_FLUSH, 0, NULL), VIRTIO_BLK_S_IOERR,
	   "a flush that fails is reported");
	is(host.flushes, 1, "and not tried again");
	host.read_res = host.write_res = host.flush_res = 1;
	is(request(VIRTIO_BLK_T_IN, 1024, &used), VIRTIO_BLK_S_OK, "the disk goes on afterwards");
	is(request(VIRTIO_BLK_T_OUT, 1024, &used), VIRTIO_BLK_S_OK, "also for writing");
	is(virtio_status_read(fg->dev) & VIRTIO_CONFIG_S_NEEDS_RESET, 0,
	   "none of this is the driver's fault");
	fg_destroy(fg);
}

static void test_full(void)
{
	static const char line[] =
		"wherry: warning: blk0: drive \"d\": the host has no room for what the guest "
		"writes, which gets I/O errors: free space, or raise the quota or ulimit -f\n";
	struct capture cap;
	char said[1000];

	capture_begin(&cap);
	start(BLK_CACHE_WRITEBACK, FLUSH);
	host.write_res = 512;
	need(request(VIRTIO_BLK_T_OUT, 1024, NULL) == VIRTIO_BLK_S_IOERR);
	host.write_res = -ENOSPC;
	for (unsigned i = 0; i < 3; i++)
		need(request(VIRTIO_BLK_T_OUT, 1024, NULL) == VIRTIO_BLK_S_IOERR);
	fg_destroy(fg);
	capture_end(&cap, said, sizeof(said));
	ok(!strcmp(said, line),
	   "a full host is said once, with the drive and what to do: whether writes fail or stop "
	   "short");
}

static void test_write_through(void)
{
	start(BLK_CACHE_WRITEBACK, FLUSH);
	request(VIRTIO_BLK_T_OUT, 512, NULL);
	is(host.flushes, 0, "a driver that can flush is left to do it");
	is(request(VIRTIO_BLK_T_FLUSH, 0, NULL), VIRTIO_BLK_S_OK, "when it wants to");
	is(host.flushes, 1, "which reaches the disk");
	fg_destroy(fg);

	start(BLK_CACHE_WRITEBACK, 0);
	is(request(VIRTIO_BLK_T_OUT, 512, NULL), VIRTIO_BLK_S_OK,
	   "without that feature a write succeeds");
	is(host.flushes, 1, "after a flush of its own");
	is(host.changes_at_flush, 1, "that began when the data was written");
	request(VIRTIO_BLK_T_IN, 512, NULL);
	is(host.flushes, 1, "a read needs none");
	host.flush_res = -EIO;
	is(request(VIRTIO_BLK_T_OUT, 512, NULL), VIRTIO_BLK_S_IOERR,
	   "if the flush fails the write has failed");
	host.write_res = -EIO;
	is(request(VIRTIO_BLK_T_OUT, 512, NULL), VIRTIO_BLK_S_IOERR, "if the write fails");
	is(host.flushes, 2, "there is nothing to flush");
	fg_destroy(fg);

	start(BLK_CACHE_UNSAFE, 0);
	request(VIRTIO_BLK_T_OUT, 512, NULL);
	is(host.flushes, 0, "an unsafe disk never flushes");
	fg_destroy(fg);
}

static void test_write_through_later(void)
{
	uint64_t gpa;

	start(BLK_CACHE_WRITEBACK, 0);
	host.later = true;
	add(VIRTIO_BLK_T_OUT, 0, 512, &gpa);
	need(wait_pending(1));
	*(uint8_t *)fg_ptr(fg, gpa, 1) = 0xee;
	is(host.flushes, 0, "no flush begins while the write is under way");
	loop_call(fg->dev->io, complete_newest, NULL);
	is(pending(), 1, "then it does");
	is(status_at(gpa), 0xee, "and the guest still waits");
	loop_call(fg->dev->io, complete_newest, NULL);
	need(fg_used(&fg->q[0], NULL) >= 0);
	is(status_at(gpa), VIRTIO_BLK_S_OK, "until that is complete too");
	fg_destroy(fg);
}

/* The newest is answered first: requests are independent of each other. */
static void test_out_of_order(uint64_t features)
{
	uint64_t gpa[21];
	uint16_t head[20];
	unsigned wrong = 0;

	start(BLK_CACHE_WRITEBACK, FLUSH | features);
	host.later = true;
	for (unsigned i = 0; i < 20; i++)
		head[i] = add(VIRTIO_BLK_T_IN, i, 512, &gpa[i]);
	need(wait_pending(20));
	for (unsigned i = 20; i-- > 0;) {
		loop_call(fg->dev->io, complete_newest, NULL);
		wrong += fg_used(&fg->q[0], NULL) != head[i];
		wrong += status_at(gpa[i]) != VIRTIO_BLK_S_OK || status_at(gpa[i] - 1) != i;
	}
	is(wrong, 0, "twenty requests complete in any order, each with its own data");
	fg_destroy(fg);
}

/* ---- ranges ---- */

/* A discard or zeroes of the second sector; flags as on the wire. */
static int request_range(uint32_t type, uint32_t flags)
{
	struct virtio_blk_outhdr hdr = {.type = htole32(type)};
	struct virtio_blk_discard_write_zeroes seg = {
		.sector = htole64(1), .num_sectors = htole32(1), .flags = htole32(flags)};
	const struct fg_buf rd[] = {{&hdr, sizeof(hdr)}, {&seg, sizeof(seg)}}, wr = {.len = 1};
	uint64_t gpa;

	fg_add(&fg->q[0], rd, 2, &wr, 1, &gpa);
	need(fg_used(&fg->q[0], NULL) >= 0);
	return status_at(gpa);
}

static void test_ranges(void)
{
	start(BLK_CACHE_WRITEBACK, FLUSH);
	is(request_range(VIRTIO_BLK_T_DISCARD, 0), VIRTIO_BLK_S_OK, "a discard reaches the disk");
	is(host.ranges, 1, "with its range");
	is(request_range(VIRTIO_BLK_T_WRITE_ZEROES, 0), VIRTIO_BLK_S_OK, "so do zeroes");
	is(host.unmap, false, "that keep their room");
	is(request_range(VIRTIO_BLK_T_WRITE_ZEROES, VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP),
	   VIRTIO_BLK_S_OK, "and those");
	is(host.unmap, true, "that do not");
	is(host.flushes, 0, "a driver that can flush is left to do it");
	host.range_res = -EOPNOTSUPP;
	is(request_range(VIRTIO_BLK_T_DISCARD, 0), VIRTIO_BLK_S_UNSUPP,
	   "where the host cannot discard the driver need not try again");
	host.range_res = -EIO;
	is(request_range(VIRTIO_BLK_T_DISCARD, 0), VIRTIO_BLK_S_IOERR, "an error is one");
	fg_destroy(fg);

	start(BLK_CACHE_WRITEBACK, 0);
	is(request_range(VIRTIO_BLK_T_DISCARD, 0), VIRTIO_BLK_S_OK,
	   "without flush a discard succeeds");
	is(host.flushes, 1, "after a flush of its own");
	is(host.changes_at_flush, 1, "that began when it was done");
	is(request_range(VIRTIO_BLK_T_WRITE_ZEROES, 0), VIRTIO_BLK_S_OK, "zeroes too");
	is(host.flushes, 2, "are made durable");
	host.flush_res = -EOPNOTSUPP;
	is(request_range(VIRTIO_BLK_T_WRITE_ZEROES, 0), VIRTIO_BLK_S_IOERR,
	   "and if they cannot be, that is an error, whatever the host calls it");
	fg_destroy(fg);
}

static void test_refusals(void)
{
	char said[1000];
	struct capture cap;

	capture_begin(&cap);
	start(BLK_CACHE_WRITEBACK, FLUSH);
	host.read_res = host.write_res = host.flush_res = host.range_res = -EIO;
	need(request(VIRTIO_BLK_T_IN, 1024, NULL) == VIRTIO_BLK_S_IOERR);
	need(request(VIRTIO_BLK_T_OUT, 1024, NULL) == VIRTIO_BLK_S_IOERR);
	need(request(VIRTIO_BLK_T_FLUSH, 0, NULL) == VIRTIO_BLK_S_IOERR);
	need(request_range(VIRTIO_BLK_T_DISCARD, 0) == VIRTIO_BLK_S_IOERR);
	need(request_range(VIRTIO_BLK_T_WRITE_ZEROES, 0) == VIRTIO_BLK_S_IOERR);
	fg_destroy(fg);
	capture_end(&cap, said, sizeof(said));
	ok(!strcmp(said, "wherry: error: blk0: read of 1024 bytes at 0: Input/output error\n"
			 "wherry: error: blk0: write of 1024 bytes at 0: Input/output error\n"
			 "wherry: error: blk0: flush: Input/output error\n"
			 "wherry: error: blk0: discard of 512 bytes at 512: Input/output error\n"
			 "wherry: error: blk0: write of zeroes of 512 bytes at 512: Input/output "
			 "error\n"),
	   "what the host refuses is said: what it was, where, and how much");
}

/* ---- the cache ---- */

static void set_wce(uint8_t wce)
{
	virtio_config_write(fg->dev, offsetof(struct virtio_blk_config, wce), &wce, 1);
}

static uint8_t get_wce(void)
{
	struct virtio_blk_config c;

	virtio_config_read(fg->dev, 0, &c, sizeof(c));
	return c.wce;
}

static void test_cache_mode(void)
{
	const uint64_t wce = 1ull << VIRTIO_BLK_F_CONFIG_WCE;

	start(BLK_CACHE_WRITEBACK, FLUSH | wce);
	is(get_wce(), 1, "there is a cache");
	request(VIRTIO_BLK_T_OUT, 512, NULL);
	is(host.flushes, 0, "that keeps what is written");
	set_wce(0);
	is(get_wce(), 0, "the driver turns it off");
	request(VIRTIO_BLK_T_OUT, 512, NULL);
	is(host.flushes, 1, "and each write is flushed");
	is(request(VIRTIO_BLK_T_FLUSH, 0, NULL), VIRTIO_BLK_S_OK, "it may still flush");
	set_wce(1);
	request(VIRTIO_BLK_T_OUT, 512, NULL);
	is(host.flushes, 2, "on again, it keeps");
	set_wce(0);
	fg_start(fg, FLUSH | wce, 64);
	is(get_wce(), 1, "after a reset it is on");
	fg_start(fg, wce, 64);
	is(get_wce(), 0, "a driver that cannot flush has none");
	request(VIRTIO_BLK_T_OUT, 512, NULL);
	is(host.flushes, 3, "and what it writes is durable");
	fg_destroy(fg);

	start(BLK_CACHE_UNSAFE, FLUSH | wce);
	set_wce(1);
	is(get_wce(), 0, "an unsafe disk has no such switch");
	fg_destroy(fg);
}

/* ---- what it says of itself ---- */

static void test_config(void)
{
	struct virtio_blk_config c;

	start(BLK_CACHE_WRITEBACK, FLUSH);
	virtio_config_read(fg->dev, 0, &c, sizeof(c));
	is(le32toh(c.blk_size), 4096, "the block size is the disk's");
	is(c.physical_block_exp, 2, "a physical block is four of them");
	is(c.alignment_offset, 1, "the first of which begins one block on");
	is(le16toh(c.min_io_size), 16, "the least transfer is in blocks");
	is(le32toh(c.opt_io_size), 256, "the best one too");
	is(le32toh(c.discard_sector_alignment), 64, "discards are counted in sectors");
	fg_destroy(fg);
}

int main(void)
{
	test_errors();
	test_full();
	test_write_through();
	test_write_through_later();
	test_out_of_order(0);
	test_out_of_order(1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC);
	test_ranges();
	test_refusals();
	test_cache_mode();
	test_config();
	return done();
}
