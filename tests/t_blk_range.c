// SPDX-License-Identifier: Apache-2.0
/*
 * t_blk_range.c - virtio-blk's discard and zeroes through a real ring, on a file: what they do, and every way to ask wrongly.
 */
#include "blk_rig.h"
#include <sys/stat.h>

#define SEG_MAX_SENT 40

struct seg {
	uint64_t sector;
	uint32_t sectors, flags;
};

#define UNMAP VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP

/* A request of these segments, and extra bytes that belong to none. */
static int ask(uint32_t type, const struct seg *segs, unsigned n, uint32_t extra)
{
	struct virtio_blk_discard_write_zeroes payload[SEG_MAX_SENT] = {0};

	need(n < SEG_MAX_SENT);
	for (unsigned i = 0; i < n; i++)
		payload[i] = (struct virtio_blk_discard_write_zeroes){
			.sector = htole64(segs[i].sector),
			.num_sectors = htole32(segs[i].sectors),
			.flags = htole32(segs[i].flags)};
	return request(type, 0, payload, n * (uint32_t)sizeof(payload[0]) + extra, NULL, 0, NULL);
}

static int ask_one(uint32_t type, uint64_t sector, uint32_t sectors, uint32_t flags)
{
	return ask(type, &(struct seg){sector, sectors, flags}, 1, 0);
}

static void fill(void)
{
	uint8_t all[DISK_LEN];

	memset(all, 0xaa, sizeof(all));
	need(pwrite(file, all, sizeof(all), 0) == sizeof(all));
}

/* All sectors but [first, first + n) are as fill() left them; those are zeros, if zeros is set, or it does not matter. */
static bool only_these(unsigned first, unsigned n, bool zeros)
{
	uint8_t got[DISK_LEN];

	need(pread(file, got, sizeof(got), 0) == sizeof(got));
	for (unsigned i = 0; i < DISK_LEN; i++) {
		const bool in = i / 512 >= first && i / 512 < first + n;

		if (in ? zeros && got[i] : got[i] != 0xaa)
			return false;
	}
	return true;
}

static long room_of_file(void)
{
	struct stat st;

	need(!fsync(file) && !fstat(file, &st));
	return (long)st.st_blocks;
}

static bool untouched(void)
{
	return only_these(0, 0, false) && lseek(file, 0, SEEK_END) == DISK_LEN;
}

/* ---- what they do ---- */

static void test_zeroes(uint32_t flags, const char *how)
{
	static const struct {
		unsigned first, n;
	} range[] = {{0, 1}, {3, 1}, {7, 2}, {8, 8}, {5, 30}, {SECTORS - 1, 1}, {0, SECTORS}};

	for (unsigned i = 0; i < ARRAY_LEN(range); i++) {
		fill();
		is(ask_one(VIRTIO_BLK_T_WRITE_ZEROES, range[i].first, range[i].n, flags),
		   VIRTIO_BLK_S_OK, "%u sectors from %u on are zeroed, %s", range[i].n,
		   range[i].first, how);
		ok(only_these(range[i].first, range[i].n, true), "those and no others");
	}
	fill();
	is(ask_one(VIRTIO_BLK_T_WRITE_ZEROES, SECTORS, 0, flags), VIRTIO_BLK_S_OK,
	   "no sectors at the end are nothing");
	ok(untouched(), "and nothing happens");
}

static void test_discard(void)
{
	const struct seg three[] = {{0, 8, 0}, {16, 8, 0}, {40, 24, 0}};

	fill();
	is(ask_one(VIRTIO_BLK_T_DISCARD, 8, 16, 0), VIRTIO_BLK_S_OK, "sectors are discarded");
	ok(only_these(8, 16, false), "and no others");
	fill();
	is(ask(VIRTIO_BLK_T_DISCARD, three, 3, 0), VIRTIO_BLK_S_OK, "three ranges in one request");
	ok(file_has((uint8_t[512]){[0 ... 511] = 0xaa}, 512, 8 * 512),
	   "what is between them stays");
	fill();
	is(ask_one(VIRTIO_BLK_T_DISCARD, 1, 1, 0), VIRTIO_BLK_S_OK,
	   "less than a block may be asked for");
	ok(only_these(1, 1, false), "and harms nothing else");
	is(lseek(file, 0, SEEK_END), DISK_LEN, "the file is as long as before");
}

/* ---- asked wrongly ---- */

static void test_wrong(void)
{
	const uint32_t discard = VIRTIO_BLK_T_DISCARD, zeroes = VIRTIO_BLK_T_WRITE_ZEROES;
	static const struct seg fine = {0, 1, 0};
	struct seg many[SEG_MAX_SENT - 1];
	const struct {
		uint32_t type;
		struct seg seg;
		int status;
		const char *what;
	} wrong[] = {
		{discard, {SECTORS, 1, 0}, VIRTIO_BLK_S_IOERR, "discard behind the end"},
		{discard, {SECTORS - 1, 2, 0}, VIRTIO_BLK_S_IOERR, "discard over the end"},
		{discard, {UINT64_MAX, 1, 0}, VIRTIO_BLK_S_IOERR, "discard of the largest sector"},
		{discard, {UINT64_MAX / 512 + 1, 1, 0}, VIRTIO_BLK_S_IOERR, "one that wraps to 0"},
		{discard, {0, UINT32_MAX, 0}, VIRTIO_BLK_S_IOERR, "discard of all sectors"},
		{discard, {0, 1, UNMAP}, VIRTIO_BLK_S_UNSUPP, "discard with unmap"},
		{discard, {0, 1, 2}, VIRTIO_BLK_S_UNSUPP, "discard with an unknown flag"},
		{zeroes, {SECTORS, 1, 0}, VIRTIO_BLK_S_IOERR, "zeroes behind the end"},
		{zeroes, {1, SECTORS, UNMAP}, VIRTIO_BLK_S_IOERR, "zeroes over the end"},
		{zeroes, {1ull << 55, 1, 0}, VIRTIO_BLK_S_IOERR, "zeroes whose offset wraps"},
		{zeroes, {0, UINT32_MAX, 0}, VIRTIO_BLK_S_IOERR, "zeroes of all sectors"},
		{zeroes, {0, 1, 2 | UNMAP}, VIRTIO_BLK_S_UNSUPP, "zeroes with an unknown flag"},
		{zeroes, {0, 1, 0x80000000}, VIRTIO_BLK_S_UNSUPP, "or with the highest"},
	};

	fill();
	for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
		is(ask(wrong[i].type, &wrong[i].seg, 1, 0), wrong[i].status, "%s is refused",
		   wrong[i].what);
		ok(untouched(), "and changes nothing");
	}
	for (unsigned i = 0; i < ARRAY_LEN(many); i++)
		many[i] = (struct seg){i, 1, 0};
	is(ask(discard, many, le32toh(config_space().max_discard_seg) + 1, 0), VIRTIO_BLK_S_IOERR,
	   "more ranges than there may be are refused");
	is(ask(zeroes, many, 2, 0), VIRTIO_BLK_S_IOERR, "two of zeroes as well");
	is(ask(discard, NULL, 0, 0), VIRTIO_BLK_S_IOERR, "and none at all");
	for (uint32_t n = 1; n < 16; n += 7) {
		is(ask(discard, NULL, 0, n), VIRTIO_BLK_S_IOERR, "a range of %u bytes is none", n);
		is(ask(zeroes, &fine, 1, n), VIRTIO_BLK_S_IOERR, "nor are %u more than one", n);
	}
	ok(untouched(), "nothing of all that has been done");
	many[1].sector = SECTORS;
	is(ask(discard, many, 3, 0), VIRTIO_BLK_S_IOERR, "one wrong range of three spoils them");
	ok(untouched(), "before the first is begun");
	is(virtio_status_read(fg->dev) & VIRTIO_CONFIG_S_NEEDS_RESET, 0, "the device goes on");
}

/* ---- where there is no such thing ---- */

static void test_absent(void)
{
	struct blk_config cfg = PLAIN;
	long room;

	fill();
	cfg.discard = false;
	open_disk(cfg, FLUSH | RANGES);
	is(offered() & RANGES, F(WRITE_ZEROES), "discard can be left out");
	is(config_space().write_zeroes_may_unmap, 0, "zeroes then keep their room");
	is(ask_one(VIRTIO_BLK_T_DISCARD, 0, 1, 0), VIRTIO_BLK_S_UNSUPP, "a discard is not known");
	ok(untouched(), "and not done");
	is(ask_one(VIRTIO_BLK_T_WRITE_ZEROES, 0, 1, UNMAP), VIRTIO_BLK_S_OK,
	   "zeroes may be asked for as ever");
	ok(only_these(0, 1, true), "and are there");
	room = room_of_file();
	is(ask_one(VIRTIO_BLK_T_WRITE_ZEROES, 0, SECTORS, UNMAP), VIRTIO_BLK_S_OK,
	   "a driver that does not look may want their room given back");
	ok(only_these(0, SECTORS, true), "and gets zeroes");
	is(room_of_file(), room, "but the room stays");
	fg_destroy(fg);

	fill();
	cfg = PLAIN;
	cfg.is_read_only = true;
	open_disk(cfg, RANGES);
	is(ask_one(VIRTIO_BLK_T_DISCARD, 0, 1, 0), VIRTIO_BLK_S_IOERR,
	   "a read-only disk discards nothing");
	is(ask_one(VIRTIO_BLK_T_WRITE_ZEROES, 0, 1, 0), VIRTIO_BLK_S_IOERR, "and zeroes nothing");
	ok(untouched(), "really");
	fg_destroy(fg);
}

static void all(struct blk_config cfg, uint64_t features, const char *what)
{
	printf("# %s\n", what);
	open_disk(cfg, features);
	test_zeroes(0, "keeping their room");
	test_zeroes(UNMAP, "giving it back");
	test_discard();
	test_wrong();
	fg_destroy(fg);
}

int main(void)
{
	struct blk_config cfg = PLAIN;

	rig_begin();
	all(cfg, FLUSH | RANGES, "io_uring where the host has it");
	cfg.io_engine = BLK_ENGINE_SYNC;
	all(cfg, RANGES | 1ull << VIRTIO_RING_F_INDIRECT_DESC, "threads, without a cache");
	test_absent();
	rig_end();
	return done();
}
