// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_xattr.c - what an object is, beyond its attributes: extended ones, flags by ioctl, birth time.
 *
 * What the file layer does with them is in t_share_xattr.c. Hard cases D41, D42, D45, D60, D71.
 */
#include "fuse_door.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

/* ---- extended attributes ---- */

/* ext: the longer struct. said: what it says of the value. */
static int set_as(bool ext, uint64_t node, const char *name, const void *value, size_t n,
		  uint32_t said, uint32_t flags)
{
	const struct fuse_setxattr_in in = {.size = said, .flags = flags};
	static uint8_t more[128 * 1024];
	const size_t len = strlen(name) + 1;

	memcpy(more, name, len);
	memcpy(more + len, value, n);
	return ask2(FUSE_SETXATTR, node, &in, ext ? sizeof(in) : FUSE_COMPAT_SETXATTR_IN_SIZE, more,
		    len + n, NULL, 0);
}

static int set(uint64_t node, const char *name, const char *value, uint32_t flags)
{
	return set_as(false, node, name, value, strlen(value), (uint32_t)strlen(value), flags);
}

static int get(uint64_t node, const char *name, void *out, uint32_t size)
{
	const struct fuse_getxattr_in in = {.size = size};

	return ask2(FUSE_GETXATTR, node, &in, sizeof(in), name, strlen(name) + 1, out,
		    size ? size : sizeof(struct fuse_getxattr_out));
}

static int list(uint64_t node, void *out, uint32_t size)
{
	const struct fuse_getxattr_in in = {.size = size};

	return ask(FUSE_LISTXATTR, node, &in, sizeof(in), out,
		   size ? size : sizeof(struct fuse_getxattr_out));
}

static int del(uint64_t node, const char *name)
{
	return ask(FUSE_REMOVEXATTR, node, name, strlen(name) + 1, NULL, 0);
}

/* ext4 and most others have them, old tmpfs does not. */
static bool have_xattr(void)
{
	host_write("f", "x", 1);
	return !fsetxattr(door.dir, "user.t", "", 0, 0);
}

static void test_values(void)
{
	struct fuse_getxattr_out o;
	uint64_t f = find(ROOT, "f");
	char buf[64];

	is(list(f, &o, 0), sizeof(o), "the length of a list is told");
	is(o.size, 0, "which is empty");
	is(list(f, buf, sizeof(buf)), 0, "and so is the list");
	is(get(f, "user.a", buf, sizeof(buf)), -ENODATA, "what is not there is no data");
	is(set(f, "user.a", "value", 0), 0, "an attribute is set");
	is(get(f, "user.a", &o, 0), sizeof(o), "its length is asked");
	is(o.size, 5, "and told");
	is(get(f, "user.a", buf, 5), 5, "with just that room it is got");
	ok(!memcmp(buf, "value", 5), "as it was set");
	is(get(f, "user.a", buf, 4), -ERANGE, "with less it is not");
	is(set(f, "user.a", "other", XATTR_CREATE), -EEXIST, "it is not created twice");
	is(set(f, "user.b", "other", XATTR_REPLACE), -ENODATA, "nor another replaced");
	is(set(f, "user.b", "", 0), 0, "a value may be empty");
	is(get(f, "user.b", buf, 8), 0, "which is a value");
	is(list(f, buf, sizeof(buf)), 14, "both are listed");
	ok(!memcmp(buf, "user.", 5) && buf[6] == 0, "by name and NUL");
	is(list(f, buf, 13), -ERANGE, "in enough room");
	is(del(f, "user.a"), 0, "one is removed");
	is(del(f, "user.a"), -ENODATA, "once");
	is(list(f, buf, sizeof(buf)), 7, "the other is left");
}

/* A request for a value in pieces of guest memory that no system call could fill at once. */
static void test_pieces(void)
{
	const struct fuse_getxattr_in in = {.size = 100};
	uint64_t f = find(ROOT, "f");
	struct sent *s;
	int r;

	need(!set(f, "user.long", "0123456789abcdefghijklmnopqrstuvwxyz", 0));
	s = sent_make(FUSE_GETXATTR, f, &in, sizeof(in), "user.long", 10, 100);
	s->iov = realloc(s->iov, 4 * sizeof(*s->iov));
	need(s->iov);
	s->iov[0] = (struct iovec){s->rd, s->rd_len};
	s->iov[1] = (struct iovec){s->wr, 20};
	s->iov[2] = (struct iovec){s->wr + 20, 7};
	s->iov[3] = (struct iovec){s->wr + 27, s->wr_len - 27};
	s->req.rd = s->iov;
	s->req.wr = s->iov + 1;
	s->req.nwr = 3;
	loop_call(door.io, sent_serve, s);
	r = sent_judge(s);
	ok(r == 36 && !memcmp(s->wr + HDR_OUT, "0123456789abcdefghijklmnopqrstuvwxyz", 36),
	   "a value is put together from any buffers");
	sent_free(s);
}

static void test_lies(void)
{
	static const char big[70000];
	uint64_t f = find(ROOT, "f");
	char name[XATTR_NAME_MAX + 2], buf[8];

	memset(name, 'n', sizeof(name));
	memcpy(name, "user.", 5);
	name[sizeof(name) - 1] = 0;
	is(get(f, name, buf, 8), -ERANGE, "a name of 256 bytes is none");
	is(del(f, name), -ERANGE, "to be removed neither");
	is(set(f, name, "x", 0), -ERANGE, "nor set");
	is(get(f, "", buf, 8), -EINVAL, "nor is the empty one");
	is(ask2(FUSE_GETXATTR, f, &(struct fuse_getxattr_in){.size = 8}, 8, "user.a", 6, buf, 8),
	   -EINVAL, "nor one that does not end");
	is(set_as(false, f, "user.x", "abc", 3, 4, 0), -EINVAL,
	   "a value that is shorter than said");
	is(set_as(false, f, "user.x", "abc", 3, 2, 0), -EINVAL, "or longer");
	is(set_as(false, f, "user.x", "abc", 3, UINT32_MAX, 0), -E2BIG, "or much shorter");
	is(set_as(false, f, "user.x", big, 65537, 65537, 0), -E2BIG, "a value is at most 64 KiB");
	is(get(f, "user.x", buf, 8), -ENODATA, "and none of these was set");
	is(set(f, "user.x", "abc", 77), -EINVAL, "flags that are none are refused");
	is(get(f, "user.none", NULL, UINT32_MAX & 0xffff), -ENODATA, "a size may be large");
	is(ask2(FUSE_GETXATTR, f, &(struct fuse_getxattr_in){.size = UINT32_MAX}, 8, "user.none",
		10, buf, 8),
	   -ENODATA, "however large");
	is(ask2(FUSE_LISTXATTR, f, &(struct fuse_getxattr_in){.size = UINT32_MAX}, 8, NULL, 0, buf,
		1),
	   -ERANGE, "what does not fit the room does not fit");
}

/* Guests before 5.13 and after. */
static void test_two_sizes(void)
{
	uint64_t f;
	char buf[8];

	session_of(31, UINT32_MAX & ~(uint32_t)FUSE_SETXATTR_EXT);
	f = find(ROOT, "f");
	is(set_as(false, f, "user.s", "ab", 2, 2, 0), 0, "the shorter struct");
	is(get(f, "user.s", buf, 8), 2, "is understood");
	session_of(33, UINT32_MAX);
	f = find(ROOT, "f");
	is(set_as(true, f, "user.s", "abc", 3, 3, 0), 0, "and the longer one");
	is(get(f, "user.s", buf, 8), 3, "where it was agreed on");
	is(set_as(false, f, "user.s", "x", 1, 1, 0), -EINVAL, "a shorter one is then too short");
	for (size_t n = 0; n < 16; n++)
		is(ask(FUSE_SETXATTR, f, (char[16]){0}, n, NULL, 0), -EINVAL, "also of %zu bytes",
		   n);
}

/* Also for those that Linux itself asks about on its own. */
static void test_hidden(void)
{
	uint64_t f = find(ROOT, "f");
	char buf[64];

	is(get(f, "system.posix_acl_access", buf, sizeof(buf)), -ENODATA,
	   "without access control lists there are none");
	is(set(f, "system.posix_acl_access", "x", 0), -EOPNOTSUPP, "to be set neither");
	is(del(f, "system.posix_acl_default"), -EOPNOTSUPP, "or removed");
}

static void test_off(void)
{
	char buf[8];
	uint64_t f;

	door_open_share(BY_MODE, (struct share_config){.xattr = false});
	session_of(45, UINT64_MAX);
	f = find(ROOT, "f");
	is(get(f, "user.a", buf, 8), -ENOSYS, "without attributes a guest need not ask again");
	is(set(f, "user.a", "x", 0), -ENOSYS, "nor set");
	is(list(f, buf, 8), -ENOSYS, "nor list");
	is(del(f, "user.a"), -ENOSYS, "nor remove");
	door_close();
}

static int ask_ioctl(uint64_t node, uint64_t fh, uint32_t cmd, const void *arg, uint32_t n,
		     void *out, uint32_t room)
{
	const struct fuse_ioctl_in in = {.fh = fh, .cmd = cmd, .in_size = n, .out_size = room};
	struct {
		struct fuse_ioctl_out o;
		uint8_t data[128];
	} got;
	int r = ask2(FUSE_IOCTL, node, &in, sizeof(in), arg, n, &got, sizeof(got.o) + room);

	if (r < 0)
		return r;
	need(r >= (int)sizeof(got.o));
	always(!got.o.result && !got.o.flags, "an ioctl is not to be tried again");
	if (out)
		memcpy(out, got.data, (size_t)r - sizeof(got.o));
	return r - (int)sizeof(got.o);
}

static void test_readonly(void)
{
	const int flags = 0;
	uint64_t f, fh;
	char buf[64];

	door_open(BY_MODE, true);
	session_of(31, UINT32_MAX & ~(uint32_t)FUSE_SETXATTR_EXT);
	f = find(ROOT, "f");
	is(set(f, "user.x", "x", 0), -EROFS, "a read-only share's attributes are not set");
	is(del(f, "user.x"), -EROFS, "nor removed");
	ok(list(f, buf, sizeof(buf)) >= 0, "but read");
	fh = open_file(f, O_RDONLY);
	is(ask_ioctl(f, fh, FS_IOC_SETFLAGS, &flags, 4, NULL, 0), -EROFS,
	   "nor are flags of its files set");
	door_close();
}

/* ---- ioctl ---- */

static void test_ioctl(void)
{
	uint64_t f = find(ROOT, "f"), fh = open_file(f, O_RDWR), dh = open_dir(ROOT);
	struct fsxattr x;
	uint8_t much[100] = {0};
	int flags = 0;

	is(ask_ioctl(f, fh, TCGETS, NULL, 0, NULL, 60), -ENOTTY, "a file is no terminal");
	is(ask_ioctl(f, fh, 0xdeadbeef, much, 100, NULL, 0), -ENOTTY,
	   "nor anything else, at length");
	is(ask_ioctl(f, 4711, FS_IOC_GETFLAGS, NULL, 0, &flags, 4), -EBADF,
	   "what is not open has no control");
	is(ask2(FUSE_IOCTL, f, &(struct fuse_ioctl_in){.fh = fh, .in_size = 5}, 32, "1234", 4, NULL,
		16),
	   -EINVAL, "an argument that is not there is wrong");
	if (ask_ioctl(f, fh, FS_IOC_GETFLAGS, NULL, 0, &flags, 4) == -ENOTTY) {
		skip("the file system has none", "flags of files");
		return;
	}
	is(ask_ioctl(ROOT, dh, FS_IOC_GETFLAGS, NULL, 0, &flags, 4), 4,
	   "a directory's flags are asked");
	is(ask_ioctl(f, fh, FS_IOC_GETFLAGS, NULL, 0, &flags, 4), 4, "a file's too");
	is(ask_ioctl(f, fh, FS_IOC_FSGETXATTR, NULL, 0, &x, sizeof(x)), sizeof(x),
	   "and the longer form");
	is(ask_ioctl(f, fh, FS_IOC_GETFLAGS, NULL, 0, &flags, 3), -EINVAL,
	   "room for them is needed");
	flags |= FS_NODUMP_FL; /* the others say how it lies on the disk */
	is(ask_ioctl(f, fh, FS_IOC_SETFLAGS, &flags, 4, NULL, 0), 0, "one is set");
	flags = 0;
	is(ask_ioctl(f, fh, FS_IOC_GETFLAGS, NULL, 0, &flags, 4), 4, "asked again");
	ok(flags & FS_NODUMP_FL, "it is there");
}

/* ---- birth ---- */

static void test_statx(void)
{
	struct fuse_statx_in in = {.sx_mask = STATX_BTIME};
	struct fuse_statx_out o;
	struct statx host;
	uint64_t f = find(ROOT, "f"), fh = open_file(f, O_RDONLY);

	need(!statx(door.dir, "f", 0, STATX_BASIC_STATS | STATX_BTIME, &host));
	is(ask(FUSE_STATX, f, &in, sizeof(in), &o, sizeof(o)), sizeof(o), "a birth is asked for");
	is(o.stat.mask & STATX_BASIC_STATS, STATX_BASIC_STATS, "all the rest is told as well");
	is(o.stat.mask & STATX_BTIME, host.stx_mask & STATX_BTIME, "and the birth if it is known");
	ok(o.stat.btime.tv_sec == host.stx_btime.tv_sec &&
		   o.stat.btime.tv_nsec == host.stx_btime.tv_nsec,
	   "as the host knows it");
	ok(o.stat.mode == host.stx_mode && o.stat.size == 1 && o.stat.nlink == 1 &&
		   o.stat.mtime.tv_nsec == host.stx_mtime.tv_nsec && o.stat.ino,
	   "and so the rest");
	is(o.attr_valid, 1, "it is good as long as other attributes");
	in.getattr_flags = FUSE_GETATTR_FH;
	in.fh = fh;
	is(ask(FUSE_STATX, f, &in, sizeof(in), &o, sizeof(o)), sizeof(o), "an open file is asked");
	in.fh = fh + 1;
	is(ask(FUSE_STATX, f, &in, sizeof(in), &o, sizeof(o)), -EBADF,
	   "one that is not open is not");
}

static void with_session(void (*test)(void))
{
	door_open(BY_MODE, false);
	session_of(31, UINT32_MAX & ~(uint32_t)FUSE_SETXATTR_EXT);
	test();
	door_close();
}

int main(void)
{
	door_set_up("t_fuse_xattr");
	if (have_xattr()) {
		with_session(test_values);
		with_session(test_pieces);
		with_session(test_lies);
		with_session(test_two_sizes);
		with_session(test_hidden);
		test_readonly();
	} else {
		skip("the file system of TMPDIR has none", "extended attributes");
	}
	test_off();
	with_session(test_ioctl);
	with_session(test_statx);
	door_tear_down();
	return done();
}
