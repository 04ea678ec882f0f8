// SPDX-License-Identifier: Apache-2.0
/*
 * modes.c - whose an object is and who may do what with it.
 *
 * Hard cases D33, D35, D36, D37, D38, D39, D63. What the guest's kernel checks is not checked again: the calls come from
 * one that did.
 */
#include "suite.h"

static const struct cred user = {.uid = 1000, .gid = 1001};

/* Ids of the guest's are kept: by the host, or beside it. */
static bool owners(void)
{
	return bed.passes || bed.mapped;
}

static int chmod_(struct fs_obj *o, mode_t mode, struct statx *st)
{
	const struct share_attr attr = {.mask = SHARE_MODE, .mode = mode};

	return fs->setattr(o, NULL, &attr, st);
}

static int chown_(struct fs_obj *o, uid_t uid, gid_t gid, struct statx *st)
{
	const struct share_attr attr = {.mask = SHARE_UID | SHARE_GID, .uid = uid, .gid = gid};

	return fs->setattr(o, NULL, &attr, st);
}

/* D39: no umask of ours takes anything away. */
static void created_modes(void)
{
	static const mode_t modes[] = {0,    0777, 0666, 0644, 0600, 0111, 0222,
				       0444, 0070, 0007, 0751, 0426, 0012};
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFIFO, S_IFSOCK};
	struct statx st;

	for (unsigned i = 0; i < ARRAY_LEN(modes); i++)
		for (unsigned k = 0; k < ARRAY_LEN(kinds); k++) {
			want(try_make(kinds[k], bed.dir, "x", modes[i], &as_root, &st), 0);
			want(st.stx_mode, kinds[k] | modes[i]);
			want(kinds[k] == S_IFDIR ? fs->rmdir(bed.dir, "x")
						 : fs->unlink(bed.dir, "x"),
			     0);
		}
	/* A regular file by mknod, as NFS and some doors make them. */
	want(look(bed.dir, "x", NULL), -ENOENT);
	for (unsigned i = 0; i < ARRAY_LEN(modes); i++) {
		struct fs_obj *o;

		want(fs->mknod(bed.dir, "x", S_IFREG | modes[i], 0, &as_root, &o, &st), 0);
		want(st.stx_mode, S_IFREG | modes[i]);
		want(fs->unlink(bed.dir, "x"), 0);
		fs->forget(o);
	}
}

static void chmods(void)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFIFO, S_IFSOCK};
	struct fs_obj *o;
	struct statx st;

	for (unsigned k = 0; k < ARRAY_LEN(kinds); k++) {
		want(try_make(kinds[k], bed.dir, "x", 0700, &as_root, NULL), 0);
		o = find(bed.dir, "x");
		for (mode_t mode = 0; mode < 010000; mode += mode < 0100 ? 7 : 0111) {
			want(chmod_(o, mode, &st), 0);
			want(st.stx_mode, kinds[k] | mode);
			want(attr_of(o).stx_mode, kinds[k] | mode);
		}
		want(chmod_(o, 0700, &st), 0);
		want(kinds[k] == S_IFDIR ? fs->rmdir(bed.dir, "x") : fs->unlink(bed.dir, "x"), 0);
		fs->forget(o);
	}
}

/* D38: tar and cp -a ask for what is so already. */
static void squashed(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct statx st;

	if (!bed.squash) {
		fs->forget(o);
		return;
	}
	want(chown_(o, 0, 0, &st), 0);
	want(chown_(o, 1000, 0, &st), -EPERM);
	want(chown_(o, 0, 1000, &st), -EPERM);
	st = attr_of(o);
	want(st.stx_uid, 0);
	want(st.stx_gid, 0);
	/* Whoever asks, it is made by the user we are. */
	want(try_make(S_IFREG, bed.dir, "g", 0600, &user, &st), 0);
	want(st.stx_uid, 0);
	fs->forget(o);
}

static void chowns(void)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
	struct share_attr one = {.mask = SHARE_GID, .gid = 77};
	struct fs_obj *o;
	struct statx st;

	if (!owners())
		return;
	for (unsigned k = 0; k < ARRAY_LEN(kinds); k++) {
		want(try_make(kinds[k], bed.dir, "x", 0750, &as_root, NULL), 0);
		o = find(bed.dir, "x");
		want(chown_(o, 1234, 5678, &st), 0);
		want(st.stx_uid, 1234);
		want(st.stx_gid, 5678);
		want(fs->setattr(o, NULL, &one, &st), 0); /* the other stays */
		want(st.stx_uid, 1234);
		want(st.stx_gid, 77);
		want(attr_of(o).stx_mode & S_IFMT, kinds[k]);
		want(kinds[k] == S_IFDIR ? fs->rmdir(bed.dir, "x") : fs->unlink(bed.dir, "x"), 0);
		fs->forget(o);
	}
}

/* D37: whoever asks owns what is made for him; D36: also where only the guest knows that he may. */
static void made_as_caller(void)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
	struct fs_obj *d = make_dir(bed.dir, "d");
	struct statx st;

	if (owners()) {
		want(chmod_(d, 0770, &st), 0);
		for (unsigned k = 0; k < ARRAY_LEN(kinds); k++) {
			want(try_make(kinds[k], d, "x", 0640, &user, &st), 0);
			want(st.stx_uid, 1000);
			want(st.stx_gid, 1001);
			must(kinds[k] == S_IFLNK || (st.stx_mode & 07777) == 0640);
			want(kinds[k] == S_IFDIR ? fs->rmdir(d, "x") : fs->unlink(d, "x"), 0);
			/* And the next is root's again. */
			want(try_make(kinds[k], d, "y", 0640, &as_root, &st), 0);
			want(st.stx_uid, 0);
			want(st.stx_gid, 0);
			want(kinds[k] == S_IFDIR ? fs->rmdir(d, "y") : fs->unlink(d, "y"), 0);
		}
	}
	fs->forget(d);
}

/* D39: the directory's group, and for directories its bit. */
static void set_gid_directory(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d");
	const gid_t gid = owners() ? 4321 : 0;
	struct statx st;

	want(chown_(d, 0, gid, &st), 0);
	want(chmod_(d, 02777, &st), 0);
	want(try_make(S_IFREG, d, "f", 0644, &as_root, &st), 0);
	want(st.stx_gid, gid);
	want(st.stx_mode, S_IFREG | 0644);
	want(try_make(S_IFDIR, d, "s", 0755, &as_root, &st), 0);
	want(st.stx_gid, gid);
	want(st.stx_mode, S_IFDIR | 02755);
	want(try_make(S_IFIFO, d, "p", 0600, &as_root, &st), 0);
	want(st.stx_gid, gid);
	want(try_make(S_IFLNK, d, "l", 0, &as_root, &st), 0);
	want(st.stx_gid, gid);
	fs->forget(d);
}

/* D35: a program that lends the rights of a group is for its members to make. */
static void no_gift_of_groups(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d");
	const struct cred member = {.uid = 1000, .gid = 1001, .has_group = true, .group = 4321};
	struct statx st;

	if (owners()) {
		want(chown_(d, 0, 4321, &st), 0);
		want(chmod_(d, 03777, &st), 0);
		want(try_make(S_IFREG, d, "f", 02755, &user, &st), 0);
		want(st.stx_gid, 4321);
		want(st.stx_mode & 07777, 0755);
		/* He is in it, and the guest says so. */
		if (!lacks(FS_GROUPS) && bed.passes) {
			want(try_make(S_IFREG, d, "g", 02755, &member, &st), 0);
			want(st.stx_gid, 4321);
		}
	}
	fs->forget(d);
}

/* D22: what is there already is opened as the caller, whom nobody has asked. */
static void existing_of_another(void)
{
	struct fs_file *f = NULL;
	struct fs_obj *o = NULL;
	struct statx st;

	if (!owners())
		return;
	want(try_make(S_IFREG, bed.dir, "secret", 0600, &as_root, NULL), 0);
	want(fs->create(bed.dir, "secret", O_RDWR, 0644, &user, &o, &f, &st), -EACCES);
	want(try_make(S_IFREG, bed.dir, "open", 0606, &as_root, NULL), 0);
	want(fs->create(bed.dir, "open", O_RDWR, 0644, &user, &o, &f, &st), 0);
	want(st.stx_uid, 0);
	fs->release(f);
	fs->forget(o);
}

/* ---- D33: set-id bits ---- */

static mode_t mode_after(struct fs_obj *o, mode_t mode, int (*change)(struct fs_obj *))
{
	struct statx st;

	want(chmod_(o, mode, &st), 0);
	want(change(o), 0);
	return attr_of(o).stx_mode & 07777;
}

static int write_as_user(struct fs_obj *o)
{
	struct fs_file *f = open_obj(o, O_WRONLY);
	ssize_t n = fs->write(f, "y", 1, 0, FS_KILL_PRIV);

	fs->release(f);
	return n == 1 ? 0 : (int)n;
}

static int write_as_root(struct fs_obj *o)
{
	struct fs_file *f = open_obj(o, O_WRONLY);
	ssize_t n = fs->write(f, "y", 1, 0, 0);

	fs->release(f);
	return n == 1 ? 0 : (int)n;
}

static int truncate_as_user(struct fs_obj *o)
{
	const struct share_attr attr = {.mask = SHARE_SIZE | SHARE_KILL_PRIV};
	struct statx st;

	return fs->setattr(o, NULL, &attr, &st);
}

static int give_away(struct fs_obj *o)
{
	struct statx st;

	return chown_(o, owners() ? 1000 : 0, owners() ? 1001 : 0, &st);
}

static void set_id_bits(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");

	want(mode_after(o, 06777, write_as_user), 0777);
	want(mode_after(o, 06766, write_as_user),
	     02766); /* no group may run it: that is no set-gid */
	want(mode_after(o, 06777, truncate_as_user), 0777);
	/* A host that is no root drops them for itself. */
	if (bed.root || bed.mapped)
		want(mode_after(o, 06777, write_as_root), 06777);
	if (owners())
		want(mode_after(o, 06777, give_away), 0777);
	fs->forget(o);
}

/* D63: device nodes are root's to make, and are what they were made to be. */
static void devices(void)
{
	static const struct {
		mode_t type;
		unsigned major, minor;
	} some[] = {
		{S_IFCHR, 1, 3}, {S_IFBLK, 8, 0}, {S_IFCHR, 0xabc, 0xabcde}, {S_IFBLK, 0, 0xfffff}};
	struct fs_obj *o = NULL;
	struct statx st;

	for (unsigned i = 0; i < ARRAY_LEN(some); i++) {
		const dev_t rdev = makedev(some[i].major, some[i].minor);
		int err = fs->mknod(bed.dir, "x", some[i].type | 0660, rdev, &as_root, &o, &st);

		if (!bed.root && !bed.mapped) {
			want(err, -EPERM);
			continue;
		}
		if (err == -EPERM && !bed.mapped)
			skip_test("no device nodes are made in this container");
		want(err, 0);
		want(st.stx_mode, some[i].type | 0660);
		want(st.stx_rdev_major, some[i].major);
		want(st.stx_rdev_minor, some[i].minor);
		st = attr_of(o);
		want(st.stx_rdev_minor, some[i].minor);
		if (bed.mapped) /* on the host it is none */
			must(S_ISREG(host_stat("x").st_mode));
		want(try_open(o, O_RDWR), -ENXIO);
		want(fs->unlink(bed.dir, "x"), 0);
		fs->forget(o);
	}
}

const struct fs_test mode_tests[] = {
	{"modes are created as they are asked for", created_modes, 0, 0},
	{"modes are changed, of every kind", chmods, 0, 0},
	{"squash: owners stay what they are", squashed, 0, 0},
	{"owners are changed, of every kind", chowns, 0, 0},
	{"what is made is the caller's", made_as_caller, 0, 0},
	{"a set-gid directory gives its group", set_gid_directory, 0, 0},
	{"nobody makes programs of a group he is not in", no_gift_of_groups, 0, 0},
	{"creating what exists asks whether the caller may open it", existing_of_another, 0, 0},
	{"set-id bits go with a write, a truncation, a new owner", set_id_bits, 0, 0},
	{"device nodes keep their numbers and are not opened", devices, 0, 0},
	{0},
};
