// SPDX-License-Identifier: Apache-2.0
/*
 * term.c - raw mode and back.
 *
 * The saved state is one of the few things that belong to the process and not to an object: exit handlers and signal
 * handlers get no argument. It is written once, before any thread exists.
 */
#include "term.h"
#include "../vmm/log.h"
#include "../vmm/sandbox.h"
#include <signal.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
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

void term_raw(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	struct termios raw;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &saved))
		return;
	raw = saved;
	cfmakeraw(&raw);
	if (atexit(term_restore))
		return;
	sandbox_on_violation(term_restore);
	for (unsigned i = 0; i < ARRAY_LEN(fatal); i++)
		sigaction(
			fatal[i],
			&(struct sigaction){.sa_handler = term_die, .sa_flags = (int)SA_RESETHAND},
			NULL);
	is_raw = 1;
	log_set_raw_terminal(true);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}
