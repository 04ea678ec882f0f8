// SPDX-License-Identifier: Apache-2.0
/*
 * share_list.c - the entries of open directories.
 *
 * Cookies are the host's own, so that a listing can go on anywhere, whatever was deleted meanwhile; it is the only use of
 * a file's position. A directory that is read from its first entry a second time, with no other in between, is kept, one for
 * the whole share, and told again as long as it is unchanged: to ask that is a call, where to read it anew is most of the
 * work. A walk of a tree, which comes to each directory once, asks nothing.
 *
 * Unchanged means that its ctime, which nobody can set, is what it was before it was read. A file system takes the time
 * of a change from a clock that moves in ticks, so that a change right after another may leave the same time: a listing
 * is only kept if the last change had been some ticks ago when it began. And only of file systems known to do so; one that
 * is made up as it is read, as procfs, has no such time. Thread: the owner's. Calls: share_inode.c. Spec: getdents(2).
 */
#include "share_int.h"
#include <dirent.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <time.h>

#define LIST_CHUNK KIB(32)
/* A longer listing is not kept. */
#define LIST_MOST MIB(1)
/* Two ticks of the slowest clock, and of what keeps times in seconds. */
#define LIST_REST_NS  (20 * 1000000ll)
#define LIST_REST_SEC (2 * 1000000000ll)

/* ---- is it as it was ---- */

/* Network file systems, procfs and their like are not; what lies over others (overlayfs) is not asked. */
static bool keeps_times(int fd)
{
	static const unsigned kinds[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
					 TMPFS_MAGIC, F2FS_SUPER_MAGIC};
	uninit struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++)
		if ((unsigned)fs.f_type == kinds[i])
			return true;
	return false;
}

static int64_t ns_of(int64_t sec, int64_t nsec)
{
	return sec * 1000000000ll + nsec;
}

/* When the directory was last changed; 0: not known. */
static int64_t changed_at(int fd)
{
	uninit struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_CTIME, &st) < 0 || !(st.stx_mask & STATX_CTIME))
		return 0;
	return ns_of(st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec);
}

/* A change from now on will have another time than this one. */
static bool is_past(int64_t changed)
{
	struct timespec now;

	/* The clock that times of changes are taken from. */
	if (clock_gettime(CLOCK_REALTIME_COARSE, &now))
		return false;
	return ns_of(now.tv_sec, now.tv_nsec) - changed >=
	       (changed % 1000000000ll ? LIST_REST_NS : LIST_REST_SEC);
}

static bool list_is_of(const struct share_list *l, const struct share_file *file)
{
	return !memcmp(&l->key, &file->inode->key, sizeof(l->key));
}

static bool list_holds(const struct share_list *l, const struct share_file *file)
{
	return l->whole && list_is_of(l, file) && l->changed == changed_at(file->io.fd);
}

/* The directory is about to be read from its first entry on. */
static void list_begin(struct share_list *l, const struct share_file *file)
{
	const int fd = file->io.fd;

	l->kept = false;
	if (list_is_of(l, file)) {
		l->changed = changed_at(fd);
		l->kept = l->changed && is_past(l->changed) && keeps_times(fd);
	}
	l->key = file->inode->key;
}

/* ---- what is in the buffer ---- */

/* Room for another chunk; what is there stays if it is kept. */
static int list_room(struct share_list *l)
{
	size_t room = l->kept ? l->len + LIST_CHUNK : LIST_CHUNK;
	char *buf;

	if (room > LIST_MOST) {
		l->kept = false;
		room = LIST_CHUNK;
	}
	if (!l->kept)
		l->pos = l->len = 0;
	if (room <= l->room)
		return 0;
	room = MAX(room, 2 * l->room);
	room = MIN(room, (size_t)LIST_MOST);
	buf = realloc(l->buf, room);
	if (!buf)
		return -ENOMEM;
	l->buf = buf;
	l->room = room;
	return 0;
}

/*
 * 1, 0 at the end of the directory, -errno. Until the last entry that was read is used up the host's
 * position is of no use.
 */
static int dir_fill(struct share_file *file)
{
	struct share_list *l = &file->inode->share->list;
	int err = l->whole ? 0 : list_room(l);
	ssize_t n;

	if (err || l->whole)
		return err;
	n = getdents64(file->io.fd, l->buf + l->len, l->room - l->len);
	if (n <= 0) {
		l->whole = n == 0 && l->kept;
		return n < 0 ? -errno : 0;
	}
	l->len += (size_t)n;
	l->reader = file;
	file->dir_at = 0;
	return 1;
}

static const struct dirent64 *dir_entry(const struct share *s)
{
	return (const struct dirent64 *)(s->list.buf + s->list.pos);
}

static void dir_step(struct share_file *file)
{
	struct share_list *l = &file->inode->share->list;
	const struct dirent64 *d = dir_entry(file->inode->share);

	l->at = (uint64_t)d->d_off;
	l->pos += d->d_reclen;
	if (l->pos == l->len && l->reader == file)
		file->dir_at = l->at;
}

/* Nothing is in the buffer, and nobody is anywhere in it. */
static void list_drop(struct share_list *l)
{
	l->owner = l->reader = NULL;
	l->pos = l->len = 0;
	l->kept = l->whole = false;
}

void share_list_forget(struct share_file *file)
{
	struct share_list *l = &file->inode->share->list;

	if (l->owner == file)
		l->owner = NULL;
	if (l->reader == file)
		l->reader = NULL;
	/* Whose end nobody has seen. */
	if (!l->owner && !l->whole)
		list_drop(l);
}

void share_list_free(struct share *s)
{
	free(s->list.buf);
	s->list = (struct share_list){0};
}

/* ---- places ---- */

static int dir_place(struct share_file *file, uint64_t off)
{
	if (lseek(file->io.fd, (off_t)off, SEEK_SET) < 0)
		return -errno;
	file->dir_at = off;
	return 0;
}

/*
 * Cookies are 64 bits of the file system's choice, and lseek takes 63: for the rest the listing is
 * read again up to the entry that gave the cookie. If that one was deleted meanwhile the place is
 * lost, which must not look like the end.
 */
static int dir_rescan(struct share_file *file, uint64_t off)
{
	struct share_list *l = &file->inode->share->list;
	int got = dir_place(file, 0);

	if (got)
		return got;
	for (;;) {
		got = dir_fill(file);
		if (got <= 0)
			return got < 0 ? got : -EINVAL;
		while (l->pos < l->len) {
			dir_step(file);
			if (l->at == off)
				return 0;
		}
	}
}

/* From its first entry on the directory is read anew, or is as it was: that is how rewinddir shows what was created since. */
static int dir_first(struct share_file *file)
{
	struct share_list *l = &file->inode->share->list;
	int err;

	if (!list_holds(l, file)) {
		list_drop(l);
		err = dir_place(file, 0);
		if (err)
			return err;
		list_begin(l, file);
	}
	l->owner = file;
	l->pos = 0;
	l->at = 0;
	return 0;
}

static int dir_seek(struct share_file *file, uint64_t off)
{
	struct share_list *l = &file->inode->share->list;
	int err = 0;

	if (!off)
		return dir_first(file);
	if (l->owner == file && l->at == off)
		return 0;
	list_drop(l);
	if (off != file->dir_at)
		err = off > INT64_MAX ? dir_rescan(file, off) : dir_place(file, off);
	if (err)
		return err;
	l->owner = file;
	l->at = off;
	return 0;
}

/* ---- entries ---- */

/*
 * The number and type that a lookup of the entry would show. getdents gives the number of what a
 * mount covers, and for the parent of a mount's root that root itself: so directories are asked,
 * one by one, as nothing cheaper is always right (a mount point can be renamed from another mount
 * namespace, of which no mount event tells). The parent is only asked, never opened; above the
 * share's root there is nothing.
 */
static int dirent_identify(struct share_file *file, const struct dirent64 *d,
			   struct share_dirent *entry)
{
	const struct share_inode *dir = file->inode;
	struct inode_key key = {.mnt = dir->key.mnt, .dev = dir->key.dev, .ino = d->d_ino};
	const bool parent = strcmp(d->d_name, "..") == 0;
	struct statx st;

	entry->type = d->d_type;
	if (strcmp(d->d_name, ".") == 0 || (parent && dir == dir->share->root)) {
		entry->ino = dir->ino;
		return 0;
	}
	if ((d->d_type == DT_DIR || d->d_type == DT_UNKNOWN) &&
	    !share_inode_statx(file->io.fd, d->d_name, &st)) {
		key = share_inode_key(&st);
		entry->type = (unsigned char)IFTODT(st.stx_mode);
	}
	if (dir->share->mapped && entry->type == DT_REG)
		entry->type = share_mapped_dtype(file->io.fd, d->d_name);
	return share_inode_number(dir->share, &key, &entry->ino);
}

/* The record is padded with NULs beyond the name. */
static size_t dirent_len(const struct dirent64 *d)
{
	return strnlen(d->d_name, d->d_reclen - offsetof(struct dirent64, d_name));
}

/* A name that no request could carry (some file systems have longer ones) is left out. */
static bool dirent_usable(const struct dirent64 *d)
{
	const size_t len = dirent_len(d);

	return len > 0 && len < sizeof(struct name);
}

/* enum share_put, or -errno. */
static int dirent_give(struct share_file *file, const struct dirent64 *d, share_dirent_fn fn,
		       void *ctx)
{
	struct share_dirent entry = {
		.next = (uint64_t)d->d_off,
		.name = d->d_name,
		.len = dirent_len(d),
	};
	int err = dirent_identify(file, d, &entry);

	return err ? err : (int)fn(ctx, &entry);
}

int share_readdir(struct share_file *file, uint64_t off, share_dirent_fn fn, void *ctx)
{
	struct share *s = file->inode->share;
	bool put = false;
	int got;

	if (file->inode->type != S_IFDIR)
		return -ENOTDIR;
	got = dir_seek(file, off);
	if (got)
		return got;
	for (;;) {
		got = s->list.pos < s->list.len ? 1 : dir_fill(file);
		if (got <= 0)
			break;
		if (dirent_usable(dir_entry(s))) {
			got = dirent_give(file, dir_entry(s), fn, ctx);
			if (got <= 0)
				break;
			put |= got == SHARE_PUT;
		}
		dir_step(file);
	}
	return put ? 0 : got;
}
