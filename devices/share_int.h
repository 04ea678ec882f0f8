// SPDX-License-Identifier: Apache-2.0
/*
 * share_int.h - what the files of the share layer (share*.c) know of each other, and nobody else.
 *
 * Two rules hold it together. A descriptor of an object is borrowed through share_inode_fd() and
 * nobody but the table knows where it came from: idle objects give theirs up when the budget is
 * full, and are found again. Opening by name and for I/O happens in share_path.c only.
 */
#ifndef DEVICES_SHARE_INT_H
#define DEVICES_SHARE_INT_H

#include "share.h"
#include "../vmm/log.h"
#include "../vmm/map.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>

/*
 * Where an object lies: two mounts of one directory have equal dev and ino, and are not the same
 * (ro and rw). Mount ids are ints, devices 32 bits in the kernel.
 */
struct inode_key {
	uint32_t mnt, dev;
	uint64_t ino;
};

/* A ring of links; one that is in no ring is linked to itself. */
struct share_ring {
	struct share_ring *prev, *next;
};
static inline void share_ring_init(struct share_ring *r)
{
	r->prev = r->next = r;
}
static inline void share_ring_del(struct share_ring *r)
{
	r->prev->next = r->next;
	r->next->prev = r->prev;
	share_ring_init(r);
}
static inline void share_ring_add(struct share_ring *after, struct share_ring *r)
{
	r->prev = after;
	r->next = after->next;
	after->next->prev = r;
	after->next = r;
}

/* Ids of the guest and of the host. */
struct id_range {
	uint32_t guest, host, count;
};
struct id_map {
	struct id_range *by_guest, *by_host; /* sorted; one allocation, at by_guest */
	unsigned n;                          /* 0: every id is itself */
};

/* What is to be made: a target is a symbolic link's, else the mode says. */
struct share_node {
	mode_t mode;
	dev_t rdev;
	const char *target;
};

/* A guest may know millions of these: nothing is in here that could be elsewhere. */
struct share_inode {
	struct share *share; /* borrowed */
	struct inode_key key;
	uint64_t ino;           /* what the guest is shown */
	void *user;             /* see share_inode_user() */
	struct share_ring used; /* in share.used, .strays or .gone, or alone */
	union {
		struct file_handle *handle; /* NULL: not asked for yet */
		struct share_place *place;  /* by_name; NULL: not known */
	} back;                             /* how it is found again */
	unsigned refs, notes;               /* notes are refs too */
	unsigned opens : 31, by_name : 1;   /* share_files of it; which of back */
	mode_t type; /* S_IFMT bits as the guest is shown them; an inode never changes them */
	int fd;      /* O_PATH: see share_inode_fd(); -1: given up; SHARE_GONE */
};
/* The fd of an object that has gone for good: its key is another's by now, and it is in share.gone. */
#define SHARE_GONE (-2)

struct share_file {
	struct share_inode *inode; /* a reference */
	struct io_file io;         /* owns io.fd */
	uint64_t dir_at;           /* directories: where the host's position stands */
	struct share_file *next, **link;
};

struct share {
	char name[32];
	struct share_config cfg; /* without the strings, which are the configuration's */
	bool readonly, squash, mapped;
	bool openat2;   /* the host has it and lets us */
	bool own_umask; /* the thread has an umask to itself */
	bool fscreate;  /* the host's SELinux labels what is made */
	uid_t uid;      /* what we are, and return to after acting for a caller */
	gid_t gid;
	struct id_map uids, gids;
	int proc; /* O_PATH on /proc/self/fd, kept as /proc may be gone later */
	uint32_t budget;
	struct log_once said_out; /* of descriptors */
	bool handles; /* objects may be found again by file handles; a test says no before it looks anything up */

	struct map inodes; /* struct inode_key -> struct share_inode, not counted in refs */
	struct map mounts; /* inode_key.mnt -> struct share_mount, as long as it has objects */
	struct share_mount *root_mount; /* the one of the root */
	struct share_ring used;         /* objects with a descriptor, the last used first */
	struct share_ring strays;       /* those that would not be found again */
	struct share_ring gone;         /* objects that are in no table any more */
	size_t nheld;                   /* objects with a descriptor */
	size_t nmounts;                 /* mounts with a descriptor */
	size_t nby_name;                /* objects that are found again by name */
	struct map places;              /* (mnt, dev) -> its index in the ids shown */
	struct share_inode *root;
	struct share_file *files;
	/* The mount whose file was last found to know no RWF_NOWAIT: the next one of it is not asked. */
	struct {
		uint64_t mnt;
		bool read, write;
	} blunt;
	size_t nfiles; /* descriptors beside those of objects: open files, owners of locks */
	size_t nsyncs; /* and those of syncs on their way: atomic, as these end beside all else */

	struct {
		pthread_mutex_t mutex; /* all of it, and the owners' fields; a leaf */
		struct map owners;     /* struct lock_key -> struct share_lock_owner */
		struct share_wait *waits, **waits_end;
		size_t ranges; /* that are locked, at most */
	} locks;

	/*
	 * What getdents returned, for the handle that read last: one for the whole share, so that a guest with many
	 * half-read directories costs nothing; a handle that lost it seeks. See share_list.c.
	 */
	struct share_list {
		struct share_file *owner;  /* who is at pos */
		struct share_file *reader; /* whose position on the host is behind the last entry */
		char *buf;
		size_t pos, len, room;
		uint64_t at;          /* cookie that the entry at pos continues */
		struct inode_key key; /* the directory that was last read from its first entry on */
		bool kept;            /* buf begins with that one, */
		bool whole;           /* and ends with its last, */
		int64_t changed;      /* as it has been since this time; ns */
	} list;
};

/* ---- share_inode.c ---- */

/*
 * The object behind an O_PATH descriptor, with a reference. Takes *fd on success: an object that is
 * known and has none gets it. -ENFILE: it would be one too many. Whoever knows dir and name of what
 * was adopted tells share_place_set().
 */
int share_inode_adopt(struct share *, int *fd, struct share_inode **, struct statx *) must_check;
/* 1 if fd, of which st was asked, is this object, which has no descriptor; 0 if not; -errno. */
int share_inode_same(struct share_inode *, int fd, const struct statx *st) must_check;
/*
 * The name is about to lose what it leads to: if that is known and has no descriptor it gets one, as
 * it will not be found again.
 */
int share_inode_retain(struct share_inode *dir, const struct name *) must_check;
/* What fd (O_PATH or not) is, in the host's words. */
int share_inode_statx(int fd, const char *name, struct statx *) must_check;
struct inode_key share_inode_key(const struct statx *);
void share_inode_free_all(struct share *);

/* ---- share_list.c ---- */

/* The handle is closed. */
void share_list_forget(struct share_file *);
void share_list_free(struct share *);

/* ---- share_number.c ---- */

/* The number shown for an object. -ENOMEM. */
int share_inode_number(struct share *, const struct inode_key *, uint64_t *ino) must_check;

/* ---- share_budget.c ---- */

/* It was used: others are rather given up. */
static inline void share_inode_use(struct share_inode *inode)
{
	struct share_ring *used = &inode->share->used;

	if (inode->fd < 0 || used->next == &inode->used)
		return;
	share_ring_del(&inode->used);
	share_ring_add(used, &inode->used);
}
/* What share_inode_fd() does for an object that gave its descriptor up. */
int share_inode_recall(struct share_inode *) must_check;
/*
 * The object's descriptor, O_PATH, or -errno (-ESTALE: it cannot be found again). Borrowed: it stays
 * open until the share_*() call that asked for it returns, if that uses no more than
 * SHARE_BORROW_MAX objects. Before share_owner_enter(): coming back may need rights of ours. Before
 * share_reserve(): it may need room.
 */
#define SHARE_BORROW_MAX 4
must_check static inline int share_inode_fd(struct share_inode *inode)
{
	if (inode->fd < 0)
		return share_inode_recall(inode);
	share_inode_use(inode);
	return inode->fd;
}
/* 0 if n more descriptors may be held, else -ENFILE (said once). Idle objects make room. */
int share_reserve(struct share *, unsigned n) must_check;
/* As share_reserve(1), but it need not be. */
bool share_has_room(struct share *);
/* The process or the host has run out: whether some objects gave theirs up, so that it is worth another try. */
bool share_yield(struct share *);
/* Says so, once, for EMFILE and ENFILE; -ENFILE. */
int share_out_of_fds(struct share *, int error);
/* Takes *fd, which has been given room, for an object that has none. */
void share_inode_hold(struct share_inode *, int *fd);
/* A share_file of it came (+1) or went (-1): meanwhile it keeps its descriptor. */
void share_inode_opens(struct share_inode *, int change);
/* Decides the budget. Logs. */
int share_budget_init(struct share *, const char *name, uint32_t wanted) must_check;

/* ---- share_handle.c ---- */

/*
 * An object of this mount comes to be known, fd and st of it: whether it is found again by name.
 * -ENOMEM.
 */
int share_mount_enter(struct share *, int fd, const struct statx *st, bool *by_name) must_check;
void share_mount_leave(struct share *, uint32_t mnt);
void share_mounts_free(struct share *);
/* Remembers the handle of an object with a descriptor. */
int share_handle_keep(struct share_inode *) must_check;
/* As share_inode_same(). */
int share_handle_same(const struct share_inode *, int fd) must_check;
/* *fd is O_PATH. -ESTALE; -EMFILE and -ENFILE as they come. */
int share_handle_open(const struct share_inode *, int *fd) must_check;

/* ---- share_place.c ---- */

/* What was found or made, or moved, is under this name of dir. For objects that are found by name. */
void share_place_set(struct share_inode *, struct share_inode *dir, const struct name *);
/* The name of dir may have come to mean what was somewhere else: the place of that, if it is known. */
void share_place_moved(struct share_inode *dir, const struct name *);
/*
 * Remembers an object with a descriptor, st of it. 1 if it will be found again where it is thought to
 * be, 0 if not; -ENOENT: it never had a name.
 */
int share_place_keep(struct share_inode *, const struct statx *st) must_check;
/* As share_inode_same(), without the key. */
bool share_place_same(const struct share_inode *, const struct statx *st);
/*
 * *fd is O_PATH. If its directory had to be opened for it, *dirfd is that. -ESTALE; -EMFILE and
 * -ENFILE as they come.
 */
int share_place_open(const struct share_inode *, int *fd, int *dirfd) must_check;
/* An object whose place was set has no descriptor yet: this is what will be looked for there. False: it has no place. */
bool share_place_expect(struct share_inode *, const struct statx *st) must_check;
/* The directory it is thought to be in; NULL: none. */
struct share_inode *share_place_dir(const struct share_inode *);

/* ---- share_path.c ---- */

/*
 * What procfs calls a descriptor, relative to share->proc. That is also the working directory of a thread that ran
 * share_thread_init(), so the name alone leads to the object for calls that take a path and no descriptor (getxattr and its
 * like, which refuse O_PATH): to the object itself, also if it is a symbolic link.
 */
struct fd_name {
	char s[16];
};
struct fd_name share_path_fd_name(int fd);
/* Opens share->proc. Logs. */
int share_path_init(struct share *, const char *name) must_check;
/* The share's own directory: *fd is O_PATH. Finds out whether openat2 may be used. Logs. */
int share_path_root(struct share *, const char *name, const char *path, int *fd) must_check;
/*
 * One component under dirfd, a name that was checked, *fd is O_PATH: to look, not for good. Errors
 * as they come, and no descriptor is given up for it.
 */
int share_path_step(struct share *, int dirfd, const char *name, int *fd) must_check;
/* One component under dir, whatever it is: *fd is O_PATH. */
int share_path_open(struct share_inode *dir, const struct name *, int *fd) must_check;
/* A new regular file without a name, in dir's file system. -EOPNOTSUPP if that has no such. */
int share_path_tmpfile(struct share_inode *dir, int flags, mode_t, int *fd) must_check;
/* A new regular file under dir: *fd is for I/O. -EEXIST if there is anything of that name. */
int share_path_create(struct share_inode *dir, const struct name *, int flags, mode_t, int *fd)
	must_check;
/* O_PATH for what is open for I/O. */
int share_path_pin(struct share *, int io_fd, int *fd) must_check;
/* A directory for I/O, from its O_PATH descriptor. */
int share_path_dir(struct share *, int fd, int *dir) must_check;
/* Opens again, with other flags, what is open for I/O. */
int share_path_again(struct share *, int io_fd, int flags, int *fd) must_check;
/* The regular file of the host that stands for a symbolic link of a mapped share, to read it. */
int share_path_reopen_link(struct share_inode *, int *fd) must_check;
/* Opens the object again, for I/O: regular files and directories only. */
int share_path_reopen(struct share_inode *, int flags, int *fd) must_check;

/* ---- share_io.c ---- */

void share_file_close_all(struct share *);
/* What of a guest's O_* flags reaches the host. */
int share_host_flags(int flags);
/* Takes *fd, and a reference of its own to inode, on success. */
int share_file_new(struct share_inode *, int *fd, struct share_file **) must_check;
/* Opens the object again, flags as the guest gave them, and whatever the share allows. */
int share_file_open(struct share_inode *, int flags, struct share_file **) must_check;

/* ---- share_lock.c ---- */

void share_lock_init(struct share *);
/* Nobody waits any more. */
void share_lock_fini(struct share *);

/* ---- share_lock_count.c ---- */

/* Ranges that are locked by the descriptor. */
int share_lock_count(const struct share *, int fd, unsigned *count) must_check;

/* ---- share_owner.c ---- */

/* Decides the mode, learns who we are; refuses what cannot go together. Logs. */
int share_owner_init(struct share *, const char *name, const struct share_config *) must_check;
void share_owner_fini(struct share *);
/*
 * What the host says of an object becomes what the guest is shown: owner and, if mapped, type, mode
 * and device number. fd: the object's, of any kind; counts for mapped only.
 */
int share_owner_show(const struct share *, int fd, struct statx *) must_check;
/*
 * 0, or -EPERM: by the maps the object is not the guest's to change. fd: the object's, of any kind.
 * Whatever changes an object, and not just a name, asks this first.
 */
int share_owner_may_change(const struct share *, int fd) must_check;
/* chown, chmod by the rules of the mode. */
int share_owner_change(struct share_inode *, const struct share_attr *) must_check;
int share_owner_chmod(struct share_inode *, mode_t) must_check;
/* As share_kill_priv(), of an object. */
int share_owner_kill_priv(struct share_inode *) must_check;
/* A mode without the bits that a write or a change of owner takes away. */
mode_t share_owner_drop_setid(mode_t);

/* ---- share_create.c ---- */

/* Removes what was made under the name, as it did not become what was asked for. Errors are nothing to report. */
void share_take_back(struct share_inode *dir, const struct name *, mode_t type);

/* ---- share_caller.c ---- */

/* Whether objects can be made with the labels that are asked for, and by whom. Logs. */
int share_caller_init(struct share *, const char *name) must_check;
/*
 * From share_owner_enter() to the end of the scope the thread acts as the caller. override: the
 * caller's right to the directory was checked by the guest, which knows all its groups; without it
 * the host checks again. -EOVERFLOW: the caller has no id on the host.
 */
struct owner_scope {
	const struct share *share; /* NULL: nothing to undo */
	bool ids, group, umask;
	int label; /* open for writing, while the host's security module has it */
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
};
int share_owner_enter(struct owner_scope *, const struct share *, const struct cred *,
		      bool override) must_check;
void share_owner_leave(struct owner_scope *);
#define auto_owner __attribute__((cleanup(share_owner_leave))) struct owner_scope
/* The mode to create with within the scope: without what the umask takes, unless the host does that. */
mode_t share_caller_mode(const struct share *, const struct cred *, mode_t);
/* Gives the new object its label, where the host did not while making it. fd: the object's, of any kind. */
int share_caller_label(const struct share *, int fd, const struct cred *) must_check;

/* ---- share_idmap.c ---- */

/* NULL or "": none. -EINVAL with a sentence, -ENOMEM. */
int share_idmap_init(struct id_map *, const char *text, char err[OPT_ERR_MAX]) must_check;
void share_idmap_fini(struct id_map *);
/* False: there is none. */
bool share_idmap_host(const struct id_map *, uint32_t guest, uint32_t *host) must_check;
uint32_t share_idmap_guest(const struct id_map *, uint32_t host);
/* Whether that is an id of the guest's, and not what stands for all that are none. */
bool share_idmap_knows(const struct id_map *, uint32_t host);

/* ---- share_mapped.c: where share->mapped ---- */

/* Once the root is there: its file system must have attributes. Logs. */
int share_mapped_init(struct share *, const char *name) must_check;
int share_mapped_show(int fd, struct statx *) must_check;
/* DT_* that the guest is to see for a regular file of the host. */
unsigned char share_mapped_dtype(int dirfd, const char *name);
int share_mapped_chown(struct share_inode *, uid_t, gid_t) must_check;
/* mode: type and all. */
int share_mapped_set_mode(int fd, mode_t mode) must_check;
/* Whether the caller may open an object of these attributes: the host cannot tell. */
bool share_mapped_allows(const struct statx *, int flags, const struct cred *);
/* Makes an object under a name that is free, else -EEXIST. */
int share_mapped_make(struct share_inode *dir, const struct name *, const struct share_node *,
		      const struct cred *) must_check;
/* And a regular file, open for I/O; name NULL: one without. */
int share_mapped_create(struct share_inode *dir, const struct name *, int flags, mode_t,
			const struct cred *, int *fd) must_check;
/* Of a file that stands for a symbolic link. */
ssize_t share_mapped_readlink(struct share_inode *, char *buf, size_t n) must_check;

#endif
