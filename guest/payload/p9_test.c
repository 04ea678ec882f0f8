// SPDX-License-Identifier: Apache-2.0
/*
 * p9_test.c - what a 9p share must do, from the guest's side; every byte that is read is checked.
 *
 * The host provides from-host.dat (pattern, seed 0) and outside, a symbolic link to a directory that is not shared; locks are
 * the host's. The tests work in the directory guest and leave in it what fs_test.c does: kept.dat (KEPT_LEN bytes,
 * KEPT_SEED), hard, soft, moved.dat (MOVED_LEN bytes, MOVED_SEED) and the empty directory dir. Hard cases: E1, E2, E4, E7,
 * E10, E14, E16, E20, E28. Calls: p9_op.c.
 */
#include "p9.h"
#include "pattern.h"

#define KEPT_LEN   200123u
#define KEPT_SEED  7
#define MOVED_LEN  8192u
#define MOVED_SEED 8
#define ENTRIES    150
#define TMP        3u /* fids of one test at a time */
#define TMP2       4u

static void clunk(uint32_t fid, const char *what)
{
	is(p9_try_clunk(fid), 0, "9p: %s is let go of", what);
}

/* ---- tests ---- */

static void test_session(void)
{
	struct p9_attr a;
	char said[16];

	ok(p9_version(8192, "9P2000.u", said) == 8192 && text_equal(said, "unknown"),
	   "9p: another dialect is unknown");
	is(p9_try_walk(P9_ROOT, TMP, NULL), -EIO, "9p: after that there is no session");
	is(p9_version(4095, "9P2000.L", said), -EMSGSIZE, "9p: messages below 4 KiB are refused");
	is(p9_version(64u << 20, "9P2000.L", said), 1u << 20, "9p: the device has the last word");
	is(p9_version(P9_MSIZE, "9P2000.L", said), P9_MSIZE, "9p: else it takes what is asked for");
	ok(text_equal(said, "9P2000.L"), "9p: in its own dialect");
	is(p9_getattr(P9_ROOT, &a), -EBADF, "9p: the fids of the session before are gone");
	is(p9_attach(P9_ROOT, "nobody"), -ENOENT, "9p: what is not there cannot be attached");
	is(p9_attach(P9_ROOT, "../disk.img"), -ENOENT, "9p: nor what is not shared");
	is(p9_attach(P9_ROOT, "outside"), -ENOTDIR, "9p: nor by a link to it");
	is(p9_attach(P9_ROOT, ""), 13, "9p: the root can");
	is(p9_attach(P9_ROOT, ""), -EINVAL, "9p: under a number of its own");
	ok(p9_getattr(P9_ROOT, &a) > 0 && S_ISDIR(a.mode), "9p: and is a directory");
}

static void test_host_file(void)
{
	struct seg s = {pool, 4096};
	struct p9_attr a;

	ok(p9_try_walk(P9_ROOT, P9_FILE, "from-host.dat") > 0, "9p: the host's file is found");
	p9_getattr(P9_FILE, &a);
	is(p9_read(P9_TREAD, P9_FILE, 0, &s, 1), -EBADF, "9p: it is not read before it is open");
	is(p9_try_open(P9_FILE, O_RDONLY), 17, "9p: it is opened");
	is(p9_try_open(P9_FILE, O_RDONLY), -EBADF, "9p: once");
	is(p9_transfer(P9_FILE, (uint32_t)a.size, 0, false), 0,
	   "9p: all its %lu bytes are as the host wrote them", a.size);
	is(p9_read(P9_TREAD, P9_FILE, a.size, &s, 1), 0, "9p: a read at its end is empty");
	is(p9_read(P9_TREAD, P9_FILE, a.size - 7, &s, 1), 7, "9p: one across its end is short");
	ok(p9_write(P9_FILE, 0, &s, 1) < 0, "9p: it was opened for reading, a write is refused");
	clunk(P9_FILE, "the file");
	is(p9_read(P9_TREAD, P9_FILE, 0, &s, 1), -EBADF, "9p: after that its fid is bad");
}

static void test_names(void)
{
	static const char *const bad[] = {".", "from-host.dat/x", "../x", "/", ""};
	struct p9_attr root, up;
	char name[300];
	unsigned wrong = 0;

	is(p9_try_walk(P9_ROOT, TMP, "nobody"), -ENOENT, "9p: a name that is not there is ENOENT");
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		wrong += p9_try_walk(P9_ROOT, TMP, bad[i]) != -ENOENT;
	is(wrong, 0, "9p: nor are . and names with a slash");
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		wrong += p9_mkdir(P9_ROOT, bad[i]) != -EINVAL;
	is(wrong + (p9_mkdir(P9_ROOT, "..") != -EINVAL), 0, "9p: nothing is made of such names");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	is(p9_try_walk(P9_ROOT, TMP, name), -ENAMETOOLONG, "9p: a name of 299 bytes is too long");
	p9_getattr(P9_ROOT, &root);
	ok(p9_try_walk(P9_ROOT, TMP, "..") > 0 && p9_getattr(TMP, &up) > 0 && up.path == root.path,
	   "9p: above the root there is the root");
	p9_try_clunk(TMP);
	ok(p9_try_walk(P9_ROOT, TMP, "outside") > 0 && p9_getattr(TMP, &up) > 0 && S_ISLNK(up.mode),
	   "9p: a link to a directory outside is found as a link");
	is(p9_try_walk(TMP, TMP2, "secret"), -ENOTDIR, "9p: and does not lead out of the share");
	clunk(TMP, "the link");
}

/* Two names, of which the second is not there: how far it came is told, and no fid made (E7). */
static void test_partial_walk(void)
{
	p9_begin(0, P9_TWALK);
	p9_u32(0, P9_ROOT);
	p9_u32(0, TMP);
	p9_u16(0, 2);
	p9_name(0, "guest", 5);
	p9_name(0, "nobody", 6);
	is(p9_do(), 2 + 13, "9p: a walk of two names comes as far as the first");
	is(p9_try_clunk(TMP), -EBADF, "9p: and makes no fid");
}

/* Leaves kept.dat. */
static void test_write_and_read(void)
{
	struct p9_attr a;

	p9_try_walk(P9_DIR, P9_FILE, NULL);
	is(p9_create(P9_FILE, "kept.dat", O_RDWR), 17, "9p: a file is created");
	is(p9_transfer(P9_FILE, KEPT_LEN, KEPT_SEED, true), 0,
	   "9p: writes of any size and in any pieces succeed");
	is(p9_transfer(P9_FILE, KEPT_LEN, KEPT_SEED, false), 0, "9p: and read back byte for byte");
	p9_getattr(P9_FILE, &a);
	is(a.size, KEPT_LEN, "9p: its size is what was written");
	is(a.mode, S_IFREG | 0644, "9p: its mode is what was asked for");
	is(p9_setattr(P9_FILE, P9_SET_MODE, 0600, 0), 0, "9p: chmod succeeds");
	p9_getattr(P9_FILE, &a);
	is(a.mode, S_IFREG | 0600, "9p: and is seen");
	p9_begin(0, P9_TFSYNC);
	p9_u32(0, P9_FILE);
	p9_u32(0, 0);
	is(p9_do(), 0, "9p: fsync succeeds");
	clunk(P9_FILE, "the file");
	p9_try_walk(P9_DIR, P9_FILE, NULL);
	is(p9_create(P9_FILE, "kept.dat", O_RDWR | O_EXCL), -EEXIST,
	   "9p: an exclusive creation finds it there");
	is(p9_create(P9_FILE, "kept.dat", O_RDWR), 17, "9p: by the same fid another opens it");
	is(p9_transfer(P9_FILE, KEPT_LEN, KEPT_SEED, false), 0, "9p: with its data");
	p9_try_clunk(P9_FILE);
}

static void test_truncate(void)
{
	struct seg s = {pool, 4096};
	struct p9_attr a;

	p9_try_walk(P9_DIR, P9_FILE, NULL);
	p9_create(P9_FILE, "cut.dat", O_RDWR);
	p9_transfer(P9_FILE, 4096, 3, true);
	is(p9_setattr(P9_FILE, P9_SET_SIZE, 0, 1000), 0, "9p: a file is cut");
	is(p9_setattr(P9_FILE, P9_SET_SIZE, 0, 4096), 0, "9p: and made longer again");
	p9_getattr(P9_FILE, &a);
	is(a.size, 4096, "9p: it has its new size");
	is(p9_read(P9_TREAD, P9_FILE, 0, &s, 1), 4096, "9p: and reads to its new end");
	is(pattern_check(pool, 4096, 3, 0), 1000, "9p: what was cut off is gone");
	ok(!pool[1000] && !memcmp(pool + 1000, pool + 1001, 4096 - 1001), "9p: and zero now");
	is(p9_remove(P9_FILE), 0, "9p: it is removed by its fid");
	is(p9_try_clunk(P9_FILE), -EBADF, "9p: which is gone then");
	is(p9_try_walk(P9_DIR, TMP, "cut.dat"), -ENOENT, "9p: as is its name");
}

/* Leaves moved.dat. */
static void test_rename(void)
{
	struct p9_attr a, moved;

	p9_try_walk(P9_DIR, P9_FILE, NULL);
	p9_create(P9_FILE, "before.dat", O_RDWR);
	p9_transfer(P9_FILE, MOVED_LEN, MOVED_SEED, true);
	is(p9_rename(P9_DIR, "before.dat", "moved.dat"), 0, "9p: a file is renamed");
	is(p9_try_walk(P9_DIR, TMP, "before.dat"), -ENOENT, "9p: its old name is gone");
	ok(p9_try_walk(P9_DIR, TMP, "moved.dat") > 0 && p9_getattr(TMP, &moved) > 0 &&
		   p9_getattr(P9_FILE, &a) > 0 && moved.path == a.path,
	   "9p: under the new one it is the same object");
	is(p9_transfer(P9_FILE, MOVED_LEN, MOVED_SEED, false), 0,
	   "9p: its fid still reads its data");
	p9_try_clunk(TMP);
	p9_try_clunk(P9_FILE);
}

/* Leaves hard and soft. */
static void test_links(void)
{
	struct p9_attr a;

	p9_try_walk(P9_DIR, TMP, "kept.dat");
	is(p9_link(P9_DIR, TMP, "hard"), 0, "9p: a hard link is made");
	ok(p9_getattr(TMP, &a) > 0 && a.nlink == 2, "9p: and counted");
	p9_try_clunk(TMP);
	is(p9_symlink(P9_DIR, "soft", "kept.dat"), 13, "9p: a symbolic link is made");
	ok(p9_try_walk(P9_DIR, TMP, "soft") > 0 && p9_getattr(TMP, &a) > 0 && S_ISLNK(a.mode),
	   "9p: a walk does not follow it");
	p9_begin(0, P9_TREADLINK);
	p9_u32(0, TMP);
	ok(p9_do() == 10 && !memcmp(P9_BODY, "\10\0kept.dat", 10),
	   "9p: its target is what was given");
	ok(p9_try_open(TMP, O_RDONLY) < 0, "9p: it is not opened");
	p9_try_clunk(TMP);
}

static void test_unlinked_but_open(void)
{
	struct p9_attr a;

	p9_try_walk(P9_DIR, P9_FILE, NULL);
	p9_create(P9_FILE, "gone.dat", O_RDWR);
	p9_transfer(P9_FILE, 10000, 4, true);
	is(p9_unlink(P9_DIR, "gone.dat", 0), 0, "9p: an open file is unlinked");
	is(p9_try_walk(P9_DIR, TMP, "gone.dat"), -ENOENT, "9p: its name is gone");
	is(p9_transfer(P9_FILE, 10000, 4, false), 0, "9p: its data can still be read");
	ok(p9_try_walk(P9_FILE, TMP, NULL) > 0 && p9_setattr(TMP, P9_SET_SIZE, 0, 5000) == 0 &&
		   p9_getattr(TMP, &a) > 0 && a.nlink == 0 && a.size == 5000,
	   "9p: and be cut, by a clone that is not open");
	clunk(TMP, "the clone");
	clunk(P9_FILE, "the file");
}

static void test_directories(void)
{
	is(p9_mkdir(P9_DIR, "dir"), 13, "9p: a directory is made");
	is(p9_mkdir(P9_DIR, "dir"), -EEXIST, "9p: but not twice");
	p9_try_walk(P9_DIR, TMP, "dir");
	is(p9_mkdir(TMP, "inner"), 13, "9p: one is made in it");
	is(p9_unlink(P9_DIR, "dir", P9_REMOVEDIR), -ENOTEMPTY,
	   "9p: one that is not empty is not removed");
	is(p9_unlink(P9_DIR, "dir", 0), -EISDIR, "9p: nor is one by unlink");
	is(p9_unlink(TMP, "inner", P9_REMOVEDIR), 0, "9p: an empty one is");
	is(p9_unlink(TMP, "inner", P9_REMOVEDIR), -ENOENT, "9p: what is gone is not removed again");
	clunk(TMP, "the directory");
}

static void entry_name(char name[5], unsigned i)
{
	memcpy(name, "e000", 5);
	name[1] = (char)('0' + i / 100);
	name[2] = (char)('0' + i / 10 % 10);
	name[3] = (char)('0' + i % 10);
}

/* qid[13] offset[8] type[1] name[s]: counts each in seen[]; where the next is. */
static long count_entry(const uint8_t *e, uint8_t *seen, uint64_t *off)
{
	uint16_t len;

	memcpy(off, e + 13, sizeof(*off));
	memcpy(&len, e + 22, sizeof(len));
	if (len == 4 && e[24] == 'e') {
		unsigned i = (unsigned)((e[25] - '0') * 100 + (e[26] - '0') * 10 + e[27] - '0');

		if (i < ENTRIES)
			seen[i]++;
	}
	return 24 + len;
}

static bool list(uint32_t fid, uint32_t room, uint8_t *seen)
{
	struct seg s = {pool, room};
	uint64_t off = 0;
	long n, step;

	memset(seen, 0, ENTRIES);
	while ((n = p9_read(P9_TREADDIR, fid, off, &s, 1)) > 0)
		for (long at = 0; at < n; at += step)
			step = count_entry(pool + at, seen, &off);
	for (unsigned i = 0; i < ENTRIES; i++)
		if (seen[i] != 1)
			return false;
	return n == 0;
}

static void test_readdir(void)
{
	static uint8_t seen[ENTRIES];
	struct seg s = {pool, 20};
	unsigned bad = 0;
	char name[5];

	p9_mkdir(P9_DIR, "many");
	p9_try_walk(P9_DIR, TMP, "many");
	for (unsigned i = 0; i < ENTRIES; i++) {
		entry_name(name, i);
		p9_try_walk(TMP, P9_FILE, NULL);
		bad += p9_create(P9_FILE, name, O_WRONLY) <= 0 || p9_try_clunk(P9_FILE);
	}
	is(bad, 0, "9p: %u files are created", ENTRIES);
	p9_try_walk(TMP, TMP2, NULL);
	is(p9_try_open(TMP2, O_RDONLY | O_DIRECTORY), 17, "9p: their directory is opened");
	ok(list(TMP2, 1024, seen), "9p: Treaddir gives each of them once, a few at a time");
	ok(list(TMP2, 32768, seen), "9p: and all at once");
	is(p9_read(P9_TREADDIR, TMP2, 0, &s, 1), -EINVAL, "9p: too little room is told");
	for (unsigned i = 0; i < ENTRIES; i++) {
		entry_name(name, i);
		bad += p9_unlink(TMP2, name, 0) != 0;
	}
	is(bad, 0, "9p: all are unlinked, by a fid that is open (E11)");
	clunk(TMP2, "the open directory");
	is(p9_remove(TMP), 0, "9p: which is removed by its other fid");
}

/* ---- what else there is ---- */

static long set_xattr(const char *name, const char *value, uint32_t len)
{
	long r;

	p9_try_walk(P9_FILE, TMP, NULL);
	p9_begin(0, P9_TXATTRCREATE);
	p9_u32(0, TMP);
	p9_name(0, name, (uint32_t)strlen(name));
	p9_u64(0, len);
	p9_u32(0, 0);
	r = p9_do();
	if (!r && len)
		p9_write(TMP, 0, &(struct seg){value, len}, 1);
	return p9_try_clunk(TMP);
}

static long open_xattr(const char *name)
{
	long r;

	p9_begin(0, P9_TXATTRWALK);
	p9_u32(0, P9_FILE);
	p9_u32(0, TMP);
	p9_name(0, name, (uint32_t)strlen(name));
	r = p9_do();
	return r < 0 ? r : (long)p9_get64(0);
}

static void test_xattr(void)
{
	struct seg s = {pool, 64};
	long r;

	p9_try_walk(P9_DIR, P9_FILE, "kept.dat");
	r = set_xattr("user.test", "value", 5);
	if (r == -EOPNOTSUPP) {
		print("# 9p: skipped: no extended attributes here\n");
	} else {
		is(r, 0, "9p: an extended attribute is set");
		is(open_xattr("user.test"), 5, "9p: its length is told");
		is(p9_read(P9_TREAD, TMP, 0, &s, 1), 5, "9p: it is read");
		ok(!memcmp(pool, "value", 5), "9p: and is what was set");
		is(p9_read(P9_TREAD, TMP, UINT64_MAX, &s, 1), 0,
		   "9p: far behind its end is nothing");
		clunk(TMP, "the attribute");
		is(open_xattr("user.none"), -ENODATA, "9p: one that is not there is told");
	}
	p9_try_clunk(P9_FILE);
}

/* P9_LOCK_*: 0 granted, 1 another has it. */
static long lock(uint8_t type, uint32_t process)
{
	long r;

	p9_begin(0, P9_TLOCK);
	p9_u32(0, P9_FILE);
	p9_u8(0, type);
	p9_u32(0, 0);
	p9_u64(0, 10);
	p9_u64(0, 10);
	p9_u32(0, process);
	p9_name(0, "guest", 5);
	r = p9_do();
	return r < 0 ? r : P9_BODY[0];
}

static void test_locks(void)
{
	p9_try_walk(P9_DIR, P9_FILE, "kept.dat");
	p9_try_open(P9_FILE, O_RDWR);
	is(lock(1, 1), 0, "9p: a range is locked");
	is(lock(1, 2), 1, "9p: another process is told that it is");
	is(lock(2, 1), 0, "9p: it is unlocked");
	is(lock(1, 2), 0, "9p: and locked by the other");
	clunk(P9_FILE, "the locked file");
	p9_try_walk(P9_DIR, P9_FILE, "kept.dat");
	p9_try_open(P9_FILE, O_RDWR);
	is(lock(1, 1), 0, "9p: with it the lock");
	p9_try_clunk(P9_FILE);
}

static void test_statfs(void)
{
	p9_begin(0, P9_TSTATFS);
	p9_u32(0, P9_ROOT);
	is(p9_do(), 60, "9p: statfs answers");
	ok(p9_get32(0) == 0x01021997 && p9_get32(4) && p9_get64(8) && p9_get32(56) >= 255,
	   "9p: with plausible numbers");
}

/* A request per slot: reads of kept.dat, each checked for its own data. */
static void test_depth(void)
{
	uint32_t depth, len;
	unsigned bad = 0;

	p9_try_walk(P9_DIR, P9_FILE, "kept.dat");
	p9_try_open(P9_FILE, O_RDONLY);
	depth = vq_depth(p9_queue(), 32, 3);
	for (uint32_t slot = 0; slot < depth; slot++) {
		struct seg s[] = {{hdr_out[slot], 0},
				  {hdr_in[slot], P9_IO},
				  {pool + slot * SLOT_BYTES, 4096}};

		p9_begin(slot, P9_TREAD);
		p9_u32(slot, P9_FILE);
		p9_u64(slot, slot * 4096);
		p9_u32(slot, 4096);
		s[0].len = p9_end(slot, 0);
		vq_add(p9_queue(), slot, s, 1, 2);
	}
	vq_kick(p9_queue());
	for (uint32_t i = 0; i < depth; i++) {
		uint32_t slot = vq_wait(p9_queue(), &len);

		bad += p9_error(slot, len) || len != P9_IO + 4096 ||
		       pattern_check(pool + slot * SLOT_BYTES, 4096, KEPT_SEED, slot * 4096) !=
			       4096;
	}
	vq_depth(p9_queue(), 1, 2 * P9_SEGS);
	is(bad, 0, "9p: %u reads in flight at once each get their own data", depth);
	p9_try_clunk(P9_FILE);
}

static void test_flush(void)
{
	static const uint16_t tags[] = {0, 7, 0xffff}; /* its own; two that are not out */
	unsigned bad = 0;

	for (unsigned i = 0; i < ARRAY_LEN(tags); i++) {
		p9_begin(0, P9_TFLUSH);
		p9_u16(0, tags[i]);
		bad += p9_do() != 0;
	}
	is(bad, 0, "9p: a flush of what is not out is answered");
}

static void test_reset(struct vdev *d)
{
	struct p9_attr a;

	p9_try_walk(P9_ROOT, P9_FILE, "from-host.dat");
	p9_try_open(P9_FILE, O_RDONLY);
	virtio_reset(d);
	p9_down();
	p9_up(d);
	is(p9_getattr(P9_FILE, &a), -EBADF, "9p: after a reset an old fid is bad");
	ok(p9_try_walk(P9_ROOT, P9_FILE, "from-host.dat") > 0, "9p: and the new session works");
	clunk(P9_FILE, "the file");
}

void p9_test(struct vdev *d)
{
	p9_up(d);
	test_session();
	test_host_file();
	test_names();
	if (!ok(p9_mkdir(P9_ROOT, "guest") == 13 && p9_try_walk(P9_ROOT, P9_DIR, "guest") > 0,
		"9p: the tests' directory is made"))
		return;
	test_partial_walk();
	test_write_and_read();
	test_truncate();
	test_rename();
	test_links();
	test_unlinked_but_open();
	test_directories();
	test_readdir();
	test_xattr();
	test_locks();
	test_statfs();
	test_depth();
	test_flush();
	clunk(P9_DIR, "the tests' directory");
	test_reset(d);
	p9_bad_test(d);
	is(p9_faults(), 0, "9p: every answer had the right tag, type and length");
}

void p9_test_readonly(struct vdev *d)
{
	struct seg s = {pool, 16};
	struct p9_attr a;

	p9_up(d);
	p9_try_walk(P9_ROOT, P9_FILE, "from-host.dat");
	ok(p9_getattr(P9_FILE, &a) > 0, "9p, read-only: a file is found");
	is(p9_try_open(P9_FILE, O_RDWR), -EROFS, "9p, read-only: it is not opened for writing");
	is(p9_try_open(P9_FILE, O_RDONLY | O_TRUNC), -EROFS, "9p, read-only: nor cut by opening");
	is(p9_try_open(P9_FILE, O_RDONLY), 17, "9p, read-only: it is opened");
	is(p9_transfer(P9_FILE, (uint32_t)a.size, 0, false), 0, "9p, read-only: and read");
	is(p9_write(P9_FILE, 0, &s, 1), -EROFS, "9p, read-only: not written");
	is(p9_setattr(P9_FILE, P9_SET_SIZE, 0, 0), -EROFS, "9p, read-only: not cut");
	is(p9_mkdir(P9_ROOT, "new"), -EROFS, "9p, read-only: no directory is made");
	is(p9_symlink(P9_ROOT, "new", "x"), -EROFS, "9p, read-only: no link");
	is(p9_unlink(P9_ROOT, "from-host.dat", 0), -EROFS, "9p, read-only: nothing is unlinked");
	is(p9_rename(P9_ROOT, "from-host.dat", "x"), -EROFS, "9p, read-only: nothing renamed");
	is(p9_remove(P9_FILE), -EROFS, "9p, read-only: nothing removed");
	p9_try_walk(P9_ROOT, P9_FILE, NULL);
	is(p9_create(P9_FILE, "new", O_RDWR), -EROFS, "9p, read-only: nothing created");
	p9_try_clunk(P9_FILE);
}
