// SPDX-License-Identifier: Apache-2.0
/*
 * t_dax_change.c - files that become shorter and longer while a guest has them mapped.
 *
 * A page of a mapping that is behind the end of its file must never be left to the guest: where KVM asks for it, asking
 * has no end (hard case D67). So each test looks at pages behind the end as a guest does, which here would be a SIGBUS.
 */
#include "dax_rig.h"

#define AT   GIB(16)
#define MANY MIB(512)

static struct rig r;

/* ---- the host's side ---- */

/* The file has n pages, each with the letter at its beginning. */
static void resize(const char *name, char letter, uint64_t n)
{
	int fd = openat(top_dir, name, O_RDWR | O_CLOEXEC);

	need(fd >= 0 && !ftruncate(fd, (off_t)(n * page)));
	for (uint64_t i = 0; i < n; i++)
		need(pwrite(fd, &letter, 1, (off_t)(i * page)) == 1);
	close(fd);
}

static void cut(const char *name, uint64_t size)
{
	int fd = openat(top_dir, name, O_RDWR | O_CLOEXEC);

	need(fd >= 0 && !ftruncate(fd, (off_t)size));
	close(fd);
}

static int64_t size_of(const char *name)
{
	struct stat st;

	need(!fstatat(top_dir, name, &st, 0));
	return st.st_size;
}

static void fresh(void)
{
	simply(&r, RESET, NULL);
	resize("a", 'a', 4);
	resize("b", 'b', 4);
}

/* ---- the process's side ---- */

/* Mappings in the window's first len bytes that are of a file, or of memory that can be touched. */
static unsigned mappings(uint64_t len, bool of_file)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to, ino;
	char line[1024], prot[8];
	unsigned n = 0;

	need(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &from, &to, prot, &ino) == 4 &&
		    from >= (uintptr_t)r.w->host && from < (uintptr_t)r.w->host + len)
			n += of_file ? ino != 0 : !ino && prot[0] == 'r';
	fclose(f);
	return n;
}

static unsigned watches(void)
{
	char path[64], line[256];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", dax_events(r.dax));
	f = fopen(path, "re");
	need(f);
	while (fgets(line, sizeof(line), f))
		n += !strncmp(line, "inotify ", 8);
	fclose(f);
	return n;
}

/* The window's first pages as letters: '.' for zeros, ' ' for nothing. */
static const char *seen(unsigned npages)
{
	static char s[128];

	for (unsigned i = 0; i < npages; i++) {
		char c = is_there(&r, i * page) ? look(&r, i * page) : ' ';

		s[i] = c ? c : '.';
	}
	s[npages] = '\0';
	return s;
}

static void sees(const char *want, const char *what)
{
	const char *got = seen((unsigned)strlen(want));

	ok(!strcmp(got, want), "%s: \"%s\"", what, got);
}

/* The guest is about to know a size. */
static void tell(struct share_inode *inode, uint64_t npages)
{
	struct job j = {.r = &r, .what = SHOW, .inode = inode, .len = npages * page};

	loop_call(r.io, work, &j);
}

/* ---- tests ---- */

static void t_cut(void)
{
	struct share_inode *a = inode_of(&r, "a");

	fresh();
	need(!map(&r, a, 0, 0, 4 * page, true) && !changed(&r));
	ok(!dax_hides(r.dax), "a file as long as its mapping hides nothing");
	cut("a", page + 1);
	ok(changed(&r), "the host cuts it, which is heard of");
	sees("aa.. ", "behind its last page are zeros");
	ok(mappings(SIZE, true) == 1 && mappings(SIZE, false) == 1, "of the machine's own");
	ok(dax_hides(r.dax), "so something is hidden");
	r.w->host[0] = 'x';
	r.w->host[2 * page] = 'y';
	ok(size_of("a") == (int64_t)page + 1 && look(&r, 2 * page) == 'y',
	   "what is written there is not the file's");
	sees("xay. ", "and the rest still is");
	resize("a", 'A', 3);
	ok(changed(&r), "it grows");
	sees("AAA. ", "and is shown as far as it goes");
	resize("a", 'B', 4);
	need(changed(&r));
	sees("BBBB ", "to its end");
	ok(mappings(SIZE, true) == 1 && !mappings(SIZE, false) && !dax_hides(r.dax),
	   "in one mapping, with nothing hidden");
	r.w->host[3 * page] = 'z';
	resize("a", 'C', 0);
	need(changed(&r));
	sees(".... ", "an empty one is zeros");
	simply(&r, PUT, a);
}

/* A guest may think that a file is longer than it is by the time it is mapped. */
static void t_behind(void)
{
	struct share_inode *a = inode_of(&r, "a");

	fresh();
	need(!map(&r, a, 0, 0, 7 * page, true));
	sees("aaaa... ", "a mapping longer than its file ends in zeros");
	ok(dax_hides(r.dax), "which are hiding something");
	resize("a", 'A', 5);
	tell(a, 5);
	sees("AAAAA", "what the guest is told of is shown before it knows");
	ok(!dax_hides(r.dax) && mappings(SIZE, true) == 1 && !mappings(SIZE, false),
	   "with all of the mapping, as the guest knows the end now");
	need(changed(&r));
	ok(!dax_hides(r.dax), "hearing of that too changes nothing");
	resize("a", 'B', 6);
	need(changed(&r));
	ok(look(&r, 5 * page) == 'B' && !dax_hides(r.dax), "nor does further growth");
	cut("a", 2 * page);
	need(changed(&r));
	sees("BB..... ", "until the host cuts it");
	tell(a, 2);
	tell(a, 1);
	sees("BB..... ", "to be told less shows no more");
	is(map(&r, a, 4 * page, 8 * page, 2 * page, false), 0, "a mapping wholly behind the end");
	sees("BB..... .", "is zeros");
	ok(is_there(&r, 9 * page) && !look(&r, 9 * page), "all of it");
	simply(&r, PUT, a);
}

static void t_pieces(void)
{
	struct share_inode *a = inode_of(&r, "a"), *b = inode_of(&r, "b");

	fresh();
	resize("a", 'a', 8);
	need(!map(&r, a, 0, 0, 8 * page, true));
	need(!unmap(&r, 2 * page, page));
	need(!map(&r, b, 0, 5 * page, page, false));
	need(!map(&r, a, 0, 9 * page, 2 * page, false));
	sees("aa aabaa aa", "a mapping that was cut up");
	cut("a", page);
	need(changed(&r));
	sees("a. ..b.. a.", "ends in zeros in each of its pieces, and nothing else does");
	need(!unmap(&r, 3 * page, page) && !map(&r, a, 0, 7 * page, page, true));
	sees("a.  .b.a a.", "pieces of it go, and others come");
	resize("a", 'A', 5);
	need(changed(&r));
	sees("AA  Ab.A AA", "what comes back is where it belongs");
	cut("b", 0);
	need(changed(&r));
	sees("AA  A..A AA", "the other file has an end of its own");
	simply(&r, RESET, NULL);
	resize("a", 'a', 4);
	resize("b", 'b', 4);
	(void)changed(&r);
	ok(!is_there(&r, 0) && !is_there(&r, 5 * page) && !dax_hides(r.dax),
	   "after the session nothing comes back");
	simply(&r, PUT, a);
	simply(&r, PUT, b);
}

static void t_watches(void)
{
	struct share_inode *a, *b;
	size_t known = share_ninodes(r.share);

	fresh();
	a = inode_of(&r, "a");
	b = inode_of(&r, "b");
	is(watches(), 0, "what is not mapped is not watched");
	need(!map(&r, a, 0, 0, 4 * page, false) && !map(&r, a, 0, 4 * page, page, false));
	is(watches(), 1, "a file that is mapped is, once");
	need(!map(&r, b, 0, 5 * page, page, false));
	is(watches(), 2, "so is another");
	ok(map(&r, b, 0, 4 * page, page + 1, false) == -EINVAL && watches() == 2,
	   "a mapping that is refused changes nothing");
	simply(&r, PUT, a);
	simply(&r, PUT, b);
	is(share_ninodes(r.share), known + 2, "both are kept though the guest forgot them");
	need(!unmap(&r, page, 4 * page));
	is(watches(), 2, "as long as any part is mapped");
	need(!unmap(&r, 0, page));
	is(watches(), 1, "when the last goes the watch does");
	is(share_ninodes(r.share), known + 1, "and so does the object");
	b = inode_of(&r, "b");
	need(!map(&r, b, 0, 5 * page, page, true));
	is(watches(), 1, "one mapping in the place of another is watched on");
	simply(&r, RESET, NULL);
	is(watches(), 0, "in the end there are none");
	simply(&r, PUT, b);
}

/* More than the host keeps, of two files in turn, as events that are alike become one. */
static void t_overflow(void)
{
	struct share_inode *a = inode_of(&r, "a"), *b = inode_of(&r, "b"), *c;
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	unsigned most = 0;
	int fa, fb;

	fresh();
	close(host_file("c", 'c', 4 * page));
	c = inode_of(&r, "c");
	fa = openat(top_dir, "a", O_WRONLY | O_CLOEXEC);
	fb = openat(top_dir, "b", O_WRONLY | O_CLOEXEC);
	need(f && fscanf(f, "%u", &most) == 1 && fa >= 0 && fb >= 0);
	fclose(f);
	need(!map(&r, a, 0, 0, page, false) && !map(&r, b, 0, page, page, false));
	need(!map(&r, c, 0, 2 * page, 2 * page, false));
	for (unsigned i = 0; i <= most / 2; i++)
		need(pwrite(fa, "a", 1, 0) == 1 && pwrite(fb, "b", 1, 0) == 1);
	cut("c", page);
	for (unsigned i = 0; i < most / (64 * SHARE_CHANGES) + 1; i++)
		changed(&r);
	sees("abc.", "a cut whose event was lost is seen all the same");
	ok(!changed(&r), "and nothing is left to read");
	close(fa);
	close(fb);
	need(!unlinkat(top_dir, "c", 0));
	simply(&r, RESET, NULL);
	simply(&r, PUT, a);
	simply(&r, PUT, b);
	simply(&r, PUT, c);
}

static void t_many_writes(void)
{
	struct share_inode *a = inode_of(&r, "a");
	int fd = openat(top_dir, "a", O_WRONLY | O_CLOEXEC);
	unsigned calls = 0;

	fresh();
	need(fd >= 0 && !map(&r, a, 0, 0, 8 * page, true));
	tell(a, 4);
	for (unsigned i = 0; i < 1000; i++) {
		need(pwrite(fd, "w", 1, (off_t)(i % 4 * page)) == 1);
		if (i % 100 == 99)
			calls += changed(&r);
	}
	is(calls, 10, "a hundred writes are one thing to look at");
	sees("wwww.... ", "and change nothing but what was written");
	ok(mappings(SIZE, true) == 1 && mappings(SIZE, false) == 1, "in the same mappings");
	for (unsigned i = 4; i < 64; i++) {
		tell(a, i); /* as the guest's own write would */
		need(pwrite(fd, "g", 1, (off_t)(i * page)) == 1);
		tell(a, i + 1);
		(void)changed(&r);
	}
	sees("wwwwgggg ", "a file that grows step by step is shown");
	ok(mappings(SIZE, true) == 1 && !mappings(SIZE, false), "in one mapping");
	close(fd);
	simply(&r, PUT, a);
}

/* Where there can be no watch a file is mapped all the same. */
static void t_unwatched(void)
{
	struct share_inode *a = inode_of(&r, "a");
	int own = r.dax->watches;

	fresh();
	(void)changed(&r);
	r.dax->watches = open("/dev/null", O_RDWR | O_CLOEXEC);
	need(r.dax->watches >= 0);
	is(map(&r, a, 0, 0, 5 * page, true), 0, "a file that cannot be watched is mapped");
	sees("aaaa. ", "and shown to its end");
	tell(a, 5);
	ok(!dax_hides(r.dax), "and where the guest makes it longer");
	ok(r.dax->said_unwatched.said, "of which the administrator is told");
	simply(&r, RESET, NULL);
	close(r.dax->watches);
	r.dax->watches = -1;
	is(map(&r, a, 0, 0, 4 * page, true), 0, "so it is where nothing can be watched");
	simply(&r, RESET, NULL);
	r.dax->watches = own;
	simply(&r, PUT, a);
}

/* One piece of two pages, then as many others as there may be. */
static void t_full(void)
{
	struct share_inode *a, *b;
	uint64_t off;

	rig_create(&r, fg_create(MIB(4)), false, AT, MANY);
	fresh();
	a = inode_of(&r, "a");
	b = inode_of(&r, "b");
	need(!map(&r, a, 0, 0, 3 * page, true));
	for (off = 4 * page; off < MANY && !map(&r, b, 0, off, page, false); off += 2 * page)
		;
	ok(off < MANY, "the window is as full as it may be");
	cut("a", page);
	need(changed(&r));
	sees("... b b", "a piece that cannot be cut is zeros as a whole");
	is(map(&r, a, 0, 2 * page, page, true), -ENOMEM, "nothing more is mapped");
	is(unmap(&r, 2 * page, page), -ENOMEM, "or cut up");
	sees("... b b", "which changes nothing");
	simply(&r, PUT, a);
	simply(&r, PUT, b);
	fg_destroy(rig_close(&r));
}

/* ---- against a model ---- */

#define PAGES 48
#define FILES 3

static struct {
	struct share_inode *inode;
	uint64_t npages;
	bool told; /* the guest knows the end, so behind it there may be nothing */
	char name[2];
} file[FILES];
static struct {
	unsigned file; /* 0: nothing; else one more than its number */
	uint64_t page;
} is_at[PAGES];

static void step(unsigned what, unsigned f, uint64_t at, uint64_t len, uint64_t from)
{
	if (what < 4)
		need(!map(&r, file[f].inode, from * page, at * page, len * page, what & 1));
	else if (what < 6)
		need(!unmap(&r, at * page, len * page));
	else {
		const bool grows = from > file[f].npages;

		file[f].npages = from;
		resize(file[f].name, file[f].name[0], from);
		file[f].told = what == 6 || (file[f].told && grows);
		if (what == 6)
			tell(file[f].inode, from);
		(void)changed(&r);
	}
	for (uint64_t i = at; what < 6 && i < at + len; i++) {
		is_at[i].file = what < 4 ? f + 1 : 0;
		is_at[i].page = from + i - at;
	}
}

/* Page i of the window, that shows page at of file f. */
static bool shows(unsigned i, unsigned f, uint64_t at)
{
	const bool ends = at >= file[f].npages;

	if (!is_there(&r, i * page))
		return ends && file[f].told;
	return look(&r, i * page) == (ends ? 0 : file[f].name[0]);
}

static bool as_modelled(void)
{
	for (unsigned i = 0; i < PAGES; i++) {
		const unsigned f = is_at[i].file;

		if (f ? !shows(i, f - 1, is_at[i].page) : is_there(&r, i * page))
			return false;
	}
	return true;
}

/* What the files know of their pieces is what lies in the window. */
static bool is_sound(void)
{
	unsigned short_ones = 0, n = 0;
	uint64_t last = 0;

	for (unsigned i = 0; i < r.dax->npieces; i++) {
		const struct dax_piece *p = r.dax->piece[i];

		if (p->off < last || !p->len || p->shown > p->len)
			return false;
		last = p->off + p->len;
		short_ones += p->shown < p->len;
	}
	for (unsigned f = 0; f < FILES; f++) {
		const struct dax_file *d = dax_file_find(r.dax, file[f].inode);
		unsigned refs = 0;

		for (const struct dax_piece *p = d ? d->pieces : NULL; p; p = p->next)
			refs += p->file == d;
		if (d && d->refs != refs)
			return false;
		n += refs;
	}
	return n == r.dax->npieces && short_ones == r.dax->hiding;
}

static void t_model(void)
{
	unsigned good = 0, seed = 4711;

	fresh();
	for (unsigned f = 0; f < FILES; f++) {
		snprintf(file[f].name, sizeof(file[f].name), "%c", 'p' + (int)f);
		close(host_file(file[f].name, 'p', 0));
		file[f].inode = inode_of(&r, file[f].name);
	}
	for (unsigned i = 0; i < 3000; i++) {
		uint64_t at = (uint64_t)rand_r(&seed) % PAGES;

		step((unsigned)rand_r(&seed) % 8, (unsigned)rand_r(&seed) % FILES, at,
		     1 + (uint64_t)rand_r(&seed) % MIN(PAGES - at, (uint64_t)12),
		     (uint64_t)rand_r(&seed) % 16);
		good += as_modelled() && is_sound();
	}
	is(good, 3000, "whatever is mapped, cut and changed, the window shows what is there");
	simply(&r, RESET, NULL);
	for (unsigned f = 0; f < FILES; f++)
		simply(&r, PUT, file[f].inode);
}

/* ---- by the loop ---- */

static void on_changed(struct watch *w)
{
	dax_changed(container_of(w, struct rig, watch)->dax);
}

static void t_loop(void)
{
	struct share_inode *a = inode_of(&r, "a");
	struct job j = {.r = &r, .what = WATCH};
	unsigned good = 0;

	fresh();
	(void)changed(&r);
	r.watch = (struct watch){
		.fd = dax_events(r.dax), .kind = WATCH_READABLE, .ready = on_changed};
	loop_call(r.io, work, &j);
	need(!j.result);
	for (unsigned i = 0; i < 20; i++) {
		resize("a", 'a', 4);
		need(!map(&r, a, 0, 0, 4 * page, true));
		cut("a", page);
		while (peek(&r, 3 * page) < 0)
			sched_yield();
		good += peek(&r, 0) == 'a' && !peek(&r, 3 * page);
	}
	is(good, 20,
	   "whoever asks for a page behind the end is helped by the loop, under its filter");
	simply(&r, PUT, a);
}

int main(void)
{
	struct fakeguest *fg;

	log_set_level(LOG_ERR);
	set_up("t_dax_change");
	t_full();
	fg = fg_create(MIB(4));
	rig_create(&r, fg, false, AT, SIZE);
	t_cut();
	t_behind();
	t_pieces();
	t_watches();
	t_overflow();
	t_many_writes();
	t_unwatched();
	t_model();
	t_loop();
	need(rig_close(&r) == fg);
	fg_destroy(fg);
	tear_down();
	return done();
}
