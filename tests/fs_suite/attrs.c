// SPDX-License-Identifier: Apache-2.0
/*
 * attrs.c - what is said of an object, and changing its size and its times.
 *
 * Hard cases D15, D32, D61, D64, D65.
 */
#include "suite.h"
#include <time.h>

/* ---- what is said ---- */

static bool time_is(struct statx_timestamp t, struct timespec host)
{
	return t.tv_sec == host.tv_sec && t.tv_nsec == host.tv_nsec;
}

static void like_host(const char *name, const struct statx *st)
{
	struct stat h = host_stat(name);

	want(st->stx_size, h.st_size);
	want(st->stx_blocks, h.st_blocks);
	want(st->stx_nlink, h.st_nlink);
	want(st->stx_blksize, h.st_blksize);
	must(time_is(st->stx_mtime, h.st_mtim));
	must(time_is(st->stx_ctime, h.st_ctim));
	must(time_is(st->stx_atime, h.st_atim));
	if (!bed.mapped)
		want(st->stx_mode, h.st_mode);
	if (bed.passes) {
		want(st->stx_uid, h.st_uid);
		want(st->stx_gid, h.st_gid);
	}
}

/* By name, by object, and by what is open: one story, and the host's. */
static void as_on_host(void)
{
	static const char *const names[] = {"f", "d", "l", "p"};
	struct fs_obj *o;
	struct statx a, b;

	put_file(bed.dir, "f", "some text");
	put_dir(bed.dir, "d");
	want(try_make(S_IFLNK, bed.dir, "l", 0, &as_root, NULL), 0);
	want(try_make(S_IFIFO, bed.dir, "p", 0640, &as_root, NULL), 0);
	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		want(fs->lookup(bed.dir, names[i], &o, &a), 0);
		like_host(names[i], &a);
		b = attr_of(o);
		like_host(names[i], &b);
		want(a.stx_ino, b.stx_ino);
		want(a.stx_mode, b.stx_mode);
		want(a.stx_uid, 0);
		want(a.stx_gid, 0);
		fs->forget(o);
	}
}

/* Whoever made them: the user we are is the guest's root. */
static void open_file_says(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "text");
	struct fs_file *f = open_obj(o, O_RDWR);
	struct statx a, b;

	want(fs->write(f, "longer text", 11, 0, 0), 11);
	want(fs->getattr(o, f, &a), 0);
	b = attr_of(o);
	want(a.stx_size, 11);
	want(b.stx_size, 11);
	want(a.stx_ino, b.stx_ino);
	fs->release(f);
	fs->forget(o);
}

/* ---- sizes ---- */

static int set_size(struct fs_obj *o, struct fs_file *f, uint64_t size, struct statx *st)
{
	const struct share_attr attr = {.mask = SHARE_SIZE, .size = size};
	struct statx own;

	return fs->setattr(o, f, &attr, st ? st : &own);
}

static void sizes(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "0123456789");
	struct fs_file *f = open_obj(o, O_RDWR);
	char buf[16];
	struct statx st;

	for (unsigned by_file = 0; by_file < 2; by_file++) {
		struct fs_file *via = by_file ? f : NULL;

		want(set_size(o, via, 4, &st), 0);
		want(st.stx_size, 4);
		want(set_size(o, via, 8, &st), 0);
		want(st.stx_size, 8);
		want(fs->read(f, buf, sizeof(buf), 0), 8);
		must(!memcmp(buf, "0123\0\0\0\0", 8)); /* what was cut off does not come back */
		want(set_size(o, via, 0, &st), 0);
		want(fs->read(f, buf, sizeof(buf), 0), 0);
		want(fs->write(f, "0123456789", 10, 0, 0), 10);
	}
	want(set_size(o, NULL, (uint64_t)5 << 40, &st), 0); /* of 5 TiB, mostly hole */
	want(st.stx_size, (uint64_t)5 << 40);
	must(st.stx_blocks < 64);
	want(host_stat("f").st_size, (int64_t)5 << 40);
	want(set_size(o, NULL, UINT64_MAX, NULL), -EINVAL);
	want(set_size(o, NULL, (uint64_t)INT64_MAX + 1, NULL), -EINVAL);
	want(set_size(o, NULL, INT64_MAX, NULL) < 0 || host_stat("f").st_size == INT64_MAX, true);
	fs->release(f);
	fs->forget(o);
}

static void no_size(void)
{
	struct fs_obj *o;

	put_dir(bed.dir, "d");
	want(try_make(S_IFLNK, bed.dir, "l", 0, &as_root, NULL), 0);
	want(try_make(S_IFIFO, bed.dir, "p", 0644, &as_root, NULL), 0);
	want(set_size(o = find(bed.dir, "d"), NULL, 0, NULL), -EISDIR);
	fs->forget(o);
	want(set_size(o = find(bed.dir, "l"), NULL, 0, NULL), -EINVAL);
	fs->forget(o);
	want(set_size(o = find(bed.dir, "p"), NULL, 0, NULL), -EINVAL);
	fs->forget(o);
}

/* D32: of a file that may not be opened again, through what has it open. */
static void size_by_right(void)
{
	struct fs_file *f = NULL;
	struct fs_obj *o = NULL;
	struct statx st;

	want(fs->create(bed.dir, "f", O_RDWR | O_EXCL, 0400, &as_root, &o, &f, &st), 0);
	want(fs->write(f, "0123456789", 10, 0, 0), 10);
	want(set_size(o, f, 3, &st), 0);
	want(st.stx_size, 3);
	if (bed.squash && !bed.root)
		want(set_size(o, NULL, 1, NULL), -EACCES);
	fs->release(f);
	fs->forget(o);
}

/* ---- times ---- */

static bool near_now(struct statx_timestamp t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return t.tv_sec <= now.tv_sec + 1 && t.tv_sec >= now.tv_sec - 60;
}

static bool is_time(struct statx_timestamp t, const struct timespec *x)
{
	return t.tv_sec == x->tv_sec && t.tv_nsec == (uint32_t)x->tv_nsec;
}

/* Each side alone, both, and now; before 1970 and past 2038. */
static void times_of(struct fs_obj *o, const char *name)
{
	static const struct timespec some[] = {
		{1, 1}, {-1000000, 999999999}, {1234567890, 123456789}, {5000000000, 5}};
	struct timespec kept = {7, 7};
	struct share_attr attr;
	struct statx st;

	for (unsigned i = 0; i < ARRAY_LEN(some); i++) {
		attr = (struct share_attr){
			.mask = SHARE_ATIME | SHARE_MTIME, .atime = some[i], .mtime = kept};
		want(fs->setattr(o, NULL, &attr, &st), 0);
		must(is_time(st.stx_atime, &some[i]) && is_time(st.stx_mtime, &kept));
		must(near_now(st.stx_ctime)); /* nobody sets that one */
		kept = (struct timespec){.tv_sec = 100 + i, .tv_nsec = 200 + i};
		attr = (struct share_attr){.mask = SHARE_MTIME, .mtime = kept};
		want(fs->setattr(o, NULL, &attr, &st), 0);
		must(is_time(st.stx_atime, &some[i]) && is_time(st.stx_mtime, &kept));
		attr = (struct share_attr){.mask = SHARE_ATIME, .atime = some[3 - i]};
		want(fs->setattr(o, NULL, &attr, &st), 0);
		must(is_time(st.stx_atime, &some[3 - i]) && is_time(st.stx_mtime, &kept));
		want(host_stat(name).st_mtim.tv_sec, kept.tv_sec);
	}
	attr = (struct share_attr){.mask = SHARE_ATIME, .atime = {.tv_nsec = UTIME_NOW}};
	want(fs->setattr(o, NULL, &attr, &st), 0);
	must(near_now(st.stx_atime) && is_time(st.stx_mtime, &kept));
	attr = (struct share_attr){.mask = SHARE_MTIME, .mtime = {.tv_nsec = UTIME_NOW}};
	want(fs->setattr(o, NULL, &attr, &st), 0);
	must(near_now(st.stx_mtime));
}

static void times(void)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
	struct fs_obj *o;

	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		want(try_make(kinds[i], bed.dir, "x", 0755, &as_root, NULL), 0);
		o = find(bed.dir, "x");
		times_of(o, "x");
		want(fs->rename(bed.dir, "x", bed.dir, i ? "y" : "z", 0), 0);
		if (i)
			want(kinds[i] == S_IFDIR ? fs->rmdir(bed.dir, "y")
						 : fs->unlink(bed.dir, "y"),
			     0);
		fs->forget(o);
	}
}

/* A symbolic link's own times, never those of what it leads to. */
static void times_of_link(void)
{
	const struct share_attr attr = {.mask = SHARE_MTIME, .mtime = {.tv_sec = 42}};
	struct fs_obj *o;
	struct statx st;

	put_file(bed.dir, "target", "x");
	want(try_make(S_IFLNK, bed.dir, "l", 0, &as_root, NULL), 0);
	o = find(bed.dir, "l");
	want(fs->setattr(o, NULL, &attr, &st), 0);
	want(st.stx_mtime.tv_sec, 42);
	must(host_stat("target").st_mtim.tv_sec != 42);
	fs->forget(o);
}

/* Writing, truncating and making entries are seen in the times. */
static void times_move(void)
{
	const struct share_attr old = {.mask = SHARE_MTIME | SHARE_ATIME,
				       .mtime = {.tv_sec = 42},
				       .atime = {.tv_sec = 42}};
	struct fs_obj *o = make_file(bed.dir, "f", "x"), *d = make_dir(bed.dir, "d");
	struct fs_file *f = open_obj(o, O_RDWR);
	struct statx st;

	want(fs->setattr(o, NULL, &old, &st), 0);
	want(fs->write(f, "y", 1, 0, 0), 1);
	must(near_now(attr_of(o).stx_mtime));
	want(fs->setattr(o, NULL, &old, &st), 0);
	want(set_size(o, NULL, 100, &st), 0);
	must(near_now(st.stx_mtime));
	want(fs->setattr(d, NULL, &old, &st), 0);
	put_file(d, "g", "");
	must(near_now(attr_of(d).stx_mtime));
	want(fs->setattr(d, NULL, &old, &st), 0);
	want(fs->unlink(d, "g"), 0);
	must(near_now(attr_of(d).stx_mtime));
	fs->release(f);
	fs->forget(o);
	fs->forget(d);
}

/* In one request: size and times, mode and owner. */
static void all_at_once(void)
{
	const struct share_attr attr = {
		.mask = SHARE_MODE | SHARE_UID | SHARE_GID | SHARE_SIZE | SHARE_ATIME | SHARE_MTIME,
		.mode = 0640,
		.size = 3,
		.atime = {.tv_sec = 5, .tv_nsec = 6},
		.mtime = {.tv_sec = 7, .tv_nsec = 8},
	};
	struct fs_obj *o = make_file(bed.dir, "f", "0123456789");
	struct statx st;

	want(fs->setattr(o, NULL, &attr, &st), 0);
	want(st.stx_mode, S_IFREG | 0640);
	want(st.stx_size, 3);
	must(is_time(st.stx_atime, &attr.atime) && is_time(st.stx_mtime, &attr.mtime));
	must(holds(o, "012"));
	fs->forget(o);
}

static void file_system(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_file *d = open_dir(bed.dir), *f = open_obj(o, O_RDWR);
	struct statfs st, h;

	want(fs->statfs(o, &st), 0);
	host(fstatfs(bed.host, &h));
	want(st.f_blocks, h.f_blocks);
	want(st.f_bsize, h.f_bsize);
	want(st.f_frsize, h.f_frsize);
	want(st.f_namelen, h.f_namelen);
	want(st.f_files, h.f_files);
	/* D49 */
	want(fs->fsync(f, false), 0);
	want(fs->fsync(f, true), 0);
	want(fs->fsync(d, false), 0);
	fs->release(f);
	fs->release(d);
	fs->forget(o);
}

const struct fs_test attr_tests[] = {
	{"attributes are the host's", as_on_host, 0, 0},
	{"an open file says what its object says", open_file_says, 0, 0},
	{"sizes are set, by object and by file", sizes, 0, 0},
	{"what is no file has no size to set", no_size, 0, 0},
	{"a size is set through a file that is open", size_by_right, 0, 0},
	{"times are set, each side alone, of every kind", times, 0, 0},
	{"a symbolic link has times of its own", times_of_link, 0, 0},
	{"times move with changes", times_move, 0, 0},
	{"all that may change changes at once", all_at_once, 0, 0},
	{"a file system's figures; fsync of files and directories", file_system, 0, 0},
	{0},
};
