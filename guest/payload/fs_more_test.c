// SPDX-License-Identifier: Apache-2.0
/*
 * fs_more_test.c - operations that a server may lack: extended attributes, unnamed files, copies, holes, flags, syncs.
 *
 * One that answers ENOSYS or EOPNOTSUPP is skipped, which is printed. A session of the newest version, as a new kernel
 * opens it. The tests work in the directory more, which they remove; the host's file system is taken to be one that has
 * all of it (ext4, tmpfs of Linux 6.6). Spec: linux/fuse.h; the wire is what Linux's fs/fuse sends.
 */
#include "fs.h"
#include "pattern.h"
#include "../../devices/fuse_new.h"
#include <linux/falloc.h>
#include <linux/fs.h>

#define FLAGS         (FUSE_SETXATTR_EXT | FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS | FUSE_HANDLE_KILLPRIV_V2)
#define XATTR_CREATE  1
#define XATTR_REPLACE 2
#define VALUE_LEN     6 /* of the values that are set, NUL included */
#define SEED          21
#define MIB           (1ull << 20)
#define HOLE          MIB
#define PAGE          4096u

static bool there(long r, const char *what)
{
	if (r != -ENOSYS && r != -EOPNOTSUPP)
		return true;
	print("# fs, more: skipped: no %s here (%ld)\n", what, -r);
	return false;
}

static uint64_t make_file(uint64_t dir, const char *name, uint32_t len, uint64_t *fh)
{
	struct fuse_entry_out e;

	if (fs_create(dir, name, O_RDWR, &e, fh) < 0)
		give_up("fs: %s: cannot create it", name);
	fs_transfer(e.nodeid, *fh, len, SEED, true);
	return e.nodeid;
}

static void remove_file(uint64_t dir, const char *name, uint64_t node, uint64_t fh)
{
	fs_release(FUSE_RELEASE, node, fh);
	fs_remove(FUSE_UNLINK, dir, name);
	fs_forget(node, 1);
}

/* ---- extended attributes ---- */

static long set_xattr(uint64_t node, const char *name, const char *value, uint32_t flags)
{
	struct fuse_setxattr_in in = {.size = (uint32_t)strlen(value) + 1, .flags = flags};
	bool ext = fs_session_flags() & FUSE_SETXATTR_EXT;

	return fs_do(FUSE_SETXATTR, node,
		     &(struct fs_args){.arg = &in,
				       .arg_len = ext ? sizeof(in) : FUSE_COMPAT_SETXATTR_IN_SIZE,
				       .name = name,
				       .name2 = value});
}

/* name NULL: the list of names. len 0: how long it is. */
static long get_xattr(uint64_t node, const char *name, void *out, uint32_t len)
{
	struct fuse_getxattr_in in = {.size = len};
	static struct fuse_getxattr_out size;
	long r = fs_do(name ? FUSE_GETXATTR : FUSE_LISTXATTR, node,
		       &(struct fs_args){.arg = &in,
					 .arg_len = sizeof(in),
					 .name = name,
					 .out = len ? out : &size,
					 .out_len = len ? len : sizeof(size)});

	return r < 0 || len ? r : (long)size.size;
}

static bool in_list(const char *list, long len, const char *name)
{
	for (long i = 0; i < len; i += (long)strlen(list + i) + 1)
		if (text_equal(list + i, name))
			return true;
	return false;
}

static void test_xattr(uint64_t dir)
{
	uint64_t fh, node = make_file(dir, "x", 0, &fh);
	char buf[256] = {0};
	long r = set_xattr(node, "user.test", "first", 0);

	if (there(r, "xattr")) {
		is(r, 0, "fs, more: an extended attribute is set");
		is(get_xattr(node, "user.test", NULL, 0), VALUE_LEN,
		   "fs, more: its length is told");
		is(get_xattr(node, "user.test", buf, sizeof(buf)), VALUE_LEN,
		   "fs, more: it is read");
		ok(text_equal(buf, "first"), "fs, more: and is what was set");
		is(get_xattr(node, "user.test", buf, 3), -ERANGE,
		   "fs, more: too little room is ERANGE");
		is(set_xattr(node, "user.test", "other", XATTR_CREATE), -EEXIST,
		   "fs, more: one that must be new is there");
		is(set_xattr(node, "user.none", "other", XATTR_REPLACE), -ENODATA,
		   "fs, more: one that must be there is not");
		ok(get_xattr(node, NULL, NULL, 0) > 0, "fs, more: the list has a length");
		r = get_xattr(node, NULL, buf, sizeof(buf));
		ok(in_list(buf, r, "user.test"), "fs, more: and has its name");
		is(fs_do(FUSE_REMOVEXATTR, node, &(struct fs_args){.name = "user.test"}), 0,
		   "fs, more: it is removed");
		is(get_xattr(node, "user.test", buf, sizeof(buf)), -ENODATA,
		   "fs, more: and is gone");
	}
	remove_file(dir, "x", node, fh);
}

/* ---- files ---- */

/* Linux sends the dentry's name, which is a slash for a file that has none. */
static void test_tmpfile(uint64_t dir)
{
	struct fuse_create_in in = {.flags = O_RDWR, .mode = S_IFREG | 0600};
	struct {
		struct fuse_entry_out e;
		struct fuse_open_out o;
	} out = {0};
	struct fuse_entry_out named;
	struct fuse_link_in link;
	long r = fs_do(FUSE_TMPFILE, dir,
		       &(struct fs_args){.arg = &in,
					 .arg_len = sizeof(in),
					 .name = "/",
					 .out = &out,
					 .out_len = sizeof(out)});

	if (!there(r, "O_TMPFILE"))
		return;
	ok(r == sizeof(out) && out.e.attr.nlink == 0, "fs, more: a file without a name is made");
	is(fs_transfer(out.e.nodeid, out.o.fh, 3 * PAGE, SEED, true), 0, "fs, more: written");
	link.oldnodeid = out.e.nodeid;
	r = fs_do(FUSE_LINK, dir,
		  &(struct fs_args){.arg = &link,
				    .arg_len = sizeof(link),
				    .name = "named",
				    .out = &named,
				    .out_len = sizeof(named)});
	ok(r > 0 && named.nodeid == out.e.nodeid && named.attr.nlink == 1,
	   "fs, more: and given one");
	fs_lookup(dir, "named", &named);
	is(named.attr.size, 3 * PAGE, "fs, more: under which it is found");
	fs_forget(named.nodeid, 2);
	remove_file(dir, "named", out.e.nodeid, out.o.fh);
}

static long copy_range(uint64_t from, uint64_t fh, uint64_t to, uint64_t to_fh, uint64_t len)
{
	struct fuse_copy_file_range_in in = {.fh_in = fh,
					     .off_in = PAGE,
					     .nodeid_out = to,
					     .fh_out = to_fh,
					     .off_out = PAGE,
					     .len = len};
	struct fuse_write_out out = {0};
	long r = fs_do(
		FUSE_COPY_FILE_RANGE, from,
		&(struct fs_args){
			.arg = &in, .arg_len = sizeof(in), .out = &out, .out_len = sizeof(out)});

	return r < 0 ? r : (long)out.size;
}

static void test_copy(uint64_t dir)
{
	uint64_t fh, to_fh, len = 20 * PAGE;
	uint64_t node = make_file(dir, "from", 40 * PAGE, &fh),
		 to = make_file(dir, "to", 0, &to_fh);
	long r = copy_range(node, fh, to, to_fh, len);
	struct seg s = {pool, 20 * PAGE};

	if (there(r, "copy_file_range")) {
		is(r, len, "fs, more: a range is copied from file to file");
		is(fs_read(FUSE_READ, to, to_fh, PAGE, &s, 1), len, "fs, more: and read");
		is(pattern_check(pool, len, SEED, PAGE), len, "fs, more: byte for byte");
		ok(copy_range(node, fh, to, 999999, len) == -EBADF,
		   "fs, more: not to a handle that is not open");
	}
	remove_file(dir, "from", node, fh);
	remove_file(dir, "to", to, to_fh);
}

static long seek(uint64_t node, uint64_t fh, uint64_t off, uint32_t whence)
{
	struct fuse_lseek_in in = {.fh = fh, .offset = off, .whence = whence};
	struct fuse_lseek_out out = {0};
	long r = fs_do(
		FUSE_LSEEK, node,
		&(struct fs_args){
			.arg = &in, .arg_len = sizeof(in), .out = &out, .out_len = sizeof(out)});

	return r < 0 ? r : (long)out.offset;
}

static void test_holes(uint64_t dir)
{
	uint64_t fh, node = make_file(dir, "sparse", 0, &fh);
	struct seg s = {pool, PAGE};
	long r;

	pattern_fill(pool, PAGE, SEED, HOLE);
	fs_write(node, fh, HOLE, &s, 1);
	r = seek(node, fh, 0, SEEK_DATA);
	if (there(r, "SEEK_DATA")) {
		is(r, HOLE, "fs, more: the data behind a hole is found");
		is(seek(node, fh, HOLE, SEEK_HOLE), HOLE + PAGE, "fs, more: and the hole after it");
		is(seek(node, fh, HOLE + PAGE, SEEK_DATA), -ENXIO,
		   "fs, more: behind the end there is no data");
	}
	remove_file(dir, "sparse", node, fh);
}

static long allocate(uint64_t node, uint64_t fh, uint64_t off, uint64_t len, uint32_t mode)
{
	struct fuse_fallocate_in in = {.fh = fh, .offset = off, .length = len, .mode = mode};

	return fs_do(FUSE_FALLOCATE, node, &(struct fs_args){.arg = &in, .arg_len = sizeof(in)});
}

static void test_allocate(uint64_t dir)
{
	uint64_t fh, node = make_file(dir, "room", 4 * PAGE, &fh);
	long r = allocate(node, fh, 0, 16 * PAGE, 0);
	struct seg s = {pool, 4 * PAGE};
	struct fuse_attr a;

	if (there(r, "fallocate")) {
		fs_getattr(node, &a);
		ok(r == 0 && a.size == 16 * PAGE, "fs, more: room is allocated, the file grows");
		is(allocate(node, fh, PAGE, PAGE, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE), 0,
		   "fs, more: a hole is punched");
		fs_read(FUSE_READ, node, fh, 0, &s, 1);
		is(pattern_check(pool, 4 * PAGE, SEED, 0), PAGE,
		   "fs, more: what is before it stays");
		ok(!pool[PAGE] && !memcmp(pool + PAGE, pool + PAGE + 1, PAGE - 1),
		   "fs, more: it reads as zeros");
		is(pattern_check(pool + 2 * PAGE, 2 * PAGE, SEED, 2 * PAGE), 2 * PAGE,
		   "fs, more: what is behind it stays");
	}
	remove_file(dir, "room", node, fh);
}

/* ---- flags of a file, as chattr has them ---- */

static long file_ioctl(uint64_t node, uint64_t fh, uint32_t cmd, uint32_t *value, bool set)
{
	struct {
		struct fuse_ioctl_in in;
		uint32_t value;
	} m = {{.fh = fh,
		.cmd = cmd,
		.in_size = set ? sizeof(*value) : 0,
		.out_size = set ? 0 : sizeof(*value)},
	       *value};
	struct {
		struct fuse_ioctl_out out;
		uint32_t value;
	} o = {0};
	long r = fs_do(FUSE_IOCTL, node,
		       &(struct fs_args){.arg = &m,
					 .arg_len = (uint32_t)sizeof(m.in) + m.in.in_size,
					 .out = &o,
					 .out_len = (uint32_t)sizeof(o.out) + m.in.out_size});

	if (r >= 0 && !set)
		*value = o.value;
	return r < 0 ? r : o.out.result;
}

static void test_flags(uint64_t dir)
{
	uint64_t fh, node = make_file(dir, "flags", 0, &fh);
	uint32_t flags = 0, want;
	long r = file_ioctl(node, fh, (uint32_t)FS_IOC_GETFLAGS, &flags, false);

	if (there(r, "FS_IOC_GETFLAGS") && r != -ENOTTY) {
		is(r, 0, "fs, more: a file's flags are read");
		want = flags | FS_NODUMP_FL;
		is(file_ioctl(node, fh, (uint32_t)FS_IOC_SETFLAGS, &want, true), 0,
		   "fs, more: one is set");
		flags = 0;
		file_ioctl(node, fh, (uint32_t)FS_IOC_GETFLAGS, &flags, false);
		ok(flags & FS_NODUMP_FL, "fs, more: and is there");
	}
	ok(file_ioctl(node, fh, 0x12345678, &flags, false) < 0,
	   "fs, more: an ioctl that nobody knows is refused");
	remove_file(dir, "flags", node, fh);
}

/* ---- what has no data of its own ---- */

static void test_syncs(uint64_t dir)
{
	struct fuse_syncfs_in syncfs = {0};
	struct fuse_fsync_in fsync = {.fsync_flags = FUSE_FSYNC_FDATASYNC};
	struct fuse_flush_in flush = {0};
	uint64_t fh, node = make_file(dir, "synced", PAGE, &fh), dir_fh;
	long r = fs_do(FUSE_SYNCFS, FUSE_ROOT_ID,
		       &(struct fs_args){.arg = &syncfs, .arg_len = sizeof(syncfs)});

	if (there(r, "syncfs"))
		is(r, 0, "fs, more: the file system is synced");
	fsync.fh = fh;
	is(fs_do(FUSE_FSYNC, node, &(struct fs_args){.arg = &fsync, .arg_len = sizeof(fsync)}), 0,
	   "fs, more: a file's data is synced");
	flush.fh = fh;
	r = fs_do(FUSE_FLUSH, node, &(struct fs_args){.arg = &flush, .arg_len = sizeof(flush)});
	if (there(r, "flush"))
		is(r, 0, "fs, more: and flushed");
	remove_file(dir, "synced", node, fh);
	fs_open(FUSE_OPENDIR, dir, O_RDONLY | O_DIRECTORY, &dir_fh);
	fsync.fh = dir_fh;
	r = fs_do(FUSE_FSYNCDIR, dir, &(struct fs_args){.arg = &fsync, .arg_len = sizeof(fsync)});
	if (there(r, "fsyncdir"))
		is(r, 0, "fs, more: a directory is synced");
	fs_release(FUSE_RELEASEDIR, dir, dir_fh);
}

static void test_names(uint64_t dir)
{
	struct fuse_mknod_in in = {.mode = S_IFIFO | 0600};
	uint64_t fh_a, a = make_file(dir, "a", 100, &fh_a);
	uint64_t fh_b, b = make_file(dir, "b", 200, &fh_b);
	struct fuse_entry_out e;
	long r = fs_rename(dir, "a", "b", RENAME_EXCHANGE);

	if (there(r, "RENAME_EXCHANGE")) {
		is(r, 0, "fs, more: two names are exchanged");
		ok(fs_lookup(dir, "a", &e) > 0 && e.nodeid == b && e.attr.size == 200,
		   "fs, more: each is the other's");
		fs_forget(b, 1);
	}
	remove_file(dir, "a", a, fh_a);
	remove_file(dir, "b", b, fh_b);
	r = fs_do(FUSE_MKNOD, dir,
		  &(struct fs_args){.arg = &in,
				    .arg_len = sizeof(in),
				    .name = "fifo",
				    .out = &e,
				    .out_len = sizeof(e)});
	ok(r > 0 && S_ISFIFO(e.attr.mode), "fs, more: a fifo is made");
	fs_remove(FUSE_UNLINK, dir, "fifo");
	fs_forget(e.nodeid, 1);
}

/* The time of birth is what GETATTR has no place for. */
static void test_statx(uint64_t dir)
{
	uint64_t fh, node = make_file(dir, "born", PAGE, &fh);
	struct fuse_statx_in in = {.sx_mask = STATX_BASIC_STATS | STATX_BTIME};
	static struct fuse_statx_out out;
	struct fuse_attr a;
	long r = fs_do(
		FUSE_STATX, node,
		&(struct fs_args){
			.arg = &in, .arg_len = sizeof(in), .out = &out, .out_len = sizeof(out)});

	fs_getattr(node, &a);
	if (there(r, "statx")) {
		is(out.stat.size, PAGE, "fs, more: statx tells a file's size");
		ok(out.stat.ino == a.ino && out.stat.mode == a.mode && out.stat.nlink == 1,
		   "fs, more: and the rest as getattr does");
		ok(out.stat.mask & STATX_BTIME && (uint64_t)out.stat.btime.tv_sec <= a.ctime,
		   "fs, more: and when it was born");
	}
	remove_file(dir, "born", node, fh);
}

static long lock(uint32_t op, uint64_t node, uint64_t fh, uint64_t owner, struct fuse_file_lock *l)
{
	struct fuse_lk_in in = {.fh = fh, .owner = owner, .lk = *l};
	struct fuse_lk_out out = {0};
	long r = fs_do(op, node,
		       &(struct fs_args){.arg = &in,
					 .arg_len = sizeof(in),
					 .out = op == FUSE_GETLK ? &out : NULL,
					 .out_len = op == FUSE_GETLK ? sizeof(out) : 0});

	if (op == FUSE_GETLK && r >= 0)
		*l = out.lk;
	return r;
}

static void test_locks(uint64_t dir)
{
	uint64_t fh, node = make_file(dir, "locked", PAGE, &fh);
	struct fuse_file_lock l = {.end = 99, .type = F_WRLCK, .pid = 1};
	long r = lock(FUSE_SETLK, node, fh, 1, &l);

	if (there(r, "locks on the host")) {
		is(r, 0, "fs, more: one owner locks a range");
		is(lock(FUSE_SETLK, node, fh, 2, &l), -EAGAIN, "fs, more: another cannot");
		l.type = F_RDLCK;
		ok(lock(FUSE_GETLK, node, fh, 2, &l) >= 0 && l.type == F_WRLCK,
		   "fs, more: he is told of the first");
		l = (struct fuse_file_lock){.end = 99, .type = F_UNLCK, .pid = 1};
		is(lock(FUSE_SETLK, node, fh, 1, &l), 0, "fs, more: it is unlocked");
		l.type = F_WRLCK;
		is(lock(FUSE_SETLK, node, fh, 2, &l), 0, "fs, more: then the other can");
	}
	remove_file(dir, "locked", node, fh);
}

void fs_more_test(struct vdev *d)
{
	struct fuse_entry_out dir;

	fs_up_as(d, 1, FLAGS);
	ok(fs_session()->minor >= 31, "fs, more: the session's minor version is %u",
	   fs_session()->minor);
	if (!ok(fs_mkdir(FUSE_ROOT_ID, "more", &dir) > 0, "fs, more: a directory is made"))
		return;
	test_xattr(dir.nodeid);
	test_tmpfile(dir.nodeid);
	test_copy(dir.nodeid);
	test_holes(dir.nodeid);
	test_allocate(dir.nodeid);
	test_flags(dir.nodeid);
	test_syncs(dir.nodeid);
	test_names(dir.nodeid);
	test_statx(dir.nodeid);
	test_locks(dir.nodeid);
	is(fs_remove(FUSE_RMDIR, FUSE_ROOT_ID, "more"), 0, "fs, more: it is empty in the end");
	is(fs_faults(), 0, "fs, more: every reply had the right number and length");
}
