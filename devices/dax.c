// SPDX-License-Identifier: Apache-2.0
/*
 * dax.c - the window of a share: what the guest asks to see where is checked here, then mapped.
 *
 * The guest's three numbers are judged as differences against the window, so that no sum of them can wrap. Whether the
 * object may be mapped at all is the share's to say, where the mapping goes in our address space is the window's. A file
 * that is shorter than its mapping is no error: it may grow, and what is touched behind its end is zeros (window.h).
 * Spec: virtio 1.2, 5.11.6.4. Calls: share.h, window.h.
 */
#include "dax.h"
#include "../vmm/log.h"
#include "../vmm/window.h"

struct dax {
	struct window *window;
};

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
	*out = d;
	return 0;
}

void dax_destroy(struct dax *d)
{
	if (!d)
		return;
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

int dax_map(struct dax *d, struct share_inode *inode, uint64_t file_off, uint64_t off, uint64_t len,
	    bool writable)
{
	void *addr;
	int r;

	if (!range_ok(d, off, len) || !in_pages(file_off))
		return -EINVAL;
	addr = window_hold(d->window, off, len);
	if (!addr)
		return -ENOMEM;
	r = share_map(inode, addr, len, file_off, writable);
	window_mapped(d->window, off, len, !r);
	return r;
}

int dax_unmap(struct dax *d, uint64_t off, uint64_t len)
{
	return range_ok(d, off, len) ? window_unmap(d->window, off, len) : -EINVAL;
}

void dax_reset(struct dax *d)
{
	int r = window_unmap(d->window, 0, d->window->size);

	if (r)
		log_err("%s: the window of the last session stays mapped: %s", d->window->name,
			strerror(-r));
}
