// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_blk.c - virtio-blk requests of any shape, on a real ring, judged against a model of the disk.
 *
 * An input is a row of requests: the header, how much there is to read and to write, and how both are cut into
 * descriptors (some of no length; in the ring or in a table). What the device does is compared with what virtio 1.2,
 * 5.2.6 says: the status, used.len, the bytes that were written and those that must not have been touched, and at the
 * end the whole image. A request that moves nothing is one too. The first byte chooses a read-only disk, and features.
 */
#include "input.h"
#include "../../devices/disk.h"
#include "../../devices/table.h"
#include "../../devices/virtio_blk.h"
#include "../../vmm/log.h"
#include "../fakeguest.h"
#include <fcntl.h>
#include <linux/virtio_blk.h>
#include <stdio.h>

#define SECTORS  32u
#define DISK_LEN (SECTORS * 512u)
#define CANARY   0xa7
#define MAX_BUF  8192u
#define RING     32u
/* Guest-physical, above what fakeguest hands out. */
#define READABLE 0x200000u
#define WRITABLE 0x210000u
#define TABLE    0x220000u
#define CUTS     6u
#define MAX_SEGS 20u /* more than the device takes */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];
static int image; /* opened by us too, to look at */
static uint8_t model[DISK_LEN];

static struct fakeguest *machine_create(bool ro)
{
	struct blk_config cfg = {.drive_id = (char[]){"fuzz"},
				 .path_on_host = path,
				 .is_read_only = ro,
				 .cache_type = BLK_CACHE_WRITEBACK,
				 .queues = 1,
				 .queue_size = 256,
				 .discard = true};
	struct fakeguest *fg = fg_create(MIB(4));
	struct device *d;

	must(!blk_device.create(fg->vm, &cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	return fg;
}

static void clear(void)
{
	unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *tmp = getenv("TMPDIR");

	(void)argc;
	(void)argv;
	/* The sanitizers make calls that no thread of ours may. */
	setenv("WHERRY_SECCOMP", "off", 1);
	log_set_level(LOG_ERR);
	snprintf(path, sizeof(path), "%.40s/fuzz_blk.XXXXXX", tmp ? tmp : "/tmp");
	image = mkstemp(path);
	must(image >= 0 && !ftruncate(image, DISK_LEN));
	atexit(clear);
	return 0;
}

/* ---- a request ---- */

struct request {
	struct virtio_blk_outhdr hdr;
	uint8_t rd[MAX_BUF]; /* header and data, as the device sees them */
	uint32_t rd_len, wr_len;
};

/* One stream as up to CUTS descriptors, some of which may be empty. */
static unsigned cut(struct input *in, uint64_t gpa, uint32_t len, uint16_t flags,
		    struct vring_desc *d)
{
	unsigned n = 0;

	while (len || !n) {
		uint32_t piece = n + 1 < CUTS ? (uint32_t)take(in, 2) % (len + 1) : len;

		if (!in->left)
			piece = len;
		d[n++] = (struct vring_desc){htole64(gpa), htole32(piece), flags, 0};
		gpa += piece;
		len -= piece;
	}
	return n;
}

/* The heads go round the ring; a table lies behind the buffers. */
static void chain_put(struct fg_queue *q, const struct vring_desc *d, unsigned n, bool table)
{
	static uint16_t at;
	uint16_t head = at;

	if (table)
		fg_desc(q, head, TABLE, 16 * n, VRING_DESC_F_INDIRECT, 0);
	for (unsigned i = 0; i < n; i++) {
		uint16_t next = table ? (uint16_t)(i + 1) : (uint16_t)((at + 1) % RING);
		uint16_t flags = (uint16_t)(d[i].flags | (i + 1 < n ? VRING_DESC_F_NEXT : 0));

		if (table)
			((struct vring_desc *)fg_ptr(q->fg, TABLE, 16 * n))[i] =
				(struct vring_desc){d[i].addr, d[i].len, flags, next};
		else
			fg_desc(q, at, d[i].addr, d[i].len, flags, next);
		at = (uint16_t)((at + (table ? 0 : 1)) % RING);
	}
	if (table)
		at = (uint16_t)((at + 1) % RING);
	fg_avail_push(q, head);
	fg_kick(q);
}

static bool has_ranges(const struct request *r)
{
	const uint32_t type = le32toh(r->hdr.type);

	return type == VIRTIO_BLK_T_DISCARD || type == VIRTIO_BLK_T_WRITE_ZEROES;
}

/* A number within the disk or just behind it; wild: any of n bytes. */
static uint64_t take_sector(struct input *in, bool wild, unsigned n)
{
	return wild ? take(in, n) : take(in, 1) % (SECTORS + 2);
}

/* Up to MAX_SEGS of them. odd: the length of the request, which need not be theirs, stays as it is. */
static void add_ranges(struct input *in, struct request *r, bool wild, bool odd)
{
	const unsigned n = (unsigned)take(in, 1) % (MAX_SEGS + 1);
	struct virtio_blk_discard_write_zeroes seg;

	for (unsigned i = 0; i < n; i++) {
		seg.sector = htole64(take_sector(in, wild, 8));
		seg.num_sectors = htole32((uint32_t)take_sector(in, wild, 4));
		seg.flags = htole32((uint32_t)take(in, wild ? 4 : 1) & (wild ? ~0u : 1u));
		memcpy(r->rd + sizeof(r->hdr) + i * sizeof(seg), &seg, sizeof(seg));
	}
	if (!odd)
		r->rd_len = (uint32_t)(sizeof(r->hdr) + n * sizeof(seg));
}

static void publish(struct fakeguest *fg, struct input *in, struct request *r, bool table)
{
	struct vring_desc d[2 * CUTS];
	uint8_t how = (uint8_t)take(in, 1);
	unsigned n;

	r->hdr = (struct virtio_blk_outhdr){
		.type = htole32(how & 0x80 ? (uint32_t)take(in, 4) : how % 14u),
		.sector = htole64(take_sector(in, how & 0x40, 8))};
	r->rd_len = (uint32_t)take(in, 1) % 9 * 512 + 16;
	r->wr_len = (uint32_t)take(in, 1) % 8 * 512 + 1;
	if (how & 0x20) {
		r->rd_len += (uint32_t)take(in, 1);
		r->rd_len -= MIN(r->rd_len, (uint32_t)take(in, 1));
		r->wr_len += (uint32_t)take(in, 1);
	}
	memset(r->rd, (int)take(in, 1), sizeof(r->rd));
	memcpy(r->rd, &r->hdr, sizeof(r->hdr));
	if (has_ranges(r))
		add_ranges(in, r, how & 0x40, how & 0x20);
	memcpy(fg_ptr(fg, READABLE, MAX_BUF), r->rd, MAX_BUF);
	memset(fg_ptr(fg, WRITABLE, MAX_BUF), CANARY, MAX_BUF);
	n = cut(in, READABLE, r->rd_len, 0, d);
	n += cut(in, WRITABLE, r->wr_len, VRING_DESC_F_WRITE, d + n);
	chain_put(&fg->q[0], d, n, table && how & 0x10);
}

/* Sector and length lie on the disk, in whole sectors. */
static bool on_disk(uint64_t sector, uint64_t n)
{
	return n % 512 == 0 && sector <= SECTORS && n <= (SECTORS - sector) * 512;
}

/* 5.2.6.2 of one segment. */
static uint8_t expected_segment(const struct virtio_blk_discard_write_zeroes *seg, bool zeroes)
{
	const uint32_t known = zeroes ? VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP : 0;

	if (le32toh(seg->flags) & ~known)
		return VIRTIO_BLK_S_UNSUPP;
	/* The disk is far smaller than what one segment may have. */
	return on_disk(le64toh(seg->sector), 512ull * le32toh(seg->num_sectors))
		       ? VIRTIO_BLK_S_OK
		       : VIRTIO_BLK_S_IOERR;
}

/* All of the segments or none. What is discarded reads as zeros too, as the image is a file. */
static uint8_t expected_ranges(const struct request *r, bool ro)
{
	const bool zeroes = le32toh(r->hdr.type) == VIRTIO_BLK_T_WRITE_ZEROES;
	const uint32_t body = r->rd_len - (uint32_t)sizeof(r->hdr);
	const uint32_t n = body / sizeof(struct virtio_blk_discard_write_zeroes);
	struct virtio_blk_discard_write_zeroes seg[MAX_SEGS];
	uint8_t status = VIRTIO_BLK_S_OK;

	if (ro || !n || body % sizeof(seg[0]) || n > (zeroes ? 1u : DISK_RANGES_MAX))
		return VIRTIO_BLK_S_IOERR;
	memcpy(seg, r->rd + sizeof(r->hdr), body);
	for (uint32_t i = 0; i < n && status == VIRTIO_BLK_S_OK; i++)
		status = expected_segment(&seg[i], zeroes);
	for (uint32_t i = 0; i < n && status == VIRTIO_BLK_S_OK; i++)
		memset(model + le64toh(seg[i].sector) * 512, 0,
		       512ull * le32toh(seg[i].num_sectors));
	return status;
}

/* The status 5.2.6 wants; what is given back in front of it is *len bytes at *data. */
static uint8_t expected(const struct request *r, bool ro, const uint8_t **data, uint32_t *len)
{
	static const uint8_t id[VIRTIO_BLK_ID_BYTES] = "fuzz";
	const uint64_t sector = le64toh(r->hdr.sector);
	const uint32_t room = r->wr_len - 1, body = r->rd_len - (uint32_t)sizeof(r->hdr);

	*len = 0;
	if (r->rd_len < sizeof(r->hdr))
		return VIRTIO_BLK_S_IOERR;
	switch (le32toh(r->hdr.type)) {
	case VIRTIO_BLK_T_IN:
		if (!on_disk(sector, room))
			return VIRTIO_BLK_S_IOERR;
		*data = model + sector * 512;
		*len = room;
		return VIRTIO_BLK_S_OK;
	case VIRTIO_BLK_T_OUT:
		if (ro || !on_disk(sector, body))
			return VIRTIO_BLK_S_IOERR;
		memcpy(model + sector * 512, r->rd + sizeof(r->hdr), body);
		return VIRTIO_BLK_S_OK;
	case VIRTIO_BLK_T_GET_ID:
		*data = id;
		*len = MIN(room, VIRTIO_BLK_ID_BYTES);
		return VIRTIO_BLK_S_OK;
	case VIRTIO_BLK_T_FLUSH: /* which a read-only disk does not offer */
		return ro ? VIRTIO_BLK_S_UNSUPP : VIRTIO_BLK_S_OK;
	case VIRTIO_BLK_T_DISCARD:
	case VIRTIO_BLK_T_WRITE_ZEROES:
		return expected_ranges(r, ro);
	default:
		return VIRTIO_BLK_S_UNSUPP;
	}
}

static void judge(struct fakeguest *fg, const struct request *r, uint32_t used, bool ro)
{
	const uint8_t *p = fg_ptr(fg, WRITABLE, r->wr_len), *data = NULL;
	uint32_t len;
	uint8_t status = expected(r, ro, &data, &len);

	must(p[r->wr_len - 1] == status);
	must(used == len + 1);
	must(!len || !memcmp(p, data, len));
	/* What was not given back is as the driver left it. */
	for (uint32_t i = len; i + 1 < r->wr_len; i++)
		must(p[i] == CANARY);
}

/* One at a time: the model knows no order but this one. */
static void one(struct fakeguest *fg, struct input *in, bool ro, bool table)
{
	static struct request r;
	uint32_t used = 0;

	publish(fg, in, &r, table);
	must(fg_used(&fg->q[0], &used) >= 0);
	judge(fg, &r, used, ro);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	const uint8_t how = (uint8_t)take(&in, 1);
	const bool ro = how & 1, table = how & 4;
	uint8_t found[DISK_LEN];
	struct fakeguest *fg;

	for (unsigned i = 0; i < DISK_LEN; i++)
		model[i] = (uint8_t)(i * 31 + (i >> 9));
	must(pwrite(image, model, DISK_LEN, 0) == DISK_LEN);
	fg = machine_create(ro);
	fg_start(fg,
		 (how & 2 ? 1ull << VIRTIO_BLK_F_FLUSH : 0) |
			 (table ? 1ull << VIRTIO_RING_F_INDIRECT_DESC : 0) |
			 (how & 8 ? 1ull << VIRTIO_RING_F_EVENT_IDX : 0),
		 RING);
	while (in.left)
		one(fg, &in, ro, table);
	fg_destroy(fg);
	must(pread(image, found, DISK_LEN, 0) == DISK_LEN && !memcmp(found, model, DISK_LEN));
	return 0;
}
