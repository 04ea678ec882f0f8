// SPDX-License-Identifier: Apache-2.0
/*
 * opens.c - opening and creating, and files that have no name any more, or none yet.
 *
 * Hard cases D21, D22, D23, D24, D27, D28, D29, D31.
 */
#include "suite.h"

static int set(struct fs_obj *o, struct fs_file *f, struct share_attr attr)
{
	struct statx st;

	return fs->setattr(o, f, &attr, &st);
}

/* ---- flags ---- */

/* D24: who appends says where; D27, D28: what only the guest's kernel means stays there. */
static void odd_flags(void)
{
	static const int odd[] = {
		O_APPEND, O_DIRECT,   O_NOATIME,  O_SYNC,
		O_DSYNC,  O_NONBLOCK, O_NOFOLLOW, O_APPEND | O_DIRECT | O_NOATIME | O_SYNC};
	struct fs_obj *o = make_file(bed.dir, "f", "0123456789");
	char buf[16];

	for (unsigned i = 0; i < ARRAY_LEN(odd); i++) {
		struct fs_file *f = open_obj(o, O_RDWR | odd[i]);

		want(fs->write(f, "abc", 3, 2, 0), 3);
		want(attr_of(o).stx_size, 10);
		want(fs->read(f, buf, 7, 1), 7);
		must(!memcmp(buf, "1abc567", 7));
		fs->release(f);
	}
	fs->forget(o);
}

static void truncating(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "0123456789");
	struct fs_file *f;

	f = open_obj(o, O_WRONLY | O_TRUNC);
	want(attr_of(o).stx_size, 0);
	want(fs->write(f, "ab", 2, 0, 0), 2);
	fs->release(f);
	f = open_obj(o, O_RDWR);
	must(holds(o, "ab"));
	fs->release(f);
	f = open_obj(o, O_RDWR | O_TRUNC);
	want(attr_of(o).stx_size, 0);
	fs->release(f);
	fs->forget(o);
}

/* ---- creating what exists: D22 ---- */

static int create(const char *name, int flags, struct fs_obj **o, struct fs_file **f)
{
	struct statx st;

	return fs->create(bed.dir, name, flags, 0644, &as_root, o, f, &st);
}

static void existing(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "text"), *again = NULL;
	struct fs_file *f = NULL;

	want(create("f", O_RDWR | O_EXCL, &again, &f), -EEXIST);
	want(create("f", O_RDWR, &again, &f), 0);
	must(fs->same(o, again) && holds(o, "text"));
	fs->release(f);
	fs->forget(again);
	want(create("f", O_WRONLY | O_TRUNC, &again, &f), 0);
	must(fs->same(o, again));
	want(attr_of(o).stx_size, 0);
	fs->release(f);
	fs->forget(again);
	fs->forget(o);
}

/* Nothing is made where a link leads, and nothing waits at a fifo. */
static void planted(void)
{
	struct fs_obj *o = NULL;
	struct fs_file *f = NULL;

	put_dir(bed.dir, "d");
	host(symlinkat("../../outside/made", bed.host, "l"));
	host(mkfifoat(bed.host, "p", 0666));
	want(create("d", O_RDWR, &o, &f), -EISDIR);
	want(create("l", O_RDWR, &o, &f), -ELOOP);
	want(create("l", O_RDWR | O_TRUNC, &o, &f), -ELOOP);
	want(create("l", O_RDWR | O_EXCL, &o, &f), -EEXIST);
	want(create("p", O_WRONLY, &o, &f), -ENXIO);
	want(create("p", O_RDONLY, &o, &f), -ENXIO);
	must(faccessat(bed.beside, "outside/made", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
}

/* ---- D21 ---- */

static void special_never_opened(void)
{
	static const mode_t kinds[] = {S_IFIFO, S_IFSOCK, S_IFLNK, S_IFDIR};
	static const int flags[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDONLY | O_NONBLOCK};

	for (unsigned k = 0; k < ARRAY_LEN(kinds); k++) {
		struct fs_obj *o;

		want(try_make(kinds[k], bed.dir, "x", 0666, &as_root, NULL), 0);
		o = find(bed.dir, "x");
		for (unsigned i = 0; i < ARRAY_LEN(flags); i++) {
			int err = try_open(o, flags[i]);

			must(err < 0);
			if (kinds[k] == S_IFDIR)
				must(err == -EISDIR || err == -EBADF);
		}
		want(try_open(o, O_RDONLY | O_DIRECTORY) < 0, true);
		want(kinds[k] == S_IFDIR ? fs->rmdir(bed.dir, "x") : fs->unlink(bed.dir, "x"), 0);
		fs->forget(o);
	}
}

/* The host's own, which somebody waits at. */
static void host_fifo(void)
{
	struct fs_obj *o;
	struct statx st;
	int end;

	host(mkfifoat(bed.host, "p", 0666));
	host(end = openat(bed.host, "p", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
	o = find(bed.dir, "p");
	want(try_open(o, O_WRONLY), -ENXIO);
	want(try_open(o, O_RDONLY), -ENXIO);
	want(fs->link(o, bed.dir, "q", &st), 0);
	/* Where a mapped share would keep its mode, the host keeps nothing. */
	want(set(o, NULL, (struct share_attr){.mask = SHARE_MODE, .mode = 0600}),
	     bed.mapped ? -EPERM : 0);
	want(fs->rename(bed.dir, "p", bed.dir, "r", 0), 0);
	want(fs->unlink(bed.dir, "r"), 0);
	want(fs->unlink(bed.dir, "q"), 0);
	close(end);
	fs->forget(o);
}

/* ---- D29: without a name ---- */

/* All that can be done to an object and an open file of it. */
static void works_without_name(struct fs_obj *o, struct fs_file *f, unsigned nlink)
{
	char buf[32];
	struct statx st;

	want(fs->getattr(o, NULL, &st), 0);
	want(st.stx_nlink, nlink);
	want(fs->getattr(o, f, &st), 0);
	want(st.stx_nlink, nlink);
	want(fs->write(f, "written", 7, 0, 0), 7);
	want(set(o, f, (struct share_attr){.mask = SHARE_SIZE, .size = 5}), 0);
	want(set(o, NULL, (struct share_attr){.mask = SHARE_SIZE, .size = 6}), 0);
	want(set(o, NULL, (struct share_attr){.mask = SHARE_MODE, .mode = 0666}), 0);
	want(set(o, NULL, (struct share_attr){.mask = SHARE_MTIME, .mtime = {.tv_sec = 9}}), 0);
	want(attr_of(o).stx_mtime.tv_sec, 9);
	want(fs->read(f, buf, sizeof(buf), 0), 6);
	must(!memcmp(buf, "writt\0", 6));
	must(holds(o, "writt") == false); /* six bytes */
	want(fs->fsync(f, false), 0);
	if (bed.setup->share.xattr) {
		int err = fs->setxattr(o, "user.x", "1", 1, 0, false);

		must(err == 0 || err == -EOPNOTSUPP);
		if (!err)
			want(fs->getxattr(o, "user.x", buf, sizeof(buf)), 1);
	}
}

static void unlinked(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "text");
	struct fs_file *f = open_obj(o, O_RDWR);
	struct statx st;

	want(fs->unlink(bed.dir, "f"), 0);
	must(!host_has("f"));
	works_without_name(o, f, 0);
	want(fs->link(o, bed.dir, "back", &st), -ENOENT);
	fs->release(f);
	f = open_obj(o, O_RDWR); /* again, as /proc/self/fd lets programs do */
	works_without_name(o, f, 0);
	fs->release(f);
	fs->forget(o);
}

static void renamed_over(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "old"), *now = make_file(bed.dir, "g", "new");
	struct fs_file *f = open_obj(o, O_RDWR);

	want(fs->rename(bed.dir, "g", bed.dir, "f", 0), 0);
	must(name_holds(bed.dir, "f", "new"));
	works_without_name(o, f, 0);
	must(holds(now, "new"));
	fs->release(f);
	fs->forget(o);
	fs->forget(now);
}

static void one_name_less(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "text");
	struct fs_file *f;
	struct statx st;

	want(fs->link(o, bed.dir, "g", &st), 0);
	f = open_obj(o, O_RDWR);
	want(fs->unlink(bed.dir, "f"), 0);
	works_without_name(o, f, 1);
	fs->release(f);
	must(fs->same(o, o));
	fs->forget(o);
}

static void removed_directory(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d");
	struct fs_file *f = open_dir(d);
	struct fs_dirent entry[4];
	struct statx st;

	want(fs->rmdir(bed.dir, "d"), 0);
	want(fs->getattr(d, NULL, &st), 0);
	want(st.stx_nlink, 0);
	want(try_make(S_IFREG, d, "x", 0644, &as_root, NULL), -ENOENT);
	want(try_make(S_IFDIR, d, "x", 0755, &as_root, NULL), -ENOENT);
	want(try_make(S_IFLNK, d, "x", 0, &as_root, NULL), -ENOENT);
	want(look(d, "x", NULL), -ENOENT);
	must(fs->readdir(f, 0, 4096, entry, 4) <= 0);
	want(set(d, NULL, (struct share_attr){.mask = SHARE_MODE, .mode = 0700}), 0);
	fs->release(f);
	fs->forget(d);
}

/* ---- D31 ---- */

static void nameless(void)
{
	struct fs_file *f = NULL, *d;
	struct fs_obj *o = NULL;
	struct fs_dirent *all;
	struct statx st;
	size_t n;
	int err = fs->tmpfile(bed.dir, O_RDWR, 0640, &as_root, &o, &f, &st);

	if (err == -EOPNOTSUPP)
		skip_test("the host's file system has none");
	want(err, 0);
	want(st.stx_mode, S_IFREG | 0640);
	want(st.stx_nlink, 0);
	want(fs->write(f, "text", 4, 0, 0), 4);
	d = open_dir(bed.dir);
	all = list_all(d, 0, 4096, &n);
	want(n, 2);
	free(all);
	fs->release(d);
	want(fs->link(o, bed.dir, "f", &st), 0);
	want(st.stx_nlink, 1);
	must(name_holds(bed.dir, "f", "text"));
	fs->release(f);
	fs->forget(o);
	must(host_has("f"));
	/* One that never gets a name. */
	want(fs->tmpfile(bed.dir, O_RDWR | O_EXCL, 0600, &as_root, &o, &f, &st), 0);
	want(fs->link(o, bed.dir, "g", &st), -ENOENT);
	fs->release(f);
	fs->forget(o);
	want(fs->tmpfile(bed.dir, O_RDONLY, 0600, &as_root, &o, &f, &st), -EINVAL);
}

const struct fs_test open_tests[] = {
	{"O_APPEND, O_DIRECT, O_NOATIME and O_SYNC stay in the guest", odd_flags, 0, 0},
	{"O_TRUNC truncates", truncating, 0, 0},
	{"creating what exists opens it, or says so", existing, 0, 0},
	{"creating follows no link and waits at no fifo", planted, 0, 0},
	{"what is neither file nor directory is not opened", special_never_opened, 0, 0},
	{"a fifo of the host is not opened, but has a name and a mode", host_fifo, 0, 0},
	{"an unlinked file is whole", unlinked, 0, 0},
	{"a file that was renamed over is whole", renamed_over, 0, 0},
	{"a file that lost one of its names is whole", one_name_less, 0, 0},
	{"a removed directory takes nothing in", removed_directory, 0, 0},
	{"a file without a name is given one", nameless, 0, FS_TMPFILE},
	{0},
};
