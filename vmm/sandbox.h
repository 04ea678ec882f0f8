// SPDX-License-Identifier: Apache-2.0
/*
 * sandbox.h - what a thread may ask of the kernel.
 *
 * Each thread installs its own seccomp filter first thing: the common list (memory, futexes, clocks, read/write on
 * what is open) plus the list that stands beside the code that needs it, each entry with its reason. A call that is
 * not listed ends the process: one line names the thread and the syscall, exit status 148. Threads share memory: the
 * filter narrows what a bug can ask of the host, it is not a process boundary.
 */
#ifndef VMM_SANDBOX_H
#define VMM_SANDBOX_H

#include "base.h"
#include <sys/syscall.h>

/* One allowed syscall. With masked, only if (argument arg & mask) == value. */
struct syscall_rule {
	int nr; /* SYS_... */
	const char *why;
	bool masked;
	unsigned char arg;
	uint64_t mask, value;
};
struct syscalls {
	const struct syscall_rule *rules;
	unsigned n;
};
/* One request of ioctl(); the kernel looks at the low half of its number only. */
#define SYSCALL_IOCTL(request, reason)                                                          \
	{                                                                                       \
		.nr = SYS_ioctl, .why = (reason), .masked = true, .arg = 1, .mask = UINT32_MAX, \
		.value = (request)                                                              \
	}
#define SYSCALLS(array) ((struct syscalls){(array), ARRAY_LEN(array)})

/* Once, on the main thread, before any other thread: no_new_privs and the violation handler. -errno (logged). */
int sandbox_init(void) must_check;
/*
 * The calling thread may from now on make only the common calls and those of the sets (a NULL-terminated array, NULLs
 * inside are not allowed; n sets). name is the thread's name in the violation line and becomes its comm. Does nothing
 * but set the name if WHERRY_SECCOMP=off is in the environment (for debuggers and sanitizers) or sandbox_disable()
 * was called. 0 or -errno (logged).
 */
int sandbox_enter(const char *name, const struct syscalls *const *sets, unsigned nsets) must_check;
void sandbox_disable(void);
/* Called (async-signal-safe) before the process ends by a violation: the terminal's owner restores it here. */
void sandbox_on_violation(void (*fn)(void));

#define SANDBOX_EXIT 148

#endif
