// SPDX-License-Identifier: Apache-2.0
/*
 * t_share_owner.c - whose files they are: what the host has after a guest's caller made something, and what the guest is
 * shown, in passthrough, by maps and in squash. (Mapped shares have t_share_mapped.c.)
 *
 * As root all of it runs, with squash a second time as nobody; as anyone else what anyone else can have.
 */
#include "share_door.h"
#include <linux/fs.h>
#include <sched.h>

static const struct cred OTHER = {.uid = 2000, .gid = 2001};

/* ---- in place of libc's ---- */

static bool no_unshare, no_tmpfile;

int unshare(int flags)
{
	if (no_unshare) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_unshare, flags);
}

/* A file system, or a kernel, without files that have no name. Reached where openat2 is not used. */
int openat(int dirfd, const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	if (no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EISDIR;
		return -1;
	}
	return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

/* ---- the thread ---- */

static uint32_t effective_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	need(!syscall(SYS_capget, &head, caps));
	return caps[0].effective;
}

/* That the thread is what it was: says so only when it is not. */
static bool is_itself(uint32_t caps)
{
	const mode_t mask = umask(0);

	return effective_caps() == caps && (uid_t)syscall(SYS_setfsuid, -1) == geteuid() &&
	       (gid_t)syscall(SYS_setfsgid, -1) == getegid() && getgroups(0, NULL) == 0 &&
	       mask == 0;
}

static void test_thread(void)
{
	char cwd[64] = "", want[64];

	begin(SHARE_OWNER_AUTO);
	snprintf(want, sizeof(want), "/proc/%d/fd", getpid());
	ok(getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, want),
	   "a thread's working directory is where its descriptors have names");
	is(umask(0), 0, "its umask takes nothing away");
	is(getgroups(0, NULL), 0, "and it has no groups to lend");
	finish();
}

/* ---- making, in each way ---- */

enum { FILE_, DIR_, FIFO, SOCK, LINK, TMP, NMAKE };
static const char *const made[] = {"file", "dir", "fifo", "sock", "link", "tmp"};
static const mode_t made_type[] = {S_IFREG, S_IFDIR, S_IFIFO, S_IFSOCK, S_IFLNK, S_IFREG};

static int make(int what, mode_t mode, const struct cred *cred, struct statx *st)
{
	const char *name = made[what];

	switch (what) {
	case FILE_:
		return create(name, mode, cred, st);
	case DIR_:
		return make_dir(name, mode, cred, st);
	case LINK:
		return make_symlink(name, "target", cred, st);
	case TMP:
		return make_tmpfile(mode, O_RDWR, cred, name, st);
	default:
		return make_node(name, made_type[what] | mode, 0, cred, st);
	}
}

static void unmake(int what)
{
	need(!remove_name(made[what], what == DIR_ ? AT_REMOVEDIR : 0));
}

/* host: who owns it there; guest: who is shown. */
static void check_made(const struct cred *cred, const struct cred *host, const struct cred *guest,
		       const char *who)
{
	struct statx st, again;
	struct stat h;

	for (int i = 0; i < NMAKE; i++) {
		const mode_t mode = made_type[i] | (i == LINK ? 0777 : 0666);

		is(make(i, 0666, cred, &st), 0, "%s: a %s is made", who, made[i]);
		h = host_stat(made[i]);
		ok(h.st_uid == host->uid && h.st_gid == host->gid && h.st_mode == mode,
		   "the host has it as it should be");
		ok(shown(&st, guest->uid, guest->gid, mode), "so has the guest");
		ok(!look(made[i], &again) && again.stx_ino == st.stx_ino &&
			   shown(&again, guest->uid, guest->gid, mode),
		   "also when it looks again");
	}
	is(make_link("file", "more", &st), 0, "%s: and a second name for a file", who);
	ok(st.stx_nlink == 2 && shown(&st, guest->uid, guest->gid, S_IFREG | 0666), "of its owner");
	for (int i = 0; i < NMAKE; i++)
		unmake(i);
	need(!remove_name("more", 0));
}

static void test_passthrough(void)
{
	const uint32_t caps = effective_caps();
	const struct cred group = {.uid = 0, .gid = 1001};
	struct statx st;

	begin(SHARE_OWNER_PASSTHROUGH);
	check_made(&USER, &USER, &USER, "a user");
	check_made(&ROOT, &ROOT, &ROOT, "root");
	check_made(&group, &group, &group, "root with a user's group");
	is(make_node("null", S_IFCHR | 0666, makedev(1, 3), &ROOT, &st), 0,
	   "root makes device nodes where the host lets him");
	ok(st.stx_rdev_major == 1 && st.stx_rdev_minor == 3, "with their numbers");
	is(make_node("null2", S_IFCHR | 0666, makedev(1, 3), &USER, &st), -EPERM,
	   "a user does not");
	is(make_node("whiteout", S_IFCHR, makedev(0, 0), &USER, &st), 0,
	   "but whiteouts, as on a disk");
	ok(is_itself(caps), "the thread is left as it was");
	finish();
}

static void test_squash(void)
{
	const struct cred us = {.uid = geteuid(), .gid = getegid()};
	struct statx st;

	begin(SHARE_OWNER_SQUASH);
	check_made(&USER, &us, &ROOT, "squash, a user");
	check_made(&ROOT, &us, &ROOT, "squash, root");
	if (geteuid() != 0) {
		is(make_node("dev", S_IFBLK | 0600, makedev(8, 0), &ROOT, &st), -EPERM,
		   "squash: without the right there are no device nodes");
		ok(!host_has("dev"), "nor anything in their place");
	}
	need(!create("f", 0644, &USER, &st));
	is(set_owner("f", 0, 0, &st), 0, "squash: chown to root, whose it is, succeeds");
	is(set_owner("f", 1000, 0, &st), -EPERM, "to anyone else it does not");
	is(set_mode("f", 04755, &st), 0, "squash: chmod is chmod");
	is(host_stat("f").st_mode & 07777, 04755, "on the host");
	finish();
}

/* Shown as what they are, always. */
static void test_foreign(void)
{
	struct statx st;

	begin(SHARE_OWNER_SQUASH);
	host_file("theirs", "x", 0644);
	need(!fchownat(door.dir, "theirs", 4321, 4322, 0));
	ok(!look("theirs", &st) && shown(&st, 4321, 4322, S_IFREG | 0644),
	   "squash: owners that are others on the host are shown as such");
	is(set_owner("theirs", 4321, 4322, &st), 0, "chown to them succeeds, as it is so");
	is(set_owner("theirs", 0, 0, &st), -EPERM, "to root it does not");
	finish();
}

/* ---- umask and default ACLs (D39) ---- */

static void check_umask(const char *dir, mode_t mask, mode_t file_mode, mode_t dir_mode,
			const char *what)
{
	struct cred cred = {
		.uid = geteuid() ? 0 : 1000, .gid = geteuid() ? 0 : 1001, .umask = mask};
	struct share_inode *in = find(dir), *inode;
	struct share_file *file;
	struct statx st;
	struct name n = nm("n");

	need(!create_in(in, "f", O_RDWR, 0666, &cred, &st));
	is(st.stx_mode & 07777, file_mode, "%s, umask %03o: a file", what, mask);
	need(!mkdir_in(in, "d", 0777, &cred, &st));
	is(st.stx_mode & 0777, dir_mode, "%s, umask %03o: a directory", what, mask);
	need(!share_mknod(in, &n, S_IFIFO | 0666, 0, &cred, &inode, &st));
	is(st.stx_mode & 07777, file_mode, "%s, umask %03o: a fifo", what, mask);
	share_put(inode);
	need(!share_tmpfile(in, O_RDWR, 0666, &cred, &inode, &file, &st));
	is(st.stx_mode & 07777, file_mode, "%s, umask %03o: a file without a name", what, mask);
	share_file_close(file);
	share_put(inode);
	for (unsigned i = 0; i < 3; i++) {
		n = nm((const char *[]){"f", "d", "n"}[i]);
		need(!share_unlink(in, &n, i == 1 ? AT_REMOVEDIR : 0));
	}
	share_put(in);
}

static void check_umasks(int owner, const char *what)
{
	static const mode_t masks[] = {0, 027, 077};
	const uint32_t caps = effective_caps();
	struct statx st;

	begin(owner);
	need(!make_dir("plain", 0777, &ROOT, &st) && !make_dir("acl", 0777, &ROOT, &st));
	for (unsigned i = 0; i < ARRAY_LEN(masks); i++)
		check_umask("plain", masks[i], 0666 & ~masks[i], 0777 & ~masks[i], what);
	if (host_default_acl("acl")) {
		/* The list stands in for the umask; its mask is what the group bits show. */
		for (unsigned i = 0; i < ARRAY_LEN(masks); i++)
			check_umask("acl", masks[i], 0664, 0775, "default ACL");
	} else {
		skip("the file system has no ACLs", "default ACLs in place of umasks");
	}
	ok(is_itself(caps), "%s: the thread is left as it was", what);
	finish();
}

/* Where the whole process has one umask none is borrowed: the mode loses its bits here. */
static void test_shared_umask(void)
{
	no_unshare = true;
	begin(SHARE_OWNER_AUTO);
	no_unshare = false;
	{
		struct statx st;

		ok(!door.s->own_umask, "a container may refuse a thread its own umask");
		need(!make_dir("plain", 0777, &ROOT, &st) && !make_dir("acl", 0777, &ROOT, &st));
		check_umask("plain", 027, 0640, 0750, "the process's umask");
		if (host_default_acl("acl"))
			check_umask("acl", 027, 0640, 0750, "then a default ACL only takes away");
	}
	finish();
}

/* ---- set-gid directories, groups ---- */

static void make_setgid_dir(const char *name, gid_t gid, mode_t mode)
{
	need(!mkdirat(door.dir, name, 0755));
	need(!fchownat(door.dir, name, 0, gid, 0));
	need(!fchmodat(door.dir, name, mode, 0));
}

static void test_setgid_dirs(void)
{
	struct cred member = {.uid = 1000, .gid = 1001, .has_group = true, .group = 2000};
	struct share_inode *dir;
	struct statx st;

	begin(SHARE_OWNER_PASSTHROUGH);
	make_setgid_dir("g", 2000, 03777);
	make_setgid_dir("r", 0, 03777);
	dir = find("r");
	is(create_in(dir, "x", O_RDWR, 02755, &USER, &st), 0,
	   "in a set-gid directory of group root (CVE-2022-0358)");
	ok(shown(&st, 1000, 0, S_IFREG | 0755), "a user's program is not set-gid to it");
	share_put(dir);
	dir = find("g");
	is(create_in(dir, "x", O_RDWR, 02755, &USER, &st), 0, "in that of a group he is not in");
	ok(shown(&st, 1000, 2000, S_IFREG | 0755), "neither");
	is(create_in(dir, "m", O_RDWR, 02755, &member, &st), 0, "in that of a group he is in");
	ok(shown(&st, 1000, 2000, S_IFREG | 02755), "it is");
	is(create_in(dir, "p", O_RDWR, 02644, &USER, &st), 0, "the bit without execution");
	ok(shown(&st, 1000, 2000, S_IFREG | 02644), "is left as it is");
	is(create_in(dir, "0", O_RDWR, 02755, &ROOT, &st), 0, "and root");
	ok(shown(&st, 0, 2000, S_IFREG | 02755), "makes what he likes");
	is(mkdir_in(dir, "d", 0750, &USER, &st), 0, "directories in it");
	ok(shown(&st, 1000, 2000, S_IFDIR | 02750), "get group and bit");
	share_put(dir);
	finish();
}

static void test_groups(void)
{
	const struct cred member = {.uid = 1000, .gid = 1001, .has_group = true, .group = 2000};
	const uint32_t caps = effective_caps();
	struct share_inode *dir;
	struct statx st;

	begin(SHARE_OWNER_PASSTHROUGH);
	make_setgid_dir("d", 2000, 0770);
	dir = find("d");
	is(create_in(dir, "f", O_RDWR, 0640, &member, &st), 0,
	   "where only the group may write one of it creates (D36)");
	ok(shown(&st, 1000, 1001, S_IFREG | 0640), "a file that is his and of his first group");
	is(create_in(dir, "g", O_RDWR, 0640, &USER, &st), 0,
	   "so does he whose groups the guest has seen, and we have not");
	host_file("d/theirs", "x", 0640);
	need(!fchownat(door.dir, "d/theirs", 0, 2000, 0));
	is(create_in(dir, "theirs", O_RDONLY, 0640, &USER, &st), -EACCES,
	   "who races a creation does not open what he may not");
	is(create_in(dir, "theirs", O_RDONLY, 0640, &member, &st), 0, "but what his group may");
	is(create_in(dir, "theirs", O_RDWR, 0640, &member, &st), -EACCES, "and no more than that");
	is(create_in(dir, "theirs", O_RDWR | O_EXCL, 0640, &member, &st), -EEXIST,
	   "unless it was to be new");
	ok(is_itself(caps), "the thread is left as it was");
	share_put(dir);
	finish();
}

/* D37 */
static void test_in_turn(void)
{
	const struct cred member = {
		.uid = 1000, .gid = 1001, .has_group = true, .group = 2000, .umask = 022};
	const struct cred none = {.uid = (uid_t)-1, .gid = 1}, no_group = {.uid = 1, .gid = -1u};
	const uint32_t caps = effective_caps();
	struct share_inode *gone;
	struct statx st;
	bool good = true;

	begin(SHARE_OWNER_PASSTHROUGH);
	for (unsigned i = 0; i < 100; i++) {
		const struct cred *cred = i % 2 ? &OTHER : &member;

		good &= !create("f", 0644, cred, &st) && shown(&st, cred->uid, cred->gid, 0100644);
		need(!remove_name("f", 0));
	}
	ok(good, "two callers in turn each get their own");
	need(!make_dir("gone", 0755, &ROOT, &st));
	gone = find("gone");
	need(!remove_name("gone", AT_REMOVEDIR));
	is(create_in(gone, "f", O_RDWR, 0644, &member, &st), -ENOENT,
	   "in a directory that is gone");
	is(mkdir_in(gone, "d", 0755, &OTHER, &st), -ENOENT, "nothing is made");
	share_put(gone);
	ok(is_itself(caps), "and the thread is itself after a failure");
	is(create("f", 0644, &none, &st), -EINVAL, "who has no id makes nothing");
	is(create("f", 0644, &no_group, &st), -EINVAL, "nor who has no group");
	need(!create("taken", 0644, &ROOT, &st));
	is(make_dir("taken", 0755, &member, &st), -EEXIST, "nor anything where something is");
	ok(is_itself(caps), "and the thread is itself after that");
	ok(!look("taken", &st) && shown(&st, 0, 0, S_IFREG | 0644), "what was there is as it was");
	finish();
}

/* ---- files without a name ---- */

static void test_tmpfile(void)
{
	struct share_inode *inode;
	struct share_file *file;
	struct name n = nm("named");
	struct statx st;

	begin(SHARE_OWNER_AUTO);
	is(make_tmpfile(0600, O_RDONLY, &ROOT, NULL, &st), -EINVAL,
	   "a file without a name that nobody could fill is refused");
	is(make_tmpfile(0600, O_RDWR | O_EXCL, &ROOT, "no", &st), -ENOENT,
	   "one that is to have none gets none");
	need(!share_tmpfile(door.root, O_WRONLY, 0640, &ROOT, &inode, &file, &st));
	ok(st.stx_nlink == 0 && st.stx_mode == (S_IFREG | 0640), "one is made with its mode");
	is(fcntl(file->io.fd, F_GETFL) & O_ACCMODE, O_WRONLY, "open as it was asked for");
	need(write(file->io.fd, "text", 4) == 4);
	is(share_link(inode, door.root, &n, &st), 0, "it is given a name");
	ok(st.stx_nlink == 1 && st.stx_size == 4 && host_stat("named").st_size == 4,
	   "with all in it");
	is(share_link(inode, door.root, &n, &st), -EEXIST, "but not one that is taken");
	share_file_close(file);
	share_put(inode);
	door.s->openat2 = false;
	no_tmpfile = true;
	is(make_tmpfile(0600, O_RDWR, &ROOT, NULL, &st), -EOPNOTSUPP,
	   "where there are none the guest is told so");
	no_tmpfile = false;
	is(make_tmpfile(0600, O_RDWR, &ROOT, "by-openat", &st), 0, "openat makes them too");
	finish();
	begin_with((struct share_config){.readonly = true});
	is(make_tmpfile(0600, O_RDWR, &ROOT, NULL, &st), -EROFS, "a read-only share has none");
	finish();
}

/* ---- privileges that go (D33) ---- */

static mode_t mode_after_kill(const char *name, mode_t mode)
{
	need(!fchmodat(door.dir, name, mode, 0));
	is(kill_by_file(name), 0, "mode %04o is looked at before a write", mode);
	return host_stat(name).st_mode & 07777;
}

static void test_kill_priv(void)
{
	static const unsigned char caps[20] = {0, 0, 0, 2, 0x00, 0x20};
	const struct share_attr kill = {.mask = SHARE_KILL_PRIV};
	struct stat before, after;
	struct statx st;

	begin(SHARE_OWNER_AUTO);
	host_file("f", "x", 0644);
	is(mode_after_kill("f", 06777), 0777, "set-id bits go");
	is(mode_after_kill("f", 02666), 02666,
	   "set-gid without execution stays: it is a lock's mark");
	is(mode_after_kill("f", 04644), 0644, "set-uid goes in any case");
	before = host_stat("f");
	is(kill_by_file("f"), 0, "a plain file");
	after = host_stat("f");
	ok(before.st_ctim.tv_sec == after.st_ctim.tv_sec &&
		   before.st_ctim.tv_nsec == after.st_ctim.tv_nsec,
	   "is not touched");
	need(!fchmodat(door.dir, "f", 06755, 0));
	is(set("f", kill, &st), 0, "an attribute request says it as well");
	is(st.stx_mode & 07777, 0755, "and they go");
	need(!fchmodat(door.dir, "f", 06755, 0));
	is(set("f", (struct share_attr){.mask = SHARE_KILL_PRIV | SHARE_SIZE, .size = 0}, &st), 0,
	   "so they do with a new size");
	is(st.stx_mode & 07777, 0755, "both at once");
	is(set("f", (struct share_attr){.mask = SHARE_KILL_PRIV | SHARE_MODE, .mode = 06711}, &st),
	   0, "a mode in the same request");
	is(st.stx_mode & 07777, 06711, "outlives it");
	need(!make_dir("d", 02775, &ROOT, &st) && !set_mode("d", 02775, &st));
	is(set("d", kill, &st), 0, "of a directory");
	is(st.stx_mode & 07777, 02775, "nothing is taken");
	if (host_setxattr("f", "security.capability", caps, sizeof(caps))) {
		skip("not root", "file capabilities");
	} else {
		is(kill_by_file("f"), 0, "a program with capabilities of its own");
		is(host_getxattr("f", "security.capability", NULL, 0), -ENODATA, "loses them");
	}
	finish();
}

static void test_chown(void)
{
	struct statx st;

	begin(SHARE_OWNER_PASSTHROUGH);
	need(!create("f", 0644, &ROOT, &st) && !set_mode("f", 06755, &st));
	is(set_owner("f", 1000, 1001, &st), 0, "passthrough: chown is chown");
	ok(shown(&st, 1000, 1001, S_IFREG | 0755), "and takes the set-id bits");
	is(set("f", (struct share_attr){.mask = SHARE_GID, .gid = 7}, &st), 0, "a group alone");
	ok(shown(&st, 1000, 7, S_IFREG | 0755), "leaves the owner");
	need(!make_symlink("l", "nowhere", &ROOT, &st));
	is(set_owner("l", 5, 6, &st), 0, "a link is chowned itself");
	ok(host_stat("l").st_uid == 5 && host_stat("l").st_gid == 6, "on the host too");
	finish();
}

/*
 * Who may write what is another's program cannot change its mode; the write makes the kernel do it.
 * Runs as nobody.
 */
static void test_kill_foreign(void)
{
	struct share_inode *inode;
	struct share_file *file;

	begin_with((struct share_config){.owner = SHARE_OWNER_SQUASH});
	inode = find("theirs");
	need(!share_open_inode(inode, O_WRONLY, &file));
	is(share_kill_priv(file), 0, "another's program that we may write holds no write up");
	need(pwrite(file->io.fd, "y", 1, 0) == 1);
	is(host_stat("theirs").st_mode & 07777, 0777, "and the write takes its bits");
	share_file_close(file);
	share_put(inode);
	share_put(door.root);
	share_close(door.s);
}

/* ---- labels (D66) ---- */

static void test_label(void)
{
	const struct share_label label = {"security.wherry", "blue", 5};
	const struct share_label odd = {"user.x", "y", 1}, caps = {"security.capability", "z", 1};
	struct cred cred = USER;
	char got[8];
	struct statx st;

	cred.label = &label;
	begin_with((struct share_config){.security_label = true});
	for (int i = 0; i < NMAKE; i++) {
		need(!make(i, 0644, &cred, &st));
		ok(host_getxattr(made[i], label.name, got, sizeof(got)) == 5 &&
			   !strcmp(got, "blue"),
		   "a %s is made with its label", made[i]);
		unmake(i);
	}
	cred.label = &odd;
	for (int i = 0; i < NMAKE; i++) {
		is(make(i, 0644, &cred, &st), -EINVAL, "a %s with what is none is refused",
		   made[i]);
		ok(!host_has(made[i]), "and not left behind");
	}
	cred.label = &caps;
	is(make(FILE_, 0755, &cred, &st), -EINVAL, "capabilities are no label");
	ok(!host_has("file"), "and nothing is left behind");
	finish();
	cred.label = &odd;
	begin(SHARE_OWNER_AUTO);
	is(make(FILE_, 0644, &cred, &st), 0, "where labels are off they are not looked at");
	is(host_getxattr("file", odd.name, NULL, 0), -ENODATA, "nor given");
	finish();
}

/* This host has no SELinux: what it would be told is refused, and nothing is made. */
static void test_label_by_host(void)
{
	const struct share_label label = {"security.selinux", "a:b:c", 6};
	const uint32_t caps = effective_caps();
	struct cred cred = USER;
	struct statx st;

	if (!access("/sys/fs/selinux/enforce", F_OK)) {
		skip("the host has SELinux", "labels that the host refuses");
		return;
	}
	begin_with((struct share_config){.security_label = true});
	need(!door.s->fscreate);
	door.s->fscreate = true;
	cred.label = &label;
	is(make(FILE_, 0644, &cred, &st), -EINVAL, "a label that the host refuses");
	is(make(DIR_, 0755, &cred, &st), -EINVAL, "makes no directory either");
	ok(!host_has("file") && !host_has("dir"), "and nothing");
	ok(is_itself(caps), "the thread is left as it was");
	finish();
}

/* ---- maps ---- */

static bool map_says(const char *text, const char *want)
{
	char err[OPT_ERR_MAX] = "";
	bool good = share_map_check(text, err);

	if (!want)
		return good;
	if (good || strcmp(err, want) != 0)
		printf("#   %s: %s\n", text, good ? "accepted" : err);
	return !good && !strcmp(err, want);
}

static void test_map_text(void)
{
	char many[340 * 12 + 20] = "";
	size_t at = 0;

	ok(map_says("", NULL) && map_says(" \t", NULL), "no range is a map");
	ok(map_says("0:100000:65536", NULL), "one range");
	ok(map_says(" 0:1000:1  1000:0:1\t5:2:3 ", NULL), "several, with blanks about them");
	ok(map_says("0:0:4294967295", NULL), "all ids there are");
	ok(map_says("4294967294:7:1", NULL), "the last id");
	ok(map_says("4294967295:7:1",
		    "range 1 must hold at least one id and end at 4294967294 or before"),
	   "beyond it there is none");
	ok(map_says("1:4294967290:6",
		    "range 1 must hold at least one id and end at 4294967294 or before"),
	   "nor on the host");
	ok(map_says("0:1:1 1:2:0",
		    "range 2 must hold at least one id and end at 4294967294 or before"),
	   "a range of none is told by its number");
	for (unsigned i = 0; i < 9; i++) {
		const char *bad = (const char *[]){"0",      "0:1",    "0:1:",   "0:1:1:1", "a:1:1",
						   "-1:1:1", "0:1:+1", "0:1:1,", "0 :1:1"}[i];

		ok(map_says(bad, "range 1 must be GUEST:HOST:COUNT, in decimal"),
		   "'%s' is no range", bad);
	}
	ok(map_says("0:1:4294967296", "range 1 must be GUEST:HOST:COUNT, in decimal"),
	   "nor is what 32 bits do not hold");
	ok(map_says("0:100:10 5:200:10", "0:100:10 and 5:200:10 overlap in the ids of the guest"),
	   "an id of the guest has one meaning");
	ok(map_says("50:109:1 0:100:10", "0:100:10 and 50:109:1 overlap in the ids of the host"),
	   "so has one of the host");
	ok(map_says("0:100:10 10:110:10", NULL), "ranges may touch");
	for (unsigned i = 0; i < 340; i++)
		at += (size_t)sprintf(many + at, "%u:%u:1 ", i, 1000 + i);
	ok(map_says(many, NULL), "340 ranges");
	memcpy(many + at, "999:1:1", 8);
	ok(map_says(many, "must have at most 340 ranges"), "are the most");
}

static void test_map_start(void)
{
	char map[] = "0:100000:1000", bad[] = "0:1:1 0:2:1";

	is(try_open_share((struct share_config){.owner = SHARE_OWNER_SQUASH, .uid_map = map}),
	   -EINVAL, "a map of users does not go with squash");
	is(try_open_share((struct share_config){.owner = SHARE_OWNER_MAPPED, .gid_map = map}),
	   -EINVAL, "nor one of groups with mapped");
	is(try_open_share((struct share_config){.owner = SHARE_OWNER_SQUASH, .posix_acl = true}),
	   -EINVAL, "nor do lists with squash");
	is(try_open_share((struct share_config){.owner = SHARE_OWNER_MAPPED, .posix_acl = true}),
	   -EINVAL, "nor with mapped");
	if (!share_owner_passes()) {
		is(try_open_share((struct share_config){.uid_map = map}), -EINVAL,
		   "a map does not go with auto, which is squash here");
		if (geteuid() != 0)
			is(try_open_share((struct share_config){.security_label = true}), -EPERM,
			   "nor do labels with who may not give them");
		return;
	}
	is(try_open_share((struct share_config){.gid_map = map, .posix_acl = true}), -EINVAL,
	   "lists do not go with maps");
	is(try_open_share((struct share_config){.posix_acl = true}), -EINVAL,
	   "nor without attributes");
	is(try_open_share((struct share_config){.posix_acl = true, .xattr = true}), 0,
	   "but with passthrough");
	is(try_open_share((struct share_config){.uid_map = bad}), -EINVAL, "a map must be one");
	is(try_open_share((struct share_config){.uid_map = map, .gid_map = map}), 0, "and then is");
}

static void test_map_callers(void)
{
	const struct cred low = {.uid = 99, .gid = 99}, out = {.uid = 5000, .gid = 1},
			  out_group = {.uid = 1, .gid = 5000},
			  out_extra = {.uid = 1, .gid = 1, .has_group = true, .group = 5000};
	const struct cred host_root = {.uid = 100000, .gid = 200000},
			  host_user = {.uid = 101000, .gid = 201001},
			  host_low = {.uid = 0, .gid = 0};
	const uint32_t caps = effective_caps();
	char uids[] = "0:100000:99 99:0:1 100:100100:4000",
	     gids[] = "0:200000:99 99:0:1 100:200100:4000";
	struct statx st;

	begin_with((struct share_config){.uid_map = uids, .gid_map = gids});
	check_made(&ROOT, &host_root, &ROOT, "mapped root");
	check_made(&USER, &host_user, &USER, "a mapped user");
	check_made(&low, &host_low, &low, "a user who is the host's root");
	is(create("f", 0644, &out, &st), -EOVERFLOW, "who has no id on the host makes nothing");
	is(create("f", 0644, &out_group, &st), -EOVERFLOW, "nor whose group has none");
	is(create("f", 0644, &out_extra, &st), -EOVERFLOW, "nor whose other group has none");
	is(make_node("dev", S_IFCHR | 0666, makedev(1, 3), &ROOT, &st), -EPERM,
	   "a root that is a user on the host makes no devices");
	is(make_node("dev", S_IFCHR | 0666, makedev(1, 3), &low, &st), -EPERM,
	   "nor does a user that is root there");
	ok(is_itself(caps), "the thread is left as it was");
	finish();
}

static void test_map_shown(void)
{
	static const struct {
		uid_t host, guest;
	} uids[] = {{100000, 0},    {100098, 98},   {100099, 65534},     {0, 99},
		    {1, 65534},     {100100, 100},  {104099, 4099},      {104100, 65534},
		    {99999, 65534}, {65534, 65534}, {4294967294u, 65534}};
	char map[] = "100:100100:4000 0:100000:99 99:0:1";
	struct share_inode *dir;
	struct statx st;

	begin_with((struct share_config){.uid_map = map});
	host_file("f", "x", 0644);
	for (unsigned i = 0; i < ARRAY_LEN(uids); i++) {
		need(!fchownat(door.dir, "f", uids[i].host, uids[i].host, 0));
		ok(!look("f", &st) && shown(&st, uids[i].guest, uids[i].host, S_IFREG | 0644),
		   "%u of the host is %u", uids[i].host, uids[i].guest);
	}
	need(!fchownat(door.dir, "f", 100000, 7, 0));
	is(set_owner("f", 4099, 7, &st), 0, "chown goes by the map");
	ok(shown(&st, 4099, 7, S_IFREG | 0644) && host_stat("f").st_uid == 104099,
	   "on the host too");
	is(set_owner("f", 4100, 7, &st), -EINVAL, "not to who is not on it");
	is(set("f", (struct share_attr){.mask = SHARE_GID, .gid = 99999}, &st), 0,
	   "groups without a map are themselves");
	make_setgid_dir("g", 100050, 02777);
	dir = find("g");
	is(create_in(dir, "f", O_RDWR, 0644, &USER, &st), 0, "a set-gid directory");
	ok(shown(&st, 1000, 100050, S_IFREG | 0644), "gives its group");
	share_put(dir);
	finish();
}

static int open_to(const char *name, int flags)
{
	struct share_inode *inode = find(name);
	struct share_file *file;
	int err = share_open_inode(inode, flags, &file);

	if (!err)
		share_file_close(file);
	share_put(inode);
	return err;
}

static int map_to(const char *name, void *page, bool writable)
{
	struct share_inode *inode = find(name);
	int err = share_map(inode, page, 4096, 0, writable);

	share_put(inode);
	return err;
}

static int give_xattr(const char *name)
{
	struct share_inode *inode = find(name);
	int err = share_setxattr(inode, "user.x", "x", 1, 0, false);

	share_put(inode);
	return err;
}

static int set_flags(const char *name)
{
	struct share_inode *inode = find(name);
	int flags = FS_NODUMP_FL;
	int err = (int)share_ioctl(inode, NULL, FS_IOC_SETFLAGS, &flags, sizeof(flags), 0);

	share_put(inode);
	return err;
}

/* The guest's root must not get at a host's user whom the map leaves out, above all not at root. */
static void test_map_foreign(void)
{
	char map[] = "0:100000:65536";
	const struct share_attr times = {.mask = SHARE_MTIME, .mtime = {.tv_sec = 1}};
	_Alignas(4096) static char page[4096];
	struct stat before, after;
	struct statx st;

	begin_with((struct share_config){.uid_map = map, .gid_map = map, .xattr = true});
	host_file("theirs", "x", 04755);
	need(!fchownat(door.dir, "theirs", 0, 0, 0) && !fchmodat(door.dir, "theirs", 04755, 0));
	before = host_stat("theirs");
	is(set_mode("theirs", 06777, &st), -EPERM, "who is not on the map keeps his file's mode");
	is(set_owner("theirs", 0, 0, &st), -EPERM, "its owner");
	is(set("theirs", (struct share_attr){.mask = SHARE_SIZE}, &st), -EPERM, "its size");
	is(set("theirs", times, &st), -EPERM, "its times");
	is(open_to("theirs", O_RDWR), -EPERM, "what is in it");
	is(open_to("theirs", O_RDONLY | O_TRUNC), -EPERM, "however it is opened");
	is(map_to("theirs", page, true), -EPERM, "or mapped");
	is(give_xattr("theirs"), -EPERM, "its attributes");
	is(set_flags("theirs"), -EPERM, "and its flags");
	is(open_to("theirs", O_RDONLY), 0, "it is read");
	after = host_stat("theirs");
	ok(after.st_mode == before.st_mode && after.st_uid == 0 && after.st_size == 1 &&
		   after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
		   after.st_ctim.tv_nsec == before.st_ctim.tv_nsec,
	   "and is as it was");
	need(!fchownat(door.dir, "theirs", 100001, 0, 0));
	is(set_mode("theirs", 02775, &st), 0, "a file of one who is, in a group that is not");
	is(host_stat("theirs").st_mode & 07777, 0775, "does not become set-gid to it");
	need(!fchmodat(door.dir, "theirs", 02755, 0));
	is(open_to("theirs", O_RDWR), -EPERM, "and is not written if it was");
	finish();
}

/* ---- under the filter ---- */

struct ride {
	struct iothread *io;
	unsigned failed;
};

static int ride_init(void *arg)
{
	(void)arg;
	return share_thread_init(door.s);
}

static void ride(void *arg)
{
	const struct share_label label = {"security.wherry", "x", 1};
	const bool acts = !door.s->squash;
	const struct cred cred = {.uid = 1000,
				  .gid = 1001,
				  .has_group = true,
				  .group = 2000,
				  .umask = 022,
				  .label = acts ? &label : NULL};
	struct ride *r = arg;
	struct statx st;

	for (int i = 0; i < NMAKE; i++)
		r->failed += make(i, 0755, &cred, &st) != 0;
	r->failed += make_node("c", S_IFCHR, 0, &cred, &st) != 0;
	r->failed += set_mode("file", 06755, &st) != 0;
	r->failed += kill_by_file("file") != 0;
	r->failed += set("file", (struct share_attr){.mask = SHARE_KILL_PRIV}, &st) != 0;
	r->failed += set_owner("file", acts ? 5 : 0, acts ? 6 : 0, &st) != 0;
}

/* A program with capabilities of its own, which the host has given it. */
static void ride_kill(void *arg)
{
	struct ride *r = arg;

	r->failed += kill_by_file("file") != 0;
}

static void test_iothread(int owner)
{
	static const unsigned char caps[20] = {0, 0, 0, 2, 0x00, 0x20};
	struct ride r = {0};

	begin_with((struct share_config){.owner = owner, .security_label = host_takes_labels()});
	need(!iothread_create(&r.io, "fs0", LOOP_AUTO, 8, &share_syscalls));
	need(!iothread_start(r.io, ride_init, NULL));
	loop_call(r.io, ride, &r);
	is(r.failed, 0, "all of it works under the filter");
	if (share_owner_passes()) {
		need(!host_setxattr("file", "security.capability", caps, sizeof(caps)));
		loop_call(r.io, ride_kill, &r);
		is(r.failed, 0, "and taking capabilities from a file");
		is(host_getxattr("file", "security.capability", NULL, 0), -ENODATA,
		   "which are gone");
	}
	iothread_destroy(r.io);
	finish();
}

/* ---- the run ---- */

static void test_anyone(void)
{
	test_thread();
	test_squash();
	check_umasks(SHARE_OWNER_SQUASH, "squash");
	test_shared_umask();
	test_tmpfile();
	test_kill_priv();
	test_map_start();
	need(!sandbox_init());
	test_iothread(SHARE_OWNER_SQUASH);
}

static void test_as_root(void)
{
	test_passthrough();
	test_foreign();
	check_umasks(SHARE_OWNER_PASSTHROUGH, "passthrough");
	test_setgid_dirs();
	test_groups();
	test_in_turn();
	test_chown();
	test_label();
	test_label_by_host();
	test_map_callers();
	test_map_shown();
	test_map_foreign();
	test_iothread(SHARE_OWNER_PASSTHROUGH);
}

static void nobodys(void)
{
	door_make("t_share_owner", NOBODY, NOBODY);
	host_file("theirs", "x", 06777);
	need(!fchownat(door.dir, "theirs", 4321, 4322, 0) &&
	     !fchmodat(door.dir, "theirs", 06777, 0));
	as_nobody(test_kill_foreign);
	host_clear(door.dir);
	as_nobody(test_anyone);
	door_remove();
}

int main(void)
{
	const gid_t ours[] = {0, 7};
	const bool acts = share_owner_passes();

	test_map_text();
	if (acts) {
		/* Groups that a caller must not be lent. */
		need(!setgroups(2, ours));
		nobodys();
	}
	door_make("t_share_owner", 0, 0);
	test_anyone();
	if (acts) {
		test_as_root();
	} else {
		skip("not root, or without other ids", "passthrough, maps and labels");
	}
	door_remove();
	return done();
}
