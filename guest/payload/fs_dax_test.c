// SPDX-License-Identifier: Apache-2.0
/*
 * fs_dax_test.c - the window of a share: what is mapped there is the file, and what a guest may not map it does not get.
 *
 * Uses from-host.dat (pattern, seed 0) and makes dax.dat in the root of the share, which it removes. Memory that no file
 * is behind is touched only where a mapping reaches past the end of its file, which must not end the machine. Hard
 * cases: D67, J11. Spec: virtio 1.2, 5.11.6.4; linux/fuse.h.
 */
#include "dax.h"
#include "pattern.h"

#define LINUX_RANGE (2ull << 20) /* what Linux maps at a time, whatever the file's size */
#define FILE_LEN    (256u << 10)
#define SEED        11
#define SEED2       12
#define PAGE        4096u
#define MANY        500u

static struct dax dax;

static bool zeros(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const volatile uint8_t *)p)[i])
			return false;
	return true;
}

static uint64_t find(const char *name)
{
	struct fuse_entry_out e;

	if (fs_lookup(FUSE_ROOT_ID, name, &e) < 0)
		give_up("fs: %s: there is no such file", name);
	return e.nodeid;
}

/* FILE_LEN bytes of the pattern, open. */
static uint64_t make_file(uint64_t *fh)
{
	struct fuse_entry_out e;

	if (fs_create(FUSE_ROOT_ID, "dax.dat", O_RDWR, &e, fh) < 0)
		give_up("fs: dax.dat: cannot create it");
	fs_transfer(e.nodeid, *fh, FILE_LEN, SEED, true);
	return e.nodeid;
}

static void remove_file(uint64_t node, uint64_t fh)
{
	fs_release(FUSE_RELEASE, node, fh);
	fs_remove(FUSE_UNLINK, FUSE_ROOT_ID, "dax.dat");
	fs_forget(node, 1);
}

static void test_region(void)
{
	ok(dax.size >= LINUX_RANGE && !(dax.size & (dax.size - 1)),
	   "fs, dax: there is a window of %lu MiB", dax.size >> 20);
	ok(!((uint64_t)dax.window & (LINUX_RANGE - 1)), "fs, dax: it begins at a large page");
	is(dax.unit, PAGE, "fs, dax: the server maps pages of 4 KiB");
}

static void test_read(void)
{
	struct fuse_entry_out e;
	uint64_t len, end;

	fs_lookup(FUSE_ROOT_ID, "from-host.dat", &e);
	len = e.attr.size;
	end = (len + PAGE - 1) & -(uint64_t)PAGE;
	is(dax_map(e.nodeid, 0, 0, LINUX_RANGE, false), 0, "fs, dax: a file is mapped");
	is(pattern_check(dax.window, len, 0, 0), len,
	   "fs, dax: all its %lu bytes are as the host wrote them", len);
	ok(zeros(dax.window + len, end - len), "fs, dax: behind its end the page is zero");
	is(dax_map(e.nodeid, 16 * PAGE, 8 * PAGE, 2 * PAGE, false), 0,
	   "fs, dax: another part of it is mapped over that");
	is(pattern_check(dax.window + 8 * PAGE, 2 * PAGE, 0, 16 * PAGE), 2 * PAGE,
	   "fs, dax: and is what is seen there");
	is(pattern_check(dax.window, 8 * PAGE, 0, 0), 8 * PAGE, "fs, dax: what is before it stays");
	is(pattern_check(dax.window + 10 * PAGE, PAGE, 0, 10 * PAGE), PAGE,
	   "fs, dax: and what is behind it");
	is(dax_unmap(0, LINUX_RANGE), 0, "fs, dax: it is unmapped");
	is(dax_unmap(0, LINUX_RANGE), 0, "fs, dax: what is not mapped may be unmapped");
	fs_forget(e.nodeid, 1);
}

/* One range of the window for the file at its start, the next for the same pages again. */
static void test_write(void)
{
	uint8_t *first = dax.window, *second = first + FILE_LEN;
	uint64_t fh, node = make_file(&fh);
	struct seg s = {pool, PAGE};

	is(dax_map(node, 0, 0, FILE_LEN, true), 0, "fs, dax: a file is mapped for writing");
	is(pattern_check(first, FILE_LEN, SEED, 0), FILE_LEN,
	   "fs, dax: what was written by requests is seen there");
	pattern_fill(first, FILE_LEN, SEED2, 0);
	is(fs_transfer(node, fh, FILE_LEN, SEED2, false), 0,
	   "fs, dax: what is written there is read by requests");
	is(dax_map(node, 0, FILE_LEN, FILE_LEN, false), 0, "fs, dax: it is mapped a second time");
	pattern_fill(first + PAGE, PAGE, SEED, PAGE);
	is(pattern_check(second + PAGE, PAGE, SEED, PAGE), PAGE,
	   "fs, dax: both places are the same pages");
	pattern_fill(pool, PAGE, SEED, 2 * PAGE);
	fs_write(node, fh, 2 * PAGE, &s, 1);
	is(pattern_check(second + 2 * PAGE, PAGE, SEED, 2 * PAGE), PAGE,
	   "fs, dax: a later request's data is seen at once");
	is(dax_unmap(0, 2 * FILE_LEN), 0, "fs, dax: both are unmapped by one range");
	is(fs_read(FUSE_READ, node, fh, PAGE, &s, 1), PAGE, "fs, dax: the file is read");
	is(pattern_check(pool, PAGE, SEED, PAGE), PAGE, "fs, dax: what was written stays in it");
	remove_file(node, fh);
}

static void test_past_the_end(void)
{
	uint64_t fh, node = make_file(&fh);
	struct fuse_setattr_in cut = {.valid = FATTR_SIZE, .size = PAGE};
	struct fuse_attr a;

	is(dax_map(node, 0, 0, LINUX_RANGE, true), 0, "fs, dax: a mapping may reach past the end");
	ok(zeros(dax.window + LINUX_RANGE - PAGE, PAGE),
	   "fs, dax: a page past the end reads as zeros, and the machine goes on");
	fs_setattr(node, &cut, &a);
	is(a.size, PAGE, "fs, dax: a mapped file is cut");
	ok(zeros(dax.window + FILE_LEN / 2, PAGE),
	   "fs, dax: a page that was cut off reads as zeros, and the machine goes on");
	is(pattern_check(dax.window, PAGE, SEED, 0), PAGE, "fs, dax: one that was not is there");
	dax.window[FILE_LEN - PAGE] = 1;
	fs_getattr(node, &a);
	is(a.size, PAGE, "fs, dax: writing where the file has no page does not make it longer");
	is(dax_unmap(0, LINUX_RANGE), 0, "fs, dax: it is unmapped");
	remove_file(node, fh);
}

/* More pieces than a window of the least size has room for; each is looked at when all before it have been placed. */
static void test_many(void)
{
	uint64_t node = find("from-host.dat"), slots = MIN(dax.size, LINUX_RANGE) / PAGE;
	static uint32_t at[LINUX_RANGE / PAGE];
	unsigned refused = 0, wrong = 0;

	memset(at, 0, sizeof(at));
	for (unsigned i = 0; i < MANY; i++) {
		uint32_t slot = random_below((uint32_t)slots), page = 1 + random_below(70);

		refused += dax_map(node, (uint64_t)page * PAGE, (uint64_t)slot * PAGE, PAGE,
				   false) != 0;
		at[slot] = page;
	}
	for (uint32_t slot = 0; slot < slots; slot++)
		wrong += at[slot] && pattern_check(dax.window + (uint64_t)slot * PAGE, PAGE, 0,
						   (uint64_t)at[slot] * PAGE) != PAGE;
	is(refused, 0, "fs, dax: %u single pages are mapped here and there", MANY);
	is(wrong, 0, "fs, dax: each is where it was put last");
	is(dax_unmap(0, slots * PAGE), 0, "fs, dax: all are unmapped at once");
	fs_forget(node, 1);
}

static void test_refusals(void)
{
	const struct {
		uint64_t file_off, off, len;
	} bad[] = {
		{1, 0, PAGE},
		{0, 1, PAGE},
		{0, 0, 1},
		{0, 0, 0},
		{512, 512, 512},
		{0, dax.size, PAGE},
		{0, dax.size - PAGE, 2 * PAGE},
		{0, -(uint64_t)PAGE, PAGE},
		{0, -(uint64_t)PAGE, 2 * PAGE},
		{0, 0, dax.size + PAGE},
		{0, 0, -(uint64_t)PAGE},
		{-(uint64_t)PAGE, 0, 2 * PAGE},
		{1ull << 63, 0, PAGE},
	};
	uint64_t node = find("from-host.dat"), link = find("outside");
	unsigned mapped = 0;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		if (dax_map(node, bad[i].file_off, bad[i].off, bad[i].len, false) != -EINVAL) {
			print("# fs, dax: case %u was not refused as invalid\n", i);
			mapped++;
		}
	is(mapped, 0, "fs, dax: what is not aligned, or not inside, is refused");
	ok(dax_map(FUSE_ROOT_ID, 0, 0, PAGE, false) < 0, "fs, dax: a directory is not mapped");
	ok(dax_map(link, 0, 0, PAGE, false) < 0, "fs, dax: nor is a symbolic link");
	ok(dax_map(999999, 0, 0, PAGE, false) < 0, "fs, dax: nor a node that nobody knows");
	ok(dax_unmap(dax.size, PAGE) < 0 && dax_unmap(1, PAGE) < 0 && dax_unmap(0, 1) < 0 &&
		   dax_unmap(0, dax.size + PAGE) < 0 && dax_unmap(-(uint64_t)PAGE, 2 * PAGE) < 0,
	   "fs, dax: nothing outside is unmapped, nor parts of pages");
	fs_forget(link, 1);
	fs_forget(node, 1);
}

/* REMOVEMAPPING carries a list; its count may lie. */
static void test_lying_lists(void)
{
	struct {
		struct fuse_removemapping_in in;
		struct fuse_removemapping_one one[2];
	} __attribute__((packed)) m = {{3}, {{0, PAGE}, {PAGE, PAGE}}};
	struct fs_args args = {.arg = &m, .arg_len = sizeof(m)};

	ok(fs_do(FUSE_REMOVEMAPPING, FUSE_ROOT_ID, &args) < 0,
	   "fs, dax: a list that is shorter than it says is refused");
	m.in.count = UINT32_MAX;
	ok(fs_do(FUSE_REMOVEMAPPING, FUSE_ROOT_ID, &args) < 0,
	   "fs, dax: so is one that says it has 4 billion");
	m.in.count = 2;
	is(fs_do(FUSE_REMOVEMAPPING, FUSE_ROOT_ID, &args), 0, "fs, dax: a list of two is good");
}

static void test_reset(struct vdev *d)
{
	uint64_t node = find("from-host.dat");

	dax_map(node, 0, 0, PAGE, false);
	fs_down();
	dax = dax_up(d);
	ok(dax_map(node, 0, 0, PAGE, false) < 0, "fs, dax: after a reset an old node is unknown");
	node = find("from-host.dat");
	is(dax_map(node, PAGE, 0, PAGE, false), 0, "fs, dax: and a new session maps");
	is(pattern_check(dax.window, PAGE, 0, PAGE), PAGE, "fs, dax: what it asked for");
	dax_unmap(0, PAGE);
	fs_forget(node, 1);
}

static bool begin(struct vdev *d)
{
	dax = dax_up(d);
	return ok(dax.window, "fs, dax: the device has a window, and the server maps");
}

void fs_dax_test(struct vdev *d)
{
	if (!begin(d))
		return;
	test_region();
	test_read();
	test_write();
	test_past_the_end();
	test_many();
	test_refusals();
	test_lying_lists();
	test_reset(d);
	is(fs_faults(), 0, "fs, dax: every reply had the right number and length");
}

void fs_dax_test_readonly(struct vdev *d)
{
	uint64_t node;

	if (!begin(d))
		return;
	node = find("from-host.dat");
	is(dax_map(node, 0, 0, PAGE, true), -EROFS,
	   "fs, dax, read-only: a file is not mapped for writing");
	is(dax_map(node, 0, 0, PAGE, false), 0, "fs, dax, read-only: but for reading");
	is(pattern_check(dax.window, PAGE, 0, 0), PAGE, "fs, dax, read-only: with its data");
	dax_unmap(0, PAGE);
	fs_forget(node, 1);
}
