// SPDX-License-Identifier: Apache-2.0
/*
 * bounded.h - for cases whose fault is that nothing comes back: each in a process of its own, with an alarm.
 */
#ifndef TESTS_BOUNDED_H
#define TESTS_BOUNDED_H

#include "tap.h"
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 20

/* For what another thread does; the alarm is the bound. */
#define wait_until(cond)               \
	do {                           \
		while (!(cond))        \
			sched_yield(); \
	} while (0)

/* fn in a child; true if it came to its end and said yes. Before this process has threads. */
static bool bounded(bool (*fn)(void))
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	need(pid >= 0);
	if (!pid) {
		bool good;

		alarm(PATIENCE_S);
		good = fn();
		fflush(stdout);
		_exit(good ? 0 : 1);
	}
	need(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		printf("#   ended by signal %d (%d: it hung)\n", WTERMSIG(status), SIGALRM);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

#endif
