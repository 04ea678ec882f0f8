// SPDX-License-Identifier: Apache-2.0
/*
 * p9.h - a 9P2000.L client over virtio-9p: enough of it for benchmarks beside a share's, and for tests.
 *
 * A slot has one message, in hdr_out, and its answer's fixed part in hdr_in; file data lies apart, as Linux has it.
 * Every answer on the way of tests is checked for what Linux checks: its tag, its type, and its length against what the
 * queue says was written (hard case A11). p9_faults() counts those that failed that.
 * Numbers are little-endian, as this processor's are. Spec: virtio 1.2, 5.14 (no more than the number and the tag);
 * the protocol as Linux Documentation/filesystems/9p.rst names it.
 */
#ifndef PAYLOAD_P9_H
#define PAYLOAD_P9_H

#include "virtio.h"
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h>
#include <linux/virtio_9p.h>

enum p9_type {
	P9_RLERROR = 7,
	P9_TSTATFS = 8,
	P9_TLOPEN = 12, /* an answer's type is one more than its request's */
	P9_TLCREATE = 14,
	P9_TSYMLINK = 16,
	P9_TREADLINK = 22,
	P9_TGETATTR = 24,
	P9_TSETATTR = 26,
	P9_TXATTRWALK = 30,
	P9_TXATTRCREATE = 32,
	P9_TREADDIR = 40,
	P9_TFSYNC = 50,
	P9_TLOCK = 52,
	P9_TLINK = 70,
	P9_TMKDIR = 72,
	P9_TRENAMEAT = 74,
	P9_TUNLINKAT = 76,
	P9_TVERSION = 100,
	P9_TATTACH = 104,
	P9_TFLUSH = 108,
	P9_TWALK = 110,
	P9_TREAD = 116,
	P9_TWRITE = 118,
	P9_TCLUNK = 120,
	P9_TREMOVE = 122,
};

#define P9_HEADER 7u   /* size[4] type[1] tag[2] */
#define P9_IO     11u  /* and count[4]: what comes before the data of Rread and Rreaddir */
#define P9_REPLY  256u /* longer than every answer without data */
#define P9_ROOT   0u   /* fids: of the root, of the job's file or directory, of the slots */
#define P9_FILE   1u
#define P9_DIR    2u
#define P9_SLOT   100u
#define P9_ALL    0x7ffull /* what getattr asks for: P9_STATS_BASIC */
#define P9_NOFID  0xffffffffu
#define P9_MSIZE  512000u /* as one mounts it */
#define P9_SEGS   24

/* Negotiates if the device is not up, and attaches the root. */
void p9_up(struct vdev *);
struct vq *p9_queue(void);

/* A message of the slot: begun, filled field by field, then its length is known. */
void p9_begin(uint32_t slot, enum p9_type);
void p9_u8(uint32_t slot, uint8_t);
void p9_u16(uint32_t slot, uint16_t);
void p9_u32(uint32_t slot, uint32_t);
void p9_u64(uint32_t slot, uint64_t);
void p9_name(uint32_t slot, const char *, uint32_t len);
/* data: bytes that follow it in a buffer of their own. The message's length here. */
uint32_t p9_end(uint32_t slot, uint32_t data);
/* Of the slot's answer, of which the device wrote len bytes: 0, an errno, or -1 if it is none. */
int p9_error(uint32_t slot, uint32_t len);

/* One request on slot 0 to its end; an error gives up. in, in_len: where data of the answer goes. Bytes of it. */
uint32_t p9_call(void *in, uint32_t in_len);
void p9_walk(uint32_t from, uint32_t to, const char *name); /* on slot 0 */
void p9_open(uint32_t fid, uint32_t flags);
void p9_clunk(uint32_t fid);

/* ---- for tests ---- */

/* After a reset by others: the next p9_up() begins anew. */
void p9_down(void);
unsigned p9_faults(void);
/*
 * One request on slot 0 to its end: bytes of the answer's body, which is at P9_BODY, or -errno. Data lie apart: out after the
 * message, in after the answer's count.
 */
long p9_try(const struct seg *out, uint32_t nout, const struct seg *in, uint32_t nin);
long p9_do(void);
#define P9_BODY (hdr_in[0] + P9_HEADER)
/* What is in the body of the last answer. */
uint32_t p9_get32(uint32_t off);
uint64_t p9_get64(uint32_t off);
/* Tversion: the message size that is agreed on, or -errno; said is the version in the answer. */
long p9_version(uint32_t msize, const char *version, char said[16]);

/* p9_op.c: single requests. 0 or more, or -errno. */
struct p9_attr {
	uint64_t path, nlink, size;
	uint32_t mode;
};
long p9_attach(uint32_t fid, const char *aname);
/* name NULL: a clone. */
long p9_try_walk(uint32_t from, uint32_t to, const char *name);
long p9_try_open(uint32_t fid, uint32_t flags);
long p9_try_clunk(uint32_t fid);
long p9_remove(uint32_t fid);
/* The directory's fid becomes the file's. */
long p9_create(uint32_t fid, const char *name, uint32_t flags);
long p9_getattr(uint32_t fid, struct p9_attr *);
#define P9_SET_MODE 1u
#define P9_SET_SIZE 8u
long p9_setattr(uint32_t fid, uint32_t valid, uint32_t mode, uint64_t size);
/* type: P9_TREAD, P9_TREADDIR. */
long p9_read(enum p9_type, uint32_t fid, uint64_t off, const struct seg *data, uint32_t n);
long p9_write(uint32_t fid, uint64_t off, const struct seg *data, uint32_t n);
long p9_mkdir(uint32_t dir, const char *name);
long p9_symlink(uint32_t dir, const char *name, const char *target);
long p9_link(uint32_t dir, uint32_t fid, const char *name);
long p9_unlink(uint32_t dir, const char *name, uint32_t flags);
#define P9_REMOVEDIR 0x200u
long p9_rename(uint32_t dir, const char *from, const char *to);
/* A whole file of the pattern, in requests of any size, in pieces of any size; how many were wrong. */
unsigned p9_transfer(uint32_t fid, uint32_t len, uint32_t seed, bool write);

/* p9_bench.c, p9_dir_bench.c, p9_bad_test.c */
struct job;
void p9_dir_job(struct job *, bool plus);
void p9_bad_test(struct vdev *);

#endif
