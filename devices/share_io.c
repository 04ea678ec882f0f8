// SPDX-License-Identifier: Apache-2.0
/*
 * share_io.c - open files: their contents, and copies of them.
 *
 * Data goes between the file and the caller's buffers by the loop, at offsets that the guest names;
 * nothing here uses a file's position. Open files are counted against the share's budget. Thread: the
 * owner's. Calls: loop.h, share_inode.c, share_path.c. Spec: open(2).
 */
#include "share_int.h"
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
	if (!file)
		return;
	share_list_forget(file);
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
	share_list_free(s);
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
