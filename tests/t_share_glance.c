// SPDX-License-Identifier: Apache-2.0
/*
 * t_share_glance.c - objects that are known from a listing and were never opened: they cost no descriptor, are found when
 * they are used, stay the guest's when their name goes, and never become another.
 */
#include "share_door.h"

static struct share_inode *glance_in(struct share_inode *dir, const char *name, struct statx *st)
{
	struct share_inode *inode = NULL;
	struct name n = nm(name);
	int err = share_glance(dir, &n, &inode, st);

	return err ? NULL : inode;
}

static struct share_inode *glance(const char *name)
{
	struct share_inode *inode;
	struct statx st;

	inode = glance_in(door.root, name, &st);
	need(inode);
	return inode;
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void host_text(const char *name, const char *text)
{
	int fd = openat(door.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static int size_of(struct share_inode *inode)
{
	struct statx st;
	int err = share_getattr(inode, NULL, &st);

	return err ? err : (int)st.stx_size;
}

/* What the file holds, read through a new opening. */
static const char *text_of(struct share_inode *inode)
{
	static char buf[64];
	struct share_file *file;
	ssize_t n;

	if (share_open_inode(inode, O_RDONLY, &file))
		return "cannot be opened";
	n = pread(file->io.fd, buf, sizeof(buf) - 1, 0);
	share_file_close(file);
	need(n >= 0);
	buf[n] = 0;
	return buf;
}

static void test_costs_nothing(void)
{
	enum { N = 200 };
	struct share_inode *all[N];
	unsigned before, wrong = 0;
	char name[16];

	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		host_text(name, name);
	}
	before = descriptors();
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		all[i] = glance(name);
		wrong += all[i] != glance(name);
		share_put(all[i]);
	}
	is(wrong, 0, "an object that is seen twice is the same");
	is(descriptors(), before, "%u objects that were only seen hold no descriptor", N);
	for (unsigned i = 0; i < N; i++) {
		struct share_inode *again;

		snprintf(name, sizeof(name), "f%u", i);
		again = find(name);
		wrong += again != all[i] || strcmp(text_of(all[i]), name) != 0;
		share_put(again);
	}
	is(wrong, 0, "a lookup finds the same object, and each is what it was seen as");
	for (unsigned i = 0; i < N; i++)
		share_put(all[i]);
}

static void test_used(void)
{
	struct share_inode *inode, *dir, *in;
	struct statx st, asked;

	host_text("file", "hello");
	need(!mkdirat(door.dir, "dir", 0755));
	host_text("dir/below", "deep");
	need(!symlinkat("a target", door.dir, "link"));
	inode = glance_in(door.root, "file", &st);
	need(inode && !share_getattr(inode, NULL, &asked));
	ok(st.stx_ino == asked.stx_ino && st.stx_ino == share_ino(inode) &&
		   st.stx_size == asked.stx_size && st.stx_mode == asked.stx_mode &&
		   st.stx_uid == asked.stx_uid,
	   "what a glance shows is what the object says");
	ok(!strcmp(text_of(inode), "hello"), "it is opened when it is used");
	share_put(inode);
	dir = glance("dir");
	in = glance_in(dir, "below", &st);
	need(in);
	share_put(dir);
	ok(!strcmp(text_of(in), "deep"),
	   "also below a directory that was only seen, and is forgotten");
	share_put(in);
	inode = glance("link");
	{
		char target[32] = "";

		is(share_readlink(inode, target, sizeof(target)), 8, "a link has its target");
	}
	share_put(inode);
}

static void test_replaced(void)
{
	struct share_inode *inode, *other;
	struct statx st;

	host_text("file", "old");
	inode = glance("file");
	need(!unlinkat(door.dir, "file", 0));
	for (unsigned i = 0; i < 32;
	     i++) { /* the number is free, and a file system may give it away at once */
		char name[16];

		snprintf(name, sizeof(name), "n%u", i);
		host_text(name, "new and longer");
	}
	host_text("file", "new and longer");
	is(size_of(inode), -ESTALE,
	   "what the host has replaced before it was opened is stale, not the new one");
	other = glance_in(door.root, "file", &st);
	need(other);
	ok(other != inode && share_ino(other) == st.stx_ino, "the new one is another object");
	ok(!strcmp(text_of(other), "new and longer"), "and itself");
	share_put(other);
	share_put(inode);
}

static void test_moved(void)
{
	struct share_inode *inode, *dir;
	struct name a = nm("a"), b = nm("b");

	need(!mkdirat(door.dir, "d", 0755));
	host_text("a", "moving");
	inode = glance("a");
	dir = glance("d");
	is(share_rename(door.root, &a, dir, &b, 0), 0, "what was only seen is renamed");
	ok(!strcmp(text_of(inode), "moving"), "and found where it is now");
	share_put(inode);
	share_put(dir);
}

static void test_unlinked(void)
{
	struct share_inode *inode, *over;
	struct name a = nm("a"), b = nm("b"), c = nm("c");

	host_text("a", "kept");
	inode = glance("a");
	is(share_unlink(door.root, &a, 0), 0, "what was only seen is unlinked by the guest");
	is(size_of(inode), 4, "who knows it has it still");
	ok(!strcmp(text_of(inode), "kept"), "with what is in it");
	share_put(inode);
	host_text("b", "under");
	host_text("c", "over");
	over = glance("b");
	is(share_rename(door.root, &c, door.root, &b, 0), 0,
	   "and so it is with what a rename replaces");
	ok(!strcmp(text_of(over), "under"), "which is still read");
	share_put(over);
}

static void test_links(void)
{
	struct share_inode *one, *two;

	host_text("one", "twice");
	need(!linkat(door.dir, "one", door.dir, "two", 0));
	one = glance("one");
	two = glance("two");
	ok(one == two, "two names of one file are one object");
	need(!unlinkat(door.dir, "one", 0));
	ok(!strcmp(text_of(one), "twice"), "found by the name seen last");
	share_put(one);
	share_put(two);
}

static void test_special(void)
{
	struct share_inode *inode;
	struct share_file *file;

	need(!mkfifoat(door.dir, "fifo", 0644));
	inode = glance("fifo");
	is(share_open_inode(inode, O_RDONLY, &file), -ENXIO,
	   "a fifo that was seen is not opened either");
	share_put(inode);
}

static void run(void (*test)(void), int owner, bool handles)
{
	begin(owner);
	door.s->handles = handles;
	test();
	finish();
}

int main(void)
{
	static void (*const tests[])(void) = {test_costs_nothing, test_used,     test_replaced,
					      test_moved,         test_unlinked, test_links,
					      test_special};
	int owner = SHARE_OWNER_AUTO;

	door_make("t_share_glance", 0, 0);
	for (unsigned i = 0; i < ARRAY_LEN(tests); i++) {
		run(tests[i], owner, true);
		run(tests[i], owner, false);
	}
	door_remove();
	return done();
}
