// SPDX-License-Identifier: Apache-2.0
/*
 * p9_wire.h - 9P2000.L as it lies in messages: types, numbers, the fixed parts of bodies, strings and qids.
 *
 * No header of the system describes it. A message is size[4] type[1] tag[2] and a body; the answer to type T is T + 1, or
 * Rlerror. Integers are little-endian and packed. A string is a length of two bytes and that many others, without a NUL. The
 * numbers are the protocol's own and the same on every machine, whatever those of the host are. Texts: the 9P2000 manual
 * pages intro(5) to wstat(5); the protocol notes of diod for what .L adds; Linux include/net/9p/9p.h.
 */
#ifndef DEVICES_P9_WIRE_H
#define DEVICES_P9_WIRE_H

#include "../vmm/base.h"
#include "../vmm/cursor.h"
#include "share.h"

enum p9_type {
	P9_RLERROR = 7,
	P9_TSTATFS = 8,
	P9_TLOPEN = 12,
	P9_TLCREATE = 14,
	P9_TSYMLINK = 16,
	P9_TMKNOD = 18,
	P9_TRENAME = 20,
	P9_TREADLINK = 22,
	P9_TGETATTR = 24,
	P9_TSETATTR = 26,
	P9_TXATTRWALK = 30,
	P9_TXATTRCREATE = 32,
	P9_TREADDIR = 40,
	P9_TFSYNC = 50,
	P9_TLOCK = 52,
	P9_TGETLOCK = 54,
	P9_TLINK = 70,
	P9_TMKDIR = 72,
	P9_TRENAMEAT = 74,
	P9_TUNLINKAT = 76,
	P9_TVERSION = 100,
	P9_TAUTH = 102,
	P9_TATTACH = 104,
	P9_TFLUSH = 108,
	P9_TWALK = 110,
	P9_TREAD = 116,
	P9_TWRITE = 118,
	P9_TCLUNK = 120,
	P9_TREMOVE = 122,
	P9_TYPES = 128,
};

#define P9_NOFID     UINT32_MAX
#define P9_NONUNAME  UINT32_MAX
#define P9_WALK_MAX  16
#define P9_MSIZE_MIN 4096u

struct p9_header {
	le32 size;
	uint8_t type;
	le16 tag;
} __attribute__((packed));
#define P9_HEADER sizeof(struct p9_header)
/* Header and count of Rread, Rreaddir and Twrite's answer, header and code of Rlerror: what Linux keeps apart from data. */
#define P9_SHORT (P9_HEADER + 4)

/* What kind of object, when its content last changed, and which: equal paths are one object. */
struct p9_qid {
	uint8_t type; /* P9_QT* */
	le32 version;
	le64 path;
} __attribute__((packed));
enum { P9_QTFILE = 0, P9_QTSYMLINK = 0x02, P9_QTDIR = 0x80 };

/*
 * ---- bodies ----
 *
 * Each T has its fields up to its first string, each R all of its own. Strings that follow are named beside.
 */
#define P9_BODY(name, ...)  \
	struct p9_##name {  \
		__VA_ARGS__ \
	} __attribute__((packed))

P9_BODY(tversion, le32 msize;);         /* version[s] */
P9_BODY(rversion, le32 msize;);         /* version[s] */
P9_BODY(tattach, le32 fid; le32 afid;); /* uname[s] aname[s] n_uname[4] */
P9_BODY(rattach, struct p9_qid qid;);
P9_BODY(tflush, le16 oldtag;);
P9_BODY(twalk, le32 fid; le32 newfid; le16 nwname;); /* nwname times wname[s] */
P9_BODY(rwalk, le16 nwqid;);                         /* nwqid times qid[13] */
P9_BODY(tlopen, le32 fid; le32 flags;);
P9_BODY(rlopen, struct p9_qid qid; le32 iounit;);
P9_BODY(tlcreate, le32 fid;); /* name[s], then: */
P9_BODY(tlcreate_rest, le32 flags; le32 mode; le32 gid;);
P9_BODY(tsymlink, le32 dfid;); /* name[s] symtgt[s] gid[4] */
P9_BODY(tmknod, le32 dfid;);   /* name[s], then: */
P9_BODY(tmknod_rest, le32 mode; le32 major; le32 minor; le32 gid;);
P9_BODY(tmkdir, le32 dfid;); /* name[s], then: */
P9_BODY(tmkdir_rest, le32 mode; le32 gid;);
P9_BODY(rqid, struct p9_qid qid;);      /* of Rsymlink, Rmknod, Rmkdir */
P9_BODY(trename, le32 fid; le32 dfid;); /* name[s] */
P9_BODY(treadlink, le32 fid;);
P9_BODY(rreadlink, le16 len;); /* and as many bytes */
P9_BODY(tgetattr, le32 fid; le64 mask;);
P9_BODY(rgetattr, le64 valid; struct p9_qid qid; le32 mode; le32 uid; le32 gid; le64 nlink;
	le64 rdev; le64 size; le64 blksize; le64 blocks; le64 atime_sec; le64 atime_nsec;
	le64 mtime_sec; le64 mtime_nsec; le64 ctime_sec; le64 ctime_nsec; le64 btime_sec;
	le64 btime_nsec; le64 gen; le64 data_version;);
P9_BODY(tsetattr, le32 fid; le32 valid; le32 mode; le32 uid; le32 gid; le64 size; le64 atime_sec;
	le64 atime_nsec; le64 mtime_sec; le64 mtime_nsec;);
P9_BODY(txattrwalk, le32 fid; le32 newfid;); /* name[s] */
P9_BODY(rxattrwalk, le64 size;);
P9_BODY(txattrcreate, le32 fid;); /* name[s], then: */
P9_BODY(txattrcreate_rest, le64 size; le32 flags;);
P9_BODY(tread, le32 fid; le64 offset; le32 count;);  /* Treaddir too */
P9_BODY(rread, le32 count;);                         /* and as many bytes */
P9_BODY(twrite, le32 fid; le64 offset; le32 count;); /* and as many bytes */
P9_BODY(rwrite, le32 count;);
P9_BODY(dirent, struct p9_qid qid; le64 offset; uint8_t type;); /* name[s] */
P9_BODY(tfsync, le32 fid;); /* datasync[4], which old clients do not send */
P9_BODY(tlock, le32 fid; uint8_t type; le32 flags; le64 start; le64 length;
	le32 proc_id;); /* client_id[s] */
P9_BODY(rlock, uint8_t status;);
P9_BODY(tgetlock, le32 fid; uint8_t type; le64 start; le64 length;
	le32 proc_id;);                                                  /* client_id[s] */
P9_BODY(rgetlock, uint8_t type; le64 start; le64 length; le32 proc_id;); /* client_id[s] */
P9_BODY(tlink, le32 dfid; le32 fid;);                                    /* name[s] */
P9_BODY(trenameat, le32 olddirfid;); /* oldname[s] newdirfid[4] newname[s] */
P9_BODY(tunlinkat, le32 dirfid;);    /* name[s] flags[4] */
P9_BODY(tstatfs, le32 fid;);
P9_BODY(rstatfs, le32 type; le32 bsize; le64 blocks; le64 bfree; le64 bavail; le64 files;
	le64 ffree; le64 fsid; le32 namelen;);
P9_BODY(tclunk, le32 fid;);    /* Tremove too */
P9_BODY(rlerror, le32 ecode;); /* a Linux errno, above 0 (E3) */
_Static_assert(sizeof(struct p9_rgetattr) == 153 && sizeof(struct p9_tsetattr) == 60 &&
		       sizeof(struct p9_rstatfs) == 60,
	       "packed");

/* Tgetattr and Rgetattr: what is asked for, what is told. */
enum {
	P9_GETATTR_BASIC = 0x7ff, /* mode to blocks, and three times */
	P9_GETATTR_BTIME = 0x800,
	P9_GETATTR_GEN = 0x1000,
	P9_GETATTR_DATA_VERSION = 0x2000,
};
/* Tsetattr's valid. A time without its SET is now. */
enum {
	P9_SETATTR_MODE = 1,
	P9_SETATTR_UID = 2,
	P9_SETATTR_GID = 4,
	P9_SETATTR_SIZE = 8,
	P9_SETATTR_ATIME = 16,
	P9_SETATTR_MTIME = 32,
	P9_SETATTR_CTIME = 64,
	P9_SETATTR_ATIME_SET = 128,
	P9_SETATTR_MTIME_SET = 256,
};
/* Tlopen and Tlcreate. What is not here is dropped: the rest is the guest's to do, or of one machine (E18). */
enum {
	P9_O_ACCMODE = 3, /* as O_RDONLY, O_WRONLY, O_RDWR */
	P9_O_EXCL = 0200,
	P9_O_TRUNC = 01000,
	P9_O_DIRECTORY = 0200000,
};
enum { P9_AT_REMOVEDIR = 0x200 }; /* Tunlinkat */
enum { P9_LOCK_RDLCK, P9_LOCK_WRLCK, P9_LOCK_UNLCK };
enum { P9_LOCK_BLOCK = 1, P9_LOCK_RECLAIM = 2 }; /* Tlock's flags */
enum { P9_LOCK_SUCCESS, P9_LOCK_BLOCKED, P9_LOCK_ERROR, P9_LOCK_GRACE };

/* ---- p9_wire.c ---- */

/* Numbers behind a string. 0 if there is none: the cursor's err says so. */
uint16_t p9_get_u16(struct cursor *);
uint32_t p9_get_u32(struct cursor *);
/*
 * A string of at most room - 1 bytes, with a NUL after it. -EPROTO: it runs over the end of the message;
 * -ENAMETOOLONG; -EINVAL: a NUL is in it. The cursor is past it unless -EPROTO.
 */
int p9_get_string(struct cursor *, char *s, size_t room) must_check;
/* A name of one component, checked. As name_check(), and -EPROTO. */
int p9_get_name(struct cursor *, struct name *) must_check;
/* The same, and the n bytes behind it: 0 only if both are there. */
int p9_get_name_and(struct cursor *, struct name *, void *rest, size_t n) must_check;
/* At most UINT16_MAX bytes. */
void p9_put_string(struct cursor *, const char *s, size_t len);

struct p9_qid p9_qid_of(const struct statx *);
/* By kind alone, as a listing has it; type is DT_*. */
struct p9_qid p9_qid_listed(uint64_t ino, unsigned char type);

#endif
