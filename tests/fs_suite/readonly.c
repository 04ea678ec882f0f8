// SPDX-License-Identifier: Apache-2.0
/*
 * readonly.c - a share that is read-only, whatever the guest believes: hard case D60.
 */
#include "suite.h"
#include <sys/xattr.h>

static void tree_put(void)
{
	char path[64], whole[96];

	host_put(bed.host, "f", "text");
	host(mkdirat(bed.host, "d", 0755));
	host_put(bed.host, "d/g", "more");
	host(mkdirat(bed.host, "empty", 0755));
	host(symlinkat("f", bed.host, "l"));
	host(mkfifoat(bed.host, "p", 0644));
	snprintf(whole, sizeof(whole), "%s/f", host_path(path, bed.host));
	(void)!setxattr(whole, "user.a", "1", 1, 0); /* where there are any */
}

static void change_names(struct fs_obj *f, struct fs_obj *d)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
	struct fs_file *file = NULL;
	struct fs_obj *o = NULL;
	struct statx st;

	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		want(try_make(kinds[i], bed.dir, "x", 0755, &as_root, NULL), -EROFS);
		want(try_make(kinds[i], bed.dir, "f", 0755, &as_root, NULL) < 0, true);
	}
	want(fs->create(bed.dir, "f", O_RDWR | O_TRUNC, 0644, &as_root, &o, &file, &st), -EROFS);
	want(fs->link(f, bed.dir, "x", &st), -EROFS);
	want(fs->unlink(bed.dir, "f"), -EROFS);
	want(fs->unlink(bed.dir, "l"), -EROFS);
	want(fs->rmdir(bed.dir, "empty"), -EROFS);
	want(fs->rename(bed.dir, "f", bed.dir, "x", 0), -EROFS);
	want(fs->rename(bed.dir, "f", d, "g", 0), -EROFS);
	if (!lacks(FS_FLAGS)) {
		want(fs->rename(bed.dir, "f", bed.dir, "l", RENAME_EXCHANGE), -EROFS);
		want(fs->rename(bed.dir, "f", bed.dir, "x", RENAME_WHITEOUT), -EROFS);
	}
	if (!lacks(FS_TMPFILE))
		want(fs->tmpfile(bed.dir, O_RDWR, 0600, &as_root, &o, &file, &st), -EROFS);
}

static void change_attributes(struct fs_obj *o)
{
	const struct share_attr attr[] = {
		{.mask = SHARE_MODE, .mode = 0777},
		{.mask = SHARE_UID, .uid = 0},
		{.mask = SHARE_GID, .gid = 0},
		{.mask = SHARE_SIZE},
		{.mask = SHARE_ATIME, .atime = {.tv_nsec = UTIME_NOW}},
		{.mask = SHARE_MTIME, .mtime = {.tv_nsec = UTIME_NOW}},
		{.mask = SHARE_KILL_PRIV},
	};
	struct statx st;

	for (unsigned i = 0; i < ARRAY_LEN(attr); i++)
		want(fs->setattr(o, NULL, &attr[i], &st), -EROFS);
	want(fs->setxattr(o, "user.b", "1", 1, 0, false), -EROFS);
	want(fs->removexattr(o, "user.a"), -EROFS);
}

static void change_contents(struct fs_obj *o)
{
	uint32_t flags = 0;
	struct fs_file *f;

	want(try_open(o, O_WRONLY), -EROFS);
	want(try_open(o, O_RDWR), -EROFS);
	want(try_open(o, O_RDONLY | O_TRUNC), -EROFS);
	want(try_open(o, O_WRONLY | O_APPEND), -EROFS);
	f = open_obj(o, O_RDONLY);
	want(fs->write(f, "x", 1, 0, 0), -EROFS);
	want(fs->write(f, "x", 1, 0, FS_KILL_PRIV), -EROFS);
	if (!lacks(FS_SPACE))
		want(fs->fallocate(f, 0, 0, 100), -EROFS);
	if (!lacks(FS_COPY))
		want(fs->copy(f, 0, f, 100, 1), -EROFS);
	if (!lacks(FS_IOCTL))
		want(fs->ioctl(f, 0x40086602, &flags, sizeof(flags), 0), -EROFS);
	fs->release(f);
}

static void nothing_changes(void)
{
	struct fs_obj *f, *d;
	uint64_t sum;

	tree_put();
	sum = tree_sum(bed.host);
	f = find(bed.dir, "f");
	d = find(bed.dir, "d");
	change_names(f, d);
	change_attributes(f);
	change_contents(f);
	want(tree_sum(bed.host), sum);
	fs->forget(f);
	fs->forget(d);
}

static void reading_works(void)
{
	struct fs_dirent *all;
	struct fs_file *d;
	struct fs_obj *l;
	char buf[16];
	size_t n;

	tree_put();
	must(name_holds(bed.dir, "f", "text"));
	l = find(bed.dir, "l");
	want(fs->readlink(l, buf, sizeof(buf)), 1);
	d = open_dir(bed.dir);
	all = list_all(d, 0, 4096, &n);
	want(n, 7);
	want(fs->fsync(d, false), 0);
	free(all);
	fs->release(d);
	fs->forget(l);
	/* The host's changes are seen. */
	host_put(bed.host, "f", "changed");
	must(name_holds(bed.dir, "f", "changed"));
}

const struct fs_test readonly_tests[] = {
	{"every change is refused, and nothing changes", nothing_changes, RO, 0},
	{"what changes nothing works", reading_works, RO, 0},
	{0},
};
