// SPDX-License-Identifier: Apache-2.0
/*
 * term.h - the terminal in raw mode while a guest has it, and given back on every way out.
 */
#ifndef CMD_TERM_H
#define CMD_TERM_H

/*
 * If standard input and output are a terminal, puts it into raw mode; otherwise nothing. Given back by term_restore(), at exit(),
 * and before the process dies of a violated filter or a fatal signal.
 */
void term_raw(void);
/* Async-signal-safe; may be called at any time, any number of times. */
void term_restore(void);
/* A signal handler, for SA_RESETHAND: gives the terminal back and dies of the signal. */
void term_die(int sig);

#endif
