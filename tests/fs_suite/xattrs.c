// SPDX-License-Identifier: Apache-2.0
/*
 * xattrs.c - extended attributes, and access control lists, hidden or shown.
 *
 * Hard cases D33, D34, D40, D41, D42.
 */
#include "suite.h"
#include <linux/xattr.h>
#include <sys/xattr.h>

#define ACCESS_LIST  "system.posix_acl_access"
#define DEFAULT_LIST "system.posix_acl_default"

/* u::rwx u:1234:rwx g::r-x m::rwx o::r-x */
static const uint8_t list[] = {
	2, 0,    0,    0,    1,    0,    7,    0, 0xff, 0xff, 0xff, 0xff, 2,    0,    7,
	0, 0xd2, 4,    0,    0,    4,    0,    5, 0,    0xff, 0xff, 0xff, 0xff, 0x10, 0,
	7, 0,    0xff, 0xff, 0xff, 0xff, 0x20, 0, 5,    0,    0xff, 0xff, 0xff, 0xff,
};

static int set(struct fs_obj *o, const char *name, const char *value, int flags)
{
	return fs->setxattr(o, name, value, strlen(value), flags, false);
}

static bool is(struct fs_obj *o, const char *name, const char *value)
{
	const size_t n = strlen(value);
	char buf[256];

	return fs->getxattr(o, name, NULL, 0) == (ssize_t)n &&
	       fs->getxattr(o, name, buf, sizeof(buf)) == (ssize_t)n && !memcmp(buf, value, n);
}

static bool listed(struct fs_obj *o, const char *name)
{
	char buf[4096];
	ssize_t n = fs->listxattr(o, buf, sizeof(buf));

	must(n >= 0 && fs->listxattr(o, NULL, 0) == n);
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(buf + at) + 1)
		if (!strcmp(buf + at, name))
			return true;
	return false;
}

/* Where there are none at all there is nothing to test. */
static void need_user_attrs(struct fs_obj *o)
{
	int err = set(o, "user.try", "1", 0);

	if (err == -EOPNOTSUPP) {
		fs->forget(o);
		skip_test("the host's file system has no user.* attributes");
	}
	want(err, 0);
	want(fs->removexattr(o, "user.try"), 0);
}

static void user_attrs(void)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR};
	char buf[16];

	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		struct fs_obj *o;

		want(try_make(kinds[i], bed.dir, "x", 0755, &as_root, NULL), 0);
		o = find(bed.dir, "x");
		need_user_attrs(o);
		must(!listed(o, "user.a"));
		want(fs->getxattr(o, "user.a", buf, sizeof(buf)), -ENODATA);
		want(fs->getxattr(o, "user.a", NULL, 0), -ENODATA);
		want(set(o, "user.a", "value", XATTR_REPLACE), -ENODATA);
		want(set(o, "user.a", "value", XATTR_CREATE), 0);
		want(set(o, "user.a", "value", XATTR_CREATE), -EEXIST);
		must(is(o, "user.a", "value") && listed(o, "user.a"));
		want(fs->getxattr(o, "user.a", buf, 4), -ERANGE);
		want(set(o, "user.a", "other", XATTR_REPLACE), 0);
		must(is(o, "user.a", "other"));
		want(set(o, "user.empty", "", 0), 0);
		must(is(o, "user.empty", "") && listed(o, "user.empty"));
		want(fs->getxattr(o, "user.empty", buf, sizeof(buf)), 0);
		want(fs->listxattr(o, buf, 3), -ERANGE);
		want(fs->removexattr(o, "user.a"), 0);
		want(fs->removexattr(o, "user.a"), -ENODATA);
		must(!listed(o, "user.a") && listed(o, "user.empty"));
		want(kinds[i] == S_IFDIR ? fs->rmdir(bed.dir, "x") : fs->unlink(bed.dir, "x"), 0);
		must(is(o, "user.empty", "")); /* D29 */
		fs->forget(o);
	}
}

/* Names and values at their limits say what the host says. */
static void limits(void)
{
	static const size_t sizes[] = {1, 255, 3000, 5000, XATTR_SIZE_MAX, XATTR_SIZE_MAX + 1};
	static char value[XATTR_SIZE_MAX + 1], back[XATTR_SIZE_MAX];
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	char name[XATTR_NAME_MAX + 2] = "user.", path[64];
	int h;

	need_user_attrs(o);
	host(h = openat(bed.beside, "plain/f", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
	fill(value, sizeof(value), 3);
	host_path(path, h);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		const int r = setxattr(path, "user.v", value, sizes[i], 0) ? -errno : 0;

		want(fs->setxattr(o, "user.v", value, sizes[i], 0, false), r);
		if (r)
			continue;
		want(fs->getxattr(o, "user.v", back, sizeof(back)), sizes[i]);
		must(!memcmp(value, back, sizes[i]));
	}
	memset(name + 5, 'n', XATTR_NAME_MAX - 5);
	name[XATTR_NAME_MAX] = '\0';
	want(set(o, name, "x", 0), setxattr(path, name, "x", 1, 0) ? -errno : 0);
	name[XATTR_NAME_MAX] = 'n';
	name[XATTR_NAME_MAX + 1] = '\0';
	want(set(o, name, "x", 0), -ERANGE);
	want(fs->getxattr(o, name, back, 1), -ERANGE);
	want(fs->removexattr(o, name), -ERANGE);
	want(set(o, "", "x", 0), -ERANGE);
	want(set(o, "nonsense.x", "x", 0), -EOPNOTSUPP);
	close(h);
	fs->forget(o);
}

/* D41: what cannot be opened has attributes all the same, or says what Linux says. */
static void other_kinds(void)
{
	static const mode_t kinds[] = {S_IFLNK, S_IFIFO, S_IFSOCK};
	const struct share_attr shut = {.mask = SHARE_MODE, .mode = 0};
	struct statx st;
	struct fs_obj *o;
	char buf[4096];

	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		want(try_make(kinds[i], bed.dir, "x", 0644, &as_root, NULL), 0);
		o = find(bed.dir, "x");
		want(set(o, "user.a", "1", 0), -EPERM);
		want(fs->getxattr(o, "user.a", buf, sizeof(buf)), -ENODATA);
		want(fs->listxattr(o, buf, sizeof(buf)) >= 0, true);
		must(!listed(o, "user.a"));
		want(fs->unlink(bed.dir, "x"), 0);
		fs->forget(o);
	}
	o = make_file(bed.dir, "f", "x");
	need_user_attrs(o);
	want(fs->setattr(o, NULL, &shut, &st), 0);
	want(set(o, "user.a", "1", 0), bed.root || bed.mapped ? 0 : -EACCES);
	fs->forget(o);
}

static void privileged(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	int err = set(o, "trusted.a", "1", 0);

	if (bed.root && err == -EPERM) {
		fs->forget(o);
		skip_test("no trusted.* attributes are made in this container");
	}
	want(err, bed.root ? 0 : -EPERM);
	must(!bed.root || (is(o, "trusted.a", "1") && listed(o, "trusted.a")));
	fs->forget(o);
}

static int write_it(struct fs_obj *o)
{
	struct fs_file *f = open_obj(o, O_RDWR);
	ssize_t n = fs->write(f, "x", 1, 0, FS_KILL_PRIV);

	fs->release(f);
	return n == 1 ? 0 : -EIO;
}

static int cut_it(struct fs_obj *o)
{
	const struct share_attr attr = {.mask = SHARE_SIZE | SHARE_KILL_PRIV};
	struct statx st;

	return fs->setattr(o, NULL, &attr, &st);
}

static int give_it(struct fs_obj *o)
{
	const struct share_attr attr = {.mask = SHARE_UID | SHARE_GID, .uid = 7, .gid = 7};
	struct statx st;

	return fs->setattr(o, NULL, &attr, &st);
}

/* D33, D34: nobody is to run with them what was changed since. */
static void capabilities(void)
{
	static const uint8_t cap[20] = {1, 0, 0, 2, 0x20};
	int (*const changes[])(struct fs_obj *) = {write_it, cut_it, give_it};
	struct fs_obj *o = make_file(bed.dir, "f", "text");
	char buf[32];

	for (unsigned i = 0; i < ARRAY_LEN(changes) - bed.squash; i++) {
		int err = fs->setxattr(o, XATTR_NAME_CAPS, cap, sizeof(cap), 0, false);

		if (bed.root && err == -EPERM)
			skip_test("no file capabilities are set in this container");
		want(err, bed.root ? 0 : -EPERM);
		if (err)
			continue;
		want(fs->getxattr(o, XATTR_NAME_CAPS, buf, sizeof(buf)), sizeof(cap));
		want(changes[i](o), 0);
		want(fs->getxattr(o, XATTR_NAME_CAPS, buf, sizeof(buf)), -ENODATA);
	}
	fs->forget(o);
}

/* What says whose a file is, is not the guest's to read or to write. */
static void hidden_owners(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	char buf[64];

	if (bed.mapped) {
		const uint64_t before = attr_of(o).stx_uid;

		want(set(o, "user.virtfs.uid", "abcd", 0), -EOPNOTSUPP);
		want(fs->removexattr(o, "user.virtfs.uid"), -EOPNOTSUPP);
		want(fs->getxattr(o, "user.virtfs.uid", buf, sizeof(buf)), -ENODATA);
		must(!listed(o, "user.virtfs.uid") && !listed(o, "user.virtfs.mode"));
		want(attr_of(o).stx_uid, before);
	} else if (set(o, "user.virtfs.uid", "abcd", 0) != -EOPNOTSUPP) {
		must(is(o, "user.virtfs.uid", "abcd")); /* here they mean nothing */
	}
	fs->forget(o);
}

/* ---- access control lists: D40 ---- */

static bool host_list(const char *name, const char *attr)
{
	char path[64], whole[PATH_MAX];

	snprintf(whole, sizeof(whole), "%s/%s", host_path(path, bed.host), name);
	return !setxattr(whole, attr, list, sizeof(list), 0);
}

static void lists_hidden(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	char buf[256];

	if (!host_list("f", ACCESS_LIST)) {
		fs->forget(o);
		skip_test("the host's file system has no lists");
	}
	want(fs->getxattr(o, ACCESS_LIST, buf, sizeof(buf)), -ENODATA);
	must(!listed(o, ACCESS_LIST));
	want(fs->setxattr(o, ACCESS_LIST, list, sizeof(list), 0, false), -EOPNOTSUPP);
	want(fs->removexattr(o, ACCESS_LIST), -EOPNOTSUPP);
	fs->forget(o);
}

static void lists_shown(void)
{
	const struct cred shy = {.umask = 077};
	struct fs_obj *d = make_dir(bed.dir, "d"), *o;
	char buf[256];
	struct statx st;
	int err = fs->setxattr(d, DEFAULT_LIST, list, sizeof(list), 0, false);

	if (err == -EOPNOTSUPP) {
		fs->forget(d);
		skip_test("the host's file system has no lists");
	}
	want(err, 0);
	want(fs->getxattr(d, DEFAULT_LIST, buf, sizeof(buf)), sizeof(list));
	must(!memcmp(buf, list, sizeof(list)) && listed(d, DEFAULT_LIST));
	/* The list stands in for the umask; without one that counts. */
	want(try_make(S_IFREG, d, "f", 0666, &shy, &st), 0);
	want(st.stx_mode, S_IFREG | 0664);
	want(try_make(S_IFDIR, d, "e", 0777, &shy, &st), 0);
	want(st.stx_mode, S_IFDIR | 0775);
	want(try_make(S_IFREG, bed.dir, "f", 0666, &shy, &st), 0);
	want(st.stx_mode, S_IFREG | 0600);
	o = find(d, "f");
	must(listed(o, ACCESS_LIST));
	want(fs->removexattr(o, ACCESS_LIST), 0);
	want(fs->removexattr(d, DEFAULT_LIST), 0);
	fs->forget(o);
	fs->forget(d);
}

/* Of a list by a caller who is not in the file's group: the bit that chmod would have taken. */
static void lists_and_set_gid(void)
{
	const struct share_attr bits = {.mask = SHARE_MODE, .mode = 02755};
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct statx st;

	for (unsigned kill = 0; kill < 2; kill++) {
		want(fs->setattr(o, NULL, &bits, &st), 0);
		if (fs->setxattr(o, ACCESS_LIST, list, sizeof(list), 0, kill) == -EOPNOTSUPP) {
			fs->forget(o);
			skip_test("the host's file system has no lists");
		}
		st = attr_of(o);
		want(st.stx_mode & 02000, kill ? 0 : 02000);
		want(st.stx_mode & 0777, 0775);
	}
	fs->forget(o);
}

/* D42: switched off they are for all names, but nothing else is. */
static void switched_off(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	char buf[64];

	want(set(o, "user.a", "1", 0), -EOPNOTSUPP);
	want(fs->getxattr(o, "user.a", buf, sizeof(buf)), -EOPNOTSUPP);
	want(fs->listxattr(o, buf, sizeof(buf)), -EOPNOTSUPP);
	want(fs->removexattr(o, "user.a"), -EOPNOTSUPP);
	must(holds(o, "x"));
	fs->forget(o);
}

const struct fs_test xattr_tests[] = {
	{"attributes are set, read, listed and removed", user_attrs, 0, 0},
	{"names and values of attributes at their limits", limits, 0, 0},
	{"attributes of links, fifos and what may not be read", other_kinds, 0, 0},
	{"trusted attributes are root's", privileged, 0, 0},
	{"file capabilities go with a write, a truncation, a new owner", capabilities, 0, 0},
	{"attributes of a mapped share's own are hidden", hidden_owners, 0, 0},
	{"lists are hidden where they are not for the guest", lists_hidden, NO_ACL, 0},
	{"lists are kept, and stand in for the umask", lists_shown, ACL, FS_UMASK},
	{"a list takes the set-gid bit when it should", lists_and_set_gid, ACL, 0},
	{"attributes that are switched off", switched_off, NO_XATTR, 0},
	{0},
};
