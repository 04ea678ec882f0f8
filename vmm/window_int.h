// SPDX-License-Identifier: Apache-2.0
/*
 * window_int.h - what window.c (mapping) and window_fault.c (what is touched and not there) know of each other.
 */
#ifndef VMM_WINDOW_INT_H
#define VMM_WINDOW_INT_H

#include "window.h"
#include "log.h"
#include <pthread.h>

/* What a page of the window is; 0: inaccessible. */
enum {
	PAGE_FILE = 1,
	PAGE_ZERO =
		2, /* zeros over whatever it was; the signal handler adds this bit, and no edge */
	PAGE_EDGE = 4, /* a mapping begins here, other than the window's first */
};

struct window_state {
	pthread_mutex_t lock; /* of mapping and repairing; the signal handler goes without */
	size_t page_size, npages;
	unsigned npieces; /* edges; written under the lock, read by other windows */
	unsigned changes; /* of what lies in the window; atomic */
	unsigned mends;   /* by the signal handler, since all was last unmapped; atomic */
	bool can_probe;
	struct log_once said_touched, said_short, said_blind;
	uint8_t page[]; /* PAGE_* of npages; atomic */
};

/* The pages are now of that kind (without PAGE_EDGE), and one piece. Under the lock. */
void window_mark(struct window *, size_t first, size_t end, uint8_t kind);
/* Two more mappings fit the process. Under the lock. */
bool window_has_room(const struct window *);
/* Private zeros over the pages. Async-signal-safe. -errno. */
int window_zero(struct window *, size_t first, size_t end) must_check;

/* Faults in this window are to be handled from now on, or no more. -ENOSPC. */
int window_watch(struct window *) must_check;
void window_unwatch(struct window *);

#endif
