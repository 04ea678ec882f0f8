// SPDX-License-Identifier: Apache-2.0
/*
 * boot.c - `wherry boot CONFIG.json`: run a machine with its console on this terminal until it ends.
 *
 * Exit status: 0 after the guest powered off or rebooted, 120 its kernel panicked, 121 it died otherwise, 124 the time
 * limit, 125 it could not be started, 128 + N ended by signal N (SIGUSR1 does not end it). Whatever is not 0 comes with
 * one line that says why.
 */
#include "flags.h"
#include "machine.h"
#include "term.h"
#include "verbs.h"
#include "../devices/serial.h"
#include "../devices/table.h"
#include "../vmm/log.h"
#include "../vmm/sandbox.h"
#include <signal.h>
#include <sys/time.h>

#define DEADLINE_S 10 /* for tearing down what was stopped */

static int status_of(const struct machine_end *end)
{
	switch (end->why) {
	case VM_POWEROFF:
	case VM_RESET:
		return 0;
	case VM_PANIC:
		return EXIT_GUEST_PANIC;
	case VM_TIMEOUT:
		return EXIT_TIME_LIMIT;
	case VM_USER:
		return end->signal ? 128 + end->signal : 0;
	default:
		return EXIT_GUEST_DIED;
	}
}

static void report(const struct machine_end *end, unsigned timeout_s)
{
	const char *detail = end->detail[0] ? end->detail : "no reason given";

	switch (end->why) {
	case VM_POWEROFF:
		log_info("the guest powered off");
		break;
	case VM_RESET:
		log_info("the guest rebooted");
		break;
	case VM_PANIC:
		log_err("the guest's kernel panicked: its last console lines say why");
		break;
	case VM_TRIPLE_FAULT:
		log_err("the guest died of a triple fault: %s", detail);
		break;
	case VM_TIMEOUT:
		log_err("the time limit of %u s is over: the guest was ended (-t sets another)",
			timeout_s);
		break;
	case VM_USER:
		log_warn("ended by %s", detail);
		break;
	default:
		log_err("the machine ended by an error: %s", detail);
		break;
	}
}

/* A signal handler gets no argument. */
static struct {
	const struct machine_end *end;
	unsigned timeout_s;
} last_words;

/* Interrupts main where it waits for threads; what it calls takes no lock and no memory. */
static void deadline(int sig)
{
	(void)sig;
	term_restore();
	report(last_words.end, last_words.timeout_s);
	log_err("a device did not stop in %d s (a disk or share that hangs?): ended without it",
		DEADLINE_S);
	_exit(status_of(last_words.end));
}

/* The machine has ended; what still waits for the host (a dead disk, a hung network share) must not hold the verdict. */
static void deadline_set(const struct machine_end *end, unsigned timeout_s)
{
	last_words.end = end;
	last_words.timeout_s = timeout_s;
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = deadline}, NULL);
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_sec = DEADLINE_S}, NULL);
}

/* A terminal whose bytes nobody reads keeps its own keys: Ctrl-C must end something. */
static bool console_reads(const struct config *c)
{
	for (unsigned i = 0; i < c->ndev; i++)
		if (c->dev[i].type == &serial_device)
			return ((const struct serial_config *)c->dev[i].cfg)->input;
	return true;
}

static int run(const struct config *c, unsigned timeout_s)
{
	struct machine *m = NULL;
	struct machine_end end;

	if (sandbox_init() || machine_create(&m, c))
		return EXIT_NO_START;
	if (console_reads(c))
		term_raw();
	log_set_patience(0);
	if (machine_start(m)) {
		machine_destroy(m);
		return EXIT_NO_START;
	}
	machine_wait(m, timeout_s, &end);
	machine_die_on_signal(term_die);
	deadline_set(&end, timeout_s);
	machine_destroy(m); /* drains the console */
	term_restore();
	log_set_patience(1000);
	report(&end, timeout_s);
	return status_of(&end);
}

int verb_boot(int argc, char **argv)
{
	struct config c;
	struct flags f;
	int status = EXIT_NO_START;

	if (config_init(&c))
		return status;
	if (!flags_parse(&f, &c, argc, argv, true))
		status = run(&c, f.timeout_s);
	config_fini(&c);
	return status;
}
