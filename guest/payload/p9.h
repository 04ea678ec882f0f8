// SPDX-License-Identifier: Apache-2.0
/*
 * p9.h - a 9P2000.L client over virtio-9p: enough of it for benchmarks beside a share's.
 *
 * A slot has one message, in hdr_out, and its answer's fixed part in hdr_in; file data lies apart, as Linux has it.
 * Numbers are little-endian, as this processor's are. Spec: virtio 1.2, 5.14 (no more than the number and the tag);
 * the protocol as Linux Documentation/filesystems/9p.rst names it.
 */
#ifndef PAYLOAD_P9_H
#define PAYLOAD_P9_H

#include "virtio.h"
#include <linux/virtio_9p.h>

enum p9_type {
	P9_RLERROR = 7,
	P9_TLOPEN = 12, /* an answer's type is one more than its request's */
	P9_TLCREATE = 14,
	P9_TGETATTR = 24,
	P9_TREADDIR = 40,
	P9_TFSYNC = 50,
	P9_TUNLINKAT = 76,
	P9_TVERSION = 100,
	P9_TATTACH = 104,
	P9_TWALK = 110,
	P9_TREAD = 116,
	P9_TWRITE = 118,
	P9_TCLUNK = 120,
};

#define P9_HEADER 7u   /* size[4] type[1] tag[2] */
#define P9_IO     11u  /* and count[4]: what comes before the data of Rread and Rreaddir */
#define P9_REPLY  256u /* longer than every answer without data */
#define P9_ROOT   0u   /* fids: of the root, of the job's file or directory, of the slots */
#define P9_FILE   1u
#define P9_DIR    2u
#define P9_SLOT   100u
#define P9_ALL    0x7ffull /* what getattr asks for: P9_STATS_BASIC */

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

/* p9_bench.c, p9_dir_bench.c */
struct job;
void p9_dir_job(struct job *, bool plus);

#endif
