// SPDX-License-Identifier: Apache-2.0
/*
 * t_blk.c - virtio-blk through a real ring, on a file: layouts, bounds, status bytes,
 * configuration.
 *
 * What a disk that fails, stops short or takes its time does to it is in t_blk_disk.c.
 */
#include "blk_rig.h"

/* ---- what it does ---- */

static void test_read_write(void)
{
	uint8_t out[4096], in[4096];
	uint32_t used = 0;

	pattern(out, sizeof(out), 1);
	is(request(VIRTIO_BLK_T_OUT, 8, out, sizeof(out), NULL, 0, &used), VIRTIO_BLK_S_OK,
	   "a write succeeds");
	is(used, 1, "and fills the status byte alone");
	ok(file_has(out, sizeof(out), 8 * 512), "the file has the data");
	is(request(VIRTIO_BLK_T_IN, 8, NULL, 0, in, sizeof(in), &used), VIRTIO_BLK_S_OK,
	   "a read succeeds");
	is(used, sizeof(in) + 1, "and fills data and status");
	ok(!memcmp(in, out, sizeof(in)), "with what was written");
	is(request(VIRTIO_BLK_T_FLUSH, 0, NULL, 0, NULL, 0, &used), VIRTIO_BLK_S_OK,
	   "a flush succeeds");
	is(used, 1, "and fills the status byte");
	is(request(VIRTIO_BLK_T_IN, SECTORS - 1, NULL, 0, in, 512, NULL), VIRTIO_BLK_S_OK,
	   "the last sector can be read");
	is(request(VIRTIO_BLK_T_IN, 0, NULL, 0, NULL, 0, &used), VIRTIO_BLK_S_OK,
	   "reading nothing is fine");
	is(used, 1, "and has a status");
	is(request(VIRTIO_BLK_T_OUT, SECTORS, NULL, 0, NULL, 0, NULL), VIRTIO_BLK_S_OK,
	   "writing nothing at the end too");
}

/* One cut at every place of the readable part. */
static void test_split_write(void)
{
	uint8_t stream[sizeof(struct virtio_blk_outhdr) + 1024];
	struct virtio_blk_outhdr hdr = header(VIRTIO_BLK_T_OUT, 4);
	const struct fg_buf status = {.len = 1};
	unsigned bad = 0;

	memcpy(stream, &hdr, sizeof(hdr));
	for (uint32_t cut = 1; cut < sizeof(stream); cut++) {
		const struct fg_buf rd[] = {{stream, cut},
					    {stream + cut, (uint32_t)sizeof(stream) - cut}};

		pattern(stream + sizeof(hdr), 1024, cut);
		bad += send(rd, 2, &status, 1, NULL, NULL) != VIRTIO_BLK_S_OK;
		bad += !file_has(stream + sizeof(hdr), 1024, 4 * 512);
	}
	is(bad, 0, "a write may be cut in two anywhere");
	pattern(stream + sizeof(hdr), 1024, 7);
	is(send(&(struct fg_buf){stream, sizeof(stream)}, 1, &status, 1, NULL, NULL),
	   VIRTIO_BLK_S_OK, "or be all in one");
	ok(file_has(stream + sizeof(hdr), 1024, 4 * 512), "the file has that");
}

/* One cut at every place of the writable part, the one before the status among them. */
static void test_split_read(void)
{
	struct virtio_blk_outhdr hdr = header(VIRTIO_BLK_T_IN, 4);
	const struct fg_buf rd = {&hdr, sizeof(hdr)};
	uint8_t want[1024], in[1024];
	unsigned bad = 0;

	need(pread(file, want, sizeof(want), 4 * 512) == sizeof(want));
	for (uint32_t cut = 1; cut <= 1024; cut++) {
		const struct fg_buf wr[] = {{.len = cut}, {.len = 1025 - cut}};
		uint32_t used = 0;

		memset(in, 0, sizeof(in));
		bad += send(&rd, 1, wr, 2, in, &used) != VIRTIO_BLK_S_OK;
		bad += used != 1025 || memcmp(in, want, sizeof(in));
	}
	is(bad, 0, "so may a read, with the status merged or apart");
}

static void test_many_pieces(void)
{
	struct virtio_blk_outhdr hdr = header(VIRTIO_BLK_T_OUT, 16);
	uint8_t out[1024], *h = (uint8_t *)&hdr;
	struct fg_buf rd[40];
	const struct fg_buf status = {.len = 1};
	unsigned n = 0, at = 0;

	pattern(out, sizeof(out), 99);
	for (unsigned i = 0; i < sizeof(hdr); i++)
		rd[n++] = (struct fg_buf){h + i, 1};
	for (unsigned len = 1; at < sizeof(out); len += 17) {
		len = MIN(len, (unsigned)sizeof(out) - at);
		rd[n++] = (struct fg_buf){out + at, len};
		at += len;
	}
	is(send(rd, n, &status, 1, NULL, NULL), VIRTIO_BLK_S_OK,
	   "a header in single bytes is understood");
	ok(file_has(out, sizeof(out), 16 * 512), "and data in odd pieces as well");
}

static void test_get_id(const char *want)
{
	char id[20] = {0}, in[64] = {0};
	uint32_t used = 0;

	memcpy(id, want, strnlen(want, sizeof(id)));
	is(request(VIRTIO_BLK_T_GET_ID, 0, NULL, 0, in, 20, &used), VIRTIO_BLK_S_OK,
	   "the disk has an id");
	ok(!memcmp(in, id, 20), "%s, padded with zeros", want);
	is(used, 21, "twenty bytes and the status");
	memset(in, 'x', sizeof(in));
	is(request(VIRTIO_BLK_T_GET_ID, 77777, NULL, 0, in, 3, &used), VIRTIO_BLK_S_OK,
	   "a short buffer gets its beginning");
	ok(!memcmp(in, id, 3) && used == 4, "three bytes and the status");
	is(request(VIRTIO_BLK_T_GET_ID, 0, NULL, 0, in, 64, &used), VIRTIO_BLK_S_OK,
	   "a long one is not filled");
	is(used, 21, "beyond the id");
}

/* ---- what it refuses ---- */

static void test_bounds(void)
{
	static const struct {
		uint64_t sector;
		uint32_t len;
		const char *what;
	} bad[] = {
		{0, 700, "a length that is not in whole sectors"},
		{0, 1, "a single byte"},
		{SECTORS, 512, "the sector behind the last"},
		{SECTORS - 1, 1024, "two sectors from the last on"},
		{SECTORS + 1, 512, "a sector far behind"},
		{0, DISK_LEN + 512, "more than there is"},
		{1ull << 55, 512, "a sector whose offset wraps"},
		{UINT64_MAX, 512, "the largest sector"},
		{UINT64_MAX / 512 + 1, 512, "one that wraps to zero"},
		{(1ull << 63) / 512, 512, "one beyond any file offset"},
	};
	static uint8_t buf[DISK_LEN + 512];
	uint32_t used;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		is(request(VIRTIO_BLK_T_IN, bad[i].sector, NULL, 0, buf, bad[i].len, &used),
		   VIRTIO_BLK_S_IOERR, "reading %s is an error", bad[i].what);
		is(used, 1, "that fills the status alone");
		is(request(VIRTIO_BLK_T_OUT, bad[i].sector, buf, bad[i].len, NULL, 0, &used),
		   VIRTIO_BLK_S_IOERR, "so is writing it");
	}
	is(lseek(file, 0, SEEK_END), DISK_LEN, "the file has not grown");
}

/* Each descriptor alone would fit: it is the sum that counts. */
static void test_sum(void)
{
	struct virtio_blk_outhdr hdr = header(VIRTIO_BLK_T_OUT, SECTORS - 1);
	const struct fg_buf rd[] = {
		{&hdr, sizeof(hdr)}, {.len = 512}, {.len = 512}, {.len = 512}, {.len = 512}};
	const struct fg_buf odd[] = {{&hdr, sizeof(hdr)}, {.len = 511}, {.len = 513}};
	const struct fg_buf status = {.len = 1};

	is(send(rd, 5, &status, 1, NULL, NULL), VIRTIO_BLK_S_IOERR,
	   "four sectors do not fit where one would");
	is(lseek(file, 0, SEEK_END), DISK_LEN, "and do not make the file longer");
	hdr.sector = htole64(SECTORS - 2);
	is(send(odd, 3, &status, 1, NULL, NULL), VIRTIO_BLK_S_OK,
	   "511 and 513 bytes are two sectors");
}

static void test_types(void)
{
	static const uint32_t unknown[] = {2, 3, 5, 7, VIRTIO_BLK_T_SECURE_ERASE, 15, 0x80000000};
	uint8_t buf[512];
	uint32_t used;

	for (unsigned i = 0; i < ARRAY_LEN(unknown); i++) {
		is(request(unknown[i], 0, buf, 512, NULL, 0, &used), VIRTIO_BLK_S_UNSUPP,
		   "type 0x%x is not supported", unknown[i]);
		is(used, 1, "which is said in a status byte");
	}
}

static void test_malformed(void)
{
	struct virtio_blk_outhdr hdr = header(VIRTIO_BLK_T_FLUSH, 0);
	const struct fg_buf status = {.len = 1};
	uint8_t buf[512];
	unsigned bad = 0;

	for (uint32_t n = 1; n < sizeof(hdr); n++)
		bad += send(&(struct fg_buf){&hdr, n}, 1, &status, 1, NULL, NULL) !=
		       VIRTIO_BLK_S_IOERR;
	is(bad, 0, "a header that is too short is an error of the request");
	is(send(NULL, 0, &status, 1, NULL, NULL), VIRTIO_BLK_S_IOERR, "so is none at all");
	is(request(VIRTIO_BLK_T_IN, 0, NULL, 0, buf, 512, NULL), VIRTIO_BLK_S_OK,
	   "and the device goes on");
	is(virtio_status_read(fg->dev) & VIRTIO_CONFIG_S_NEEDS_RESET, 0,
	   "without having to be reset");
}

static void test_no_status(void)
{
	struct virtio_blk_outhdr hdr = header(VIRTIO_BLK_T_FLUSH, 0);
	const struct fg_buf rd = {&hdr, sizeof(hdr)};
	uint32_t used = 99;
	uint8_t buf[512];

	fg_add(&fg->q[0], &rd, 1, NULL, 0, NULL);
	ok(fg_wait_broken(fg), "without room for a status the queue is broken");
	ok(fg_used(&fg->q[0], &used) >= 0 && !used, "and the request given back");
	fg_start(fg, FLUSH, 64);
	is(request(VIRTIO_BLK_T_IN, 0, NULL, 0, buf, 512, NULL), VIRTIO_BLK_S_OK,
	   "a reset repairs it");
}

/* ---- what it says of itself ---- */

static void test_config(void)
{
	const uint64_t always = F(SEG_MAX) | F(SIZE_MAX) | F(BLK_SIZE) | F(TOPOLOGY) | FLUSH |
				F(CONFIG_WCE) | RANGES;
	const struct virtio_blk_config c = config_space();
	uint8_t byte = 1;

	is(le64toh(c.capacity), SECTORS, "the capacity is in sectors");
	is(le32toh(c.blk_size), 512, "the block size is that of a file");
	is(le32toh(c.seg_max), 254, "the largest request fits the ring");
	ok(le32toh(c.size_max) >= MIB(1) && 254ull * le32toh(c.size_max) <= INT32_MAX,
	   "and all of its segments together an operation of the host");
	is(le16toh(c.num_queues), 1, "it has a queue");
	ok(c.physical_block_exp <= 7, "a physical block is 512 to 65536 bytes");
	is(c.alignment_offset, 0, "the first of which begins where the file does");
	ok(le16toh(c.min_io_size) > 0, "there is a least transfer");
	ok(le32toh(c.max_discard_sectors) > 0 && le32toh(c.max_discard_seg) > 0 &&
		   le32toh(c.discard_sector_alignment) > 0,
	   "discard has limits, none of which is zero");
	ok(le32toh(c.max_write_zeroes_sectors) > 0 && le32toh(c.max_write_zeroes_seg) > 0,
	   "so have zeroes");
	is(c.write_zeroes_may_unmap, 1, "which may be given back");
	virtio_config_read(fg->dev, sizeof(c), &byte, 1);
	is(byte, 0, "behind the end it reads zero");
	is(fg->dev->id, VIRTIO_ID_BLOCK, "it is a block device");
	is(offered() & 0xffffff, always, "a writable disk offers what it does, and not RO");
}

static void test_readonly(void)
{
	struct blk_config cfg = PLAIN;
	uint8_t before[512], buf[512] = {1};

	cfg.is_read_only = true;
	open_disk(cfg, FLUSH);
	need(pread(file, before, 512, 0) == 512);
	is(offered() & (F(RO) | FLUSH | F(CONFIG_WCE) | RANGES), F(RO),
	   "a read-only disk says so and has nothing to flush, discard or zero");
	is(request(VIRTIO_BLK_T_OUT, 0, buf, 512, NULL, 0, NULL), VIRTIO_BLK_S_IOERR,
	   "it cannot be written");
	ok(file_has(before, 512, 0), "and is not");
	is(request(VIRTIO_BLK_T_IN, 0, NULL, 0, buf, 512, NULL), VIRTIO_BLK_S_OK, "but read");
	is(request(VIRTIO_BLK_T_FLUSH, 0, NULL, 0, NULL, 0, NULL), VIRTIO_BLK_S_UNSUPP,
	   "a flush is not supported");
	fg_destroy(fg);
}

static void test_unsafe(void)
{
	uint8_t buf[512] = {1};

	open_disk((struct blk_config){.cache_type = BLK_CACHE_UNSAFE}, FLUSH);
	is(offered() & FLUSH, 0, "an unsafe disk does not offer to flush");
	is(request(VIRTIO_BLK_T_FLUSH, 0, NULL, 0, NULL, 0, NULL), VIRTIO_BLK_S_UNSUPP,
	   "and does not pretend to");
	is(request(VIRTIO_BLK_T_OUT, 0, buf, 512, NULL, 0, NULL), VIRTIO_BLK_S_OK,
	   "it can be written");
	fg_destroy(fg);
}

static void test_serials(void)
{
	struct blk_config cfg = PLAIN;

	cfg.drive_id = (char[]){"a_drive_id_of_more_than_20_characters"};
	open_disk(cfg, FLUSH);
	test_get_id(cfg.drive_id);
	fg_destroy(fg);
	cfg.serial = (char[]){"S/N 0815"};
	open_disk(cfg, FLUSH);
	test_get_id(cfg.serial);
	fg_start(fg, FLUSH, 8);
	test_get_id(cfg.serial);
	fg_destroy(fg);
}

static void test_create_fails(void)
{
	struct blk_config cfg = PLAIN;
	struct device *d = NULL;

	cfg.queues = 1;
	cfg.queue_size = 256;
	cfg.drive_id = (char[]){"ok"};
	cfg.path_on_host = (char[]){"/nonexistent/image"};
	is(blk_device.create(NULL, &cfg, 0, &d), -ENOENT, "an image that is not there is refused");
	ok(!d, "and there is no device");
}

/* ---- many at once ---- */

static void test_depth(void)
{
	struct virtio_blk_outhdr hdr[16];
	uint8_t out[16][512];
	const struct fg_buf status = {.len = 1};
	unsigned bad = 0;

	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 16; i++) {
			const struct fg_buf rd[] = {{&hdr[i], sizeof(hdr[i])}, {out[i], 512}};

			hdr[i] = header(VIRTIO_BLK_T_OUT, i * 3);
			pattern(out[i], 512, round * 16 + i);
			fg_add(&fg->q[0], rd, 2, &status, 1, NULL);
		}
		for (unsigned i = 0; i < 16; i++)
			need(fg_used(&fg->q[0], NULL) >= 0);
		for (unsigned i = 0; i < 16; i++)
			bad += !file_has(out[i], 512, i * 3 * 512);
	}
	is(bad, 0, "sixteen writes at once reach their places");
}

static void all(uint64_t features, const char *what)
{
	printf("# %s\n", what);
	open_disk(PLAIN, features);
	test_config();
	test_read_write();
	test_split_write();
	test_split_read();
	test_many_pieces();
	test_get_id("rootfs");
	test_bounds();
	test_sum();
	test_types();
	test_malformed();
	test_no_status();
	test_depth();
	fg_destroy(fg);
}

int main(void)
{
	const uint64_t ring = 1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC;

	rig_begin();
	all(FLUSH, "io_uring where the host has it");
	setenv("WHERRY_ENGINE", "epoll", 1);
	all(FLUSH | ring, "epoll and threads, event index, indirect tables");
	all(0, "write-through, as no flush was negotiated");
	unsetenv("WHERRY_ENGINE");
	test_readonly();
	test_unsafe();
	test_serials();
	test_create_fails();
	rig_end();
	return done();
}
