// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_modes.c - what the cache modes promise: times, what a file's pages may do, what each side sees of the other's
 * changes, writes held back, and guests that open without a request.
 *
 * Hard cases D11, D23 to D26, D51, D52, D54, D55, D72.
 */
#include "fuse_door.h"
#include <linux/fs.h>
#include <sys/xattr.h>

#define ALWAYS IN_MODE(FUSE_CACHE_ALWAYS)

/* ---- times and flags ---- */

static void test_mode(int mode, uint32_t sec, uint32_t negative, uint32_t file_flags,
		      uint32_t dir_flags)
{
	static const char *const names[] = {"never", "auto", "always"};
	struct fuse_entry_out e;
	struct fuse_open_out o;
	struct fuse_attr_out a;
	int r;

	door_open(IN_MODE(mode), false);
	session_of(45, TELLS);
	host_write("f", "x", 1);
	need(ask_lookup(ROOT, "f", &e) == sizeof(e));
	ok(e.entry_valid == sec && e.attr_valid == sec && !e.entry_valid_nsec && !e.attr_valid_nsec,
	   "%s: names and attributes are good for %u s", names[mode], sec);
	need(ask(FUSE_GETATTR, e.nodeid, &(struct fuse_getattr_in){0}, 16, &a, sizeof(a)) ==
	     sizeof(a));
	is(a.attr_valid, sec, "%s: also those of GETATTR", names[mode]);
	need(ask_open_as(FUSE_OPEN, e.nodeid, O_RDONLY, &o) == sizeof(o));
	is(o.open_flags, file_flags, "%s: what a file's pages may do", names[mode]);
	need(ask_open_as(FUSE_OPENDIR, ROOT, O_RDONLY, &o) == sizeof(o));
	is(o.open_flags, dir_flags, "%s: and a directory's", names[mode]);
	r = ask_lookup(ROOT, "none", &e);
	if (!negative) {
		is(r, -ENOENT, "%s: what is not there is an error", names[mode]);
	} else {
		is(r, sizeof(e), "%s: what is not there is an entry", names[mode]);
		ok(!e.nodeid && e.entry_valid == negative, "of node 0, good for %u s", negative);
	}
	is(held().nodes, 1, "%s: and is not counted", names[mode]);
	door_close();
}

static void test_own_times(void)
{
	struct fuse_config cfg = {
		.entry_ttl_ms = 1500, .attr_ttl_ms = 250, .negative_ttl_ms = 3001};
	struct fuse_entry_out e;

	door_open(cfg, false);
	session();
	host_write("f", "x", 1);
	need(ask_lookup(ROOT, "f", &e) == sizeof(e));
	ok(e.entry_valid == 1 && e.entry_valid_nsec == 500000000,
	   "a name's time is what was configured");
	ok(e.attr_valid == 0 && e.attr_valid_nsec == 250000000, "so is that of attributes");
	need(ask_lookup(ROOT, "none", &e) == sizeof(e));
	ok(!e.nodeid && e.entry_valid == 3 && e.entry_valid_nsec == 1000000,
	   "and of what is not there");
	door_close();
}

/* The server holds nothing back, in any mode: what a request asks is as it is on the host, and the other way. */
static void test_both_ways(int mode)
{
	struct fuse_entry_out e;
	struct fuse_attr a;
	uint64_t fh = 0;
	char buf[16];
	int fd;

	door_open(IN_MODE(mode), false);
	session_of(45, UINT64_MAX);
	need(!ask_create(ROOT, "both", 0, &e, &fh));
	is(ask_write(e.nodeid, fh, 0, "guest", 5), 5, "mode %d: the guest writes", mode);
	fd = openat(door.dir, "both", O_RDWR | O_CLOEXEC);
	need(fd >= 0);
	ok(pread(fd, buf, sizeof(buf), 0) == 5 && !memcmp(buf, "guest", 5),
	   "and the host reads it at once");
	need(pwrite(fd, "the host", 8, 0) == 8 && !fchmod(fd, 0604));
	is(ask_read(FUSE_READ, e.nodeid, fh, 0, buf, sizeof(buf)), 8, "the host writes");
	ok(!memcmp(buf, "the host", 8), "and a request reads it at once");
	is(ask_attr(e.nodeid, &a), 0, "its attributes");
	ok(a.size == 8 && (a.mode & 07777) == 0604, "are the host's");
	need(!unlinkat(door.dir, "both", 0));
	is(ask_attr(e.nodeid, &a), 0, "it is gone on the host");
	is(a.nlink, 0, "which is told");
	close(fd);
	host_clear(door.dir);
	door_close();
}

/* ---- writes held back ---- */

static void test_writeback(void)
{
	struct fuse_config cfg = BY_MODE;
	struct fuse_setattr_in set = {
		.valid = FATTR_MTIME | FATTR_CTIME, .mtime = 1000, .ctime = 5};
	struct fuse_lseek_in seek = {.whence = SEEK_DATA};
	struct fuse_lseek_out at;
	struct fuse_attr_out a;
	struct fuse_entry_out e;
	uint64_t f, fh;
	char buf[8];

	cfg.writeback = true;
	host_write("f", "0123456", 7);
	door_open(cfg, false);
	session_of(45, TELLS);
	f = find(ROOT, "f");
	fh = open_file(f, O_WRONLY);
	is(ask_read(FUSE_READ, f, fh, 0, buf, 8), 7,
	   "what is opened to write can be read, for the rest of a page");
	seek.fh = fh;
	is(ask(FUSE_LSEEK, f, &seek, sizeof(seek), &at, sizeof(at)), -ENOSYS,
	   "where data is only the guest knows");
	need(!release(f, fh));
	need(!ask_create(ROOT, "new", O_WRONLY, &e, &fh));
	need(ask_write(e.nodeid, fh, 0, "x", 1) == 1);
	is(ask_read(FUSE_READ, e.nodeid, fh, 0, buf, 8), 1, "also what is created to write");
	is(ask(FUSE_SETATTR, e.nodeid, &set, sizeof(set), &a, sizeof(a)), sizeof(a),
	   "the guest says the times");
	ok(a.attr.mtime == 1000 && a.attr.ctime > 1000, "and the host keeps its ctime");
	need(!release(e.nodeid, fh));
	if (geteuid()) {
		need(!fchmodat(door.dir, "f", 0200, 0));
		fh = open_file(f, O_WRONLY);
		is(ask_write(f, fh, 0, "y", 1), 1, "what may only be written is only written");
		is(ask_read(FUSE_READ, f, fh, 0, buf, 8), -EBADF, "and not read");
		is(ask_create(ROOT, "f", O_WRONLY, &e, &fh), 0, "by creating it too");
	} else {
		skip("root may read all", "a file that may only be written");
	}
	session_of(31, UINT32_MAX & ~(uint32_t)FUSE_WRITEBACK_CACHE);
	f = find(ROOT, "new");
	fh = open_file(f, O_WRONLY);
	is(ask_read(FUSE_READ, f, fh, 0, buf, 8), -EBADF,
	   "a guest that does not want it opens as it says");
	seek.fh = fh;
	is(ask(FUSE_LSEEK, f, &seek, sizeof(seek), &at, sizeof(at)), sizeof(at),
	   "and is told where data is");
	host_clear(door.dir);
	door_close();
}

/* ---- no opening ---- */

/* Where not everything can be opened again at any time, the guest's owners are its own. */
static void untold_session(struct share_config share)
{
	if (!share_owner_passes())
		share.owner = SHARE_OWNER_MAPPED;
	door_open_share(ALWAYS, share);
	session_of(45, UINT64_MAX);
}

static void test_untold_files(void)
{
	const struct fuse_getattr_in get = {.getattr_flags = FUSE_GETATTR_FH, .fh = 0};
	struct fuse_setattr_in cut = {.valid = FATTR_SIZE | FATTR_FH, .size = 3};
	struct fuse_fsync_in fsync_in = {0};
	struct fuse_fallocate_in grow = {.length = 100};
	struct fuse_lseek_in seek = {.whence = SEEK_HOLE};
	struct fuse_lseek_out at;
	struct fuse_attr_out a;
	struct fuse_open_out o;
	uint64_t f;
	char buf[16];

	host_write("f", "contents", 8);
	untold_session(PLAIN);
	f = find(ROOT, "f");
	is(ask_open_as(FUSE_OPEN, f, O_RDWR, &o), -ENOSYS, "a file need not be opened");
	is(ask(FUSE_FSYNC, f, &fsync_in, sizeof(fsync_in), NULL, 0), 0, "it is synced");
	is(ask_read(FUSE_READ, f, 0, 0, buf, 16), 8, "and read");
	ok(!memcmp(buf, "contents", 8), "as it is");
	is(held().kept, 1, "a file is kept for it");
	is(ask_write(f, 0, 8, " more", 5), 5, "and written");
	is(host_size("f"), 13, "on the host");
	ok(held().kept == 1 && held().files == 1, "by one that is kept in place of the other");
	is(ask_read(FUSE_READ, f, 0, 0, buf, 16), 13, "which reads as well");
	is(ask(FUSE_GETATTR, f, &get, sizeof(get), &a, sizeof(a)), sizeof(a),
	   "a handle that was not given is the object");
	is(a.attr.size, 13, "and has its attributes");
	is(ask(FUSE_SETATTR, f, &cut, sizeof(cut), &a, sizeof(a)), sizeof(a), "it is cut");
	is(host_size("f"), 3, "on the host");
	is(ask(FUSE_FALLOCATE, f, &grow, sizeof(grow), NULL, 0), 0, "given space");
	is(ask(FUSE_LSEEK, f, &seek, sizeof(seek), &at, sizeof(at)), sizeof(at), "searched");
	is(release(f, 0), 0, "and closed, which means nothing");
	is(held().kept, 1, "it stays");
	forget(f, 1);
	ok(nothing_held(), "until it is forgotten");
	door_close();
}

/* What was opened before a file became append-only may go on writing it anywhere. */
static void test_untold_flags(void)
{
	struct fuse_ioctl_in in = {.cmd = FS_IOC_GETFLAGS, .out_size = 4};
	struct {
		struct fuse_ioctl_out o;
		int flags;
	} got;
	uint64_t f;

	host_write("f", "contents", 8);
	untold_session(PLAIN);
	f = find(ROOT, "f");
	is(ask_write(f, 0, 0, "C", 1), 1, "a file is written");
	is(held().kept, 1, "and kept");
	if (ask(FUSE_IOCTL, f, &in, sizeof(in), &got, sizeof(got)) != sizeof(got)) {
		skip("the file system has none", "flags of a kept file");
	} else {
		in = (struct fuse_ioctl_in){.cmd = FS_IOC_SETFLAGS, .in_size = 4};
		got.flags |= FS_NODUMP_FL;
		is(ask2(FUSE_IOCTL, f, &in, sizeof(in), &got.flags, 4, &got, sizeof(got)),
		   sizeof(got.o), "its flags are set");
		is(held().kept, 0, "and it is opened anew, as they say");
		is(ask_write(f, 0, 0, "c", 1), 1, "when it is written again");
	}
	door_close();
}

static void test_untold_create(void)
{
	struct fuse_entry_out e;
	uint64_t fh = 1;
	char buf[8];

	untold_session(PLAIN);
	is(ask_create(ROOT, "new", O_WRONLY, &e, &fh), 0, "a file is created");
	is(fh, 0, "without a handle that nobody would release");
	is(held().handles, 0, "nor is there one");
	is(ask_write(e.nodeid, fh, 0, "data", 4), 4, "it is written as it is");
	is(ask_read(FUSE_READ, e.nodeid, fh, 0, buf, 8), 4, "and read, which opens it again");
	is(held().kept, 1, "one is kept");
	need(!unlinkat(door.dir, "new", 0));
	is(ask_write(e.nodeid, fh, 4, "more", 4), 4, "also when it has no name any more");
	session_of(45, UINT64_MAX);
	ok(nothing_held(), "a new session keeps none");
	door_close();
}

static void test_untold_directories(void)
{
	struct fuse_fsync_in fsync_in = {0};
	struct fuse_open_out o;
	uint8_t buf[1024];
	uint64_t d;
	int n;

	need(!mkdirat(door.dir, "d", 0755));
	host_write("d/a", "x", 1);
	host_write("d/b", "x", 1);
	untold_session(PLAIN);
	d = find(ROOT, "d");
	is(ask_open_as(FUSE_OPENDIR, d, 0, &o), -ENOSYS, "a directory need not be opened");
	n = ask_read(FUSE_READDIR, d, 0, 0, buf, sizeof(buf));
	is(n, 4 * 32, "it is listed");
	is(ask_read(FUSE_READDIR, d, 0, ((struct fuse_dirent *)buf)->off, buf, sizeof(buf)), 3 * 32,
	   "from any place on");
	ok(ask_read(FUSE_READDIRPLUS, ROOT, 0, 0, buf, sizeof(buf)) > 0, "the root too");
	is(held().kept, 2, "both are kept");
	is(ask(FUSE_FSYNCDIR, d, &fsync_in, sizeof(fsync_in), NULL, 0), 0, "and synced");
	is(ask(FUSE_RELEASEDIR, d, &(struct fuse_release_in){0}, 24, NULL, 0), 0, "and closed");
	is(ask_read(FUSE_READDIR, find(ROOT, "d"), 77, 0, buf, sizeof(buf)), 4 * 32,
	   "whatever stands in a handle's place");
	is(ask_read(FUSE_READDIR, find(d, "a"), 0, 0, buf, sizeof(buf)), -ENOTDIR,
	   "a file is not listed");
	is(ask_read(FUSE_READ, d, 0, 0, buf, 8), -EISDIR, "a directory is not read");
	is(ask_write(d, 0, 0, "x", 1), -EISDIR, "nor written");
	session_of(45, UINT64_MAX);
	ok(nothing_held(), "a new session keeps none");
	host_clear(door.dir);
	door_close();
}

/* Whatever the share makes of them on the host. */
static void untold_special(uint64_t node, const char *what)
{
	char buf[8];

	ok(ask_read(FUSE_READ, node, 0, 0, buf, 8) < 0, "%s is never opened to be read", what);
	ok(ask_write(node, 0, 0, "x", 1) < 0, "%s is never opened to be written", what);
	is(held().kept, 0, "and not kept");
}

static void test_untold_special(void)
{
	const struct fuse_mknod_in fifo = {.mode = S_IFIFO | 0666};
	struct fuse_entry_out e;

	untold_session(PLAIN);
	need(ask2(FUSE_MKNOD, ROOT, &fifo, sizeof(fifo), "p", 2, &e, sizeof(e)) == sizeof(e));
	untold_special(e.nodeid, "a fifo");
	need(ask(FUSE_SYMLINK, ROOT, "s\0/etc/passwd", 14, &e, sizeof(e)) == sizeof(e));
	untold_special(e.nodeid, "a symbolic link");
	host_clear(door.dir);
	door_close();
}

/* ---- how many are kept ---- */

#define BUDGET 64

static uint64_t nth(unsigned i)
{
	char name[16];

	snprintf(name, sizeof(name), "f%u", i);
	host_write(name, "x", 1);
	return find(ROOT, name);
}

static void limit_kept(void *arg)
{
	(void)arg;
	door.fuse->kept_max = 4;
}

/* An operation on one file that cannot be over before all the others were read. */
struct crowd {
	uint64_t big;
	struct sent *slow, *others[8];
	bool kept;
};

static void crowd_in(void *arg)
{
	struct crowd *c = arg;

	sent_serve(c->slow);
	for (unsigned i = 0; i < ARRAY_LEN(c->others); i++)
		sent_serve(c->others[i]);
	c->kept = fuse_node_find(door.fuse, c->big)->kept;
}

static void test_kept_few(void)
{
	struct crowd c;
	uint64_t f[8];
	char buf[8];

	untold_session(PLAIN);
	loop_call(door.io, limit_kept, NULL);
	for (unsigned i = 0; i < 8; i++) {
		f[i] = nth(i);
		need(ask_read(FUSE_READ, f[i], 0, 0, buf, 8) == 1);
		if (i == 4)
			need(ask_read(FUSE_READ, f[1], 0, 0, buf, 8) == 1);
	}
	ok(held().kept == 4 && held().files == 4, "no more files are kept than may be");
	is(ask_read(FUSE_READ, f[0], 0, 0, buf, 8), 1, "one that was closed is opened again");
	is(ask_write(f[7], 0, 0, "yy", 2), 2, "and one more to write");
	is(held().kept, 4, "in place of others");
	c.big = nth(9);
	need(ask_write(c.big, 0, 0, "long enough", 11) == 11);
	c.slow = sent_make(FUSE_FSYNC, c.big, &(struct fuse_fsync_in){0}, 16, NULL, 0, 0);
	for (unsigned i = 0; i < 8; i++)
		c.others[i] = sent_make(FUSE_READ, f[i], &(struct fuse_read_in){.size = 8}, 40,
					NULL, 0, 8);
	loop_call(door.io, crowd_in, &c);
	ok(c.kept, "one that is in use is not closed for others");
	is(sent_finish(c.slow, NULL, 0), 0, "and done with");
	for (unsigned i = 0; i < 8; i++)
		need(sent_finish(c.others[i], NULL, 0) > 0);
	forget(c.big, 1);
	ok(held().kept == 3 && held().files == 3, "which forgetting does");
	session_of(45, UINT64_MAX);
	ok(nothing_held(), "a new session keeps none");
	host_clear(door.dir);
	door_close();
}

/* More files than there are descriptors: those kept make room. */
static void test_kept_budget(void)
{
	struct share_config share = PLAIN;
	unsigned good = 0;
	char buf[8];

	share.fd_budget = BUDGET;
	untold_session(share);
	for (unsigned i = 0; i < 40; i++) {
		uint64_t f = nth(i);

		good += ask_read(FUSE_READ, f, 0, 0, buf, 8) == 1;
		good += ask_write(f, 0, 1, "y", 1) == 1;
	}
	is(good, 80, "a small budget is enough for many files");
	ok(held().kept <= BUDGET / 4 + 1, "of which a few are kept");
	host_clear(door.dir);
	door_close();
}

/* ---- where opening is asked for all the same ---- */

static void test_told(void)
{
	struct share_config share = PLAIN;
	struct fuse_open_out o;
	uint64_t f;

	host_write("f", "x", 1);
	share.readonly = true;
	untold_session(share);
	f = find(ROOT, "f");
	is(ask_open_as(FUSE_OPEN, f, O_RDONLY, &o), sizeof(o), "a read-only share is opened");
	is(o.open_flags, FOPEN_KEEP_CACHE, "and its pages stay");
	is(ask_open_as(FUSE_OPEN, f, O_RDWR, &o), -EROFS, "not to write, which open() says");
	is(ask_open_as(FUSE_OPENDIR, ROOT, 0, &o), -ENOSYS, "its directories need not be");
	door_close();
	share.readonly = false;
	share.locks = SHARE_LOCKS_HOST;
	untold_session(share);
	f = find(ROOT, "f");
	is(ask_open_as(FUSE_OPEN, f, O_RDWR, &o), sizeof(o), "where locks are the host's all is");
	is(ask_open_as(FUSE_OPENDIR, ROOT, 0, &o), sizeof(o), "opened");
	is(o.open_flags, FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR, "also directories");
	door_close();
	door_open(BY_MODE, false);
	session_of(45, UINT64_MAX);
	is(ask_open_as(FUSE_OPEN, find(ROOT, "f"), O_RDWR, &o), sizeof(o),
	   "in auto opening looks again");
	door_close();
	share = PLAIN;
	share.owner = SHARE_OWNER_SQUASH;
	door_open_share(ALWAYS, share);
	session_of(45, UINT64_MAX);
	is(ask_open_as(FUSE_OPEN, find(ROOT, "f"), O_RDWR, &o),
	   share_owner_passes() ? -ENOSYS : (int)sizeof(o),
	   "a plain user might not be able to open again what a program has open");
	host_clear(door.dir);
	door_close();
}

static void test_untold(void)
{
	if (!share_owner_passes() && fsetxattr(door.dir, "user.t", "", 0, 0)) {
		skip("not root, and no attributes in TMPDIR", "opening without a request");
		return;
	}
	test_untold_files();
	test_untold_flags();
	test_untold_create();
	test_untold_directories();
	test_untold_special();
	test_kept_few();
	test_kept_budget();
	test_told();
}

int main(void)
{
	unsigned fds;

	door_set_up("t_fuse_modes");
	fds = host_descriptors();
	test_mode(FUSE_CACHE_NEVER, 0, 0, FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES, 0);
	test_mode(FUSE_CACHE_AUTO, 1, 0, 0, 0);
	test_mode(FUSE_CACHE_ALWAYS, 86400, 86400, FOPEN_KEEP_CACHE,
		  FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR);
	test_own_times();
	test_both_ways(FUSE_CACHE_NEVER);
	test_both_ways(FUSE_CACHE_AUTO);
	test_both_ways(FUSE_CACHE_ALWAYS);
	test_writeback();
	test_untold();
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
