// SPDX-License-Identifier: Apache-2.0
/*
 * t_p9_xattr.c - extended attributes by Txattrwalk and Txattrcreate: values that are read and written like files, and set
 * when their fid goes.
 *
 * What the file layer does with them is in t_share_xattr.c. Hard cases E20, E27, E29.
 */
#include "p9_door.h"
#include <linux/limits.h>
#include <sys/xattr.h>

enum { F = 10, X, Y };

/* ---- as Linux does it ---- */

/* The size of the value that can be read by fid then, or the error. */
static int ask_xattrwalk(uint32_t fid, uint32_t newfid, const char *name)
{
	le64 size;
	int r = ask(P9_TXATTRWALK, &size, sizeof(size), "44s", fid, newfid, name);

	always(r < 0 || r == sizeof(size), "an attribute has a size");
	return r < 0 ? r : (int)le64_get(size);
}

static int ask_xattrcreate(uint32_t fid, const char *name, uint64_t size, uint32_t flags)
{
	return tell(P9_TXATTRCREATE, "4s84", fid, name, size, flags);
}

static int get(const char *name, void *out, uint32_t room)
{
	int n = ask_xattrwalk(F, X, name);

	if (n < 0)
		return n;
	n = ask_read(X, 0, out, room);
	need(!ask_clunk(X));
	return n;
}

static int set(const char *name, const char *value, uint32_t flags)
{
	const uint32_t n = (uint32_t)strlen(value);
	int r;

	walk(F, X, "");
	r = ask_xattrcreate(X, name, n, flags);
	if (!r && n)
		need(ask_write(X, 0, value, n) == (int)n);
	if (!r)
		return ask_clunk(X);
	need(!ask_clunk(X));
	return r;
}

static bool is_value(const char *name, const char *value)
{
	char out[100];
	const int n = get(name, out, sizeof(out));

	return n == (int)strlen(value) && !memcmp(out, value, (size_t)n);
}

static int host_get(const char *name, void *out, size_t n)
{
	int fd = openat(door.dir, "f", O_RDONLY | O_CLOEXEC);
	ssize_t r = fgetxattr(fd, name, out, n);

	r = r < 0 ? -errno : r;
	close(fd);
	return (int)r;
}

/* ---- tests ---- */

static void test_values(void)
{
	char buf[100];

	is(ask_xattrwalk(F, X, ""), 0, "nothing is in the list");
	is(ask_read(X, 0, buf, 100), 0, "which can be read");
	is(ask_clunk(X), 0, "and let go of");
	is(get("user.a", buf, 100), -ENODATA, "what is not there is no data");
	is(set("user.a", "value", 0), 0, "an attribute is set");
	is(host_get("user.a", buf, 100), 5, "on the host");
	ok(is_value("user.a", "value"), "and read");
	is(set("user.a", "another", XATTR_CREATE), -EEXIST, "it is not created twice");
	is(set("user.b", "another", XATTR_REPLACE), -ENODATA, "nor another replaced");
	is(set("user.a", "longer than before", XATTR_REPLACE), 0, "but it is");
	ok(is_value("user.a", "longer than before"), "by what was asked");
	is(set("user.b", "", 0), 0, "a value may be empty");
	is(get("user.b", buf, 100), 0, "and is there");
	is(get("", buf, 100), 14, "both are listed");
	ok(!memcmp(buf, "user.", 5) && !buf[6] && !memcmp(buf + 7, "user.", 5) && !buf[13],
	   "by name and NUL");
	is(set("user.b", "", XATTR_REPLACE), 0, "no value in the place of one takes it away");
	is(get("user.b", buf, 100), -ENODATA, "then it is gone");
	is(set("user.b", "", XATTR_REPLACE), -ENODATA, "once");
	is(set("user.c", "", XATTR_CREATE), 0, "an empty one can be created too");
	is(host_get("user.c", buf, 100), 0, "on the host");
	is(held().xattrs, 0, "no value is in memory");
}

static void test_reading(void)
{
	char buf[100];

	need(!set("user.a", "0123456789", 0));
	is(ask_xattrwalk(F, X, "user.a"), 10, "a value has a size");
	is(ask_read(X, 4, buf, 3), 3, "of which a part is read");
	ok(!memcmp(buf, "456", 3), "from anywhere");
	is(ask_read(X, 8, buf, 100), 2, "to the end");
	is(ask_read(X, 10, buf, 100), 0, "and no further");
	is(ask_read(X, 11, buf, 100), 0, "from behind it");
	is(ask_read(X, UINT64_MAX, buf, 100), 0, "or from anywhere");
	is(ask_read(X, UINT64_MAX - 1, buf, 2), 0, "so that it wraps");
	is(ask(P9_TREAD, NULL, 8, "484", X, (uint64_t)0, UINT32_MAX), 8, "as much as has room");
	is(ask_write(X, 0, "x", 1), -EBADF, "it is not written by what reads");
	is(ask(P9_TREADDIR, NULL, 100, "484", X, (uint64_t)0, 100u), -EBADF,
	   "nor is it a directory");
	is(tell(P9_TFSYNC, "4", X), -EBADF, "nor a file");
	is(ask_walk(X, Y, "", NULL), -EBADF, "from which one might walk");
	is(ask_xattrwalk(X, Y, "user.a"), -EBADF, "or which has any itself");
	is(tell(P9_TLINK, "44s", ROOT, X, "x"), -EBADF, "nothing that is linked");
	is(tell(P9_TRENAMEAT, "4s4s", ROOT, "f", X, "x"), -EBADF, "or moved to");
	is(tell(P9_TRENAME, "44s", F, X, "x"), -EBADF, "in another way");
	is(ask_clunk(X), 0, "it goes");
	is(ask_clunk(X), -EBADF, "once");
}

/* Changed meanwhile: what was told of its size holds for what is read. */
static void test_snapshot(void)
{
	char buf[100];
	int fd = openat(door.dir, "f", O_RDONLY | O_CLOEXEC);

	need(!set("user.a", "0123456789", 0));
	is(ask_xattrwalk(F, X, "user.a"), 10, "a value is looked at");
	need(!fsetxattr(fd, "user.a", "other", 5, 0));
	is(ask_read(X, 0, buf, 100), 10, "and is what it was, whoever changes it");
	ok(!memcmp(buf, "0123456789", 10), "in one piece");
	need(!ask_clunk(X));
	ok(is_value("user.a", "other"), "the next look sees it");
	close(fd);
}

static void test_writing(void)
{
	char value[3000], buf[3000];

	for (unsigned i = 0; i < sizeof(value); i++)
		value[i] = (char)(i * 7);
	walk(F, X, "");
	is(ask_xattrcreate(X, "user.a", sizeof(value), 0), 0, "a value is announced");
	for (uint32_t i = 0; i < sizeof(value); i += 7)
		always(ask_write(X, i, value + i, MIN(7u, 3000 - i)) == (int)MIN(7u, 3000 - i),
		       "and comes in pieces");
	is(host_get("user.a", buf, sizeof(buf)), -ENODATA, "nothing is set before");
	is(ask_read(X, 0, buf, 10), -EBADF, "nor can it be read");
	is(ask_write(X, sizeof(value), "x", 1), -ENOSPC, "no more than was announced");
	is(ask_write(X, sizeof(value), "", 0), 0, "nothing is not more");
	is(ask_write(X, 0, "x", 1), -EINVAL, "nor is any of it written again");
	is(ask_write(X, UINT64_MAX, "x", 1), -EINVAL, "nor elsewhere");
	is(ask_clunk(X), 0, "its fid goes");
	is(host_get("user.a", buf, sizeof(buf)), sizeof(value), "and it is set");
	ok(!memcmp(buf, value, sizeof(value)), "whole");
	walk(F, X, "");
	need(!ask_xattrcreate(X, "user.a", 10, 0));
	is(ask_write(X, 1, "x", 1), -EINVAL, "a gap is not left");
	need(ask_write(X, 0, "12345", 5) == 5);
	is(ask(P9_TWRITE, NULL, 4, "484d", X, (uint64_t)5, 5u, "123", (size_t)3), -EINVAL,
	   "nor more said than sent");
	is(ask(P9_TWRITE, NULL, 4, "484", X, (uint64_t)5, UINT32_MAX), -EINVAL, "however much");
	is(ask_clunk(X), -EINVAL, "of a value half of which came");
	is(ask_clunk(X), -EBADF, "the fid is gone too");
	is(host_get("user.a", buf, sizeof(buf)), sizeof(value), "and the old one stays");
}

static void test_lies(void)
{
	char name[300];

	memset(name, 'n', sizeof(name));
	memcpy(name, "user.", 5);
	name[256] = 0;
	walk(F, X, "");
	is(ask_xattrcreate(X, name, 1, 0), -ERANGE, "a name has 255 bytes");
	is(ask_xattrwalk(F, Y, name), -ERANGE, "to be read too");
	is(ask_xattrcreate(X, "", 1, 0), -ERANGE, "and one at least");
	is(tell(P9_TXATTRCREATE, "42d84", X, 8u, "user.a\0b", (size_t)8, (uint64_t)1, 0u), -EINVAL,
	   "and no NUL");
	is(ask(P9_TXATTRWALK, NULL, 8, "442d", F, Y, 8u, "user.a\0b", (size_t)8), -EINVAL,
	   "nor in reading");
	is(ask_xattrcreate(X, "user.a", 1, 4), -EINVAL, "flags that are none are refused");
	is(ask_xattrcreate(X, "user.a", XATTR_SIZE_MAX + 1, 0), -E2BIG,
	   "a value is 64 KiB at most");
	is(ask_xattrcreate(X, "user.a", UINT64_MAX, 0), -E2BIG, "whatever is said");
	is(ask_xattrwalk(F, F, ""), -EINVAL, "a fid does not become one");
	is(ask_xattrwalk(F, X, ""), -EINVAL, "nor one that is there");
	is(ask_xattrwalk(F, P9_NOFID, ""), -EINVAL, "nor none");
	is(held().xattrs, 0, "nothing of this is in memory");
	is(ask_xattrcreate(X, "user.a", 1, 0), 0, "the fid is as it was");
	is(ask_xattrcreate(X, "user.a", 1, 0), -EBADF, "until it is for one");
	is(ask_xattrwalk(X, Y, ""), -EBADF, "which has none itself");
	is(ask_remove(X), -EBADF, "a file is not removed by it");
	ok(host_has("f"), "and stays");
	is(ask_clunk(X), -EBADF, "but the fid is gone");
	walk(F, X, "");
	need(!ask_lopen(X, O_RDWR));
	is(ask_xattrcreate(X, "user.a", 1, 0), -EBADF, "an open file does not become one");
}

/* What the host says to a name comes when it is set. */
static void test_host_errors(void)
{
	is(set("nonsense", "x", 0), -EOPNOTSUPP, "a name of no kind is the host's to refuse");
	is(set("system.posix_acl_access", "x", 0), -EOPNOTSUPP, "lists are not the guest's here");
	is(ask_xattrwalk(F, X, "system.posix_acl_access"), -ENODATA, "so there are none");
	need(!unlinkat(door.dir, "f", 0));
	is(set("user.late", "x", 0), 0, "what has lost its name has attributes");
	ok(is_value("user.late", "x"), "to read too");
	host_write("f", "x", 1);
}

/* As large as there are: what the host's file system cannot hold is its to refuse, at the end. */
static void test_large(void)
{
	static char value[XATTR_SIZE_MAX], buf[XATTR_SIZE_MAX];
	int fd = openat(door.dir, "f", O_RDONLY | O_CLOEXEC), host;

	memset(value, 'v', sizeof(value));
	host = fsetxattr(fd, "user.big", value, sizeof(value), 0) ? -errno : 0;
	fremovexattr(fd, "user.big");
	walk(F, X, "");
	need(!ask_xattrcreate(X, "user.big", sizeof(value), 0));
	for (uint32_t i = 0; i < sizeof(value); i += 4096)
		always(ask_write(X, i, value + i, 4096) == 4096, "64 KiB come");
	is(ask_clunk(X), host, "and are set as the host can");
	if (!host)
		is(get("user.big", buf, sizeof(buf)), DOOR_MSIZE - P9_SHORT,
		   "and read as far as a message goes");
	close(fd);
}

/* A value longer than a message is read message by message. */
static void test_msize(void)
{
	char value[3900], buf[8000];

	memset(value, 'v', sizeof(value));
	session_of(P9_MSIZE_MIN);
	walk(ROOT, F, "f");
	walk(F, X, "");
	need(!ask_xattrcreate(X, "user.l", 3900, 0) && ask_write(X, 0, value, 3900) == 3900);
	if (ask_clunk(X)) {
		skip("the host's file system has no room for it", "a value of 3900 bytes");
		return;
	}
	is(get("user.l", buf, 8000), 3900, "a value is read in one message that fits");
	is(ask_xattrwalk(F, X, "user.l"), 3900, "or");
	is(ask(P9_TREAD, NULL, 8000, "484", X, (uint64_t)100, 8000u), 4 + 3800, "to its end");
	need(!ask_clunk(X));
}

static void test_limit(void)
{
	uint32_t n = 0;
	int r = 0;

	need(!set("user.a", "x", 0));
	while (n < 2000 && (r = ask_xattrwalk(F, 1000 + n, "user.a")) == 1)
		n++;
	is(n, 512, "so many values are held at a time");
	is(r, -ENFILE, "and no more");
	walk(F, X, "");
	is(ask_xattrcreate(X, "user.a", 60000, 0), -ENFILE, "of either kind");
	is(held().fids, n + 3, "nothing is left of those that failed");
	is(ask_clunk(1000), 0, "one goes");
	is(ask_xattrcreate(X, "user.a", 60000, 0), 0, "and another comes");
	session();
	ok(held_only(1), "all go with the session");
}

static void test_shares(void)
{
	struct share_config share = PLAIN;
	char buf[8];

	door_close();
	need(!setxattr(door.top, "user.root", "x", 1, 0));
	share.readonly = true;
	door_open_share(PLAIN_9P, share);
	session();
	walk(ROOT, F, "");
	is(get("user.root", buf, 8), 1, "a read-only share has attributes");
	is(set("user.root", "y", 0), -EROFS, "that cannot be changed");
	is(set("user.root", "", XATTR_REPLACE), -EROFS, "or taken away");
	door_close();
	share = (struct share_config){.xattr = false};
	door_open_share(PLAIN_9P, share);
	session();
	walk(ROOT, F, "");
	is(set("user.root", "y", 0), -EOPNOTSUPP, "a share without them sets none");
	is(get("user.root", buf, 8), -EOPNOTSUPP, "and has none");
	is(get("", buf, 8), -EOPNOTSUPP, "and no list");
	is(held().fids, 2, "none of which is left");
	need(!removexattr(door.top, "user.root"));
}

static void (*const tests[])(void) = {
	test_values, test_reading,     test_snapshot, test_writing, test_lies,
	test_large,  test_host_errors, test_msize,    test_limit,   test_shares,
};

int main(void)
{
	unsigned fds;

	door_set_up("t_p9_xattr");
	fds = host_descriptors();
	if (fsetxattr(door.dir, "user.t", "", 0, 0)) {
		skip("not on this file system", "extended attributes");
		door_tear_down();
		return done();
	}
	for (unsigned i = 0; i < 2 * ARRAY_LEN(tests); i++) {
		door.layout = i < ARRAY_LEN(tests) ? WHOLE : LINUX;
		host_write("f", "x", 1);
		door_open();
		session();
		walk(ROOT, F, "f");
		tests[i % ARRAY_LEN(tests)]();
		door_close();
		host_clear(door.dir);
	}
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
