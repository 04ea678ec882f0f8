// SPDX-License-Identifier: Apache-2.0
/*
 * t_blk_live.c - virtio-blk while it runs: several queues, limits, and a file that is changed or changed for another.
 */
#include "blk_rig.h"
#include <sys/stat.h>
#include <time.h>

/* One sector written or read by queue q; its status. */
static int one(unsigned q, uint32_t type, uint64_t sector, uint8_t *data)
{
	struct virtio_blk_outhdr hdr = header(type, sector);
	const struct fg_buf rd[] = {{&hdr, sizeof(hdr)}, {data, 512}};
	const struct fg_buf wr[] = {{.len = 512}, {.len = 1}};
	const bool in = type == VIRTIO_BLK_T_IN;
	uint64_t gpa[2];
	uint8_t *p;

	fg_add(&fg->q[q], rd, in ? 1 : 2, in ? wr : &wr[1], in ? 2 : 1, gpa);
	if (fg_used(&fg->q[q], NULL) < 0)
		return -1;
	p = fg_ptr(fg, gpa[0], in ? 513 : 1);
	if (!in)
		return p[0];
	memcpy(data, p, 512);
	return p[512];
}

static int write_one(unsigned q, uint64_t sector, unsigned seed)
{
	uint8_t data[512];

	pattern(data, sizeof(data), seed);
	return one(q, VIRTIO_BLK_T_OUT, sector, data);
}

static bool reads(unsigned q, uint64_t sector, unsigned seed)
{
	uint8_t data[512], want[512];

	pattern(want, sizeof(want), seed);
	return one(q, VIRTIO_BLK_T_IN, sector, data) == VIRTIO_BLK_S_OK &&
	       !memcmp(data, want, sizeof(want));
}

/* ---- queues ---- */

static void test_queues(void)
{
	struct blk_config cfg = PLAIN;
	const struct fg_buf status = {.len = 1};
	struct virtio_blk_outhdr hdr[4][8];
	uint8_t data[4][8][512];
	unsigned bad = 0;

	cfg.queues = 4;
	open_disk(cfg, FLUSH | F(MQ));
	is(offered() & F(MQ), F(MQ), "a disk with four queues says so");
	is(le16toh(config_space().num_queues), 4, "and how many");
	is(fg->dev->nthreads, 4, "each has a thread");
	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < 32; i++) {
			unsigned q = i % 4, k = i / 4;
			const struct fg_buf rd[] = {{&hdr[q][k], sizeof(hdr[q][k])},
						    {data[q][k], 512}};

			hdr[q][k] = header(VIRTIO_BLK_T_OUT, i * 2);
			pattern(data[q][k], 512, round * 32 + i);
			fg_add(&fg->q[q], rd, 2, &status, 1, NULL);
		}
		for (unsigned i = 0; i < 32; i++)
			need(fg_used(&fg->q[i % 4], NULL) >= 0);
		for (unsigned i = 0; i < 32; i++)
			bad += !file_has(data[i % 4][i / 4], 512, i * 2 * 512);
	}
	is(bad, 0, "writes of all four reach their places");
	is(write_one(0, 9, 77), VIRTIO_BLK_S_OK, "what one queue has written");
	ok(reads(3, 9, 77), "another reads");
	fg_destroy(fg);
}

static void test_queue_default(void)
{
	struct blk_config cfg = PLAIN;
	struct device *d;

	fg = fg_create(MIB(16));
	fg->vm->ncpus = 3;
	cfg.drive_id = (char[]){"d"};
	cfg.path_on_host = path;
	cfg.queue_size = 16;
	need(!blk_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, FLUSH, 16);
	is(fg->dev->nqueues, 3, "without a number there is a queue for each vCPU");
	is(le32toh(config_space().seg_max), 14, "and requests fit a small ring");
	is(write_one(2, 1, 5), VIRTIO_BLK_S_OK, "the last of them works");
	fg_destroy(fg);
}

/* ---- limits ---- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* n sectors by queues in turn; how long that took. */
static uint64_t write_many(unsigned n, unsigned queues)
{
	uint64_t begin = now_ms();
	unsigned bad = 0;

	for (unsigned i = 0; i < n; i++)
		bad += write_one(i % queues, i % SECTORS, i) != VIRTIO_BLK_S_OK;
	is(bad, 0, "%u limited writes succeed", n);
	return now_ms() - begin;
}

static void test_limits(void)
{
	struct blk_config cfg = PLAIN;

	/* 5 at once and then one each 10 ms. No upper bound is tested: the machine may be busy. */
	cfg.rate_limiter.ops = (struct bucket_config){.size = 5, .refill_time = 50};
	open_disk(cfg, FLUSH);
	ok(write_many(25, 1) >= 195, "20 operations beyond the bucket take their time");
	fg_destroy(fg);

	cfg = PLAIN;
	cfg.queues = 2;
	cfg.rate_limiter.bandwidth = (struct bucket_config){
		.size = 2 * 512, .one_time_burst = 3 * 512, .refill_time = 20};
	open_disk(cfg, FLUSH | F(MQ));
	ok(write_many(25, 2) >= 195, "two queues share a limit of bytes, after a burst");
	is(request(VIRTIO_BLK_T_FLUSH, 0, NULL, 0, NULL, 0, NULL), VIRTIO_BLK_S_OK,
	   "what has no bytes is not held up by it");
	fg_destroy(fg);
}

/* A queue that waits for its limit is reset, started again, and taken away. */
static void test_limit_reset(uint32_t poll_us)
{
	struct blk_config cfg = PLAIN;
	struct virtio_blk_outhdr hdr = header(VIRTIO_BLK_T_FLUSH, 0);
	const struct fg_buf rd = {&hdr, sizeof(hdr)}, status = {.len = 1};

	cfg.poll_us = poll_us;
	cfg.rate_limiter.ops = (struct bucket_config){.size = 1, .refill_time = 3600000};
	open_disk(cfg, FLUSH);
	is(write_one(0, 1, 1), VIRTIO_BLK_S_OK, "one operation an hour: that was it");
	fg_add(&fg->q[0], &rd, 1, &status, 1, NULL);
	fg_add(&fg->q[0], &rd, 1, &status, 1, NULL);
	fg_reset(fg);
	is(virtio_status_read(fg->dev), 0, "a device whose queue waits can be reset");
	fg_start(fg, FLUSH, 64);
	fg_add(&fg->q[0], &rd, 1, &status, 1, NULL);
	fg_destroy(fg);
	ok(true, "and taken away");
}

/*
 * Each queue has a timer for the moment at which its limit lets it go on. A reset comes before that, in the midst of it and
 * after it: the timer is the queue's thread's, and afterwards the queue is not (the thread sanitizer sees who is late).
 */
static void test_limit_reset_often(void)
{
	struct blk_config cfg = PLAIN;
	struct virtio_blk_outhdr hdr = header(VIRTIO_BLK_T_FLUSH, 0);
	const struct fg_buf rd = {&hdr, sizeof(hdr)}, status = {.len = 1};
	unsigned bad = 0, rested = 0;

	cfg.queues = 2;
	cfg.rate_limiter.ops = (struct bucket_config){.size = 4, .refill_time = 1};
	open_disk(cfg, FLUSH | F(MQ));
	for (unsigned round = 0; round < 300; round++) {
		for (unsigned i = 0; i < 12; i++)
			fg_add(&fg->q[i % 2], &rd, 1, &status, 1, NULL);
		for (unsigned i = 0; i < round % 7; i++)
			bad += fg_used(&fg->q[i % 2], NULL) < 0;
		fg_reset(fg);
		for (unsigned q = 0; q < 2; q++)
			rested += !fg->dev->vq[q].held && !fg->dev->vq[q].reqs;
		fg_start(fg, FLUSH | F(MQ), 64);
	}
	is(bad, 0, "a reset finds queues that wait for a limit they share, three hundred times");
	is(rested, 600, "and leaves them as at power-on");
	is(write_one(1, 3, 3), VIRTIO_BLK_S_OK, "the last driver is served");
	fg_destroy(fg);
}

/* ---- another size, another file ---- */

static char *other(off_t size, unsigned seed)
{
	static char p[] = "/tmp/t_blk_other.XXXXXX";
	uint8_t data[512];
	int fd;

	snprintf(p, sizeof(p), "/tmp/t_blk_other.XXXXXX");
	fd = mkstemp(p);
	pattern(data, sizeof(data), seed);
	need(fd >= 0 && !ftruncate(fd, size) && pwrite(fd, data, 512, 0) == 512);
	close(fd);
	return p;
}

static unsigned config_irqs(void)
{
	return __atomic_load_n(&fg->irq_config, __ATOMIC_ACQUIRE);
}

static void test_size(uint16_t queues)
{
	struct blk_config cfg = PLAIN;
	uint8_t data[512];
	unsigned irqs;
	uint32_t generation;

	cfg.queues = queues;
	open_disk(cfg, FLUSH | F(MQ));
	irqs = config_irqs();
	generation = virtio_config_generation(fg->dev);
	is(drive->refresh(drive), 0, "a disk that is as large as before");
	is(config_irqs(), irqs, "is not spoken of");
	is(one(0, VIRTIO_BLK_T_IN, SECTORS, data), VIRTIO_BLK_S_IOERR, "behind its end is nothing");
	need(!ftruncate(file, 2 * DISK_LEN));
	is(one(0, VIRTIO_BLK_T_IN, SECTORS, data), VIRTIO_BLK_S_IOERR,
	   "nor when the file has grown");
	is(drive->refresh(drive), 0, "until it is looked at again");
	is(config_irqs(), irqs + 1, "which the driver is told");
	ok(virtio_config_generation(fg->dev) != generation, "with a new generation");
	is(le64toh(config_space().capacity), 2 * SECTORS, "and a new capacity");
	for (unsigned q = 0; q < queues; q++) {
		is(write_one(q, 2 * SECTORS - 1, q), VIRTIO_BLK_S_OK, "queue %u reaches its end",
		   q);
		ok(reads(q, 2 * SECTORS - 1, q), "and reads there");
	}
	need(!ftruncate(file, DISK_LEN + 100));
	is(one(0, VIRTIO_BLK_T_IN, 2 * SECTORS - 1, data), VIRTIO_BLK_S_IOERR,
	   "a file that was cut is an I/O error");
	is(drive->refresh(drive), 0, "until it is looked at");
	is(le64toh(config_space().capacity), SECTORS, "then it is small, in whole sectors");
	is(one(0, VIRTIO_BLK_T_OUT, SECTORS, data), VIRTIO_BLK_S_IOERR, "and is not grown again");
	is(lseek(file, 0, SEEK_END), DISK_LEN + 100, "by a write behind its end");
	need(!ftruncate(file, 0));
	is(drive->refresh(drive), -EINVAL, "one that is empty is no disk");
	is(le64toh(config_space().capacity), SECTORS, "and the drive as before");
	need(!ftruncate(file, DISK_LEN));
	fg_destroy(fg);
}

static void test_swap(void)
{
	struct blk_config cfg = PLAIN;
	char *p;

	cfg.queues = 2;
	open_disk(cfg, FLUSH | F(MQ));
	is(write_one(0, 0, 1), VIRTIO_BLK_S_OK, "the first file is written");
	p = other(DISK_LEN * 3, 200);
	is(blk_change(drive, p), 0, "another takes its place");
	is(config_irqs(), 1, "which the driver is told");
	is(le64toh(config_space().capacity), 3 * SECTORS, "with its size");
	ok(reads(0, 0, 200) && reads(1, 0, 200), "both queues read it");
	is(write_one(1, 5, 9), VIRTIO_BLK_S_OK, "and write it");
	is(blk_change(drive, "/nonexistent/image"), -ENOENT, "one that is not there does not");
	ok(reads(0, 5, 9), "and the drive goes on with what it has");
	is(blk_change(drive, path), 0, "the first one may come back: its lock was let go");
	ok(reads(1, 0, 1), "as it was left");
	fg_destroy(fg);
	unlink(p);
}

/* Requests on their way when the file changes end on one or the other, and none is lost. */
static void test_swap_busy(void)
{
	struct blk_config cfg = PLAIN;
	char *p = other(DISK_LEN, 3);
	const struct fg_buf status = {.len = 1};
	static uint8_t data[512];
	unsigned bad = 0;

	open_disk(cfg, FLUSH);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < 16; i++) {
			struct virtio_blk_outhdr hdr =
				header(i % 4 ? VIRTIO_BLK_T_OUT : VIRTIO_BLK_T_FLUSH, i);
			const struct fg_buf rd[] = {{&hdr, sizeof(hdr)}, {data, 512}};

			fg_add(&fg->q[0], rd, i % 4 ? 2 : 1, &status, 1, NULL);
		}
		bad += blk_change(drive, round % 2 ? path : p) != 0;
		for (unsigned i = 0; i < 16; i++)
			need(fg_used(&fg->q[0], NULL) >= 0);
	}
	is(bad, 0, "the file is changed fifty times under load");
	is(virtio_status_read(fg->dev) & VIRTIO_CONFIG_S_NEEDS_RESET, 0, "and all have an answer");
	fg_destroy(fg);
	unlink(p);
}

int main(void)
{
	rig_begin();
	test_queues();
	test_queue_default();
	test_limits();
	test_limit_reset(0);
	test_limit_reset(50);
	test_limit_reset_often();
	test_size(1);
	test_size(3);
	test_swap();
	test_swap_busy();
	rig_end();
	return done();
}
