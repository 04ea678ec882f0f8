// SPDX-License-Identifier: Apache-2.0
/*
 * acls.c - POSIX access control lists, spoken as the extended attributes that carry them: what they
 * allow, how they and the mode follow each other, and what new files inherit.
 */
#include "suite.h"
#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#define ACCESS  "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
#define ALICE   1001
#define BOB     1002
#define STAFF   2001

struct acl {
	struct posix_acl_xattr_header head;
	struct posix_acl_xattr_entry e[8];
};

struct item {
	int tag, perm;
	unsigned id;
};

/* The list of n items as an attribute's value; its size. */
static size_t acl_make(struct acl *a, const struct item *items, size_t n)
{
	a->head.a_version = htole32(POSIX_ACL_XATTR_VERSION);
	for (size_t i = 0; i < n; i++)
		a->e[i] = (struct posix_acl_xattr_entry){htole16((uint16_t)items[i].tag),
							 htole16((uint16_t)items[i].perm),
							 htole32(items[i].id)};
	return sizeof(a->head) + n * sizeof(a->e[0]);
}

static int acl_set(const char *file, const char *which, const struct item *items, size_t n)
{
	struct acl a;

	return setxattr(file, which, &a, acl_make(&a, items, n), 0);
}

#define NOBODY ((unsigned)-1)
static const struct item plain[] = {
	{ACL_USER_OBJ, 7, NOBODY}, {ACL_GROUP_OBJ, 5, NOBODY}, {ACL_OTHER, 1, NOBODY}};
/* The owner, ALICE and STAFF may read and write; the mask lets everyone. */
static const struct item named[] = {{ACL_USER_OBJ, 6, NOBODY},  {ACL_USER, 6, ALICE},
				    {ACL_GROUP_OBJ, 0, NOBODY}, {ACL_GROUP, 4, STAFF},
				    {ACL_MASK, 6, NOBODY},      {ACL_OTHER, 0, NOBODY}};

static bool check_acl_mode(void)
{
	must(file_make("f", "x") && acl_set("f", ACCESS, plain, 3) == 0 && mode_of("f") == 0751);
	must_fail(getxattr("f", ACCESS, NULL, 0), ENODATA); /* as much as the mode says */
	must(acl_set("f", ACCESS, named, 6) == 0 && mode_of("f") == 0660); /* the mask */
	must(getxattr("f", ACCESS, NULL, 0) == sizeof(struct posix_acl_xattr_header) + 6 * 8);
	must(chmod("f", 0640) == 0 && mode_of("f") == 0640);
	must(removexattr("f", ACCESS) == 0 && (mode_of("f") & 0700) == 0600);
	must_fail(getxattr("f", ACCESS, NULL, 0), ENODATA);
	return true;
}

static bool check_acl_errors(void)
{
	static const struct item bad[] = {{ACL_USER_OBJ, 6, NOBODY}, {ACL_OTHER, 0, NOBODY}};

	must(file_make("f", "x"));
	must_fail(acl_set("f", ACCESS, bad, 2), EINVAL);
	must_fail(acl_set("f", ACCESS, named, 3), EINVAL);
	must_fail(setxattr("f", ACCESS, "x", 1, 0), EINVAL);
	must_fail(acl_set("f", DEFAULT, named, 6), EACCES); /* directories have one */
	return true;
}

static bool may(int flags)
{
	int fd = open("f", flags);

	return fd >= 0 && close(fd) == 0;
}

static bool alice_may(void)
{
	must(may(O_RDONLY) && may(O_WRONLY));
	must_fail(acl_set("f", ACCESS, plain, 3), EPERM);
	return true;
}

static bool staff_may(void)
{
	must(may(O_RDONLY));
	must_fail(open("f", O_WRONLY), EACCES);
	return true;
}

static bool none_may(void)
{
	must_fail(open("f", O_RDONLY), EACCES);
	must_fail(open("f", O_WRONLY), EACCES);
	return true;
}

static bool check_acl_users(void)
{
	must(file_make("f", "x") && acl_set("f", ACCESS, named, 6) == 0);
	must(as_user(ALICE, ALICE, 0, alice_may) && as_user(BOB, BOB, STAFF, staff_may));
	must(as_user(BOB, BOB, 0, none_may));
	must(chmod("f", 0600) == 0 && as_user(ALICE, ALICE, 0, none_may)); /* the mask is empty */
	must(as_user(BOB, BOB, STAFF, none_may));
	return true;
}

static bool check_acl_default(void)
{
	struct acl a, b;
	size_t n = acl_make(&a, named, 6);

	umask(077); /* does not count below a default list */
	must(mkdir("d", 0755) == 0 && acl_set("d", DEFAULT, named, 6) == 0);
	must(getxattr("d", DEFAULT, &b, sizeof(b)) == (ssize_t)n && memcmp(&a, &b, n) == 0);
	must(mode_of("d") == 0700);
	must(file_make_mode("d/f", "x", 0666) && mode_of("d/f") == 0660);
	must(getxattr("d/f", ACCESS, &b, sizeof(b)) == (ssize_t)n && memcmp(&a, &b, n) == 0);
	must_fail(getxattr("d/f", DEFAULT, NULL, 0), ENODATA);
	must(file_make_mode("d/g", "x", 0640) && mode_of("d/g") == 0640);
	must(mkdir("d/e", 0777) == 0 && mode_of("d/e") == 0660);
	must(getxattr("d/e", DEFAULT, NULL, 0) == (ssize_t)n);
	must(getxattr("d/e", ACCESS, NULL, 0) == (ssize_t)n);
	must(mkfifo("d/p", 0666) == 0 && mode_of("d/p") == 0660);
	must(removexattr("d", DEFAULT) == 0 && file_make_mode("d/h", "x", 0666));
	must(mode_of("d/h") == 0600);
	return true;
}

static bool alice_sets(void)
{
	static const struct item all[] = {
		{ACL_USER_OBJ, 7, NOBODY}, {ACL_GROUP_OBJ, 5, NOBODY}, {ACL_OTHER, 5, NOBODY}};

	must(acl_set("f", ACCESS, all, 3) == 0);
	return true;
}

/* As by chmod: an owner who is not of the file's group loses its set-gid bit. */
static bool check_acl_setgid(void)
{
	must(file_make("f", "x") && chown("f", ALICE, STAFF) == 0 && chmod("f", 02755) == 0);
	must(as_user(ALICE, ALICE, STAFF, alice_sets) && mode_of("f") == 02755);
	must(as_user(ALICE, ALICE, 0, alice_sets) && mode_of("f") == 0755);
	return true;
}

static bool check_acl_refused(void)
{
	must(file_make("f", "x"));
	must_fail(acl_set("f", ACCESS, named, 6), EOPNOTSUPP);
	must(getxattr("f", ACCESS, NULL, 0) == -1 && (errno == EOPNOTSUPP || errno == ENODATA));
	must(mode_of("f") == 0644);
	return true;
}

const struct check acl_checks[] = {
	CHECK(acl_mode, "an access list and the mode follow each other", ACL),
	CHECK(acl_errors, "wrong access lists are refused", ACL),
	CHECK(acl_users, "an access list lets in whom it names, as far as its mask",
	      ROOT | USERS | ACL),
	CHECK(acl_default, "a default list is inherited, in the umask's place", ACL),
	CHECK(acl_setgid, "an access list set by one outside the group takes set-gid away",
	      ROOT | USERS | CHOWN | ACL),
	CHECK(acl_refused, "access lists are refused as not supported", 0, ACL),
	{0},
};
