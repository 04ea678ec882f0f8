// SPDX-License-Identifier: Apache-2.0
/*
 * blk_rig.h - a drive on a file of 64 sectors in the hands of a fake guest, for the tests of virtio-blk. One to a program.
 */
#ifndef TESTS_BLK_RIG_H
#define TESTS_BLK_RIG_H

#include "fakeguest.h"
#include "tap.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include <fcntl.h>
#include <linux/virtio_blk.h>

#define SECTORS  64u
#define DISK_LEN (SECTORS * 512)

static char path[] = "/tmp/t_blk.XXXXXX";
static struct fakeguest *fg;
static struct device *drive;
static int file;

/* The file of all disks; rig_end() takes it away. */
__attribute__((unused)) static void rig_begin(void)
{
	file = mkstemp(path);
	need(file >= 0 && !ftruncate(file, DISK_LEN));
}

__attribute__((unused)) static void rig_end(void)
{
	unlink(path);
	close(file);
}

__attribute__((unused)) static void open_disk(struct blk_config cfg, uint64_t features)
{
	cfg.drive_id = cfg.drive_id ? cfg.drive_id : (char[]){"rootfs"};
	cfg.path_on_host = path;
	cfg.queues = cfg.queues ? cfg.queues : 1;
	cfg.queue_size = cfg.queue_size ? cfg.queue_size : 256;
	fg = fg_create(MIB(16));
	need(!blk_device.create(fg->vm, &cfg, 0, &drive));
	fg_attach(fg, container_of(drive, struct virtio_dev, base));
	fg_start(fg, features, 64);
}

#define PLAIN                                                   \
	((struct blk_config){.cache_type = BLK_CACHE_WRITEBACK, \
			     .io_engine = BLK_ENGINE_ASYNC,     \
			     .discard = true})
#define F(bit) (1ull << VIRTIO_BLK_F_##bit)
#define FLUSH  F(FLUSH)
#define RANGES (F(DISCARD) | F(WRITE_ZEROES))

__attribute__((unused)) static struct virtio_blk_outhdr header(uint32_t type, uint64_t sector)
{
	return (struct virtio_blk_outhdr){.type = htole32(type), .sector = htole64(sector)};
}

/* Sends the buffers and waits; the status byte, which is preset to one that no device writes, or -1. */
__attribute__((unused)) static int send(const struct fg_buf *rd, unsigned nrd,
					const struct fg_buf *wr, unsigned nwr, void *in,
					uint32_t *used)
{
	uint64_t gpa[64];
	uint32_t total = 0, n = 0;
	uint8_t *p;

	need(nwr && nwr < 64);
	for (unsigned i = 0; i < nwr; i++)
		total += wr[i].len;
	fg_add(&fg->q[0], rd, nrd, wr, nwr, gpa);
	if (fg_used(&fg->q[0], &n) < 0)
		return -1;
	/* The buffers of a chain lie one behind the other. */
	p = fg_ptr(fg, gpa[0], total);
	if (in)
		memcpy(in, p, total - 1);
	if (used)
		*used = n;
	return p[total - 1];
}

/* A request as Linux sends it: header, data, status in descriptors of their own. */
__attribute__((unused)) static int request(uint32_t type, uint64_t sector, const void *out,
					   uint32_t out_len, void *in, uint32_t in_len,
					   uint32_t *used)
{
	struct virtio_blk_outhdr hdr = header(type, sector);
	const struct fg_buf rd[] = {{&hdr, sizeof(hdr)}, {out, out_len}};
	const struct fg_buf data[] = {{.len = in_len}, {.len = 1}}, status = {.len = 1};

	if (in_len)
		return send(rd, out_len ? 2 : 1, data, 2, in, used);
	return send(rd, out_len ? 2 : 1, &status, 1, NULL, used);
}

__attribute__((unused)) static void pattern(uint8_t *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 8) + seed);
}

__attribute__((unused)) static uint64_t offered(void)
{
	return virtio_features_read(fg->dev, 0) | (uint64_t)virtio_features_read(fg->dev, 1) << 32;
}

__attribute__((unused)) static struct virtio_blk_config config_space(void)
{
	struct virtio_blk_config c;

	virtio_config_read(fg->dev, 0, &c, sizeof(c));
	return c;
}

__attribute__((unused)) static bool file_has(const uint8_t *want, size_t n, off_t off)
{
	uint8_t got[DISK_LEN];

	need(n <= sizeof(got));
	return pread(file, got, n, off) == (ssize_t)n && !memcmp(got, want, n);
}

#endif
