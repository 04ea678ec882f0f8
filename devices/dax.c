// SPDX-License-Identifier: Apache-2.0
/*
 * dax.c - the window of a share: what the guest asks to see where is checked here, then mapped; and what of it is shown.
 *
 * The guest's three numbers are judged as differences against the window, so that no sum of them can wrap. Whether the
 * object may be mapped at all is the share's to say, where the mapping goes in our address space is the window's. Each
 * piece shows the file up to some page and zeros from there on. How long the file is the guest thinks to know; it is
 * wrong if the host has cut it since, and then touches what is behind the end. So zeros end where the guest is known to
 * be right: when it is told how long the file is, or makes it longer.
 * Spec: virtio 1.2, 5.11.6.4. Calls: dax_piece.c, dax_file.c, share.h, window.h.
 */
#include "dax_int.h"

int dax_create(struct dax **out, struct vm *vm, const char *name, uint64_t size)
{
	struct dax *d = calloc(1, sizeof(*d));
	int r;

	if (!d) {
		log_err("%s: out of memory", name);
		return -ENOMEM;
	}
	r = window_create(&d->window, vm, name, size);
	if (r) {
		free(d);
		return r;
	}
	dax_file_init(d, name);
	*out = d;
	return 0;
}

void dax_destroy(struct dax *d)
{
	if (!d)
		return;
	/* All watches go at once, and this thread may not be one that ends them. */
	close_fd(&d->watches);
	dax_piece_fini(d);
	dax_file_fini(d);
	window_destroy(d->window);
	free(d);
}

struct window *dax_window(struct dax *d)
{
	return d->window;
}

unsigned dax_page_shift(void)
{
	return (unsigned)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
}

/* ---- what is shown ---- */

/* How much of the piece lies before the end of a file of size bytes, in whole pages. */
static uint64_t before_end(const struct dax_piece *p, uint64_t size)
{
	uint64_t end = ALIGN_UP(size, 1ull << dax_page_shift());

	return end <= p->file_off ? 0 : MIN(end - p->file_off, p->len);
}

static int hide(struct dax *d, struct dax_piece *p, uint64_t shown)
{
	int r = window_blank(d->window, p->off + shown, p->len - shown);

	if (!r)
		dax_piece_show(d, p, shown);
	return r;
}

/* In one mapping, what is shown already with it: a file that grows does not end as many small ones. */
static void show(struct dax *d, struct dax_piece *p, uint64_t shown)
{
	void *addr = window_hold(d->window, p->off, shown);
	int r = -ENOMEM;

	if (addr) {
		r = share_map(p->file->inode, addr, shown, p->file_off, p->writable);
		window_mapped(d->window, p->off, shown, !r);
	}
	if (r)
		log_once(&d->said_lost, LOG_WARN,
			 "%s: a file that has grown cannot be mapped (%s): the guest sees zeros",
			 d->window->name, strerror(-r));
	else
		dax_piece_show(d, p, shown);
}

/*
 * A file that has not grown was written, or cut: as both may have happened to it since, and the guest may have made it
 * longer meanwhile, what is behind its end is not for the guest to touch. One that has grown may be touched as far as it
 * goes, but no further: the guest may know it from when it was longer still. The guest that makes it grow has been
 * shown all of the piece, and is not bothered.
 */
static void settle(struct dax *d, struct dax_piece *p, uint64_t size, bool grown)
{
	uint64_t shown = before_end(p, size);

	if (shown > p->shown)
		show(d, p, shown);
	else if (shown < p->shown && !grown && hide(d, p, shown))
		(void)hide(d, p, 0); /* no room for one more mapping: it must not be touched */
}

/*
 * What is asked of a file and hidden by the answer is one step for those who write without the lock: a write that the
 * answer does not know of finds dax_hides(), and waits for the lock.
 */
static void look_begin(struct dax *d)
{
	__atomic_add_fetch(&d->hiding, 1, __ATOMIC_SEQ_CST);
}

static void look_end(struct dax *d)
{
	__atomic_sub_fetch(&d->hiding, 1, __ATOMIC_SEQ_CST);
}

static void look(struct dax *d, struct dax_file *f)
{
	struct statx st;

	look_begin(d);
	if (!share_getattr(f->inode, NULL, &st)) {
		for (struct dax_piece *p = f->pieces; p; p = p->next)
			settle(d, p, st.stx_size, st.stx_size > f->size);
		f->size = st.stx_size;
	}
	look_end(d);
}

int dax_events(const struct dax *d)
{
	return d->watches;
}

void dax_changed(struct dax *d)
{
	for (struct dax_file *f = dax_file_changes(d); f; f = f->next_changed)
		look(d, f);
}

bool dax_hides(const struct dax *d)
{
	return __atomic_load_n(&d->hiding, __ATOMIC_SEQ_CST);
}

void dax_show(struct dax *d, const struct share_inode *inode, uint64_t size)
{
	const struct dax_file *f = dax_hides(d) ? dax_file_find(d, inode) : NULL;

	for (struct dax_piece *p = f ? f->pieces : NULL; p; p = p->next)
		if (before_end(p, size) > p->shown)
			show(d, p, p->len);
}

/* ---- what the guest asks for ---- */

static bool in_pages(uint64_t n)
{
	return IS_ALIGNED(n, 1ull << dax_page_shift());
}

/* Whole pages of the window, at least one. */
static bool range_ok(const struct dax *d, uint64_t off, uint64_t len)
{
	uint64_t size = d->window->size;

	return len && in_pages(off) && in_pages(len) && off < size && len <= size - off;
}

static int map(struct dax *d, const struct dax_piece *p)
{
	void *addr = window_hold(d->window, p->off, p->len);
	int r;

	if (!addr)
		return -ENOMEM;
	r = share_map(p->file->inode, addr, p->len, p->file_off, p->writable);
	window_mapped(d->window, p->off, p->len, !r);
	return r;
}

/*
 * Watched before it is looked at, so that no change is missed. Where there is no room for one more mapping the guest is
 * left with the file alone.
 */
static void mapped(struct dax *d, struct dax_piece *p)
{
	struct dax_file *f = p->file;
	uint64_t shown;
	struct statx st;

	dax_file_watch(d, f);
	look_begin(d);
	if (!share_getattr(f->inode, NULL, &st)) {
		if (f->pieces == p && !p->next)
			f->size = st.stx_size;
		shown = before_end(p, st.stx_size);
		if (shown < p->len)
			(void)hide(d, p, shown);
	}
	look_end(d);
}

int dax_map(struct dax *d, struct share_inode *inode, uint64_t file_off, uint64_t off, uint64_t len,
	    bool writable)
{
	struct dax_piece p = {
		.file_off = file_off, .off = off, .len = len, .shown = len, .writable = writable};
	int r;

	if (!range_ok(d, off, len) || !in_pages(file_off))
		return -EINVAL;
	r = dax_piece_reserve(d);
	if (!r)
		r = dax_file_get(d, inode, &p.file);
	if (r)
		return r;
	r = map(d, &p);
	if (!r) {
		dax_piece_cut(d, off, len);
		mapped(d, dax_piece_add(d, &p));
	}
	dax_file_put(d, p.file);
	return r;
}

int dax_unmap(struct dax *d, uint64_t off, uint64_t len)
{
	int r;

	if (!range_ok(d, off, len))
		return -EINVAL;
	r = dax_piece_reserve(d);
	if (!r)
		r = window_unmap(d->window, off, len);
	if (!r)
		dax_piece_cut(d, off, len);
	return r;
}

void dax_reset(struct dax *d)
{
	int r = window_unmap(d->window, 0, d->window->size);

	if (r)
		log_err("%s: the window of the last session stays mapped: %s", d->window->name,
			strerror(-r));
	dax_piece_clear(d);
}
