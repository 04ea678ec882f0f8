// SPDX-License-Identifier: Apache-2.0
/*
 * verbs.h - one function per verb, one file each. argv[0] is the verb; the return value is the exit status.
 */
#ifndef CMD_VERBS_H
#define CMD_VERBS_H

/* Exit statuses that are not the guest's own. */
enum {
	EXIT_GUEST_PANIC = 120,
	EXIT_GUEST_DIED = 121, /* it ended without saying how it went */
	EXIT_TIME_LIMIT = 124,
	EXIT_NO_START = 125,
};

int verb_boot(int argc, char **argv);
int verb_check(int argc, char **argv);
int verb_devices(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_version(int argc, char **argv);

#endif
