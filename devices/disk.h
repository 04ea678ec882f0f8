// SPDX-License-Identifier: Apache-2.0
/*
 * disk.h - the file or block device behind a virtio-blk: what it is, reading, writing, flushing, punching, and nothing of
 * virtio.
 *
 * Images are raw, always: the format is never guessed (hard case F12). The file is locked with an OFD lock, shared for
 * read-only and exclusive for read-write (F13).
 *
 * A struct disk never changes once it is open, so that any number of iothreads may use one: a new size, or another file,
 * is another struct disk (disk_again()), and the old one stays for as long as an operation of it is out.
 *
 *   disk.c        open, lock, size; reading and writing
 *   disk_flush.c  flushing
 *   disk_holder.c who has the lock, where it cannot be had
 *   disk_probe.c  what the file wants and can do: block sizes, alignment of O_DIRECT, discard
 *   disk_bounce.c O_DIRECT for memory that is not aligned
 *   disk_range.c  discard and zeroes
 */
#ifndef DEVICES_DISK_H
#define DEVICES_DISK_H

#include "../vmm/base.h"
#include "../vmm/cursor.h"
#include "../vmm/loop.h"

/* Block sizes in bytes. For the guest's eyes only: any whole sector of 512 bytes can be read and written. */
struct disk_geometry {
	uint32_t logical; /* 512 for files; a block device's logical block size */
	/* A power of two, at least logical: less than this makes the host read before it writes. */
	uint32_t physical;
	/* Bytes that the first physical block is short of: of a partition that does not begin on one. */
	uint32_t align;
	/* What one transfer should have at least (never 0), and best (a stripe; 0: the host does not say). */
	uint32_t io_min, io_opt;
	/* What is given back is whole ones of these; 0: discards come to nothing here. */
	uint32_t discard;
};

struct disk {
	/* The disk itself; with direct, by O_DIRECT. */
	struct io_file file;
	/*
	 * With direct, where its blocks are larger than a sector: the same through the page cache, for what is not whole
	 * blocks. Else fd is -1.
	 */
	struct io_file cached;
	/* Bytes; a multiple of 512, the rest of the file is not shown (logged once). */
	uint64_t size;
	bool readonly, is_blockdev, direct;
	/*
	 * Of direct: what the address of each piece of memory, and what its length and the offset of a transfer must be a
	 * multiple of. Powers of two; block is 512, or at least a page and a block of the file system, so that nothing that
	 * the page cache writes as one is written both ways.
	 */
	uint32_t mem_align, block;
	struct disk_geometry geometry;

	/* Private: whose descriptors these are, a reference by disk_again(); NULL: its own. */
	struct disk *lender;
	/* Private, all atomic, and all that changes; but for refs, the lender's count. */
	unsigned refs;
	int lost;                /* 0, or the -errno of a flush that failed, see disk_flush() */
	struct disk_op *flushes; /* NULL, or one is under way and these wait */
	/* The host was found not to know that. */
	bool no_punch, no_zero, no_allocate, no_discard;
};

struct disk_config {
	const char *path;
	bool readonly;
	bool direct;
};

/*
 * Main thread, before its filter. name is the device's, for messages. The caller holds the reference. 0; -errno, logged
 * with path and remedy: missing, no right, a directory or neither file nor block device, in use by another process or
 * device (-EBUSY, and who has it, where /proc tells), empty, or on a file system without O_DIRECT (-EINVAL).
 */
int disk_open(struct disk **out, const char *name, const struct disk_config *) must_check;
/*
 * The same disk as it is now, or another one in its place: old's file is asked for its size again where path is NULL or
 * names that very file; else as disk_open() with old's readonly and direct. *out is a disk of its own, also where nothing
 * has changed; the file of both, its lock and what became of its flushes are theirs together. Errors as disk_open(), and
 * old is as it was. Any one thread; with path NULL its only call is lseek.
 */
int disk_again(struct disk **out, const struct disk *old, const char *name, const char *path)
	must_check;
/* Any thread. The last put closes. NULL is fine. */
struct disk *disk_get(struct disk *);
void disk_put(struct disk *);

struct disk_range {
	uint64_t off, len; /* bytes */
};
#define DISK_RANGES_MAX 16

/*
 * One operation; embed in the request in place of the loop's struct io_op. done() as there. The disk must not go away
 * before done(), which is what disk_get() is for.
 */
struct disk_op {
	struct io_op io; /* .done is the caller's */

	/* private */
	struct disk *disk;
	struct disk_bounce *bounce;
	struct iothread *io_thread; /* of a flush: where it came from, and ends */
	struct loop_work work;
	int res;
	struct disk_op *next;
	struct cursor data; /* bounced: what is still to be moved */
	size_t moved;
	uint64_t off;
	void (*done)(struct io_op *, int res);
	struct iovec piece;
	unsigned char kind;

	/* The caller's, of disk_discard() and disk_zero(). */
	unsigned nranges;
	struct disk_range ranges[DISK_RANGES_MAX];
};

/*
 * Memory for O_DIRECT to and from what is not aligned: 256 KiB, allocated by the first operation that needs it, one at a
 * time, in the order they came. One per iothread, {0} to begin with; disk_bounce_fini() when none is out.
 */
struct disk_bounce {
	void *buf;
	struct iothread *io;
	struct disk_op *head, *tail; /* waiting; head is under way */
};
void disk_bounce_fini(struct disk_bounce *);

/*
 * As loop_readv/loop_writev: the whole of iov, or what there was; iov is consumed. The caller has checked off and length
 * against size, and both are whole sectors. -ENOMEM: no memory to bounce in.
 */
int disk_readv(struct disk *, struct iothread *, struct disk_bounce *, struct disk_op *,
	       struct iovec *, unsigned n, uint64_t off) must_check;
int disk_writev(struct disk *, struct iothread *, struct disk_bounce *, struct disk_op *,
		struct iovec *, unsigned n, uint64_t off) must_check;
/*
 * As loop_fsync(): what was written before is on the medium, the size too. One at a time of a file, whoever asks: those that
 * come meanwhile share the next one. After one has failed all later ones fail with its error: the kernel has dropped what it
 * could not write and would not say so a second time (hard case F8).
 */
int disk_flush(struct disk *, struct iothread *, struct disk_op *) must_check;
/*
 * op->ranges[0..nranges), each within the disk, are given back to the host: what they read afterwards is not said. Done
 * on a thread of the pool. res: 0; -EOPNOTSUPP where the host cannot; -errno. May have been done in part.
 */
int disk_discard(struct disk *, struct iothread *, struct disk_op *) must_check;
/*
 * The ranges read as zeros afterwards, whatever the host can or cannot; with unmap their room is given back where that
 * is possible, without it they keep it. res: 0 or -errno.
 */
int disk_zero(struct disk *, struct iothread *, struct disk_op *, bool unmap) must_check;

/* What an iothread and its pool call for a disk, and the main thread for disk_again() with path NULL. */
extern const struct syscalls disk_syscalls;

#endif
