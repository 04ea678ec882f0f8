// SPDX-License-Identifier: Apache-2.0
/*
 * sandbox.c - seccomp filters, one per thread, and the last words of a thread that breaks its own.
 *
 * A filter is the common list below plus the sets of the code that runs on the thread. A forbidden
 * call raises SIGSYS in the thread that made it (SCMP_ACT_TRAP); the handler says which thread and
 * which call, and ends the process: a machine with one device half dead is worse than none. (glibc
 * makes threads and processes with every signal blocked: there the kernel ends the process by
 * SIGSYS itself, without the line.) The common list is what libc itself does behind malloc, mutexes
 * and the end of a thread; nothing in it opens, creates or names anything. Calls: libseccomp,
 * log.h.
 */
#include "sandbox.h"
#include "log.h"
#include <linux/audit.h>
#include <malloc.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

/* si_code of a trapped call: libc's headers lack it, and <asm/siginfo.h> does not mix with them. */
#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

#define COMM_LEN 16 /* of a thread's name in the kernel, with its NUL */

/* The filter compares 64-bit registers; the kernel looks at the low half of an int argument only. */
#define INT_ARG 0xffffffffu

static const struct syscall_rule common_rules[] = {
	{.nr = SYS_read, .why = "files and eventfds that are open"},
	{.nr = SYS_readv, .why = "files that are open, into several buffers"},
	{.nr = SYS_write, .why = "files that are open, eventfds (interrupts), log lines"},
	{.nr = SYS_writev, .why = "files that are open; libc's last words in abort()"},
	{.nr = SYS_ppoll, .why = "whether standard error takes a log line"},
	{.nr = SYS_close, .why = "what is no longer needed"},

	{.nr = SYS_brk, .why = "malloc"},
	{.nr = SYS_mmap,
	 .why = "malloc; never executable",
	 .masked = true,
	 .arg = 2,
	 .mask = PROT_EXEC,
	 .value = 0},
	{.nr = SYS_mprotect,
	 .why = "malloc; never executable",
	 .masked = true,
	 .arg = 2,
	 .mask = PROT_EXEC,
	 .value = 0},
	{.nr = SYS_munmap, .why = "free; the stacks of threads that have ended"},
	{.nr = SYS_mremap, .why = "realloc of large blocks"},
	{.nr = SYS_madvise, .why = "free; a thread that ends gives its stack back"},

	{.nr = SYS_futex, .why = "mutexes, conditions, pthread_join"},
	{.nr = SYS_sched_yield, .why = "a spinning waiter lets the other go first"},
	{.nr = SYS_clock_gettime, .why = "clocks where the vDSO cannot answer"},
	{.nr = SYS_restart_syscall, .why = "the kernel itself, after a stop signal or a debugger"},
	{.nr = SYS_getrandom, .why = "seeds of hash maps, malloc"},

	{.nr = SYS_set_robust_list,
	 .why = "the first steps of a new thread, which inherits the filter"},
	{.nr = SYS_rseq, .why = "the first steps of a new thread"},
	{.nr = SYS_rt_sigprocmask, .why = "libc around the start and the end of a thread, abort()"},
	{.nr = SYS_rt_sigreturn, .why = "the end of every signal handler"},
	{.nr = SYS_rt_sigaction,
	 .why = "a fault that no window explains goes to whoever would have had it",
	 .masked = true,
	 .arg = 0,
	 .mask = INT_ARG,
	 .value = SIGSEGV},
	{.nr = SYS_rt_sigaction,
	 .why = "likewise",
	 .masked = true,
	 .arg = 0,
	 .mask = INT_ARG,
	 .value = SIGBUS},
	{.nr = SYS_gettid, .why = "abort()"},
	{.nr = SYS_getpid, .why = "abort(), pthread_kill()"},
	{.nr = SYS_exit, .why = "the end of a thread"},
	{.nr = SYS_exit_group, .why = "the end of the process, by a violation too"},

	{.nr = SYS_prctl,
	 .why = "a thread that inherits the filter names itself",
	 .masked = true,
	 .arg = 0,
	 .mask = INT_ARG,
	 .value = PR_SET_NAME},
	{.nr = SYS_prctl,
	 .why = "the violation line names the thread",
	 .masked = true,
	 .arg = 0,
	 .mask = INT_ARG,
	 .value = PR_GET_NAME},
	SYSCALL_IOCTL(TCGETS, "tcsetattr() looks first whether it is a terminal"),
	SYSCALL_IOCTL(
		TCSETS,
		"tcsetattr(TCSANOW): a violation on any thread leaves the terminal as it was"),
};
static const struct syscalls common = {common_rules, ARRAY_LEN(common_rules)};

static const char *const syscall_names[] = {
#include "syscall_names.h" /* made when building, from the system's own list */
};

static bool disabled;
static void (*violation_hook)(void);

void sandbox_disable(void)
{
	__atomic_store_n(&disabled, true, __ATOMIC_RELAXED);
}

void sandbox_on_violation(void (*fn)(void))
{
	/* Pairs with the load in on_sigsys(): what fn looks at was written before fn was handed
	 * over. */
	__atomic_store_n(&violation_hook, fn, __ATOMIC_RELEASE);
}

/* ---- the violation: only what is safe in a signal handler and allowed by the common list ---- */

struct words {
	char buf[256];
	size_t len;
};

static void say(struct words *w, const char *s)
{
	size_t n = MIN(strlen(s), sizeof(w->buf) - w->len);

	memcpy(w->buf + w->len, s, n);
	w->len += n;
}

static void say_number(struct words *w, unsigned n)
{
	char digits[12];
	char *p = digits + sizeof(digits) - 1;

	*p = '\0';
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	say(w, p);
}

static const char *syscall_name(unsigned nr, unsigned arch)
{
	if (arch != NATIVE_ARCH)
		return "of another architecture";
	if (nr >= ARRAY_LEN(syscall_names) || !syscall_names[nr])
		return "unknown";
	return syscall_names[nr];
}

static void on_sigsys(int sig, siginfo_t *info, void *context)
{
	void (*hook)(void) = __atomic_load_n(&violation_hook, __ATOMIC_ACQUIRE);
	struct words w = {.len = 0};
	char name[COMM_LEN] = "";

	(void)sig;
	(void)context;
	if (info->si_code != SYS_SECCOMP)
		return; /* somebody's kill -SYS: no call of ours was refused */
	if (hook)
		hook();
	prctl(PR_GET_NAME, name);
	say(&w, "wherry: error: thread ");
	say(&w, name);
	say(&w, ": system call ");
	say_number(&w, (unsigned)info->si_syscall);
	say(&w, " (");
	say(&w, syscall_name((unsigned)info->si_syscall, info->si_arch));
	say(&w, ") is not allowed; ending\n");
	if (write(STDERR_FILENO, w.buf, w.len) < 0)
		w.len = 0; /* nowhere to say it; the exit status does */
	_exit(SANDBOX_EXIT);
}

/* A misspelt "off" would leave a debugger's user without a word about why nothing changed. */
static int check_env(void)
{
	const char *env = getenv("WHERRY_SECCOMP");

	if (!env || !*env || !strcmp(env, "off"))
		return 0;
	log_err("WHERRY_SECCOMP=%s is not known: use off, or unset it", env);
	return -EINVAL;
}

int sandbox_init(void)
{
	struct sigaction sa = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};

	if (check_env())
		return -EINVAL;
	/* No other signal's handler may run between the hook and the end. */
	sigfillset(&sa.sa_mask);
	if (sigaction(SIGSYS, &sa, NULL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		int r = -errno;

		log_err("sandbox: cannot be prepared: %m");
		return r;
	}
	/*
	 * One malloc arena. To trim a second one, glibc opens /proc/sys/vm/overcommit_memory at a
	 * moment of its own choosing, and to decide on a ninth it asks for the CPU set: calls that
	 * no filter here allows. It is also the smaller process, and the hot paths do not allocate.
	 */
	mallopt(M_ARENA_MAX, 1);
	/* libseccomp finds out what the kernel can do, once, into globals: while one thread is
	 * here. */
	seccomp_api_get();
	return 0;
}

/* ---- filters ---- */

static int add_rules(scmp_filter_ctx ctx, const struct syscalls *set)
{
	for (unsigned i = 0; i < set->n; i++) {
		const struct syscall_rule *rule = &set->rules[i];
		struct scmp_arg_cmp cmp = {
			.arg = rule->arg,
			.op = SCMP_CMP_MASKED_EQ,
			.datum_a = rule->mask,
			.datum_b = rule->value,
		};
		int r = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, rule->nr, rule->masked, &cmp);

		/* Two sets may name the same call for reasons of their own. */
		if (r < 0 && r != -EEXIST)
			return r;
	}
	return 0;
}

static int build_filter(scmp_filter_ctx ctx, const struct syscalls *const *sets, unsigned nsets)
{
	/* A 32-bit call is a violation too; the default would end the thread alone, wordlessly. */
	int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_TRAP);

	/* A binary tree, because calls with an argument to compare are judged anew each time. */
	if (!r)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	/* abort(), and pthread_kill() to make a vCPU leave the guest: threads of this process, nobody else's. */
	if (!r)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SYS_tgkill, 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, INT_ARG, (scmp_datum_t)getpid()));
	if (!r)
		r = add_rules(ctx, &common);
	for (unsigned i = 0; !r && i < nsets; i++)
		r = add_rules(ctx, sets[i]);
	return r;
}

static bool is_off(void)
{
	const char *env = getenv("WHERRY_SECCOMP");

	return __atomic_load_n(&disabled, __ATOMIC_RELAXED) || (env && !strcmp(env, "off"));
}

int sandbox_enter(const char *name, const struct syscalls *const *sets, unsigned nsets)
{
	scmp_filter_ctx ctx;
	sigset_t sigsys;
	int r;

	prctl(PR_SET_NAME, name);
	if (is_off())
		return 0;
	/* While it is blocked the kernel would end the process by SIGSYS itself, wordlessly. */
	sigemptyset(&sigsys);
	sigaddset(&sigsys, SIGSYS);
	pthread_sigmask(SIG_UNBLOCK, &sigsys, NULL);

	ctx = seccomp_init(SCMP_ACT_TRAP);
	r = ctx ? build_filter(ctx, sets, nsets) : -ENOMEM;
	if (!r)
		r = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	if (!r)
		return 0;
	errno = -r;
	log_err("sandbox: no filter for thread %s (WHERRY_SECCOMP=off does without): %m", name);
	return r;
}
