// SPDX-License-Identifier: Apache-2.0
/*
 * p9_client.h - a guest's side of a 9P server, without a transport: messages made field by field, and what holds for
 * every answer.
 *
 * It knows the protocol's numbers and nothing of how the server lays a message out. The server runs on an iothread of its
 * own with its own filter; each message is carried there by loop_call(), and its answer may come then or later. Buffers
 * are of the exact size, so that a sanitizer sees one byte too many. Set-up failures end the program.
 */
#ifndef FS_SUITE_P9_CLIENT_H
#define FS_SUITE_P9_CLIENT_H

#include "../../devices/p9.h"

struct qid {
	uint8_t type;
	uint32_t version;
	uint64_t path;
};

/* ---- the server and the session ---- */

struct client_how {
	uint32_t msize; /* asked for */
	unsigned piece; /* every buffer in descriptors of so many bytes; 0: as Linux has them */
	enum p9_multidevs multidevs;
};
/* Borrows the share until client_close(), which ends the session. */
void client_open(struct share *, const struct client_how *);
void client_close(void);
struct iothread *client_io(void);
/* What was agreed on. */
uint32_t client_msize(void);
/* The root as this user has it, under a new fid. */
int client_attach(uint32_t uid, uint32_t *fid);
/* Free numbers, the least first, as Linux takes them. */
uint32_t fid_new(void);
void fid_free(uint32_t);
/* What the server and the share hold is what is held here, and nothing is under way. */
void client_held(size_t *inodes, size_t *files);

/* Faults that were seen so far; each was printed. */
unsigned client_faults(void);
void client_fault(const char *file, int line, const char *what);
#define sound(cond)                                              \
	do {                                                     \
		if (!(cond))                                     \
			client_fault(__FILE__, __LINE__, #cond); \
	} while (0)

/* ---- messages ---- */

struct msg;

struct msg *msg_new(enum p9_type);
void msg_free(struct msg *);
void put1(struct msg *, uint8_t);
void put2(struct msg *, uint16_t);
void put4(struct msg *, uint32_t);
void put8(struct msg *, uint64_t);
void put_string(struct msg *, const char *);
/* At its end; more than 1 KiB lies apart, as Linux has it. */
void put_data(struct msg *, const void *, size_t n);

/*
 * Sent, with room for an answer of so many bytes of fields and so many of data after them, which lie apart as above. Freed
 * by who sent it.
 */
void msg_send(struct msg *, size_t fields, size_t data);
/* Waits: 0, or the error that was answered. */
int msg_wait(struct msg *);
/* Both. */
int msg_call(struct msg *, size_t fields, size_t data);
/* The whole of one whose answer has no fields. */
int msg_do(struct msg *);
/* The answer's fields, in their order. msg_end() says that this was all, and frees. */
uint8_t get1(struct msg *);
uint16_t get2(struct msg *);
uint32_t get4(struct msg *);
uint64_t get8(struct msg *);
struct qid get_qid(struct msg *);
void get_bytes(struct msg *, void *, size_t n);
size_t get_left(const struct msg *);
void msg_end(struct msg *);

/*
 * For one whose answer may take long. arrived() is called on the iothread in place of what msg_wait() waits for; msg_error()
 * may then be asked, and the answer's fields. It may be sent again, from the iothread, but not from arrived().
 */
void msg_send_to(struct msg *, size_t fields, void (*arrived)(struct msg *, void *), void *arg);
void msg_again(struct msg *);
int msg_error(struct msg *);
uint16_t msg_tag(const struct msg *);

#endif
