// SPDX-License-Identifier: Apache-2.0
/*
 * fs_test.c - what a share must do, from the guest's side; every byte that is read is checked.
 *
 * The host provides from-host.dat (pattern, seed 0) and outside, a symbolic link to a directory that is not shared.
 * The tests work in the directory guest and leave in it, for the host to look at: kept.dat (KEPT_LEN bytes,
 * KEPT_SEED), hard (another name of it), soft (a symbolic link to it), moved.dat (MOVED_LEN bytes, MOVED_SEED) and the
 * empty directory dir. Hard cases: A10, A11 (layout and length of replies), A18 (reset ends the session), D22 (names),
 * D29 (unlinked but open). Spec: linux/fuse.h.
 */
#include "fs.h"
#include "pattern.h"

#define KEPT_LEN   200123u
#define KEPT_SEED  7
#define MOVED_LEN  8192u
#define MOVED_SEED 8
#define ENTRIES    150
#define NOREPLACE  1 /* renameat2's RENAME_NOREPLACE */

/* ---- tests ---- */

static void test_session(void)
{
	const struct fuse_init_out *init = fs_session();
	struct fuse_attr a;

	is(init->major, FUSE_KERNEL_VERSION, "fs: the session is of FUSE's major version");
	ok(init->minor >= 31, "fs: and of a minor version that has virtio-fs (%u)", init->minor);
	ok(init->max_write >= 4096, "fs: writes may be of a page at least (%u)", init->max_write);
	is(fs_getattr(FUSE_ROOT_ID, &a), sizeof(struct fuse_attr_out),
	   "fs: the root has attributes");
	ok(S_ISDIR(a.mode), "fs: and is a directory");
	is(fs_do(4095, FUSE_ROOT_ID, &(struct fs_args){0}), -ENOSYS,
	   "fs: an unknown operation is not implemented");
	ok(fs_do(FUSE_OPEN, FUSE_ROOT_ID, &(struct fs_args){.arg = &a, .arg_len = 2}) < 0,
	   "fs: an argument that is cut off is refused");
}

static void test_host_file(void)
{
	struct fuse_entry_out e;
	struct seg s = {pool, 4096};
	uint64_t fh;

	ok(fs_lookup(FUSE_ROOT_ID, "from-host.dat", &e) > 0, "fs: the host's file is found");
	is(fs_open(FUSE_OPEN, e.nodeid, O_RDONLY, &fh), sizeof(struct fuse_open_out),
	   "fs: and opened");
	is(fs_transfer(e.nodeid, fh, (uint32_t)e.attr.size, 0, false), 0,
	   "fs: all its %lu bytes are as the host wrote them", e.attr.size);
	is(fs_read(FUSE_READ, e.nodeid, fh, e.attr.size, &s, 1), 0,
	   "fs: a read at its end is empty");
	is(fs_read(FUSE_READ, e.nodeid, fh, e.attr.size - 7, &s, 1), 7,
	   "fs: one across its end is short");
	ok(fs_write(e.nodeid, fh, 0, &s, 1) < 0,
	   "fs: it was opened for reading, a write is refused");
	is(fs_release(FUSE_RELEASE, e.nodeid, fh), 0, "fs: and released");
	is(fs_read(FUSE_READ, e.nodeid, fh, 0, &s, 1), -EBADF, "fs: after that its handle is bad");
	fs_forget(e.nodeid, 1);
	ok(fs_getattr(e.nodeid, &e.attr) < 0, "fs: a node that was forgotten is unknown");
}

static void test_names(void)
{
	static const char *const bad[] = {"..", ".", "from-host.dat/x", "../x", ""};
	struct fuse_entry_out e;
	char name[300];
	unsigned found = 0;

	is(fs_lookup(FUSE_ROOT_ID, "nobody", &e), -ENOENT,
	   "fs: a name that is not there is ENOENT");
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		found += fs_lookup(FUSE_ROOT_ID, bad[i], &e) >= 0;
	is(found, 0, "fs: .., . and names with a slash are refused");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	is(fs_lookup(FUSE_ROOT_ID, name, &e), -ENAMETOOLONG, "fs: a name of 299 bytes is too long");
	ok(fs_lookup(FUSE_ROOT_ID, "outside", &e) > 0 && S_ISLNK(e.attr.mode),
	   "fs: a link to a directory outside is found as a link");
	ok(fs_lookup(e.nodeid, "secret", &e) < 0, "fs: and does not lead out of the share");
}

/* Leaves kept.dat. */
static void test_write_and_read(uint64_t dir)
{
	struct fuse_fsync_in fsync = {0};
	struct fuse_setattr_in set = {.valid = FATTR_MODE, .mode = S_IFREG | 0600};
	struct fuse_entry_out e;
	struct fuse_attr a;
	uint64_t fh;

	ok(fs_create(dir, "kept.dat", O_RDWR, &e, &fh) > 0, "fs: a file is created");
	is(fs_transfer(e.nodeid, fh, KEPT_LEN, KEPT_SEED, true), 0,
	   "fs: writes of any size and in any pieces succeed");
	is(fs_transfer(e.nodeid, fh, KEPT_LEN, KEPT_SEED, false), 0,
	   "fs: and read back byte for byte");
	fs_getattr(e.nodeid, &a);
	is(a.size, KEPT_LEN, "fs: its size is what was written");
	is(a.mode, S_IFREG | 0644, "fs: its mode is what was asked for");
	is(fs_setattr(e.nodeid, &set, &a), sizeof(struct fuse_attr_out), "fs: chmod succeeds");
	is(a.mode, S_IFREG | 0600, "fs: and answers with the new mode");
	fsync.fh = fh;
	is(fs_do(FUSE_FSYNC, e.nodeid, &(struct fs_args){.arg = &fsync, .arg_len = sizeof(fsync)}),
	   0, "fs: fsync succeeds");
	is(fs_release(FUSE_RELEASE, e.nodeid, fh), 0, "fs: the file is released");
	is(fs_create(dir, "kept.dat", O_RDWR | O_EXCL, &e, &fh), -EEXIST,
	   "fs: an exclusive creation finds it there");
	ok(fs_create(dir, "kept.dat", O_RDWR, &e, &fh) > 0, "fs: another opens it");
	is(fs_transfer(e.nodeid, fh, KEPT_LEN, KEPT_SEED, false), 0, "fs: with its data");
	fs_release(FUSE_RELEASE, e.nodeid, fh);
}

static void test_truncate(uint64_t dir)
{
	struct fuse_setattr_in set = {.valid = FATTR_SIZE, .size = 1000};
	struct seg s = {pool, 4096};
	struct fuse_entry_out e;
	struct fuse_attr a;
	uint64_t fh;

	fs_create(dir, "cut.dat", O_RDWR, &e, &fh);
	fs_transfer(e.nodeid, fh, 4096, 3, true);
	fs_setattr(e.nodeid, &set, &a);
	is(a.size, 1000, "fs: a file is cut");
	set.size = 4096;
	fs_setattr(e.nodeid, &set, &a);
	is(a.size, 4096, "fs: and made longer again");
	is(fs_read(FUSE_READ, e.nodeid, fh, 0, &s, 1), 4096, "fs: it reads to its new end");
	is(pattern_check(pool, 4096, 3, 0), 1000, "fs: what was cut off is gone");
	ok(!pool[1000] && !memcmp(pool + 1000, pool + 1001, 4096 - 1001), "fs: and zero now");
	fs_release(FUSE_RELEASE, e.nodeid, fh);
	is(fs_remove(FUSE_UNLINK, dir, "cut.dat"), 0, "fs: it is unlinked");
}

/* Leaves moved.dat. */
static void test_rename(uint64_t dir)
{
	struct fuse_entry_out e, moved;
	uint64_t fh;

	fs_create(dir, "before.dat", O_RDWR, &e, &fh);
	fs_transfer(e.nodeid, fh, MOVED_LEN, MOVED_SEED, true);
	is(fs_rename(dir, "before.dat", "kept.dat", NOREPLACE), -EEXIST,
	   "fs: a rename that must not replace does not");
	is(fs_rename(dir, "before.dat", "moved.dat", 0), 0, "fs: a file is renamed");
	is(fs_lookup(dir, "before.dat", &moved), -ENOENT, "fs: its old name is gone");
	ok(fs_lookup(dir, "moved.dat", &moved) > 0 && moved.nodeid == e.nodeid &&
		   moved.attr.ino == e.attr.ino,
	   "fs: under the new one it is the same object");
	is(fs_transfer(e.nodeid, fh, MOVED_LEN, MOVED_SEED, false), 0,
	   "fs: and its handle still reads its data");
	fs_release(FUSE_RELEASE, e.nodeid, fh);
	fs_forget(e.nodeid, 2);
}

/* Leaves hard and soft. */
static void test_links(uint64_t dir)
{
	struct fuse_entry_out kept, e;
	struct fuse_link_in in;
	char target[64] = {0};
	long r;

	fs_lookup(dir, "kept.dat", &kept);
	in.oldnodeid = kept.nodeid;
	r = fs_do(FUSE_LINK, dir,
		  &(struct fs_args){.arg = &in,
				    .arg_len = sizeof(in),
				    .name = "hard",
				    .out = &e,
				    .out_len = sizeof(e)});
	ok(r > 0 && e.nodeid == kept.nodeid && e.attr.nlink == 2,
	   "fs: a hard link is another name of the same object");
	r = fs_do(FUSE_SYMLINK, dir,
		  &(struct fs_args){
			  .name = "soft", .name2 = "kept.dat", .out = &e, .out_len = sizeof(e)});
	ok(r > 0 && S_ISLNK(e.attr.mode), "fs: a symbolic link is made");
	is(fs_do(FUSE_READLINK, e.nodeid,
		 &(struct fs_args){.out = target, .out_len = sizeof(target)}),
	   8, "fs: its target has 8 bytes");
	ok(!memcmp(target, "kept.dat", 8), "fs: and is what was given");
	ok(fs_lookup(dir, "soft", &e) > 0 && S_ISLNK(e.attr.mode),
	   "fs: a lookup does not follow it");
}

static void test_unlinked_but_open(uint64_t dir)
{
	struct fuse_entry_out e, gone;
	struct fuse_attr a;
	uint64_t fh;

	fs_create(dir, "gone.dat", O_RDWR, &e, &fh);
	fs_transfer(e.nodeid, fh, 10000, 4, true);
	is(fs_remove(FUSE_UNLINK, dir, "gone.dat"), 0, "fs: an open file is unlinked");
	is(fs_lookup(dir, "gone.dat", &gone), -ENOENT, "fs: its name is gone");
	is(fs_transfer(e.nodeid, fh, 10000, 4, false), 0, "fs: its data can still be read");
	ok(fs_getattr(e.nodeid, &a) > 0 && a.nlink == 0 && a.size == 10000,
	   "fs: and its attributes, with no link left");
	is(fs_release(FUSE_RELEASE, e.nodeid, fh), 0, "fs: it is released");
	fs_forget(e.nodeid, 1);
}

static void test_directories(uint64_t dir)
{
	struct fuse_entry_out e, in;
	uint64_t fh;

	ok(fs_mkdir(dir, "dir", &e) > 0 && S_ISDIR(e.attr.mode), "fs: a directory is made");
	is(fs_mkdir(dir, "dir", &in), -EEXIST, "fs: but not twice");
	fs_create(e.nodeid, "inner", O_WRONLY, &in, &fh);
	fs_release(FUSE_RELEASE, in.nodeid, fh);
	is(fs_remove(FUSE_RMDIR, dir, "dir"), -ENOTEMPTY,
	   "fs: one that is not empty is not removed");
	is(fs_remove(FUSE_UNLINK, dir, "dir"), -EISDIR, "fs: nor is one by unlink");
	is(fs_remove(FUSE_UNLINK, e.nodeid, "inner"), 0, "fs: its file is unlinked");
	is(fs_remove(FUSE_RMDIR, e.nodeid, "inner"), -ENOENT,
	   "fs: what is gone is not removed again");
	ok(fs_mkdir(dir, "dir2", &in) > 0 && fs_remove(FUSE_RMDIR, dir, "dir2") == 0,
	   "fs: an empty one is removed");
}

/* "e%03u" as a number, or ENTRIES. */
static unsigned entry_number(const char *name, uint32_t len)
{
	if (len != 4 || name[0] != 'e')
		return ENTRIES;
	return (unsigned)((name[1] - '0') * 100 + (name[2] - '0') * 10 + (name[3] - '0'));
}

/* Reads a directory with a buffer that holds a few entries; counts each in seen[]. */
static bool list(uint64_t dir, uint32_t op, uint8_t *seen)
{
	uint8_t *buf = pool;
	struct seg s = {buf, 1024};
	uint64_t fh, off = 0;
	long n, step;

	if (fs_open(FUSE_OPENDIR, dir, O_RDONLY | O_DIRECTORY, &fh) < 0)
		return false;
	while ((n = fs_read(op, dir, fh, off, &s, 1)) > 0)
		for (long at = 0; at < n; at += step) {
			struct fuse_direntplus *plus = (void *)(buf + at);
			struct fuse_dirent *e =
				op == FUSE_READDIRPLUS ? &plus->dirent : (void *)(buf + at);
			unsigned i = entry_number(e->name, e->namelen);

			step = (long)(op == FUSE_READDIRPLUS ? FUSE_DIRENTPLUS_SIZE(plus)
							     : FUSE_DIRENT_SIZE(e));
			if (i < ENTRIES)
				seen[i]++;
			off = e->off;
		}
	fs_release(FUSE_RELEASEDIR, dir, fh);
	return n == 0;
}

static bool each_once(const uint8_t *seen)
{
	for (unsigned i = 0; i < ENTRIES; i++)
		if (seen[i] != 1)
			return false;
	return true;
}

static void test_readdir(uint64_t dir)
{
	static uint8_t seen[ENTRIES];
	struct fuse_entry_out many, e;
	unsigned bad = 0;

	fs_mkdir(dir, "many", &many);
	for (unsigned i = 0; i < ENTRIES; i++) {
		char name[] = {'e', (char)('0' + i / 100), (char)('0' + i / 10 % 10),
			       (char)('0' + i % 10), 0};
		uint64_t fh;

		bad += fs_create(many.nodeid, name, O_WRONLY, &e, &fh) <= 0;
		bad += fs_release(FUSE_RELEASE, e.nodeid, fh) != 0;
	}
	is(bad, 0, "fs: %u files are created", ENTRIES);
	memset(seen, 0, sizeof(seen));
	ok(list(many.nodeid, FUSE_READDIR, seen) && each_once(seen),
	   "fs: readdir gives each of them once");
	memset(seen, 0, sizeof(seen));
	ok(list(many.nodeid, FUSE_READDIRPLUS, seen) && each_once(seen),
	   "fs: and so does readdirplus");
	for (unsigned i = 0; i < ENTRIES; i++) {
		char name[] = {'e', (char)('0' + i / 100), (char)('0' + i / 10 % 10),
			       (char)('0' + i % 10), 0};

		bad += fs_remove(FUSE_UNLINK, many.nodeid, name) != 0;
	}
	is(bad, 0, "fs: and all are unlinked");
	is(fs_remove(FUSE_RMDIR, dir, "many"), 0, "fs: and their directory removed");
}

static void test_statfs(void)
{
	struct fuse_statfs_out o = {0};

	is(fs_do(FUSE_STATFS, FUSE_ROOT_ID, &(struct fs_args){.out = &o, .out_len = sizeof(o)}),
	   sizeof(o), "fs: statfs answers");
	ok(o.st.bsize && o.st.blocks && o.st.namelen >= 255, "fs: with plausible numbers");
}

/* A request per slot: reads of kept.dat, each checked for its own data. */
static void test_depth(uint64_t dir)
{
	uint32_t depth = vq_depth(fs_queue(), 32, 5), len;
	struct fuse_entry_out e;
	unsigned bad = 0;
	uint64_t fh;

	fs_lookup(dir, "kept.dat", &e);
	vq_depth(fs_queue(), 1, 2 * FS_SEGS);
	fs_open(FUSE_OPEN, e.nodeid, O_RDONLY, &fh);
	vq_depth(fs_queue(), 32, 5);
	for (uint32_t slot = 0; slot < depth; slot++) {
		struct fuse_read_in *in = (void *)(hdr_out[slot] + sizeof(struct fuse_in_header));
		struct fuse_in_header *h = fs_header(slot, FUSE_READ, e.nodeid, sizeof(*in));
		struct seg s[] = {{h, sizeof(*h) + sizeof(*in)},
				  {hdr_in[slot], sizeof(struct fuse_out_header)},
				  {pool + slot * SLOT_BYTES, 4096}};

		*in = (struct fuse_read_in){.fh = fh, .offset = slot * 4096, .size = 4096};
		vq_add(fs_queue(), slot, s, 1, 2);
	}
	vq_kick(fs_queue());
	for (uint32_t i = 0; i < depth; i++) {
		uint32_t slot = vq_wait(fs_queue(), &len);
		const struct fuse_out_header *o = (void *)hdr_in[slot];

		bad += o->error || o->len != len || len != sizeof(*o) + 4096 ||
		       pattern_check(pool + slot * SLOT_BYTES, 4096, KEPT_SEED, slot * 4096) !=
			       4096;
	}
	vq_depth(fs_queue(), 1, 2 * FS_SEGS);
	is(bad, 0, "fs: %u reads in flight at once each get their own data", depth);
	fs_release(FUSE_RELEASE, e.nodeid, fh);
}

static void test_reset(struct vdev *d)
{
	struct fuse_entry_out e;
	struct seg s = {pool, 16};
	uint64_t fh;

	fs_lookup(FUSE_ROOT_ID, "from-host.dat", &e);
	fs_open(FUSE_OPEN, e.nodeid, O_RDONLY, &fh);
	fs_down();
	fs_up(d);
	is(fs_read(FUSE_READ, FUSE_ROOT_ID, fh, 0, &s, 1), -EBADF,
	   "fs: after a reset an old handle is bad");
	ok(fs_getattr(e.nodeid, &e.attr) < 0, "fs: an old node is unknown");
	ok(fs_lookup(FUSE_ROOT_ID, "from-host.dat", &e) > 0, "fs: and the new session works");
}

void fs_test(struct vdev *d, const struct job *j)
{
	struct fuse_entry_out dir;

	(void)j;
	fs_up(d);
	test_session();
	test_host_file();
	test_names();
	if (!ok(fs_mkdir(FUSE_ROOT_ID, "guest", &dir) > 0, "fs: the tests' directory is made"))
		return;
	test_write_and_read(dir.nodeid);
	test_truncate(dir.nodeid);
	test_rename(dir.nodeid);
	test_links(dir.nodeid);
	test_unlinked_but_open(dir.nodeid);
	test_directories(dir.nodeid);
	test_readdir(dir.nodeid);
	test_statfs();
	test_depth(dir.nodeid);
	test_reset(d);
	is(fs_faults(), 0, "fs: every reply had the right number and length");
}

void fs_test_readonly(struct vdev *d)
{
	struct fuse_setattr_in set = {.valid = FATTR_SIZE};
	struct fuse_entry_out e, none;
	struct fuse_attr a;
	uint64_t fh;

	fs_up(d);
	ok(fs_lookup(FUSE_ROOT_ID, "from-host.dat", &e) > 0, "fs, read-only: a file is found");
	ok(fs_open(FUSE_OPEN, e.nodeid, O_RDONLY, &fh) > 0, "fs, read-only: and opened");
	is(fs_transfer(e.nodeid, fh, (uint32_t)e.attr.size, 0, false), 0,
	   "fs, read-only: and read");
	fs_release(FUSE_RELEASE, e.nodeid, fh);
	is(fs_open(FUSE_OPEN, e.nodeid, O_RDWR, &fh), -EROFS,
	   "fs, read-only: it cannot be opened for writing");
	is(fs_setattr(e.nodeid, &set, &a), -EROFS, "fs, read-only: it cannot be cut");
	is(fs_create(FUSE_ROOT_ID, "new", O_RDWR, &none, &fh), -EROFS,
	   "fs, read-only: nothing can be created");
	is(fs_mkdir(FUSE_ROOT_ID, "new", &none), -EROFS, "fs, read-only: no directory made");
	is(fs_remove(FUSE_UNLINK, FUSE_ROOT_ID, "from-host.dat"), -EROFS,
	   "fs, read-only: nothing unlinked");
	is(fs_rename(FUSE_ROOT_ID, "from-host.dat", "x", 0), -EROFS,
	   "fs, read-only: nothing renamed");
}
