// SPDX-License-Identifier: Apache-2.0
/*
 * share.h - a host directory as Linux objects: what virtio-fs and virtio-9p both stand on.
 *
 * The file layer speaks Linux, the protocols speak wire: everything here takes and gives what Linux calls take and
 * give (struct statx, mode_t, O_* flags, iovecs, -errno) plus three types of its own: an object (share_inode), an
 * open one (share_file), and a checked name. share*.c is the only code that makes file system calls.
 *
 * Containment (hard cases D21, D22, D57, D58): an object is an O_PATH descriptor. Names are single checked components,
 * opened with openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS), O_PATH | O_NOFOLLOW, under a
 * directory of the table; then the descriptor is asked what it is. For I/O only regular files and directories are
 * opened, by re-opening the object through /proc/self/fd. Nothing builds a path.
 *
 * Threads: one caller at a time per share, on a thread that ran share_thread_init(); who serves a share with several
 * threads serialises them. Calls marked "unserialised" touch nothing but an open file and may run beside any other, as
 * long as the file is not closed. Errors: -errno as Linux gives it; -ESTALE for an object that has gone, -EROFS for
 * every change on a read-only share, -ENFILE for running out of descriptors (never -EMFILE).
 */
#ifndef DEVICES_SHARE_H
#define DEVICES_SHARE_H

#include "../vmm/base.h"
#include "../vmm/loop.h"
#include "../vmm/option.h"
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>

struct share;
struct share_inode;
struct share_file;

/* A checked name: 1..255 bytes, no '/', no NUL, not "." or "..". Only name_check() makes one. */
struct name {
	char s[256];
};
/* 0, -EINVAL, or -ENAMETOOLONG; n is the length without any terminator. */
int name_check(struct name *, const char *s, size_t n) must_check;

/* A security label that an object is created with: an extended attribute's name and value. Borrowed. */
struct share_label {
	const char *name;
	const void *value;
	size_t len;
};

/* Who asks, as the protocol carried it; ids are the guest's. The rest counts for what is created. */
struct cred {
	uid_t uid;
	gid_t gid;
	bool has_group; /* the caller is in group too, which owns the directory */
	gid_t group;
	mode_t umask; /* left to us where a default ACL may replace it; 0: applied already */
	const struct share_label *label; /* NULL: none */
};

/* ---- the share ---- */

enum share_owner {
	SHARE_OWNER_AUTO, /* passthrough for root, squash for others */
	SHARE_OWNER_PASSTHROUGH, /* creating calls run with the caller's fsuid/fsgid; chown is chown; needs root */
	SHARE_OWNER_SQUASH, /* the host user and guest root are one; chown to what is so already succeeds, else EPERM */
	SHARE_OWNER_MAPPED, /* owner, mode, device numbers and links are the guest's own, in user.virtfs.* as QEMU has them */
};

enum share_locks {
	SHARE_LOCKS_GUEST, /* the guest's kernel keeps them: right within one guest, no request at all */
	SHARE_LOCKS_HOST, /* open file description locks and flock() on the host */
};

struct share_config {
	char *path;
	bool readonly;
	int owner; /* enum share_owner */
	char *uid_map,
		*gid_map; /* "GUEST:HOST:COUNT GUEST:HOST:COUNT ..." on top of passthrough; NULL or "": as they are */
	bool xattr;     /* extended attributes are the guest's to use */
	bool posix_acl; /* so are access control lists; not with maps, squash or mapped */
	bool security_label; /* objects are created with the label the guest asks for; of a protocol that can say so */
	int locks;      /* enum share_locks */
	bool submounts; /* mount points below are told to the guest as such; the same */
	uint32_t
		fd_budget; /* most descriptors held, for idle and open objects together; 0: half of RLIMIT_NOFILE */
};
/* The keys every kind of share has; the device rows put them before their own: offsets are into share_config. */
#define SHARE_OPTS(type, member)                                                                   \
	{.key = "path",                                                                            \
	 .kind = OPT_STR,                                                                          \
	 .offset = offsetof(type, member.path),                                                    \
	 .required = true,                                                                         \
	 .min = 1,                                                                                 \
	 .max = 4095,                                                                              \
	 .help = "the host directory that is shared"},                                             \
		{.key = "readonly",                                                                \
		 .kind = OPT_BOOL,                                                                 \
		 .offset = offsetof(type, member.readonly),                                        \
		 .def = "false",                                                                   \
		 .help = "refuse every change, whatever the guest mounts"},                        \
		{.key = "owner",                                                                   \
		 .kind = OPT_ENUM,                                                                 \
		 .offset = offsetof(type, member.owner),                                           \
		 .def = "auto",                                                                    \
		 .names = share_owner_names,                                                       \
		 .help = "whose files they are: passthrough (needs root), squash, mapped (owners " \
			 "kept in extended attributes); auto is passthrough or squash"},           \
		SHARE_ID_MAP(type, member, uid_map, "users"),                                      \
		SHARE_ID_MAP(type, member, gid_map, "groups"),                                     \
		{.key = "xattr",                                                                   \
		 .kind = OPT_BOOL,                                                                 \
		 .offset = offsetof(type, member.xattr),                                           \
		 .def = "true",                                                                    \
		 .help = "extended attributes"},                                                   \
		{.key = "posix_acl",                                                               \
		 .kind = OPT_BOOL,                                                                 \
		 .offset = offsetof(type, member.posix_acl),                                       \
		 .def = "false",                                                                   \
		 .help = "access control lists; with owner passthrough and no maps"},              \
		{.key = "locks",                                                                   \
		 .kind = OPT_ENUM,                                                                 \
		 .offset = offsetof(type, member.locks),                                           \
		 .def = "guest",                                                                   \
		 .names = share_locks_names,                                                       \
		 .help = "where fcntl and flock locks hold: guest, within it; host, also "         \
			 "against the host and other guests"},                                     \
	{                                                                                          \
		.key = "fd_budget", .kind = OPT_U32, .offset = offsetof(type, member.fd_budget),   \
		.def = "0", .check = share_budget_check,                                           \
		.help = "descriptors the share may hold: 8 or more; 0: half of what ulimit -n "    \
			"leaves, at most 262144"                                                   \
	}
#define SHARE_ID_MAP(type, member, name, what)                                                     \
	{                                                                                          \
		.key = #name, .kind = OPT_STR, .offset = offsetof(type, member.name), .max = 4095, \
		.check = share_map_check,                                                          \
		.help = "which " what " of the host stand for the guest's: "                       \
			"GUEST:HOST:COUNT ...; others do not exist; with owner passthrough"        \
	}
extern const char *const share_owner_names[], *const share_locks_names[];
bool share_budget_check(const void *number, char err[OPT_ERR_MAX]);
bool share_map_check(const void *string, char err[OPT_ERR_MAX]);
/* Whether owner auto is passthrough here: for this user, in this container. */
bool share_owner_passes(void);

/*
 * Opens the directory and keeps it. 0; -errno logged with path and remedy (missing, not a directory, no right,
 * passthrough without root). name is for messages.
 */
int share_open(struct share **out, const char *name, const struct share_config *) must_check;
/* Everything the guest still held is dropped: inodes, files. */
void share_close(struct share *);
/* What a thread that uses a share may call. */
extern const struct syscalls share_syscalls;
/*
 * Once on each thread that makes share calls, first: its own umask 0, working directory (/proc/self/fd, from where
 * objects are reached that have no call of their own) and none of our groups. What it calls is in share_syscalls, so it
 * may run under the filter.
 */
int share_thread_init(struct share *) must_check;
/* What the guest is to be told of it. Any thread. */
const struct share_config *share_config(const struct share *);

/* ---- objects ---- */

/* The root; a new reference. */
struct share_inode *share_root(struct share *);
/* References: plain counts of ours; the protocol's lookup counts or fids stay above. put frees at 0. */
struct share_inode *share_get(struct share_inode *);
void share_put(struct share_inode *);
/*
 * A reference of who only remembers that something was found in there: for that alone, what has no name any more does not
 * keep its descriptor, and is -ESTALE when it is asked for.
 */
struct share_inode *share_note(struct share_inode *);
void share_unnote(struct share_inode *);
/* A word for whoever serves the share, so that what he keeps of an object is found without a search. NULL to begin with. */
void **share_inode_user(struct share_inode *);
/* Number of inodes in the table, for tests of leaks. */
size_t share_ninodes(const struct share *);
/* Stable 64-bit identity within the share, equal for the same object however it is reached; never 0. */
uint64_t share_ino(const struct share_inode *);

/*
 * One component under dir. The object with a reference, and its attributes (stx_ino is share_ino()). The same object
 * found twice is the same pointer (key: mount id, device, inode number).
 */
int share_lookup(struct share_inode *dir, const struct name *, struct share_inode **,
		 struct statx *) must_check;
/*
 * The same for what is shown in passing, as in a listing: most of it is never used. It may be known without having been
 * opened; then, until it is, the host can take it away (-ESTALE), but nothing else ever stands for it.
 */
int share_glance(struct share_inode *dir, const struct name *, struct share_inode **,
		 struct statx *) must_check;

/*
 * The directory above one, with a reference; the root's is itself. -ENOENT: it has left the share meanwhile. Calls of the
 * host grow with the depth.
 */
int share_parent(struct share_inode *dir, struct share_inode **, struct statx *) must_check;

/* file (may be NULL): ask the open file rather than the object. Where this and the lookups fail, *st may be anything. */
int share_getattr(struct share_inode *, struct share_file *, struct statx *) must_check;

/* The kernel's 32-bit form of a device number: low 8 bits of the minor, major, rest of the minor. */
static inline uint32_t share_rdev(const struct statx *st)
{
	return (st->stx_rdev_minor & 0xff) | st->stx_rdev_major << 8 |
	       (st->stx_rdev_minor & ~0xffu) << 12;
}

enum {
	SHARE_MODE = 1,
	SHARE_UID = 2,
	SHARE_GID = 4,
	SHARE_SIZE = 8,
	SHARE_ATIME = 16,
	SHARE_MTIME = 32,
	SHARE_KILL_PRIV =
		64, /* set-id bits and file capabilities go, as by a write of one without CAP_FSETID */
};
struct share_attr {
	unsigned mask; /* SHARE_* : what is to change */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	uint64_t size;
	struct timespec atime, mtime; /* tv_nsec may be UTIME_NOW */
};
/* A time as a wire has it. -EINVAL: of nanoseconds that a second does not have, and that would mean something to the host. */
static inline int share_time(bool now, uint64_t sec, uint64_t nsec, struct timespec *t)
{
	if (!now && nsec >= 1000000000)
		return -EINVAL;
	*t = (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = now ? UTIME_NOW : (long)nsec};
	return 0;
}
/*
 * Works on unlinked objects (D29); size through file if given, else a temporary opening. *st (may be NULL) afterwards. Ids
 * that a map does not have: -EINVAL.
 */
int share_setattr(struct share_inode *, struct share_file *, const struct share_attr *,
		  struct statx *st) must_check;

/* Bytes of the target without NUL; at most n (4096 is enough for all). */
ssize_t share_readlink(struct share_inode *, char *buf, size_t n) must_check;
int share_statfs(struct share_inode *, struct statfs *) must_check;
/* The object is where something is mounted below the share, by what share_lookup() or share_getattr() said of it. */
bool share_is_mount(const struct share_inode *, const struct statx *);
/* As loop_fsync(): syncs the object's file system, or with all, every one below the share that is known. */
int share_syncfs(struct share_inode *, struct iothread *, struct io_op *, bool all) must_check;

/* ---- extended attributes: any object, by the object itself (D41) ---- */

/*
 * name is NUL-terminated, at most XATTR_NAME_MAX. size 0 asks for the length. -EOPNOTSUPP: xattr is off, or the name is not
 * for the guest (user.virtfs.* of a mapped share, ACLs without posix_acl); a get of such a name says -ENODATA.
 */
ssize_t share_getxattr(struct share_inode *, const char *name, void *value, size_t size) must_check;
ssize_t share_listxattr(struct share_inode *, char *list, size_t size) must_check;
/* flags: 0, XATTR_CREATE, XATTR_REPLACE. kill_sgid: of an ACL that the caller's groups do not cover. */
int share_setxattr(struct share_inode *, const char *name, const void *value, size_t size,
		   int flags, bool kill_sgid) must_check;
int share_removexattr(struct share_inode *, const char *name) must_check;

/*
 * ---- names: each creating call gives the new object with a reference and its attributes ----
 *
 * -EOVERFLOW: by the maps the caller has no id on the host.
 */

int share_mknod(struct share_inode *dir, const struct name *, mode_t, dev_t, const struct cred *,
		struct share_inode **, struct statx *) must_check;
int share_mkdir(struct share_inode *dir, const struct name *, mode_t, const struct cred *,
		struct share_inode **, struct statx *) must_check;
/* target is any NUL-terminated bytes, 1..4095: data, never followed here. */
int share_symlink(struct share_inode *dir, const struct name *, const char *target,
		  const struct cred *, struct share_inode **, struct statx *) must_check;
/* *st may be NULL. */
int share_link(struct share_inode *, struct share_inode *dir, const struct name *, struct statx *st)
	must_check;
/* flags: 0 or AT_REMOVEDIR. */
int share_unlink(struct share_inode *dir, const struct name *, int flags) must_check;
/* flags: RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT as renameat2 takes them. */
int share_rename(struct share_inode *dir, const struct name *, struct share_inode *newdir,
		 const struct name *, unsigned flags) must_check;

/* ---- open files ---- */

/*
 * flags are Linux O_*: access mode, O_TRUNC, O_DIRECTORY and O_EXCL (create) count, the rest is dropped (D24, D27, D28:
 * O_APPEND, O_DIRECT, O_NOATIME, O_SYNC stays). create: host O_CREAT | O_EXCL first; on EEXIST without O_EXCL the
 * existing object is opened the safe way (D22).
 */
int share_create(struct share_inode *dir, const struct name *, int flags, mode_t,
		 const struct cred *, struct share_inode **, struct share_file **, struct statx *)
	must_check;
int share_open_inode(struct share_inode *, int flags, struct share_file **) must_check;
/* A file without a name in dir's file system (O_TMPFILE): share_link() gives it one, unless flags has O_EXCL. */
int share_tmpfile(struct share_inode *dir, int flags, mode_t, const struct cred *,
		  struct share_inode **, struct share_file **, struct statx *) must_check;
/* Closes; the io_ops of this file must be done. NULL is fine. */
void share_file_close(struct share_file *);
struct share_inode *share_file_inode(struct share_file *); /* borrowed */

/* Unserialised. As loop_readv / loop_writev / loop_fsync: bytes or -errno at once, or -EINPROGRESS. */
int share_readv(struct share_file *, struct iothread *, struct io_op *, struct iovec *, unsigned n,
		uint64_t off) must_check;
int share_writev(struct share_file *, struct iothread *, struct io_op *, struct iovec *, unsigned n,
		 uint64_t off) must_check;
int share_fsync(struct share_file *, struct iothread *, struct io_op *, bool data_only) must_check;
int share_fallocate(struct share_file *, int mode, uint64_t off, uint64_t len) must_check;
int64_t share_lseek(struct share_file *, uint64_t off, int whence)
	must_check; /* SEEK_DATA, SEEK_HOLE, SEEK_END */
/* Set-id bits and file capabilities go, where there are any: before a write that is to. */
int share_kill_priv(struct share_file *) must_check;
/*
 * copy_file_range between two open files, on another thread if it may take long: as share_readv. Embed struct share_copy in
 * the request; both files stay open until done.
 */
struct share_copy {
	struct io_op op; /* op.done is the caller's */
	struct share_file *from, *to;
	uint64_t from_off, to_off, len;
};
int share_copy(struct share_copy *, struct iothread *) must_check;
/*
 * FS_IOC_GETFLAGS, SETFLAGS, FSGETXATTR, FSSETXATTR and nothing else (-ENOTTY). arg holds the argument and takes the
 * result; in and out are the bytes the caller has sent and has room for. Bytes of the result or -errno. file may be NULL.
 */
#define SHARE_IOCTL_MAX 64
ssize_t share_ioctl(struct share_inode *, struct share_file *, unsigned cmd, void *arg, size_t in,
		    size_t out) must_check;
/*
 * Maps len bytes of a regular file from off over the addresses at addr (MAP_SHARED, MAP_FIXED); all page aligned. A
 * writable one needs a share that is. -EACCES: we may not open it so, and none of its open files is.
 */
int share_map(struct share_inode *, void *addr, size_t len, uint64_t off, bool writable) must_check;

/* ---- watching what is in files ---- */

/*
 * *fd becomes readable when a file that is watched has been written or its size has changed, by whomever on this host: what
 * other hosts do to a network file system is not seen. -errno; -EMFILE: the user's (fs.inotify.max_user_instances) or the
 * process's. Any thread; closed by the caller, who then has no watch left.
 */
int share_watches_open(int *fd) must_check;
/*
 * *number stands for the file until share_unwatch(). One file has one, also as several objects (of several mounts).
 * -EACCES: it may not be read; -ENOSPC: fs.inotify.max_user_watches.
 */
int share_watch(struct share_inode *, int fd, int *number) must_check;
void share_unwatch(int fd, int number);
/*
 * Numbers of files that have changed since, some more than once, some no longer watched; at most SHARE_CHANGES. 0: no
 * more. SHARE_CHANGED_ANY among them: too many to say which.
 */
#define SHARE_CHANGES     256
#define SHARE_CHANGED_ANY (-1)
unsigned share_changes(int fd, int number[SHARE_CHANGES]);

/* ---- locks on the host, where share_config says so ---- */

/* end is the last byte, INT64_MAX: to whatever end. type: F_RDLCK, F_WRLCK, F_UNLCK. flock: start and end do not count. */
struct share_lock {
	uint64_t start, end;
	uint64_t
		opening; /* the guest's number of the opening it is taken through: share_unlock_opening() */
	int type;
	bool flock;
	uint32_t
		pid; /* of the guest, for its F_GETLK; as an answer 0: not known, or held on the host */
};
/*
 * A lock that is waited for; embed in the request. done() is called exactly once, on the iothread that waits, from its loop:
 * never from inside a share call, so who serves a share with several threads takes his lock in done() as in any handler.
 * That is all there is to serialise: a wait tries again from a timer of its own on that iothread beside any share call,
 * and what the two share has a mutex inside.
 */
struct share_wait {
	void (*done)(struct share_wait *, int error); /* 0, -EINTR, -errno */
	struct share *share;                          /* the rest is private */
	struct share_lock_owner *owner;
	struct share_lock lock;
	struct iothread *io;
	struct loop_work work;
	struct loop_timer timer;
	uint64_t pause;
	int error;
	struct share_wait *next, **link;
};
/*
 * owner: the protocol's number for who holds locks. *lock becomes what is in the way, or F_UNLCK. These two: -EOPNOTSUPP
 * if the share's locks are the guest's.
 */
int share_getlk(struct share_inode *, uint64_t owner, struct share_lock *) must_check;
/*
 * -EAGAIN: another has it. With wait: -EINPROGRESS instead, and wait->done() is called; the iothread is the calling one.
 * -EDEADLK: it would wait for one who waits for it.
 * -EBADF: a write lock of what may not be written. -ENOLCK: too many ranges are locked.
 */
int share_setlk(struct share_inode *, uint64_t owner, const struct share_lock *, struct iothread *,
		struct share_wait *wait) must_check;
/*
 * Ends the wait, with done(-EINTR), unless it has ended; then nothing happens. Of a wait whose done() has not been called,
 * which the caller's lock tells.
 */
void share_lock_cancel(struct share_wait *);
/* The owner closed the file: its locks of this kind go. */
void share_unlock(struct share_inode *, uint64_t owner, bool flock);
/*
 * The opening ended. A process that closes gives its fcntl locks up by itself; what was taken through the opening and is
 * still there was the opening's own (F_OFD_SETLK), of which no guest says that it is over.
 */
void share_unlock_opening(struct share_inode *, uint64_t opening);
/*
 * Ends every wait with -EINTR and drops every lock of the share: a session ended. The done()s come afterwards, so the
 * iothreads still run. Before share_close() there is no wait left.
 */
void share_unlock_all(struct share *);

/*
 * Entries after the cookie off (0: from the start; re-reads the directory). fn gets each entry with the cookie of the
 * next; one it has no room for will be the next call's first. "." and ".." are among them with the right ino. Returns 0
 * or -errno (only if no entry was put anywhere, D19: what follows those that were skipped must not pass for the end).
 */
struct share_dirent {
	uint64_t ino, next;
	unsigned char type; /* DT_* */
	const char *name;
	size_t len;
};
enum share_put { SHARE_NO_ROOM, SHARE_PUT, SHARE_SKIPPED };
typedef enum share_put (*share_dirent_fn)(void *ctx, const struct share_dirent *);
int share_readdir(struct share_file *, uint64_t off, share_dirent_fn, void *ctx) must_check;

#endif
