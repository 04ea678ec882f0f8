// SPDX-License-Identifier: Apache-2.0
/*
 * boot.c - `wherry boot CONFIG.json`: run a machine with its console on this terminal until it ends.
 *
 * Exit status: 0 after the guest powered off or rebooted, 120 its kernel panicked, 121 it died otherwise, 124 the time
 * limit, 125 it could not be started, 128 + N ended by signal N. Whatever is not 0 comes with one line that says why.
 */
#include "flags.h"
#include "machine.h"
#include "term.h"
#include "verbs.h"
#include "../vmm/log.h"
#include "../vmm/sandbox.h"

static int report(const struct machine_end *end, unsigned timeout_s)
{
	const char *detail = end->detail[0] ? end->detail : "no reason given";

	switch (end->why) {
	case VM_POWEROFF:
		log_info("the guest powered off");
		return 0;
	case VM_RESET:
		log_info("the guest rebooted");
		return 0;
	case VM_PANIC:
		log_err("the guest's kernel panicked: its last console lines say why");
		return EXIT_GUEST_PANIC;
	case VM_TRIPLE_FAULT:
		log_err("the guest died of a triple fault: %s", detail);
		return EXIT_GUEST_DIED;
	case VM_TIMEOUT:
		log_err("the time limit of %u s is over: the guest was ended (-t sets another)",
			timeout_s);
		return EXIT_TIME_LIMIT;
	case VM_USER:
		log_warn("ended by %s", detail);
		return end->signal ? 128 + end->signal : 0;
	default:
		log_err("the machine ended by an error: %s", detail);
		return EXIT_GUEST_DIED;
	}
}

static int run(const struct config *c, unsigned timeout_s)
{
	struct machine *m = NULL;
	struct machine_end end;
	int status = EXIT_NO_START;

	if (sandbox_init() || machine_create(&m, c))
		return status;
	term_raw();
	if (!machine_start(m)) {
		machine_wait(m, timeout_s, &end);
		machine_die_on_signal(term_die);
		status = -1;
	}
	machine_destroy(m); /* drains the console first */
	term_restore();
	return status < 0 ? report(&end, timeout_s) : status;
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
