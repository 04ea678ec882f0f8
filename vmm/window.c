// SPDX-License-Identifier: Apache-2.0
/*
 * window.c - windows: reserved, placed, mapped and unmapped.
 *
 * The range is never given back while the window lives: what is not a file is a mapping without access, so that nothing
 * else of the process can come to lie where the guest looks. KVM is told of the range as a whole and follows what is
 * mapped there by its notifier. Every mapping in use counts: a guest that cuts the window into single pages must not take
 * the process's last one. Threads: see window.h; the state's lock orders mapping against repair. Spec: KVM API,
 * KVM_SET_USER_MEMORY_REGION; mmap(2). Calls: vm.h, arch.h, window_fault.c.
 */
#include "window_int.h"
#include "arch.h"
#include "vm.h"
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define CHUNK MIB(2) /* the guest maps huge pages of the host where both are aligned to them */

/* Of all windows together. A process may have 65530 mappings (vm.max_map_count); the rest of ours need the rest. */
#define PIECES_MAX 49152u

/* ---- what is where ---- */

static int put_anonymous(struct window *w, uint64_t off, uint64_t len, int prot)
{
	void *at = w->host + off;

	if (mmap(at, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		return -errno;
	/* As for RAM: not a guest's data. Also, unlike neighbours would count as mappings each. Not fatal. */
	madvise(at, len, MADV_DONTDUMP);
	return 0;
}

int window_zero(struct window *w, size_t first, size_t end)
{
	size_t page = w->state->page_size;

	return put_anonymous(w, first * page, (end - first) * page, PROT_READ | PROT_WRITE);
}

static void set_page(struct window_state *s, size_t i, uint8_t kind)
{
	uint8_t old = __atomic_load_n(&s->page[i], __ATOMIC_RELAXED);

	/* A window is large and mostly empty: what is not written costs no memory. */
	if (old == kind)
		return;
	__atomic_store_n(&s->page[i], kind, __ATOMIC_RELAXED);
	__atomic_store_n(&s->npieces, s->npieces + !!(kind & PAGE_EDGE) - !!(old & PAGE_EDGE),
			 __ATOMIC_RELAXED);
}

/* Where nothing meets nothing there is one mapping without access. */
static void set_edge(struct window_state *s, size_t i)
{
	uint8_t kind;

	if (i == 0 || i == s->npages)
		return;
	kind = __atomic_load_n(&s->page[i], __ATOMIC_RELAXED) & (uint8_t)~PAGE_EDGE;
	if (kind || __atomic_load_n(&s->page[i - 1], __ATOMIC_RELAXED) & ~PAGE_EDGE)
		set_page(s, i, kind | PAGE_EDGE);
	else
		set_page(s, i, kind);
}

void window_mark(struct window *w, size_t first, size_t end, uint8_t kind)
{
	struct window_state *s = w->state;

	for (size_t i = first; i < end; i++)
		set_page(s, i, kind);
	set_edge(s, first);
	set_edge(s, end);
	__atomic_add_fetch(&s->changes, 1, __ATOMIC_RELAXED);
}

bool window_has_room(const struct window *w)
{
	unsigned n = 2;

	for (const struct window *i = w->vm->mem->windows; i; i = i->next)
		n += __atomic_load_n(&i->state->npieces, __ATOMIC_RELAXED);
	return n <= PIECES_MAX;
}

/* ---- mapping ---- */

static size_t page_of(const struct window *w, uint64_t off)
{
	return off / w->state->page_size;
}

void *window_hold(struct window *w, uint64_t off, uint64_t len)
{
	pthread_mutex_lock(&w->state->lock);
	if (window_has_room(w) || len == w->size)
		return w->host + off;
	pthread_mutex_unlock(&w->state->lock);
	return NULL;
}

/*
 * A mapping that failed may have taken away what was there: the hole is closed, but only if it is one, or it would be
 * closed over what another thread has mapped into it.
 */
static void close_hole(struct window *w, uint64_t off, uint64_t len)
{
	void *at = w->host + off;
	void *p = mmap(at, len, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == at)
		window_mark(w, page_of(w, off), page_of(w, off + len), 0);
	else if (p != MAP_FAILED)
		munmap(p, len); /* a kernel before 4.17, which takes the address for a hint */
}

void window_mapped(struct window *w, uint64_t off, uint64_t len, bool done)
{
	if (done) {
		madvise(w->host + off, len, MADV_DONTDUMP);
		window_mark(w, page_of(w, off), page_of(w, off + len), PAGE_FILE);
	} else {
		close_hole(w, off, len);
	}
	pthread_mutex_unlock(&w->state->lock);
}

static bool is_edge(const struct window_state *s, size_t i)
{
	return i == 0 || i == s->npages ||
	       __atomic_load_n(&s->page[i], __ATOMIC_RELAXED) & PAGE_EDGE;
}

int window_blank(struct window *w, uint64_t off, uint64_t len)
{
	size_t first = page_of(w, off), end = page_of(w, off + len);
	int r = -ENOMEM;

	pthread_mutex_lock(&w->state->lock);
	if (window_has_room(w) || (is_edge(w->state, first) && is_edge(w->state, end)))
		r = window_zero(w, first, end);
	if (!r)
		window_mark(w, first, end, PAGE_ZERO);
	pthread_mutex_unlock(&w->state->lock);
	return r;
}

int window_unmap(struct window *w, uint64_t off, uint64_t len)
{
	bool all = len == w->size;
	int r = -ENOMEM;

	pthread_mutex_lock(&w->state->lock);
	if (all || window_has_room(w))
		r = put_anonymous(w, off, len, PROT_NONE);
	if (!r)
		window_mark(w, page_of(w, off), page_of(w, off + len), 0);
	if (!r && all)
		__atomic_store_n(&w->state->mends, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&w->state->lock);
	return r;
}

/* ---- the guest's side ---- */

/* A size of 0 removes the slot. */
static int slot_set(const struct window *w, uint64_t base, uint64_t size)
{
	struct kvm_userspace_memory_region slot = {
		.slot = w->slot,
		.guest_phys_addr = base,
		.memory_size = size,
		.userspace_addr = (uintptr_t)w->host,
	};

	if (w->vm->vm_fd < 0)
		return 0;
	return ioctl(w->vm->vm_fd, KVM_SET_USER_MEMORY_REGION, &slot) < 0 ? -errno : 0;
}

/* Neither end wraps. */
static bool overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

/* base comes from the guest. */
static int place_check(const struct window *w, uint64_t base)
{
	const struct mem *mem = w->vm->mem;
	uint64_t end;

	if (!IS_ALIGNED(base, CHUNK) || __builtin_add_overflow(base, w->size, &end))
		return -EINVAL;
	for (unsigned i = 0; i < mem->nregions; i++)
		if (overlap(base, w->size, mem->region[i].base, mem->region[i].len))
			return -EEXIST;
	for (const struct window *i = mem->windows; i; i = i->next) {
		uint64_t other = __atomic_load_n(&i->base, __ATOMIC_RELAXED);

		if (i != w && other && overlap(base, w->size, other, i->size))
			return -EEXIST;
	}
	return 0;
}

int window_place(struct window *w, uint64_t base)
{
	uint64_t old = __atomic_load_n(&w->base, __ATOMIC_RELAXED);
	int r = 0;

	if (base == old)
		return 0;
	/* Buffers that were translated already stay good: the host's side does not move. */
	__atomic_store_n(&w->base, 0, __ATOMIC_RELAXED);
	if (old)
		r = slot_set(w, old, 0);
	if (r || !base)
		return r;
	r = place_check(w, base);
	if (!r)
		r = slot_set(w, base, w->size);
	if (!r)
		__atomic_store_n(&w->base, base, __ATOMIC_RELAXED);
	return r;
}

int window_alloc(struct window *w, uint64_t *base)
{
	uint64_t start = arch_pci64_base(w->vm) + ARCH_PCI64_SIZE;
	uint64_t at = ALIGN_UP(start, w->size);

	while (at >= start && at - start < ARCH_WINDOWS_SIZE &&
	       w->size <= ARCH_WINDOWS_SIZE - (at - start)) {
		if (place_check(w, at) == 0) {
			*base = at;
			return 0;
		}
		at += w->size;
	}
	return -ENOSPC;
}

/* The bus has checked off and len against the range, which is the window. */
static void ops_read(void *owner, uint64_t off, void *data, unsigned len)
{
	const struct window *w = owner;

	memcpy(data, w->host + off, len);
}

static void ops_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	const struct window *w = owner;

	memcpy(w->host + off, data, len);
}

const struct bus_ops window_ops = {.read = ops_read, .write = ops_write};

/* ---- life ---- */

static int size_check(const char *name, uint64_t size)
{
	if (size >= CHUNK && size <= ARCH_WINDOWS_SIZE && is_pow2(size))
		return 0;
	log_err("%s: a window of %llu bytes: must be a power of two from 2 MiB to %llu GiB", name,
		(unsigned long long)size, (unsigned long long)(ARCH_WINDOWS_SIZE >> 30));
	return -EINVAL;
}

/* A chunk longer than needed, of which the part that is aligned stays. */
static int reserve(struct window *w)
{
	size_t len = w->size + CHUNK, head;
	uint8_t *p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	head = ALIGN_UP((uintptr_t)p, CHUNK) - (uintptr_t)p;
	if (head)
		munmap(p, head);
	munmap(p + head + w->size, CHUNK - head);
	w->host = p + head;
	madvise(w->host, w->size, MADV_DONTDUMP);
	return 0;
}

/* Linux 5.14 has it. What is asked of here is a page that is certainly there. */
static bool can_probe(const struct window_state *s)
{
	void *page = (void *)ALIGN_DOWN((uintptr_t)s, s->page_size);

	return madvise(page, s->page_size, MADV_POPULATE_READ) == 0;
}

static int state_create(struct window *w)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = w->size / page;
	struct window_state *s = calloc(1, sizeof(*s) + n);

	if (!s)
		return -ENOMEM;
	s->page_size = page;
	s->npages = n;
	s->can_probe = can_probe(s);
	pthread_mutex_init(&s->lock, NULL);
	w->state = s;
	return 0;
}

static void list_add(struct window *w)
{
	struct mem *mem = w->vm->mem;

	w->slot = MEM_REGIONS;
	for (const struct window *i = mem->windows; i; i = i->next)
		w->slot = MAX(w->slot, i->slot + 1);
	w->next = mem->windows;
	mem->windows = w;
}

static void list_remove(struct window *w)
{
	struct window **link = &w->vm->mem->windows;

	while (*link && *link != w)
		link = &(*link)->next;
	if (*link)
		*link = w->next;
}

int window_create(struct window **out, struct vm *vm, const char *name, uint64_t size)
{
	struct window *w = NULL;
	int r = size_check(name, size);

	if (r)
		return r;
	r = -ENOMEM;
	w = calloc(1, sizeof(*w));
	if (!w)
		goto fail;
	*w = (struct window){.vm = vm, .name = name, .size = size};
	r = state_create(w);
	if (!r)
		r = reserve(w);
	if (!r)
		r = window_watch(w);
	if (r)
		goto fail;
	list_add(w);
	*out = w;
	return 0;
fail:
	log_err("%s: cannot reserve a window of %llu MiB (make it smaller, or raise ulimit -v): %s",
		name, (unsigned long long)(size >> 20), strerror(-r));
	window_destroy(w);
	return r;
}

void window_destroy(struct window *w)
{
	if (!w)
		return;
	/* KVM must not look at what is being unmapped (hard case C4). */
	if (window_place(w, 0))
		log_warn("%s: KVM keeps its window", w->name);
	list_remove(w);
	window_unwatch(w);
	if (w->host)
		munmap(w->host, w->size);
	if (w->state)
		pthread_mutex_destroy(&w->state->lock);
	free(w->state);
	free(w);
}
