// SPDX-License-Identifier: Apache-2.0
/*
 * t_p9_ops.c - what each message of the 9P server does to files, names and directories.
 *
 * The protocol around it is in t_p9.c, the file layer below in t_share.c; attributes and locks have files of their own. As
 * root it also tries devices, owners and what is mounted below. Hard cases E3, E4, E6, E9 to E11, E16 to E19, E21, E23, E24,
 * E27, E28.
 */
#include "p9_door.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

enum { F = 10, G, H, D };

/* ---- messages ---- */

static int ask_mkdir(uint32_t dir, const char *name, uint32_t mode)
{
	struct p9_rqid o;
	int r = ask(P9_TMKDIR, &o, sizeof(o), "4s44", dir, name, mode, 0u);

	always(r < 0 || (r == sizeof(o) && o.qid.type == P9_QTDIR), "a directory is one");
	return MIN(r, 0);
}

static int ask_mknod(uint32_t dir, const char *name, uint32_t mode, uint32_t major, uint32_t minor)
{
	struct p9_rqid o;
	int r = ask(P9_TMKNOD, &o, sizeof(o), "4s4444", dir, name, mode, major, minor, 0u);

	always(r < 0 || (r == sizeof(o) && o.qid.type == P9_QTFILE), "all else is like a file");
	return MIN(r, 0);
}

static int ask_symlink(uint32_t dir, const char *name, const char *target)
{
	struct p9_rqid o;
	int r = ask(P9_TSYMLINK, &o, sizeof(o), "4ss4", dir, name, target, 0u);

	always(r < 0 || (r == sizeof(o) && o.qid.type == P9_QTSYMLINK), "a link is one");
	return MIN(r, 0);
}

static int ask_link(uint32_t dir, uint32_t fid, const char *name)
{
	return tell(P9_TLINK, "44s", dir, fid, name);
}

static int ask_renameat(uint32_t dir, const char *from, uint32_t newdir, const char *to)
{
	return tell(P9_TRENAMEAT, "4s4s", dir, from, newdir, to);
}

static int ask_unlinkat(uint32_t dir, const char *name, uint32_t flags)
{
	return tell(P9_TUNLINKAT, "4s4", dir, name, flags);
}

/* ---- a fid holds an object ---- */

static void test_unlinked(void)
{
	struct p9_tsetattr cut = {.valid = le32_of(P9_SETATTR_SIZE), .size = le64_of(4)};
	struct p9_tsetattr mode = {.valid = le32_of(P9_SETATTR_MODE), .mode = le32_of(0640)};
	struct p9_rgetattr o;
	char buf[16];

	walk(ROOT, F, "");
	need(!ask_lcreate(F, "tmp", O_RDWR, 0600));
	walk(F, G, "");
	need(ask_write(F, 0, "0123456789", 10) == 10);
	is(ask_unlinkat(ROOT, "tmp", 0), 0, "a file that is open is unlinked");
	host_write("tmp", "another one", 11);
	o = attr_of(F);
	ok(le64_get(o.size) == 10 && !le64_get(o.nlink), "what is open is still itself");
	o = attr_of(G);
	ok(le64_get(o.size) == 10 && !le64_get(o.nlink), "and so is what is only known");
	is(ask_setattr(F, cut), 0, "it is cut by the one");
	is(le64_get(attr_of(G).size), 4, "as the other sees");
	cut.size = le64_of(6);
	is(ask_setattr(G, cut), 0, "and made longer by the other");
	is(ask_setattr(G, mode), 0, "its mode is set");
	is(le32_get(attr_of(F).mode), S_IFREG | 0640, "as the one sees");
	is(ask_read(F, 0, buf, 16), 6, "it is read");
	ok(!memcmp(buf, "0123\0", 6), "as it is");
	is(ask_write(F, 6, "x", 1), 1, "and written");
	is(tell(P9_TFSYNC, "44", F, 0u), 0, "and synced");
	is(ask_lopen(G, O_RDONLY), 0, "and opened once more");
	is(ask_read(G, 6, buf, 16), 1, "to be read");
	is(host_stat("tmp").st_size, 11, "what has the name now is as it was");
}

static void test_renamed(void)
{
	char buf[4];

	host_write("a", "aaa", 3);
	host_write("b", "bbb", 3);
	open_at(F, "a", O_RDWR);
	walk(ROOT, G, "a");
	is(ask_renameat(ROOT, "a", ROOT, "b"), 0, "a file that is open takes another's place");
	is(ask_read(F, 0, buf, 4), 3, "it is read");
	ok(!memcmp(buf, "aaa", 3), "itself");
	host_write("a", "new", 3);
	is(ask_lopen(G, O_RDONLY), 0, "what was known is opened");
	is(ask_read(G, 0, buf, 4), 3, "and is not what has the name now");
	ok(!memcmp(buf, "aaa", 3), "but what it was");
	is(ask_unlinkat(ROOT, "a", 0) + ask_unlinkat(ROOT, "b", 0), 0, "without any name");
	is(ask_read(G, 0, buf, 4), 3, "it still is");
}

/* ---- opening ---- */

static void test_lopen(void)
{
	struct p9_rlopen o;
	char c;

	host_write("f", "0123456789", 10);
	walk(ROOT, F, "f");
	is(ask_lopen(F, 3), -EINVAL, "there is no fourth way to open");
	is(ask(P9_TLOPEN, &o, sizeof(o), "44", F, (unsigned)O_RDONLY), sizeof(o),
	   "a file is opened");
	ok(o.qid.path.raw == attr_of(F).qid.path.raw && o.qid.type == P9_QTFILE,
	   "and told what it is");
	is(ask_lopen(F, O_RDONLY), -EBADF, "once");
	is(ask_lcreate(F, "x", O_RDWR, 0600), -EBADF, "nothing is created by it");
	is(ask_write(F, 0, "x", 1), -EBADF, "what is open to be read is not written");
	open_at(G, "f", O_WRONLY);
	is(ask_read(G, 0, &c, 1), -EBADF, "nor the other way round");
	is(host_stat("f").st_size, 10, "it is as long as it was");
	open_at(H, "f", O_RDWR | P9_O_TRUNC);
	is(host_stat("f").st_size, 0, "until it is opened to be empty");
	need(!ask_clunk(H));
	/* O_CREAT, O_EXCL, O_NOCTTY, O_APPEND, O_NONBLOCK, O_DIRECT, O_LARGEFILE, O_NOATIME, O_CLOEXEC */
	open_at(H, "f",
		O_RDWR | 0100 | 0200 | 0400 | 02000 | 04000 | 040000 | 0100000 | 01000000 |
			02000000);
	is(ask_write(H, 0, "abc", 3) + ask_write(H, 0, "x", 1), 4,
	   "an append goes where it is said");
	is(host_stat("f").st_size, 3, "whoever says so");
	need(!ask_clunk(H));
	walk(ROOT, H, "f");
	is(ask_lopen(H, P9_O_DIRECTORY), -ENOTDIR, "a file is no directory");
	walk(ROOT, D, "");
	is(ask_lopen(D, O_RDWR), -EISDIR, "and a directory no file");
	is(ask_lopen(D, O_RDONLY | P9_O_DIRECTORY), 0, "but one to list");
	is(ask_write(D, 0, "x", 1), -EBADF, "not to write");
	is(ask_read(D, 0, &c, 1), -EISDIR, "or to read");
	is(ask(P9_TREADDIR, NULL, 100, "484", F, (uint64_t)0, 100u), -ENOTDIR,
	   "a file is not listed");
}

/* What the host would do by opening them is not the guest's to have (E9). */
static void test_special(void)
{
	struct p9_rgetattr o;

	need(!mkfifoat(door.dir, "fifo", 0600) && !symlinkat("fifo", door.dir, "link"));
	need(!mknodat(door.dir, "sock", S_IFSOCK | 0600, 0));
	walk(ROOT, F, "fifo");
	is(ask_lopen(F, O_RDONLY), -ENXIO, "a fifo is not opened");
	is(ask_lopen(F, O_RDWR), -ENXIO, "in any way");
	ok(!ask_getattr(F, &o) && S_ISFIFO(le32_get(o.mode)), "it is there to be looked at");
	walk(ROOT, G, "sock");
	is(ask_lopen(G, O_RDWR), -ENXIO, "nor is a socket");
	walk(ROOT, H, "link");
	is(ask_lopen(H, O_RDONLY), -ELOOP, "a link leads to neither");
	is(ask_lcreate(ROOT, "fifo", O_RDWR, 0600), -ENXIO, "nor does creating");
	is(ask_lcreate(ROOT, "link", O_RDWR, 0600), -ELOOP, "by a link");
	is(ask_remove(F) + ask_remove(G) + ask_remove(H), 0, "they are removed");
}

static void test_lcreate(void)
{
	struct p9_rgetattr o;
	char c;

	walk(ROOT, F, "");
	is(ask_lcreate(F, "new", O_RDONLY, 0600), 0, "a file is created to be read");
	o = attr_of(F);
	ok(S_ISREG(le32_get(o.mode)) && o.qid.type == P9_QTFILE, "the fid is the file's");
	is(le32_get(o.mode) & 07777, 0600, "with the mode that was asked for");
	is(ask_read(F, 0, &c, 1), 0, "it is read");
	is(ask_write(F, 0, "x", 1), -EBADF, "and not written");
	is(ask_walk(F, G, "new", NULL), -ENOTDIR, "no directory any more");
	walk(ROOT, G, "");
	is(ask_lcreate(G, "new", O_WRONLY | P9_O_EXCL, 0600), -EEXIST, "it is not created twice");
	is(ask_walk(G, H, "new", NULL), 1, "then the fid is the directory's still");
	is(ask_lcreate(G, "new", O_WRONLY, 0644), 0, "unless it may be there");
	is(ask_write(G, 0, "abc", 3), 3, "and is written");
	is(host_stat("new").st_mode & 07777, 0600, "with the mode that it had");
	is(ask_lcreate(H, "x", O_RDWR, 0600), -ENOTDIR, "nothing is created in a file");
	walk(ROOT, D, "");
	is(ask_lcreate(D, "new", O_RDWR | P9_O_TRUNC, 0600), 0, "one that is there is made empty");
	is(host_stat("new").st_size, 0, "if asked to");
	is(tell(P9_TRENAME, "44s", D, ROOT, "new2"), 0, "the fid knows its name");
	is(ask_lcreate(ROOT, "", O_RDWR, 0600), -EINVAL, "no name is none");
	is(ask_lcreate(ROOT, "..", O_RDWR, 0600), -EINVAL, "nor is another's");
	is(ask_lcreate(ROOT, "a/b", O_RDWR, 0600), -EINVAL, "nor are two");
	is(ask_lcreate(ROOT, "x", 3, 0600), -EINVAL, "there is no fourth way to open");
	is(ask_lcreate(ROOT, "x", O_RDWR | P9_O_DIRECTORY, 0600), -EINVAL,
	   "nor is a directory made so");
	ok(!host_has("x") && attr_of(ROOT).qid.type == P9_QTDIR, "of all these nothing came");
	is(ask_lcreate(ROOT, "suid", O_RDWR, S_IFREG | 06711), 0, "a mode may have all its bits");
	is(host_stat("suid").st_mode, S_IFREG | 06711, "no umask of ours is in the way");
}

/* ---- data ---- */

static void pattern(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* The largest message, in pages behind 11 and 23 bytes, as a guest's memory is. */
static int in_pages(uint8_t type, uint32_t fid, uint8_t *data, uint32_t n)
{
	const bool write = type == P9_TWRITE;
	struct sent *s = sent_make(type, write ? 4 : 4 + (size_t)n, "484d", fid, (uint64_t)3, n,
				   data, write ? (size_t)n : 0);
	uint8_t *p = write ? s->rd + s->rd_len - n : s->wr + P9_SHORT;
	const unsigned pages = (n + 4095) / 4096;
	struct iovec *iov = calloc(pages + 2, sizeof(*iov));
	int r;

	need(iov);
	iov[0] = write ? (struct iovec){s->rd, s->rd_len - n} : (struct iovec){s->wr, P9_SHORT};
	for (unsigned i = 0; i < pages; i++)
		iov[1 + i] = (struct iovec){p + 4096 * i, MIN(4096u, n - 4096 * i)};
	if (write)
		s->req.rd = iov, s->req.nrd = pages + 1;
	else
		s->req.wr = iov, s->req.nwr = pages + 1;
	r = sent_judge(sent_send(s));
	if (!write)
		memcpy(data, p, n);
	free(iov);
	sent_free(s);
	return r;
}

static void test_data(void)
{
	static uint8_t out[MIB(1)], in[MIB(1)];
	const uint32_t most = (uint32_t)MIB(1) - 23;

	session_of((uint32_t)MIB(1));
	pattern(out, sizeof(out));
	walk(ROOT, F, "");
	need(!ask_lcreate(F, "data", O_RDWR, 0600));
	is(in_pages(P9_TWRITE, F, out, most), 4, "a message of 1 MiB in pages is written");
	is(host_stat("data").st_size, most + 3, "where it should be");
	is(in_pages(P9_TREAD, F, in, most), 4 + most, "and read");
	ok(!memcmp(in, out, most), "unchanged");
	is(ask_read(F, most, in, 4096), 3, "a read at the end is short");
	is(ask_read(F, most + 3, in, 4096), 0, "and behind it empty");
	is(ask_read(F, 0, in, 0), 0, "none may be read");
	is(ask_write(F, 0, out, 0), 0, "or written");
	is(ask_read(F, UINT64_MAX, in, 1), -EINVAL, "an offset is 63 bits");
	is(ask_write(F, UINT64_MAX, out, 1), -EINVAL, "for writing as well");
	is(ask_write(F, INT64_MAX, out, 1), -EINVAL, "up to the last byte");
	is(ask_read(F, (uint64_t)INT64_MAX - 10, in, 5), 0, "nothing is there to be read");
	is(host_stat("data").st_size, most + 3, "the file is as it was");
	for (door.layout = WHOLE; door.layout <= BYTES; door.layout++) {
		memset(in, 0, 3000);
		is(ask_write(F, 7, out + 5, 3000), 3000, "data is written in any pieces");
		is(ask_read(F, 7, in, 3000), 3000, "and read");
		ok(!memcmp(in, out + 5, 3000), "unchanged");
	}
	make_slow(F);
	is(ask_write(F, 9, out, 3000), 3000, "also by the engine");
	is(ask_read(F, 9, in, 3000), 3000, "byte by byte");
	ok(!memcmp(in, out, 3000), "unchanged");
	door.layout = WHOLE;
}

/* What is asked for is no more than there is room and leave for (E5). */
static void test_counts(void)
{
	static uint8_t data[20000];

	session_of(8192);
	host_write("f", data, sizeof(data));
	open_at(F, "f", O_RDWR);
	is(ask(P9_TREAD, NULL, 20000, "484", F, (uint64_t)0, UINT32_MAX), 8192 - 7,
	   "a read is as long as a message at most");
	is(ask(P9_TREAD, NULL, 20000, "484", F, (uint64_t)0, UINT32_MAX - 10), 8192 - 7,
	   "however much is asked for");
	is(ask(P9_TREAD, NULL, 20000, "484", F, (uint64_t)0, 8192u - 11), 8192 - 7, "just so much");
	is(ask(P9_TREAD, NULL, 20000, "484", F, (uint64_t)0, 8192u - 12), 8192 - 8,
	   "or a byte less");
	is(ask(P9_TREAD, NULL, 100, "484", F, (uint64_t)0, UINT32_MAX), 100, "or as there is room");
	is(ask(P9_TREAD, NULL, 4, "484", F, (uint64_t)0, UINT32_MAX), 4, "or none");
	is(ask(P9_TWRITE, NULL, 4, "484d", F, (uint64_t)0, UINT32_MAX, data, (size_t)100), -EINVAL,
	   "a write of more than came is none");
	is(ask(P9_TWRITE, NULL, 4, "484d", F, (uint64_t)0, 101u, data, (size_t)100), -EINVAL,
	   "by a byte");
	is(ask(P9_TWRITE, NULL, 4, "484", F, (uint64_t)0, UINT32_MAX - 22), -EINVAL, "or all");
	is(ask(P9_TWRITE, NULL, 4, "484d", F, (uint64_t)30000, 99u, data, (size_t)100), 4,
	   "one of less is so long");
	is(host_stat("f").st_size, 30099, "as it says");
	is(ask_write(F, 0, data, 8192 - 23), 8192 - 23, "a message may be full of data");
	is(ask_write(F, 0, data, 8192 - 22), -EINVAL, "and no fuller");
	make_slow(F);
	is(ask(P9_TREAD, NULL, 20000, "484", F, (uint64_t)0, UINT32_MAX), 8192 - 7,
	   "the engine reads no more either");
}

/* Errors of a large read go where its first bytes would (E4). */
static void test_errors(void)
{
	static uint8_t buf[8192];

	door.layout = LINUX;
	host_write("f", "0123456789", 10);
	open_at(F, "f", O_WRONLY);
	is(ask_read(F, 0, buf, sizeof(buf)), -EBADF, "an error has room in eleven bytes");
	is(ask_data(P9_TREADDIR, F, 0, buf, sizeof(buf)), -ENOTDIR, "of a listing too");
	make_slow(F);
	is(ask_read(F, 0, buf, sizeof(buf)), -EBADF, "also if it comes later");
	is(ask_write(F, 0, "abc", 3), 3, "what is written lies apart");
	door.layout = WHOLE;
}

static void test_fsync(void)
{
	host_write("f", "x", 1);
	open_at(F, "f", O_RDWR);
	open_at(D, "", O_RDONLY);
	is(tell(P9_TFSYNC, "44", F, 0u), 0, "a file is synced");
	is(tell(P9_TFSYNC, "44", F, 1u), 0, "or its data");
	is(tell(P9_TFSYNC, "4", F), 0, "by who does not say");
	is(tell(P9_TFSYNC, "42", F, 0u), 0, "or not all of it");
	is(tell(P9_TFSYNC, "44", D, 0u), 0, "a directory too");
	walk(ROOT, G, "f");
	is(tell(P9_TFSYNC, "44", G, 0u), -EBADF, "not what is not open");
}

/* ---- attributes ---- */

static void test_getattr(void)
{
	struct p9_rgetattr o;
	struct stat st;

	host_write("f", "0123456789", 10);
	need(!linkat(door.dir, "f", door.dir, "f2", 0));
	st = host_stat("f");
	walk(ROOT, F, "f");
	o = attr_of(F);
	is(le64_get(o.valid) & P9_GETATTR_BASIC, P9_GETATTR_BASIC, "all that is asked for is told");
	ok(le32_get(o.mode) == st.st_mode && le64_get(o.nlink) == 2, "mode and names");
	/* A plain user is the guest's root. */
	ok(le32_get(o.uid) == (geteuid() ? 0 : st.st_uid) &&
		   le32_get(o.gid) == (geteuid() ? 0 : st.st_gid),
	   "owners");
	ok(le64_get(o.size) == 10 && le64_get(o.blocks) == (uint64_t)st.st_blocks &&
		   le64_get(o.blksize) == (uint64_t)st.st_blksize,
	   "size");
	ok(le64_get(o.mtime_sec) == (uint64_t)st.st_mtim.tv_sec &&
		   le64_get(o.mtime_nsec) == (uint64_t)st.st_mtim.tv_nsec &&
		   le64_get(o.ctime_nsec) == (uint64_t)st.st_ctim.tv_nsec &&
		   le64_get(o.atime_nsec) == (uint64_t)st.st_atim.tv_nsec,
	   "and times");
	ok(!(le64_get(o.valid) & ~0x3fffull), "nothing else is said to be");
	if (!(le64_get(o.valid) & P9_GETATTR_BTIME))
		ok(!le64_get(o.btime_sec) && !le64_get(o.gen), "what is not known is nothing");
	else
		ok(le64_get(o.btime_sec) > 0 && le64_get(o.btime_nsec) < 1000000000,
		   "it has a birth");
	is(ask(P9_TGETATTR, &o, sizeof(o), "48", F, UINT64_MAX), sizeof(o),
	   "whatever is asked for");
	is(ask(P9_TGETATTR, &o, sizeof(o), "48", F, (uint64_t)0), sizeof(o), "or nothing");
	ok(le32_get(o.mode) == st.st_mode, "it is told");
}

/* A cache that compares versions sees any change (E17). */
static void test_version(void)
{
	struct p9_rgetattr a, b;
	struct p9_qid walked, file;

	host_write("f", "0123456789", 10);
	open_at(F, "f", O_RDWR);
	a = attr_of(F);
	need(ask_walk(ROOT, G, "f", &walked) == 1);
	ok(!memcmp(&walked, &a.qid, sizeof(walked)), "one object is one qid");
	file = walked;
	host_write("g", "0123456789", 10);
	need(ask_walk(ROOT, H, "g", &walked) == 1);
	ok(walked.path.raw != file.path.raw, "two are two");
	do {
		need(ask_write(F, 0, "x", 1) == 1);
		b = attr_of(F);
	} while (b.ctime_nsec.raw == a.ctime_nsec.raw);
	ok(b.qid.version.raw != a.qid.version.raw && b.data_version.raw != a.data_version.raw,
	   "when its content changes so does its version");
	ok(b.qid.path.raw == a.qid.path.raw && b.qid.type == a.qid.type, "and nothing else");
	ok(attr_of(G).qid.version.raw == b.qid.version.raw, "for every fid of it");
}

static void test_setattr(void)
{
	struct p9_tsetattr in = {.valid = le32_of(P9_SETATTR_MODE), .mode = le32_of(04755)};
	struct stat st;

	host_write("f", "0123456789", 10);
	walk(ROOT, F, "f");
	is(ask_setattr(F, in), 0, "a mode is set");
	is(host_stat("f").st_mode, S_IFREG | 04755, "with all its bits");
	in.valid = le32_of(P9_SETATTR_ATIME | P9_SETATTR_ATIME_SET | P9_SETATTR_MTIME |
			   P9_SETATTR_MTIME_SET);
	in.atime_sec = le64_of(1000);
	in.atime_nsec = le64_of(5);
	in.mtime_sec = le64_of((uint64_t)-3);
	in.mtime_nsec = le64_of(999999999);
	is(ask_setattr(F, in), 0, "times are set");
	st = host_stat("f");
	ok(st.st_atim.tv_sec == 1000 && st.st_atim.tv_nsec == 5 && st.st_mtim.tv_sec == -3 &&
		   st.st_mtim.tv_nsec == 999999999,
	   "also before all time");
	in.valid = le32_of(P9_SETATTR_MTIME);
	is(ask_setattr(F, in), 0, "or to now");
	st = host_stat("f");
	ok(st.st_mtim.tv_sec > 1000000000 && st.st_atim.tv_sec == 1000, "one of them");
	in.valid = le32_of(P9_SETATTR_ATIME | P9_SETATTR_ATIME_SET);
	in.atime_nsec = le64_of(1000000000);
	is(ask_setattr(F, in), -EINVAL, "a second has no more than its nanoseconds");
	in.atime_nsec = le64_of(UTIME_NOW);
	is(ask_setattr(F, in), -EINVAL, "not those that mean something else either");
	in.atime_nsec = le64_of(UTIME_OMIT);
	is(ask_setattr(F, in), -EINVAL, "to the host");
	in.valid = le32_of(P9_SETATTR_ATIME_SET | P9_SETATTR_MTIME_SET);
	is(ask_setattr(F, in), 0, "to set a time that is not to change is nothing");
	in.valid = le32_of(P9_SETATTR_CTIME);
	is(ask_setattr(F, in), 0, "ctime is the host's");
	in.valid = le32_of(0);
	is(ask_setattr(F, in), 0, "and nothing changes nothing");
	is(host_stat("f").st_mode, S_IFREG | 04755, "so it is as it was");
}

static void test_setattr_size(void)
{
	struct p9_tsetattr in = {.valid = le32_of(P9_SETATTR_SIZE), .size = le64_of(5)};
	struct p9_tsetattr all = {.valid = le32_of(P9_SETATTR_MODE | P9_SETATTR_SIZE |
						   P9_SETATTR_MTIME | P9_SETATTR_MTIME_SET),
				  .mode = le32_of(06711),
				  .size = le64_of(3),
				  .mtime_sec = le64_of(77)};
	struct stat st;

	host_write("f", "0123456789", 10);
	need(!mkdirat(door.dir, "d", 0755) && !mkfifoat(door.dir, "p", 0600));
	walk(ROOT, F, "f");
	is(ask_setattr(F, in), 0, "a file is cut without being open");
	is(host_stat("f").st_size, 5, "to the size that is said");
	open_at(G, "f", O_RDWR);
	need(!fchmodat(door.dir, "f", 0444, 0));
	in.size = le64_of(8);
	is(ask_setattr(G, in), 0, "what is open to be written is, whatever its mode");
	open_at(H, "f", O_RDONLY);
	in.size = le64_of(9);
	is(ask_setattr(H, in), geteuid() ? -EACCES : 0, "else its mode is asked");
	need(!fchmodat(door.dir, "f", 0644, 0));
	in.size = le64_of((uint64_t)INT64_MAX + 1);
	is(ask_setattr(G, in), -EINVAL, "a size has 63 bits");
	is(ask_setattr(F, all), 0, "size, mode and time in one");
	st = host_stat("f");
	ok(st.st_size == 3 && st.st_mode == (S_IFREG | 06711) && st.st_mtim.tv_sec == 77,
	   "all come out");
	in.size = le64_of(0);
	walk(ROOT, D, "d");
	is(ask_setattr(D, in), -EISDIR, "a directory is not cut");
	need(!ask_clunk(D));
	walk(ROOT, D, "p");
	is(ask_setattr(D, in), -EINVAL, "nor a fifo");
}

static void test_statfs(void)
{
	struct p9_rstatfs o;
	struct statfs st;

	need(!fstatfs(door.dir, &st));
	is(ask(P9_TSTATFS, &o, sizeof(o), "4", ROOT), sizeof(o), "figures are told");
	is(le32_get(o.type), 0x01021997, "of a file system of this protocol");
	ok(le32_get(o.bsize) == (uint32_t)st.f_bsize && le64_get(o.blocks) == st.f_blocks &&
		   le64_get(o.files) == st.f_files && le32_get(o.namelen) == st.f_namelen,
	   "which are the host's");
}

/* ---- names ---- */

static void test_make(void)
{
	is(ask_mkdir(ROOT, "d", 01777), 0, "a directory is made");
	is(host_stat("d").st_mode, S_IFDIR | 01777, "with its mode");
	is(ask_mkdir(ROOT, "d", 0755), -EEXIST, "once");
	is(ask_mknod(ROOT, "r", S_IFREG | 0640, 0, 0), 0, "a file without being opened");
	is(host_stat("r").st_mode, S_IFREG | 0640, "with its mode");
	is(ask_mknod(ROOT, "p", S_IFIFO | 0600, 0, 0), 0, "a fifo");
	is(ask_mknod(ROOT, "s", S_IFSOCK | 0600, 0, 0), 0, "and a socket");
	ok(S_ISFIFO(host_stat("p").st_mode) && S_ISSOCK(host_stat("s").st_mode), "are just these");
	is(ask_mknod(ROOT, "x", S_IFDIR | 0755, 0, 0), -EINVAL, "a directory is not made so");
	is(ask_mknod(ROOT, "x", S_IFLNK | 0755, 0, 0), -EINVAL, "nor a link");
	is(ask_mknod(ROOT, "x", S_IFCHR | 0600, UINT32_MAX, UINT32_MAX) < 0, 1,
	   "nor a device of no number");
	if (geteuid())
		skip("not root", "devices");
	else
		is(ask_mknod(ROOT, "c", S_IFCHR | 0600, 1, 3), 0, "a device");
	if (!geteuid()) {
		walk(ROOT, F, "c");
		is(le64_get(attr_of(F).rdev), makedev(1, 3), "has its number");
		is(ask_lopen(F, O_RDWR), -ENXIO, "and is not opened");
		is(host_stat("c").st_rdev, makedev(1, 3), "on the host too");
	}
	is(ask_symlink(ROOT, "", "t"), -EINVAL, "no name is none");
	is(ask_mkdir(ROOT, "..", 0755), -EINVAL, "nor is another's");
	is(ask_mknod(ROOT, "a/b", S_IFREG | 0600, 0, 0), -EINVAL, "nor are two");
	walk(ROOT, G, "r");
	is(ask_mkdir(G, "x", 0755), -ENOTDIR, "nothing is made in a file");
	is(ask(P9_TMKDIR, NULL, 13, "42d44", ROOT, 3u, "a\0b", (size_t)3, 0755u, 0u), -EINVAL,
	   "a name has no NUL");
	ok(!host_has("x") && !host_has("a"), "of all these nothing came");
}

static int readlink_is(uint32_t fid, const char *target)
{
	static char out[8192];
	int r = ask(P9_TREADLINK, out, sizeof(out), "4", fid);

	return r == (int)(2 + strlen(target)) && !memcmp(out + 2, target, strlen(target));
}

static void test_symlink(void)
{
	char longest[4097], out[8];

	memset(longest, 't', sizeof(longest));
	longest[4096] = 0;
	is(ask_symlink(ROOT, "l", "../out/of/here"), 0, "a link is made to anywhere");
	walk(ROOT, F, "l");
	ok(readlink_is(F, "../out/of/here"), "and says so");
	is(le64_get(attr_of(F).size), 14, "it is as long as that");
	is(ask_symlink(ROOT, "l", "x"), -EEXIST, "once");
	is(ask_symlink(ROOT, "e", ""), -ENOENT, "to nothing there is none");
	is(ask_symlink(ROOT, "e", longest), -ENAMETOOLONG, "nor to what is too long");
	is(ask(P9_TSYMLINK, NULL, 13, "4s2d4", ROOT, "e", 3u, "a\0b", (size_t)3, 0u), -EINVAL,
	   "nor to a NUL");
	longest[4095] = 0;
	is(ask_symlink(ROOT, "m", longest), 0, "4095 bytes are the most");
	walk(ROOT, G, "m");
	ok(readlink_is(G, longest), "and are told");
	is(ask(P9_TREADLINK, NULL, 4096, "4", G), -EMSGSIZE,
	   "with a byte too little room they are not");
	is(ask(P9_TREADLINK, out, sizeof(out), "4", G), -EMSGSIZE, "nor with less");
	is(ask(P9_TREADLINK, out, sizeof(out), "4", ROOT), -EINVAL, "a directory is no link");
	session_of(P9_MSIZE_MIN);
	walk(ROOT, G, "m");
	is(ask(P9_TREADLINK, NULL, 8000, "4", G), -EMSGSIZE, "nor what is longer than a message");
}

static void test_link(void)
{
	host_write("f", "x", 1);
	need(!mkdirat(door.dir, "d", 0755));
	walk(ROOT, F, "f");
	walk(ROOT, D, "d");
	is(ask_link(ROOT, F, "g"), 0, "a file gets another name");
	is(ask_link(D, F, "f"), 0, "and one elsewhere");
	is(le64_get(attr_of(F).nlink), 3, "these are three");
	is(ask_link(ROOT, F, "g"), -EEXIST, "each of them once");
	is(ask_link(ROOT, D, "e"), -EPERM, "a directory has one");
	is(ask_link(ROOT, 99, "e"), -EBADF, "what is not known has none");
	is(ask_link(F, F, "e"), -ENOTDIR, "a file holds none");
	is(ask_link(ROOT, F, "."), -EINVAL, "this is none");
	is(ask_unlinkat(ROOT, "f", 0) + ask_unlinkat(ROOT, "g", 0) + ask_unlinkat(D, "f", 0), 0,
	   "all are taken");
	ok(ask_link(ROOT, F, "e") < 0, "what has no name gets none again");
}

static void test_renameat(void)
{
	host_write("f", "f", 1);
	host_write("g", "gg", 2);
	need(!mkdirat(door.dir, "d", 0755) && !mkdirat(door.dir, "d/e", 0755));
	walk(ROOT, D, "d");
	walk(ROOT, F, "f");
	is(ask_renameat(ROOT, "f", D, "f"), 0, "a name goes to another directory");
	ok(host_has("d/f") && !host_has("f"), "it is there");
	is(ask_renameat(D, "f", ROOT, "g"), 0, "or takes the place of another");
	is(host_stat("g").st_size, 1, "which is gone");
	is(ask_renameat(ROOT, "none", ROOT, "x"), -ENOENT, "what is not there does not");
	is(ask_renameat(ROOT, "d", D, "x"), -EINVAL, "nothing goes into itself");
	is(ask_renameat(ROOT, "g", D, "e"), -EISDIR, "a file does not take a directory's place");
	is(ask_renameat(D, "e", ROOT, "g"), -ENOTDIR, "nor the other way round");
	is(ask_renameat(ROOT, "g", F, "x"), -ENOTDIR, "a file holds no names");
	is(ask_renameat(ROOT, "g", 99, "x"), -EBADF, "what is not known neither");
	is(ask_renameat(ROOT, "..", ROOT, "x"), -EINVAL, "these are none");
	is(ask_renameat(ROOT, "g", ROOT, ""), -EINVAL, "to be renamed");
	is(ask_renameat(ROOT, "g", ROOT, "a/b"), -EINVAL, "or to");
	is(tell(P9_TRENAMEAT, "4s42d", ROOT, "g", ROOT, 9u, "x", (size_t)1), -EINVAL,
	   "a name that is not all there is none");
	ok(host_has("g") && !host_has("x"), "all is as it was");
}

static void test_unlinkat(void)
{
	struct p9_rgetattr o;

	host_write("f", "x", 1);
	need(!mkdirat(door.dir, "d", 0755) && !mkdirat(door.dir, "d/e", 0755));
	is(ask_unlinkat(ROOT, "f", P9_AT_REMOVEDIR), -ENOTDIR,
	   "a file is not removed as a directory");
	is(ask_unlinkat(ROOT, "d", 0), -EISDIR, "nor the other way round");
	is(ask_unlinkat(ROOT, "d", P9_AT_REMOVEDIR), -ENOTEMPTY, "nor one that is in use");
	is(ask_unlinkat(ROOT, "f", 0x100), -EINVAL, "flags that are none are refused");
	is(ask_unlinkat(ROOT, "f", P9_AT_REMOVEDIR | 1), -EINVAL, "each of them");
	is(ask_unlinkat(ROOT, "none", 0), -ENOENT, "what is not there is not removed");
	is(ask_unlinkat(ROOT, ".", P9_AT_REMOVEDIR), -EINVAL, "nor what is no name");
	is(ask_unlinkat(ROOT, "d/e", P9_AT_REMOVEDIR), -EINVAL, "nor by two");
	is(ask_unlinkat(ROOT, "f", 0), 0, "a file is removed");
	open_at(D, "d", O_RDONLY);
	is(ask_unlinkat(D, "e", P9_AT_REMOVEDIR), 0, "a directory in one that is open");
	is(ask_unlinkat(ROOT, "d", P9_AT_REMOVEDIR), 0, "and one that is open itself");
	is(ask_getattr(D, &o), 0, "which is still known");
	is(ask(P9_TREADDIR, NULL, 100, "484", D, (uint64_t)0, 100u), -ENOENT, "and has no entries");
	ok(ask_mkdir(D, "x", 0755) < 0, "and holds nothing any more");
}

/* ---- listing ---- */

/* One entry of what Treaddir gave, at p; the next. */
static const uint8_t *entry(const uint8_t *p, const uint8_t *end, struct p9_dirent *d, char *name)
{
	le16 n;

	need(p + sizeof(*d) + sizeof(n) <= end);
	memcpy(d, p, sizeof(*d));
	memcpy(&n, p + sizeof(*d), sizeof(n));
	need(le16_get(n) < 256 && p + sizeof(*d) + sizeof(n) + le16_get(n) <= end);
	memcpy(name, p + sizeof(*d) + sizeof(n), le16_get(n));
	name[le16_get(n)] = 0;
	return p + sizeof(*d) + sizeof(n) + le16_get(n);
}

/* All names "NNNN" that are listed from off on in answers of count bytes, seen[] once more each; the number of answers. */
static unsigned list(uint64_t off, uint32_t count, unsigned *seen, bool unlinks)
{
	static uint8_t buf[65536];
	struct p9_dirent d;
	unsigned answers = 0;
	char name[256];
	int r;

	while ((r = ask_data(P9_TREADDIR, D, off, buf, count)) > 0) {
		answers++;
		always((uint32_t)r <= count, "no more is listed than asked for");
		for (const uint8_t *p = buf; p < buf + r;) {
			p = entry(p, buf + r, &d, name);
			off = le64_get(d.offset);
			if (*name == '.') {
				always(d.type == DT_DIR && d.qid.type == P9_QTDIR,
				       "dots are directories");
				continue;
			}
			always(d.type == DT_REG && d.qid.type == P9_QTFILE, "files are files");
			seen[atoi(name)]++;
			if (unlinks)
				need(!ask_unlinkat(D, name, 0));
		}
	}
	is(r, 0, "a listing ends");
	return answers;
}

#define FILES 3000
static unsigned seen[FILES];

static bool each(unsigned times)
{
	bool good = true;

	for (unsigned i = 0; i < FILES; i++)
		good &= seen[i] == times;
	memset(seen, 0, sizeof(seen));
	return good;
}

static void make_files(void)
{
	char name[16];

	need(!mkdirat(door.dir, "many", 0755));
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "many/%04u", i);
		need(!mknodat(door.dir, name, S_IFREG | 0644, 0));
	}
}

static void test_readdir(void)
{
	struct p9_qid walked;
	struct p9_dirent d;
	uint8_t buf[200];
	char name[256];
	unsigned n;
	int r;

	make_files();
	session_of(P9_MSIZE_MIN);
	open_at(D, "many", O_RDONLY);
	n = list(0, 28, seen, false);
	ok(each(1) && n >= FILES, "thousands are listed, one at a time");
	list(0, 29, seen, false);
	ok(each(1), "with a byte too little for two");
	n = list(0, 100000, seen, false);
	ok(each(1) && n > 20, "or as many as a message has");
	is(ask_data(P9_TREADDIR, D, 0, buf, 24), -EINVAL, "less than one is an error, not the end");
	is(ask_data(P9_TREADDIR, D, 0, buf, 0), -EINVAL, "also nothing at all");
	door.layout = LINUX;
	r = ask_data(P9_TREADDIR, D, 0, buf, 200);
	ok(r > 100, "it is listed behind eleven bytes");
	for (const uint8_t *p = buf; p < buf + r;) {
		p = entry(p, buf + r, &d, name);
		if (*name == '.')
			continue;
		need(ask_walk(D, G, name, &walked) == 1);
		always(walked.path.raw == d.qid.path.raw, "a listed number is the object's");
		need(!ask_clunk(G));
	}
	door.layout = WHOLE;
	is(ask_data(P9_TREADDIR, D, le64_get(d.offset), buf, 100) > 0, 1,
	   "it goes on from any entry");
	r = ask_data(P9_TREADDIR, D, UINT64_MAX, buf, 100);
	ok(r <= 0, "what is no entry's place lists nothing");
}

/* rm -r: what was listed goes, and the rest comes once (E16). */
static void test_readdir_deleting(void)
{
	make_files();
	open_at(D, "many", O_RDONLY);
	list(0, 500, seen, true);
	ok(each(1), "what is deleted while it is listed is listed once");
	is(ask_unlinkat(ROOT, "many", P9_AT_REMOVEDIR), 0, "and then nothing is left");
}

static void test_readdir_rewinds(void)
{
	uint8_t buf[400];
	int r;

	need(!mkdirat(door.dir, "d", 0755));
	open_at(D, "d", O_RDONLY);
	r = ask_data(P9_TREADDIR, D, 0, buf, 400);
	is(r, 2 * 24 + 3, "an empty directory has two entries");
	host_write("d/new", "", 0);
	is(ask_data(P9_TREADDIR, D, 0, buf, 400), r + 24 + 3, "from the beginning it is read anew");
	walk(ROOT, F, "d");
	need(!ask_lopen(F, O_RDONLY));
	is(ask_data(P9_TREADDIR, F, 0, buf, 400), r + 24 + 3, "for each who has it open");
}

/* ---- shares of other kinds ---- */

static void reopen(struct p9_config cfg, struct share_config share)
{
	door_close();
	door_open_share(cfg, share);
	session();
}

static void test_readonly(void)
{
	struct p9_tsetattr in = {.valid = le32_of(P9_SETATTR_MODE), .mode = le32_of(0777)};
	struct share_config share = PLAIN;
	char c;

	host_write("f", "x", 1);
	need(!symlinkat("t", door.dir, "l"));
	share.readonly = true;
	reopen(PLAIN_9P, share);
	walk(ROOT, F, "f");
	walk(ROOT, G, "f");
	walk(ROOT, H, "f");
	is(ask_lopen(F, O_RDWR), -EROFS, "what is read-only is not opened to be written");
	is(ask_lopen(F, O_RDONLY | P9_O_TRUNC), -EROFS, "or to be empty");
	is(ask_lopen(F, O_RDONLY), 0, "but to be read");
	is(ask_read(F, 0, &c, 1), 1, "and is");
	is(ask_write(F, 0, "y", 1), -EROFS, "not written");
	is(ask_setattr(F, in), -EROFS, "or changed");
	is(ask_lcreate(ROOT, "n", O_RDWR, 0600), -EROFS, "nothing is created");
	is(ask_mkdir(ROOT, "n", 0755), -EROFS, "no directory");
	is(ask_mknod(ROOT, "n", S_IFREG, 0, 0), -EROFS, "no node");
	is(ask_symlink(ROOT, "n", "t"), -EROFS, "no link");
	is(ask_link(ROOT, G, "n"), -EROFS, "no name");
	is(ask_renameat(ROOT, "f", ROOT, "n"), -EROFS, "none is changed");
	is(tell(P9_TRENAME, "44s", G, ROOT, "n"), -EROFS, "in either way");
	is(ask_unlinkat(ROOT, "f", 0), -EROFS, "or taken");
	is(ask_remove(H), -EROFS, "in either way");
	is(ask_clunk(H), -EBADF, "which costs a fid");
	is(tell(P9_TFSYNC, "44", F, 0u), 0, "to sync it changes nothing");
	walk(ROOT, D, "l");
	ok(readlink_is(D, "t"), "a link says where it leads");
	ok(host_has("f") && !host_has("n") && host_stat("f").st_size == 1, "all is as it was");
}

static void test_squash(void)
{
	struct p9_tsetattr chown = {.valid = le32_of(P9_SETATTR_UID), .uid = le32_of(1234)};
	struct share_config share = PLAIN;

	share.owner = SHARE_OWNER_SQUASH;
	reopen(PLAIN_9P, share);
	need(!ask_attach(F, "", 1000));
	is(ask_lcreate(F, "f", O_RDWR, 0644), 0, "anybody creates");
	is(host_stat("f").st_uid, geteuid(), "as the host's user");
	is(le32_get(attr_of(F).uid), 0, "who is the guest's root");
	is(ask_setattr(F, chown), -EPERM, "nobody else has it");
	chown.uid = le32_of(0);
	is(ask_setattr(F, chown), 0, "but he");
}

static void test_mapped(void)
{
	struct p9_tsetattr chown = {.valid = le32_of(P9_SETATTR_UID | P9_SETATTR_GID),
				    .uid = le32_of(1234),
				    .gid = le32_of(5678)};
	struct share_config share = PLAIN;
	char out[100];
	le32 uid;

	if (fsetxattr(door.dir, "user.t", "", 0, 0)) {
		skip("no extended attributes on this file system", "mapped owners");
		return;
	}
	share.owner = SHARE_OWNER_MAPPED;
	reopen(PLAIN_9P, share);
	need(!ask_attach(F, "", 1000));
	walk(F, G, "");
	is(ask_lcreate(F, "f", O_RDWR, 04755), 0, "anybody creates");
	is(le32_get(attr_of(F).uid), 1000, "and has it");
	is(le32_get(attr_of(F).mode), S_IFREG | 04755, "with all of its mode");
	is(ask_setattr(F, chown), 0, "until another has");
	ok(le32_get(attr_of(F).uid) == 1234 && le32_get(attr_of(F).gid) == 5678, "as is told");
	is(host_stat("f").st_uid, geteuid(), "the host knows nothing of it");
	snprintf(out, sizeof(out), "%s/f", door.top);
	need(getxattr(out, "user.virtfs.uid", &uid, 4) == 4);
	is(le32_get(uid), 1234, "but where it is kept");
	is(ask(P9_TXATTRWALK, out, sizeof(out), "44s", F, H, "user.virtfs.uid"), -ENODATA,
	   "which the guest does not see");
	is(ask_mknod(G, "c", S_IFCHR | 0600, 1, 3), 0, "anybody has devices");
	need(!ask_clunk(F));
	walk(ROOT, F, "c");
	ok(S_ISCHR(le32_get(attr_of(F).mode)) && le64_get(attr_of(F).rdev) == makedev(1, 3),
	   "of any number");
	ok(S_ISREG(host_stat("c").st_mode), "that are none");
	is(ask_lopen(F, O_RDWR), -ENXIO, "nor opened");
	need(!ask_symlink(ROOT, "l", "anywhere"));
	walk(ROOT, D, "l");
	ok(readlink_is(D, "anywhere"), "and links");
}

/* Who attaches makes what he makes, with the group that he says (E24); what he writes loses its set-id bits. */
static void test_owners(void)
{
	struct stat st;

	if (geteuid()) {
		skip("not root", "owners");
		return;
	}
	need(!fchmod(door.dir, 0777));
	need(!ask_attach(F, "", 1000) && !ask_attach(G, "", 1000) &&
	     !ask_attach(H, "", P9_NONUNAME));
	is(ask(P9_TLCREATE, NULL, 17, "4s444", F, "f", (unsigned)O_RDWR, 04755u, 2000u), 17,
	   "a user creates");
	st = host_stat("f");
	ok(st.st_uid == 1000 && st.st_gid == 2000, "and he has it");
	is(ask(P9_TMKDIR, NULL, 13, "4s44", G, "d", 0755u, 2000u), 13, "a directory too");
	st = host_stat("d");
	ok(st.st_uid == 1000 && st.st_gid == 2000, "with his group");
	is(ask(P9_TSYMLINK, NULL, 13, "4ss4", G, "l", "t", 2000u), 13, "a link");
	is(host_stat("l").st_uid, 1000, "is his");
	is(ask(P9_TMKNOD, NULL, 13, "4s4444", H, "p", S_IFIFO | 0600u, 0u, 0u, 7u), 13,
	   "one who has no number");
	is(host_stat("p").st_uid, 65534, "is nobody");
	is(host_stat("f").st_mode & 07777, 04755, "what is his has its set-id bits");
	is(ask_write(F, 0, "x", 1), 1, "until he writes it");
	is(host_stat("f").st_mode & 07777, 0755, "then they are gone");
	need(!fchmodat(door.dir, "f", 04755, 0));
	open_at(D, "f", O_RDWR);
	is(ask_write(D, 0, "x", 1), 1, "root writes");
	is(host_stat("f").st_mode & 07777, 04755, "and they stay");
}

/* ---- what is mounted below ---- */

static bool mount_below(const char *path)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", path, "tmpfs", 0, "size=64k"))
		return false;
	close(door.dir); /* it looks into the other namespace */
	door.dir = open(door.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return door.dir >= 0;
}

/* What is said to the user, once it is over. */
static size_t said_while(int multidevs)
{
	int pipes[2], saved = dup(STDERR_FILENO);
	char text[1000];
	ssize_t n;

	need(saved >= 0 && !pipe2(pipes, O_CLOEXEC | O_NONBLOCK));
	need(dup2(pipes[1], STDERR_FILENO) >= 0);
	reopen((struct p9_config){.msize_max = DOOR_MSIZE, .multidevs = multidevs}, PLAIN);
	(void)!ask_walk(ROOT, F, "sub/x", NULL);
	(void)!ask_walk(ROOT, G, "sub/x", NULL);
	need(dup2(saved, STDERR_FILENO) >= 0);
	n = read(pipes[0], text, sizeof(text));
	close(saved);
	close(pipes[0]);
	close(pipes[1]);
	return n > 0 ? (size_t)n : 0;
}

static void test_multidevs(void)
{
	struct p9_qid q[2], up[2];
	size_t once;
	char path[96];

	snprintf(path, sizeof(path), "%s/sub", door.top);
	need(!mkdirat(door.dir, "sub", 0755));
	if (geteuid() || !mount_below(path)) {
		skip("no mounts of its own", "what is mounted below a share");
		return;
	}
	host_write("sub/x", "x", 1);
	is(said_while(P9_REMAP), 0, "what is mounted below is there and nothing is said");
	need(ask_walk(ROOT, H, "sub/x", q) == 2);
	need(ask_walk(ROOT, D, "sub/..", up) == 2);
	ok(q[0].path.raw != attr_of(ROOT).qid.path.raw && q[0].path.raw != q[1].path.raw,
	   "with numbers of its own");
	ok(up[1].path.raw == attr_of(ROOT).qid.path.raw, "and there is a way back");
	once = said_while(P9_WARN);
	ok(once > 20, "or a word is said");
	(void)!ask_walk(ROOT, H, "sub", NULL);
	is(attr_of(F).qid.type, P9_QTFILE, "and it is there all the same");
	is(said_while(P9_FORBID), 0, "or it is not there");
	is(ask_walk(ROOT, H, "sub", NULL), -ENODEV, "in so many words");
	is(ask_walk(ROOT, H, "sub/x", NULL), -ENODEV, "nor what is in it");
	is(ask_attach(D, "sub", 0), -ENODEV, "nor does anybody begin there");
	is(ask_attach(D, "sub/x", 0), -ENODEV, "or below");
	is(ask_mkdir(ROOT, "dir", 0755), 0, "all else");
	is(ask_walk(ROOT, H, "dir", NULL), 1, "is");
	need(!umount2(path, MNT_DETACH));
}

/* ---- the run ---- */

static void (*const tests[])(void) = {
	test_unlinked,        test_renamed,  test_lopen,
	test_special,         test_lcreate,  test_data,
	test_counts,          test_errors,   test_fsync,
	test_getattr,         test_version,  test_setattr,
	test_setattr_size,    test_statfs,   test_make,
	test_symlink,         test_link,     test_renameat,
	test_unlinkat,        test_readdir,  test_readdir_deleting,
	test_readdir_rewinds, test_readonly, test_squash,
	test_mapped,          test_owners,   test_multidevs,
};

/* Each begins with an empty directory and a fresh server. */
static void run(void (*test)(void))
{
	unsigned fds = host_descriptors();

	door_open();
	session();
	test();
	need(ask_version(8192, "9P2000.L") == 8192);
	always(held_only(0), "a new session holds nothing of the old");
	door_close();
	always(host_descriptors() == fds, "the server leaves nothing behind");
	host_clear(door.dir);
}

int main(void)
{
	door_set_up("t_p9_ops");
	for (unsigned i = 0; i < ARRAY_LEN(tests); i++)
		run(tests[i]);
	setenv("WHERRY_ENGINE", "epoll", 1);
	run(test_data);
	run(test_counts);
	run(test_errors);
	run(test_fsync);
	door_tear_down();
	return done();
}
