// SPDX-License-Identifier: Apache-2.0
/*
 * t_share_xattr.c - extended attributes and access control lists of a share.
 *
 * On each place that share_bed.h names, as root (passthrough) and as anyone else (squash). Names of
 * the user space are what anyone may set; those of trusted and security are tried by root.
 */
#include "share_bed.h"
#include "../vmm/sandbox.h"
#include <linux/capability.h>
#include <linux/limits.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static struct place place;
static bool privileged;

static const struct share_config plain = {.xattr = true};

/* Whether list, of n bytes, has the name. */
static bool has(const char *list, ssize_t n, const char *name)
{
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1)
		if (!strcmp(list + at, name))
			return true;
	return false;
}

static bool host_set(const char *name, const char *attr, const void *value, size_t size)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%s", place.top, name);
	return lsetxattr(path, attr, value, size, 0) == 0;
}

static ssize_t host_get(const char *name, const char *attr, void *value, size_t size)
{
	char path[600];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", place.top, name);
	n = lgetxattr(path, attr, value, size);
	return n < 0 ? -errno : n;
}

/* ---- sizes and errors ---- */

static void test_sizes(struct share *s, struct share_inode *root)
{
	struct share_inode *f;
	char buf[16], list[64];

	(void)s;
	host_file(place.dir, "f", "");
	f = find(root, "f");
	is(share_listxattr(f, NULL, 0), 0, "a file without attributes has a list of no length");
	is(share_listxattr(f, list, sizeof(list)), 0, "and an empty one");
	is(share_getxattr(f, "user.a", buf, sizeof(buf)), -ENODATA, "what is not set is not there");
	is(share_removexattr(f, "user.a"), -ENODATA, "nor to be removed");
	is(share_setxattr(f, "user.a", "value", 5, XATTR_REPLACE, false), -ENODATA,
	   "nor to be replaced");
	is(share_setxattr(f, "user.a", "value", 5, XATTR_CREATE, false), 0, "it is created");
	is(share_setxattr(f, "user.a", "other", 5, XATTR_CREATE, false), -EEXIST, "once");
	is(share_setxattr(f, "user.b", NULL, 0, 0, false), 0, "a value may be empty");
	is(share_setxattr(f, "user.a", "x", 1, 8, false), -EINVAL, "flags that are none fail");
	is(share_getxattr(f, "user.a", NULL, 0), 5, "size 0 asks for the length");
	is(share_getxattr(f, "user.a", buf, 4), -ERANGE, "what does not fit is not cut");
	ok(share_getxattr(f, "user.a", buf, 5) == 5 && !memcmp(buf, "value", 5),
	   "what just fits is given");
	is(share_getxattr(f, "user.b", buf, sizeof(buf)), 0, "an empty value has no length");
	is(share_listxattr(f, NULL, 0), 14, "the list counts its NULs");
	is(share_listxattr(f, list, 13), -ERANGE, "a list that does not fit is not cut");
	ok(share_listxattr(f, list, 14) == 14 && has(list, 14, "user.a") && has(list, 14, "user.b"),
	   "one that just fits is whole");
	ok(host_get("f", "user.a", buf, sizeof(buf)) == 5, "the host sees what was set");
	is(share_removexattr(f, "user.a"), 0, "it is removed");
	is(host_get("f", "user.a", buf, sizeof(buf)), -ENODATA, "on the host");
	is(share_setxattr(f, "nosuch.name", "x", 1, 0, false), -EOPNOTSUPP,
	   "a name of no kind is not supported");
	share_put(f);
}

static void test_limits(struct share *s, struct share_inode *root)
{
	char *big = malloc(XATTR_SIZE_MAX + 1), *back = malloc(XATTR_SIZE_MAX);
	char name[XATTR_NAME_MAX + 2], list[300];
	struct share_inode *f;
	int err;

	(void)s;
	need(big && back);
	memset(big, 'v', XATTR_SIZE_MAX + 1);
	memset(name, 'n', sizeof(name));
	memcpy(name, "user.", 5);
	name[XATTR_NAME_MAX] = name[XATTR_NAME_MAX + 1] = '\0';
	host_file(place.dir, "f", "");
	f = find(root, "f");
	is(share_setxattr(f, name, "x", 1, 0, false), 0, "a name of 255 bytes is set");
	is(share_getxattr(f, name, back, 1), 1, "and got");
	is(share_listxattr(f, list, sizeof(list)), XATTR_NAME_MAX + 1, "and listed");
	name[XATTR_NAME_MAX] = 'n';
	is(share_setxattr(f, name, "x", 1, 0, false), -ERANGE, "one of 256 is not");
	is(share_setxattr(f, "user.big", big, XATTR_SIZE_MAX + 1, 0, false), -E2BIG,
	   "a value beyond 64 KiB is too big");
	err = share_setxattr(f, "user.big", big, XATTR_SIZE_MAX, 0, false);
	if (err == -ENOSPC)
		skip("the file system has no room for such", "a value of 64 KiB on %s", place.base);
	else
		ok(!err && share_getxattr(f, "user.big", back, XATTR_SIZE_MAX) == XATTR_SIZE_MAX &&
			   !memcmp(big, back, XATTR_SIZE_MAX),
		   "a value of 64 KiB is kept");
	share_put(f);
	free(big);
	free(back);
}

/* ---- what kinds of objects ---- */

static void try_kind(struct share_inode *root, const char *name, const char *attr, int set,
		     const char *what)
{
	struct share_inode *inode = find(root, name);
	char buf[8];

	is(share_setxattr(inode, attr, "v", 1, 0, false), set, "%s on %s", attr, what);
	is(host_get(name, attr, buf, sizeof(buf)), set ? -ENODATA : 1, "is set there or nowhere");
	is(share_getxattr(inode, attr, buf, sizeof(buf)), set ? -ENODATA : 1, "and got");
	is(share_listxattr(inode, NULL, 0), set ? 0 : (ssize_t)strlen(attr) + 1, "and listed");
	is(share_removexattr(inode, attr), set ? set : 0, "and removed");
	share_put(inode);
}

static void test_kinds(struct share *s, struct share_inode *root)
{
	char buf[8];

	(void)s;
	host_file(place.dir, "target", "");
	need(symlinkat("target", place.dir, "link") == 0);
	need(mkfifoat(place.dir, "fifo", 0644) == 0);
	need(mkdirat(place.dir, "dir", 0755) == 0);
	try_kind(root, "dir", "user.a", 0, "a directory");
	try_kind(root, "link", "user.a", -EPERM, "a symbolic link");
	try_kind(root, "fifo", "user.a", -EPERM, "a fifo");
	if (!privileged) {
		skip("needs root", "trusted names on other objects");
		return;
	}
	need(mknodat(place.dir, "null", S_IFCHR | 0644, makedev(1, 3)) == 0);
	try_kind(root, "target", "trusted.a", 0, "a file");
	try_kind(root, "link", "trusted.a", 0, "a symbolic link");
	try_kind(root, "null", "trusted.a", 0, "a device node");
	try_kind(root, "fifo", "security.a", 0, "a fifo");
	need(host_set("link", "trusted.l", "v", 1));
	is(host_get("target", "trusted.l", buf, sizeof(buf)), -ENODATA,
	   "a link's attributes are not its target's");
}

static void test_unreachable(struct share *s, struct share_inode *root)
{
	struct share_inode *f;
	char buf[8];

	(void)s;
	host_file(place.dir, "f", "");
	f = find(root, "f");
	need(fchmodat(place.dir, "f", 0, 0) == 0);
	if (privileged) {
		is(share_setxattr(f, "user.a", "v", 1, 0, false), 0, "a file of mode 0 takes one");
		is(share_getxattr(f, "user.a", buf, sizeof(buf)), 1, "and gives it");
	} else {
		is(share_setxattr(f, "user.a", "v", 1, 0, false), -EACCES,
		   "whom the host does not let write is told so");
		is(share_getxattr(f, "user.a", buf, sizeof(buf)), -EACCES, "and who may not read");
		is(share_setxattr(f, "trusted.a", "v", 1, 0, false), -EPERM,
		   "trusted names are not for users");
		is(share_getxattr(f, "trusted.a", buf, sizeof(buf)), -ENODATA, "and not seen");
		need(fchmodat(place.dir, "f", 0600, 0) == 0);
	}
	need(unlinkat(place.dir, "f", 0) == 0);
	is(share_setxattr(f, "user.b", "v", 1, 0, false), 0, "an unlinked file takes one");
	is(share_getxattr(f, "user.b", buf, sizeof(buf)), 1, "and gives it");
	is(share_removexattr(f, "user.b"), 0, "and loses it");
	share_put(f);
}

/* A program that is allowed to bind low ports, as setcap writes it. */
static void test_capability(struct share *s, struct share_inode *root)
{
	struct vfs_cap_data cap = {.magic_etc =
					   htole32(VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE),
				   .data[0].permitted = htole32(1u << CAP_NET_BIND_SERVICE)};
	struct vfs_cap_data back = {0};
	struct share_inode *f;

	(void)s;
	if (!privileged) {
		skip("needs root", "file capabilities");
		return;
	}
	host_file(place.dir, "f", "");
	f = find(root, "f");
	is(share_setxattr(f, "security.capability", &cap, sizeof(cap), 0, false), 0,
	   "file capabilities are set");
	is(share_getxattr(f, "security.capability", &back, sizeof(back)), sizeof(back), "and got");
	ok(!memcmp(&cap, &back, sizeof(cap)), "as they are");
	share_put(f);
}

/* ---- access control lists ---- */

struct acl {
	struct posix_acl_xattr_header head;
	struct posix_acl_xattr_entry e[5];
};

static struct posix_acl_xattr_entry acl_entry(unsigned tag, unsigned perm, uint32_t id)
{
	return (struct posix_acl_xattr_entry){htole16((uint16_t)tag), htole16((uint16_t)perm),
					      htole32(id)};
}

/* u::rwx g::r-x u:1234:rwx mask::rwx o::--- */
static struct acl acl_make(void)
{
	return (struct acl){
		.head = {htole32(POSIX_ACL_XATTR_VERSION)},
		.e = {acl_entry(ACL_USER_OBJ, 7, (uint32_t)ACL_UNDEFINED_ID),
		      acl_entry(ACL_USER, 7, 1234),
		      acl_entry(ACL_GROUP_OBJ, 5, (uint32_t)ACL_UNDEFINED_ID),
		      acl_entry(ACL_MASK, 7, (uint32_t)ACL_UNDEFINED_ID),
		      acl_entry(ACL_OTHER, 0, (uint32_t)ACL_UNDEFINED_ID)},
	};
}

static mode_t host_mode(const char *name)
{
	struct stat st;

	need(fstatat(place.dir, name, &st, 0) == 0);
	return st.st_mode & 07777;
}

static void test_acl_hidden(struct share *s, struct share_inode *root)
{
	struct acl acl = acl_make();
	struct share_inode *f;
	char list[64];
	ssize_t n;

	(void)s;
	host_file(place.dir, "f", "");
	f = find(root, "f");
	is(share_setxattr(f, "system.posix_acl_access", &acl, sizeof(acl), 0, false), -EOPNOTSUPP,
	   "a share without ACLs takes none");
	if (!host_set("f", "system.posix_acl_access", &acl, sizeof(acl))) {
		skip("this file system has none", "ACLs on %s", place.base);
		share_put(f);
		return;
	}
	need(host_set("f", "user.a", "v", 1));
	is(share_getxattr(f, "system.posix_acl_access", list, sizeof(list)), -ENODATA,
	   "those that the host has are not shown");
	n = share_listxattr(f, list, sizeof(list));
	ok(n == 7 && has(list, n, "user.a"), "nor listed among others");
	is(share_listxattr(f, list, 7), 7, "and take no room");
	is(share_listxattr(f, NULL, 0), 7, "nor count");
	is(share_removexattr(f, "system.posix_acl_access"), -EOPNOTSUPP, "nor can be removed");
	share_put(f);
}

static void test_acl(void)
{
	struct share *s;
	struct share_inode *root, *f, *d;
	struct acl acl = acl_make(), back;
	char list[64];
	ssize_t n;

	host_file(place.dir, "f", "");
	need(mkdirat(place.dir, "d", 0755) == 0);
	if (!privileged || !host_set("f", "system.posix_acl_access", &acl, sizeof(acl))) {
		skip("needs root and a file system that has them", "ACLs on %s", place.base);
		host_clear(place.dir);
		return;
	}
	s = place_open(&place, (struct share_config){.xattr = true, .posix_acl = true});
	root = share_root(s);
	f = find(root, "f");
	d = find(root, "d");
	is(share_removexattr(f, "system.posix_acl_access"), 0, "a share with ACLs removes one");
	need(fchmodat(place.dir, "f", 02710, 0) == 0 && fchmodat(place.dir, "d", 02755, 0) == 0);
	is(share_setxattr(f, "system.posix_acl_access", &acl, sizeof(acl), 0, false), 0,
	   "sets one");
	is(host_mode("f"), 02770, "which decides the mode, and leaves set-gid to those who may");
	is(share_getxattr(f, "system.posix_acl_access", &back, sizeof(back)), sizeof(back),
	   "gets it");
	ok(!memcmp(&acl, &back, sizeof(acl)), "as it was set");
	n = share_listxattr(f, list, sizeof(list));
	ok(has(list, n, "system.posix_acl_access"), "and lists it");
	is(share_setxattr(f, "system.posix_acl_access", &acl, sizeof(acl), 0, true), 0,
	   "from who is not in the group");
	is(host_mode("f"), 0770, "it takes set-gid away");
	ok(share_getxattr(f, "system.posix_acl_access", &back, sizeof(back)) == sizeof(back) &&
		   !memcmp(&acl, &back, sizeof(acl)),
	   "and nothing else");
	is(share_setxattr(d, "system.posix_acl_default", &acl, sizeof(acl), 0, true), 0,
	   "a default ACL from who is not in the group");
	is(host_mode("d"), 02755, "leaves the directory's set-gid");
	is(share_setxattr(d, "system.posix_acl_access", &acl, sizeof(acl), 0, true), 0,
	   "its own ACL does not");
	is(host_mode("d"), 0770, "leave it");
	is(share_setxattr(f, "system.posix_acl_default", &acl, sizeof(acl), 0, false), -EACCES,
	   "a file has no default ACL");
	is(share_setxattr(f, "system.posix_acl_access", &acl, 3, 0, false), -EINVAL,
	   "what is no ACL is refused");
	share_put(f);
	share_put(d);
	share_put(root);
	share_close(s);
	host_clear(place.dir);
}

/* ---- what a share says ---- */

static void test_mapped(void)
{
	const unsigned char mode[4] = {0xff, 0xa1}; /* little endian: S_IFLNK | 0777 */
	struct share *s = place_open(
		&place, (struct share_config){.xattr = true, .owner = SHARE_OWNER_MAPPED});
	struct share_inode *root = share_root(s), *f, *l;
	char list[64];
	ssize_t n;

	host_file(place.dir, "f", "");
	host_file(place.dir, "l", "f");
	need(host_set("f", "user.virtfs.rdev", "12345678", 8) && host_set("f", "user.a", "v", 1));
	need(host_set("l", "user.a", "v", 1) && host_set("l", "user.virtfs.mode", mode, 4));
	f = find(root, "f");
	is(share_getxattr(f, "user.virtfs.rdev", list, sizeof(list)), -ENODATA,
	   "a mapped share keeps its own attributes to itself");
	is(share_setxattr(f, "user.virtfs.rdev", "1", 1, 0, false), -EOPNOTSUPP, "unset");
	is(share_removexattr(f, "user.virtfs.rdev"), -EOPNOTSUPP, "unremoved");
	n = share_listxattr(f, list, sizeof(list));
	ok(n == 7 && has(list, n, "user.a"), "unlisted");
	is(host_get("f", "user.virtfs.rdev", list, sizeof(list)), 8, "and unchanged");
	l = find(root, "l");
	l->type = S_IFLNK; /* as the guest sees it */
	is(share_setxattr(l, "user.b", "v", 1, 0, false), -EPERM,
	   "what is a symbolic link in the guest takes no user attributes there");
	is(share_getxattr(l, "user.a", list, sizeof(list)), -ENODATA, "gives none");
	is(share_listxattr(l, list, sizeof(list)), 0, "and lists none");
	share_put(f);
	share_put(l);
	share_put(root);
	share_close(s);
	host_clear(place.dir);
}

static void test_others(void)
{
	struct share *off = place_open(&place, (struct share_config){.xattr = false});
	struct share *ro =
		place_open(&place, (struct share_config){.xattr = true, .readonly = true});
	struct share_inode *off_root = share_root(off), *ro_root = share_root(ro), *f;
	char buf[8];

	host_file(place.dir, "f", "");
	need(host_set("f", "user.a", "v", 1));
	need(host_set("f", "user.virtfs.uid", "1234", 4));
	f = find(off_root, "f");
	is(share_getxattr(f, "user.a", buf, sizeof(buf)), -EOPNOTSUPP, "xattr off: none is got");
	is(share_listxattr(f, buf, sizeof(buf)), -EOPNOTSUPP, "none listed");
	is(share_setxattr(f, "user.a", "w", 1, 0, false), -EOPNOTSUPP, "none set");
	is(share_removexattr(f, "user.a"), -EOPNOTSUPP, "none removed");
	share_put(f);
	f = find(ro_root, "f");
	is(share_getxattr(f, "user.a", buf, sizeof(buf)), 1, "read-only: one is got");
	is(share_getxattr(f, "user.virtfs.uid", buf, sizeof(buf)), 4,
	   "one of QEMU's names too, where it means nothing to us");
	is(share_setxattr(f, "user.a", "w", 1, 0, false), -EROFS, "none set");
	is(share_removexattr(f, "user.a"), -EROFS, "none removed");
	share_put(f);
	share_put(off_root);
	share_put(ro_root);
	share_close(off);
	share_close(ro);
	host_clear(place.dir);
}

/* ---- on an iothread, under its filter ---- */

struct ride {
	struct share_inode *f;
	ssize_t got[5];
};

static void ride_verbs(void *arg)
{
	struct ride *r = arg;
	char buf[64];

	r->got[0] = share_setxattr(r->f, "user.a", "value", 5, 0, true);
	r->got[1] = share_getxattr(r->f, "user.a", buf, sizeof(buf));
	r->got[2] = share_listxattr(r->f, buf, sizeof(buf));
	r->got[3] = share_removexattr(r->f, "user.a");
	r->got[4] = share_getxattr(r->f, "user.a", buf, sizeof(buf));
}

static void test_ride(enum loop_engine engine)
{
	struct share *s = place_open(&place, plain);
	struct share_inode *root = share_root(s);
	struct iothread *io = ride_begin(s, engine);
	struct ride r;

	if (!io) {
		skip("the host refuses this engine", "attributes on an iothread");
	} else {
		host_file(place.dir, "f", "");
		r.f = find(root, "f");
		loop_call(io, ride_verbs, &r);
		ok(r.got[0] == 0 && r.got[1] == 5 && r.got[2] == 7 && r.got[3] == 0 &&
			   r.got[4] == -ENODATA,
		   "%s: all of it works under the filter", iothread_engine(io));
		share_put(r.f);
		iothread_destroy(io);
	}
	share_put(root);
	share_close(s);
	host_clear(place.dir);
}

/* ---- the run ---- */

typedef void (*xattr_test)(struct share *, struct share_inode *root);

static void run(xattr_test test)
{
	const unsigned before = open_fds();
	struct share *s = place_open(&place, plain);
	struct share_inode *root = share_root(s);

	need(share_thread_init(s) == 0);
	test(s, root);
	is(share_ninodes(s), 1, "nothing is left over");
	share_put(root);
	share_close(s);
	is(open_fds(), before, "nor any descriptor");
	host_clear(place.dir);
}

static bool has_user_attributes(void)
{
	bool yes;

	host_file(place.dir, "f", "");
	yes = host_set("f", "user.a", "v", 1);
	host_clear(place.dir);
	return yes;
}

int main(void)
{
	static const xattr_test tests[] = {test_sizes,       test_limits,     test_kinds,
					   test_unreachable, test_capability, test_acl_hidden};
	const char *base;
	unsigned n = 0;

	privileged = share_owner_passes();
	for (unsigned i = 0; (base = place_base(i)); i++) {
		if (!place_make(&place, base))
			continue;
		if (!has_user_attributes()) {
			skip("no user attributes there", "%s", base);
			place_end(&place);
			continue;
		}
		n++;
		for (unsigned t = 0; t < ARRAY_LEN(tests); t++)
			run(tests[t]);
		test_acl();
		test_mapped();
		test_others();
		place_end(&place);
	}
	ok(n > 0, "some place has attributes");
	need(sandbox_init() == 0);
	for (unsigned i = 0; (base = place_base(i)); i++) {
		if (!place_make(&place, base))
			continue;
		if (has_user_attributes()) {
			test_ride(LOOP_URING);
			test_ride(LOOP_EPOLL);
		}
		place_end(&place);
	}
	return done();
}
