// SPDX-License-Identifier: Apache-2.0
/*
 * share_io.c - open files: their contents, copies of them, and the entries of open directories.
 *
 * Data goes between the file and the caller's buffers by the loop, at offsets that the guest names;
 * nothing here uses a file's position but the listing of a directory, whose cookies are the host's
 * own, so that a listing can go on anywhere, whatever was deleted meanwhile. Open files are counted
 * against the share's budget. Thread: the owner's. Calls: loop.h, share_inode.c, share_path.c. Spec:
 * getdents(2), open(2).
 */
#include "share_int.h"
#include <dirent.h>
#include <sys/mman.h>

/* ---- opening and closing ---- */

/*
 * What of a guest's flags reaches the host. O_APPEND would move the writes of the guest's page
 * cache to the end, O_DIRECT asks for alignment the guest does not know of, O_NOATIME fails on
 * other users' files.
 */
int share_host_flags(int flags)
{
	return flags & (O_ACCMODE | O_TRUNC | O_DIRECTORY | O_SYNC | O_DSYNC);
}

static bool flags_change(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
}

/* Whether a call would block is a question to the file system, which a new file need not be asked again. */
static struct io_file io_begin(const struct share *s, const struct share_inode *inode, int fd)
{
	const bool known = s->blunt.mnt == inode->key.mnt;

	return (struct io_file){.fd = fd,
				.no_nowait_read = known && s->blunt.read,
				.no_nowait_write = known && s->blunt.write};
}

static void io_learn(struct share *s, const struct share_file *file)
{
	const uint64_t mnt = file->inode->key.mnt;

	if (!file->io.no_nowait_read && !file->io.no_nowait_write)
		return;
	if (s->blunt.mnt != mnt)
		s->blunt.read = s->blunt.write = false;
	s->blunt.mnt = mnt;
	s->blunt.read |= file->io.no_nowait_read;
	s->blunt.write |= file->io.no_nowait_write;
}

int share_file_new(struct share_inode *inode, int *fd, struct share_file **out)
{
	struct share *s = inode->share;
	struct share_file *file = calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	file->inode = share_get(inode);
	file->io = io_begin(s, inode, take_fd(fd));
	file->next = s->files;
	file->link = &s->files;
	if (file->next)
		file->next->link = &file->next;
	s->files = file;
	s->nfiles++;
	share_inode_opens(inode, +1);
	*out = file;
	return 0;
}

/* It is out of the share's list already. */
static void file_free(struct share_file *file)
{
	io_learn(file->inode->share, file);
	file->inode->share->nfiles--;
	share_inode_opens(file->inode, -1);
	close_fd(&file->io.fd);
	share_put(file->inode);
	free(file);
}

void share_file_close(struct share_file *file)
{
	struct share *s;

	if (!file)
		return;
	s = file->inode->share;
	if (s->dir.owner == file)
		s->dir.owner = NULL;
	*file->link = file->next;
	if (file->next)
		file->next->link = file->link;
	file_free(file);
}

void share_file_close_all(struct share *s)
{
	struct share_file *file = s->files, *next;

	for (; file; file = next) {
		next = file->next;
		file_free(file);
	}
	s->files = NULL;
	s->dir.owner = NULL;
}

struct share_inode *share_file_inode(struct share_file *file)
{
	return file->inode;
}

int share_file_open(struct share_inode *inode, int flags, struct share_file **out)
{
	auto_fd fd = -1;
	int err = share_inode_fd(inode);

	if (err >= 0)
		err = flags_change(flags) ? share_owner_may_change(inode->share, err) : 0;
	if (!err)
		err = share_reserve(inode->share, 1);
	if (err)
		return err;
	err = share_path_reopen(inode, share_host_flags(flags), &fd);
	return err ? err : share_file_new(inode, &fd, out);
}

int share_open_inode(struct share_inode *inode, int flags, struct share_file **out)
{
	if ((flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	if (inode->share->readonly && flags_change(flags))
		return -EROFS;
	return share_file_open(inode, flags, out);
}

/*
 * ---- contents ----
 *
 * A write, a truncation, an allocation or a copy beyond RLIMIT_FSIZE raises SIGXFSZ, which would end the process: every
 * thread of a loop has it blocked, and the guest gets EFBIG (hard case D61).
 */

int share_readv(struct share_file *file, struct iothread *io, struct io_op *op, struct iovec *iov,
		unsigned n, uint64_t off)
{
	if (off > INT64_MAX)
		return -EINVAL;
	return loop_readv(io, op, &file->io, iov, n, off);
}

int share_writev(struct share_file *file, struct iothread *io, struct io_op *op, struct iovec *iov,
		 unsigned n, uint64_t off)
{
	if (file->inode->share->readonly)
		return -EROFS;
	if (off > INT64_MAX)
		return -EINVAL;
	return loop_writev(io, op, &file->io, iov, n, off);
}

int share_fsync(struct share_file *file, struct iothread *io, struct io_op *op, bool data_only)
{
	return loop_fsync(io, op, &file->io, data_only);
}

int share_fallocate(struct share_file *file, int mode, uint64_t off, uint64_t len)
{
	if (file->inode->share->readonly)
		return -EROFS;
	if (off > INT64_MAX || len > INT64_MAX - off)
		return -EFBIG;
	return fallocate(file->io.fd, mode, (off_t)off, (off_t)len) < 0 ? -errno : 0;
}

/* Moves a position that nobody reads, as long as it is no directory's. */
int64_t share_lseek(struct share_file *file, uint64_t off, int whence)
{
	off_t found;

	if (file->inode->type != S_IFREG || off > INT64_MAX)
		return -EINVAL;
	if (whence != SEEK_DATA && whence != SEEK_HOLE && whence != SEEK_END)
		return -EINVAL;
	found = lseek(file->io.fd, (off_t)off, whence);
	return found < 0 ? -errno : found;
}

/* By what the guest has open of it: that its mode forbids it by now, or did from the beginning, binds others. */
static void *map_opened(const struct share_inode *inode, size_t len, int prot, off_t off)
{
	const struct share_file *file = inode->opens ? inode->share->files : NULL;
	void *p = MAP_FAILED;

	errno = EACCES;
	for (; file && p == MAP_FAILED; file = file->next)
		if (file->inode == inode)
			p = mmap(NULL, len, prot, MAP_SHARED, file->io.fd, off);
	return p;
}

static void *map_anywhere(struct share_inode *inode, size_t len, int prot, off_t off)
{
	auto_fd fd = -1;
	int err = share_path_reopen(inode, prot & PROT_WRITE ? O_RDWR : O_RDONLY, &fd);

	if (err == -EACCES)
		return map_opened(inode, len, prot, off);
	errno = -err;
	return err ? MAP_FAILED : mmap(NULL, len, prot, MAP_SHARED, fd, off);
}

/*
 * The mapping holds the file: its descriptor is not needed any more. It is made elsewhere and moved: some files refuse to
 * be mapped after what was at addr has been taken away.
 */
int share_map(struct share_inode *inode, void *addr, size_t len, uint64_t off, bool writable)
{
	const int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	void *p;
	int err;

	if (inode->type != S_IFREG || off > INT64_MAX - len)
		return -EINVAL;
	if (writable && inode->share->readonly)
		return -EROFS;
	err = share_inode_fd(inode);
	if (err >= 0)
		err = writable ? share_owner_may_change(inode->share, err) : 0;
	if (err)
		return err;
	p = map_anywhere(inode, len, prot, (off_t)off);
	if (p == MAP_FAILED)
		return -errno;
	if (mremap(p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, addr) != MAP_FAILED)
		return 0;
	err = -errno;
	munmap(p, len);
	return err;
}

/* ---- copies inside the host ---- */

/* What is done at once: no more than a write may bring. */
#define COPY_INLINE KIB(256)
/* The result is an int; the guest asks for the rest. */
#define COPY_MOST GIB(1)

static int copy_run(struct io_op *op)
{
	const struct share_copy *c = container_of(op, struct share_copy, op);
	off_t from = (off_t)c->from_off, to = (off_t)c->to_off;
	ssize_t n = copy_file_range(c->from->io.fd, &from, c->to->io.fd, &to, c->len, 0);

	return n < 0 ? -errno : (int)n;
}

int share_copy(struct share_copy *c, struct iothread *io)
{
	if (c->to->inode->share->readonly)
		return -EROFS;
	c->len = MIN(c->len, COPY_MOST);
	if (c->from_off > INT64_MAX - c->len)
		return -EINVAL;
	if (c->to_off > INT64_MAX - c->len)
		return -EFBIG;
	return c->len <= COPY_INLINE ? copy_run(&c->op) : loop_offload(io, &c->op, copy_run);
}

/* ---- listing ---- */

/*
 * 1, 0 at the end of the directory, -errno. Until its last entry is used up the host's position is
 * of no use.
 */
static int dir_fill(struct share_file *file)
{
	struct share *s = file->inode->share;
	ssize_t n = getdents64(file->io.fd, s->dir.buf, sizeof(s->dir.buf));

	s->dir.pos = 0;
	s->dir.len = n > 0 ? (size_t)n : 0;
	if (n <= 0)
		return n < 0 ? -errno : 0;
	file->dir_at = 0;
	return 1;
}

static const struct dirent64 *dir_entry(const struct share *s)
{
	return (const struct dirent64 *)(s->dir.buf + s->dir.pos);
}

static void dir_step(struct share_file *file)
{
	struct share *s = file->inode->share;
	const struct dirent64 *d = dir_entry(s);

	s->dir.at = (uint64_t)d->d_off;
	s->dir.pos += d->d_reclen;
	if (s->dir.pos == s->dir.len)
		file->dir_at = s->dir.at;
}

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
	struct share *s = file->inode->share;
	int got = dir_place(file, 0);

	if (got)
		return got;
	for (;;) {
		got = dir_fill(file);
		if (got <= 0)
			return got < 0 ? got : -EINVAL;
		while (s->dir.pos < s->dir.len) {
			dir_step(file);
			if (s->dir.at == off)
				return 0;
		}
	}
}

/* Offset 0 always reads the directory anew: that is how rewinddir shows what was created since. */
static int dir_seek(struct share_file *file, uint64_t off)
{
	struct share *s = file->inode->share;
	int err;

	if (off && s->dir.owner == file && s->dir.at == off)
		return 0;
	s->dir.owner = NULL;
	s->dir.pos = s->dir.len = 0;
	if (!off || off != file->dir_at) {
		err = off > INT64_MAX ? dir_rescan(file, off) : dir_place(file, off);
		if (err)
			return err;
	}
	s->dir.owner = file;
	s->dir.at = off;
	return 0;
}

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
		got = s->dir.pos < s->dir.len ? 1 : dir_fill(file);
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
