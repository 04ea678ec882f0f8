// SPDX-License-Identifier: Apache-2.0
/*
 * term.c - raw mode and back, on every way out.
 *
 * The saved modes are one of the few things that belong to the process and not to an object: exit handlers and signal
 * handlers get no argument. They are written once, before any thread exists. What the handlers call (tcsetattr, raise)
 * is async-signal-safe and in every thread's filter: a signal to the process may be taken by a vCPU thread.
 */
#include "term.h"
#include "../vmm/log.h"
#include "../vmm/sandbox.h"
#include <signal.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved, raw;
static volatile sig_atomic_t is_raw;

void term_restore(void)
{
	if (!is_raw)
		return;
	is_raw = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	log_set_raw_terminal(false);
}

/* Installed with SA_RESETHAND: no thread's filter lets a handler be changed, and the next one is the last. */
void term_die(int sig)
{
	term_restore();
	raise(sig);
}

/* Stopped from outside (raw mode sends no Ctrl-Z): the shell gets the terminal as it was... */
static void on_stop(int sig)
{
	(void)sig;
	if (is_raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	raise(SIGSTOP);
}

/* ...and whatever it did to it, the guest gets it raw again. */
static void on_continue(int sig)
{
	(void)sig;
	if (is_raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction old;

	/* What we were told to ignore stays ignored. */
	if (!sigaction(sig, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(sig, &(struct sigaction){.sa_handler = handler, .sa_flags = flags}, NULL);
}

void term_raw(void)
{
	/* Crashes, and what else ends a process by default; the ordinary ends, and SIGUSR1, are read by the machine. */
	static const int fatal[] = {SIGSEGV, SIGBUS,    SIGILL,  SIGFPE,  SIGABRT, SIGTRAP,
				    SIGUSR2, SIGVTALRM, SIGPROF, SIGALRM, SIGXCPU};

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &saved))
		return;
	raw = saved;
	cfmakeraw(&raw);
	if (atexit(term_restore))
		return;
	sandbox_on_violation(term_restore);
	for (unsigned i = 0; i < ARRAY_LEN(fatal); i++)
		handle(fatal[i], term_die, (int)SA_RESETHAND);
	handle(SIGTSTP, on_stop, SA_RESTART);
	handle(SIGCONT, on_continue, SA_RESTART);
	is_raw = 1;
	log_set_raw_terminal(true);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}
