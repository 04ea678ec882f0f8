// SPDX-License-Identifier: Apache-2.0
/*
 * window_fault.c - pages of a window that are touched and not there.
 *
 * Two doors lead here. A copy of ours (a request's header, an emulated access) faults: the signal handler puts a page of
 * zeros under it and the copy goes on. The guest's own access makes KVM_RUN fail without saying where, if the guest has
 * its interrupts off (window.h): then the mappings are searched for those that reach past the end of their files. System
 * calls that meet such a page say EFAULT to whoever made them and come by neither. The handler knows windows by a table
 * of the process, as it gets no argument; it takes no lock and calls what every thread's filter allows.
 * Spec: sigaction(2), madvise(2). Calls: window.c, log.h.
 */
#include "window_int.h"
#include "vm.h"
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define WINDOWS_MAX 64

/*
 * Each page the handler mends may be a mapping of its own. A guest that makes it happen so often means no good, and gets
 * the whole window as zeros, which is one. A mend splits a mapping in three at worst, and a process may have 65530
 * (vm.max_map_count): this leaves room for 64 windows beside PIECES_MAX.
 */
#define MENDS_MAX 96u

static struct window *watched[WINDOWS_MAX]; /* atomic */
static struct sigaction before[2];          /* of SIGBUS, SIGSEGV; written once, before threads */

/* ---- our own accesses ---- */

static struct window *window_at(uintptr_t addr)
{
	for (unsigned i = 0; i < WINDOWS_MAX; i++) {
		/* Partner: the release in window_watch(). */
		struct window *w = __atomic_load_n(&watched[i], __ATOMIC_ACQUIRE);

		if (w && addr >= (uintptr_t)w->host && addr - (uintptr_t)w->host < w->size)
			return w;
	}
	return NULL;
}

/* Where the thread was. To execute what lies in a window no page would help. */
static uintptr_t instruction(const void *context)
{
	const ucontext_t *uc = context;

#if defined(__x86_64__)
	return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)uc->uc_mcontext.pc;
#else
#error "which register is it?"
#endif
}

/* It does not matter what was there: no file any more, a file that may only be read, or nothing. */
static bool mend(struct window *w, uintptr_t addr)
{
	struct window_state *s = w->state;
	size_t i = (addr - (uintptr_t)w->host) / s->page_size;
	int r;

	if (__atomic_add_fetch(&s->mends, 1, __ATOMIC_RELAXED) <= MENDS_MAX) {
		r = window_zero(w, i, i + 1);
	} else {
		r = window_zero(w, 0, s->npages);
		__atomic_store_n(&s->mends, 0, __ATOMIC_RELAXED);
	}
	if (r)
		return false;
	__atomic_or_fetch(&s->page[i], PAGE_ZERO, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->changes, 1, __ATOMIC_RELAXED);
	return true;
}

/* The access is repeated, and whoever handled it before sees it as if we were not here. */
static void pass_on(int sig, const siginfo_t *info)
{
	sigaction(sig, &before[sig == SIGSEGV], NULL);
	/* Sent, not met: it does not come again by itself. */
	if (info->si_code <= 0 || (sig == SIGBUS && info->si_code == BUS_MCEERR_AO))
		raise(sig);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	int saved = errno;
	/* Of a signal that somebody sent the address is something else. */
	uintptr_t addr = info->si_code > 0 ? (uintptr_t)info->si_addr : 0;
	struct window *w = window_at(instruction(context)) ? NULL : window_at(addr);

	/*
	 * A line may be written here: what touches a window is a copy or a system call, never the inside of libc's
	 * formatting.
	 */
	if (w && mend(w, addr))
		log_once(&w->state->said_touched, LOG_WARN,
			 "%s: a mapped page that is not there any more (was its file cut short?) "
			 "was used as a buffer: it is zeros now",
			 w->name);
	else
		pass_on(sig, info);
	errno = saved;
}

int window_watch(struct window *w)
{
	for (unsigned i = 0; i < WINDOWS_MAX; i++) {
		struct window *none = NULL;

		if (__atomic_compare_exchange_n(&watched[i], &none, w, false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return 0;
	}
	return -ENOSPC;
}

void window_unwatch(struct window *w)
{
	for (unsigned i = 0; i < WINDOWS_MAX; i++)
		if (__atomic_load_n(&watched[i], __ATOMIC_RELAXED) == w)
			__atomic_store_n(&watched[i], NULL, __ATOMIC_RELAXED);
}

int window_init(void)
{
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	sigset_t set;

	sigemptyset(&sa.sa_mask);
	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	sigaddset(&set, SIGSEGV);
	/* Blocked, as our parent may have left them, a fault would end us without the handler. */
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	if (!sigaction(SIGBUS, &sa, &before[0]) && !sigaction(SIGSEGV, &sa, &before[1]))
		return 0;
	log_err("signals of memory faults: %m");
	return -errno;
}

/* ---- the guest's accesses ---- */

/* A read of the page would be a SIGBUS. Brings it into memory otherwise, as the guest's own access would. */
static bool is_gone(const struct window *w, size_t i)
{
	size_t page = w->state->page_size;

	return madvise(w->host + i * page, page, MADV_POPULATE_READ) < 0 && errno == EFAULT;
}

/* The end of the piece of one file that begins at first. What the handler has mended is none. */
static size_t piece_end(const struct window_state *s, size_t first)
{
	size_t i = first + 1;

	while (i < s->npages && __atomic_load_n(&s->page[i], __ATOMIC_RELAXED) == PAGE_FILE)
		i++;
	return i;
}

/* A file ends once: from some page on all are gone. The last one is. */
static size_t first_gone(const struct window *w, size_t first, size_t last)
{
	while (first < last) {
		size_t mid = first + (last - first) / 2;

		if (is_gone(w, mid))
			last = mid;
		else
			first = mid + 1;
	}
	return last;
}

static void repair_piece(struct window *w, size_t first, size_t end)
{
	size_t from = first;

	if (!is_gone(w, end - 1))
		return;
	/* Where there is no room for one more mapping the whole piece goes. */
	if (window_has_room(w))
		from = first_gone(w, first, end - 1);
	if (window_zero(w, from, end))
		return;
	window_mark(w, from, end, PAGE_ZERO);
	log_once(&w->state->said_short, LOG_WARN,
		 "%s: a file was cut short on the host while the guest had it mapped: the guest "
		 "sees zeros behind its end",
		 w->name);
}

static void repair_window(struct window *w)
{
	struct window_state *s = w->state;
	size_t end;

	if (!s->can_probe) {
		log_once(&s->said_blind, LOG_WARN,
			 "%s: which mapped page is gone cannot be found out on this host: Linux "
			 "5.14 "
			 "or later is needed",
			 w->name);
		return;
	}
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->npages; i = end) {
		uint8_t kind = __atomic_load_n(&s->page[i], __ATOMIC_RELAXED);

		end = i + 1;
		if ((kind & (PAGE_FILE | PAGE_ZERO)) != PAGE_FILE)
			continue;
		end = piece_end(s, i);
		repair_piece(w, i, end);
	}
	pthread_mutex_unlock(&s->lock);
}

/*
 * By number of changes, not by what was done here: two vCPUs that met the same page come both, and the second finds
 * nothing left to mend. A change that had nothing to do with it costs one more try.
 */
bool window_repair(struct vm *vm, unsigned *seen)
{
	unsigned changes = 0;
	bool changed;

	for (struct window *w = vm->mem->windows; w; w = w->next) {
		repair_window(w);
		changes += __atomic_load_n(&w->state->changes, __ATOMIC_RELAXED);
	}
	changed = changes != *seen;
	*seen = changes;
	return changed;
}
