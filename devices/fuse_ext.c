// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_ext.c - what a creating request says beyond its names: label, group, umask.
 *
 * Extensions follow the last name without padding and fill the message: each begins with its length and its type, and
 * the next is aligned to 8 behind it. The type of a label is the number of labels (hard cases D8, D66). The header says
 * how long they are together, but guests before 7.38 do not. Every length is checked against what is there before it is
 * used. Under the session lock, whose scratch holds the label. Protocol: linux/fuse.h. Calls: wire.h.
 */
#include "fuse_int.h"
#include "wire.h"

/* Of a label: no security module takes a longer one. */
#define LABEL_MAX 4096u

static int ext_label(struct fuse_call *c, struct cursor *body, uint32_t n)
{
	static const char space[] = XATTR_SECURITY_PREFIX;
	char *name = (char *)c->f->scratch;
	struct fuse_secctx ctx;
	int len;

	if (!n)
		return 0;
	if (n > 1 || c->cred.label) /* nothing has two */
		return -EOPNOTSUPP;
	cursor_get(body, &ctx, sizeof(ctx));
	len = wire_cstr(body, name, XATTR_NAME_MAX + 1);
	if (len < 0)
		return -EINVAL;
	/* It is set with our rights: it must not reach other attributes. */
	if (strncmp(name, space, sizeof(space) - 1) != 0 || (size_t)len < sizeof(space))
		return -EINVAL;
	if (!ctx.size || ctx.size > LABEL_MAX || ctx.size > body->left)
		return -EINVAL;
	cursor_get(body, name + len + 1, ctx.size);
	c->f->label = (struct share_label){.name = name, .value = name + len + 1, .len = ctx.size};
	c->cred.label = &c->f->label;
	return 0;
}

/* The guest sends one: that of the directory, if the caller is in it. */
static int ext_groups(struct fuse_call *c, struct cursor *body)
{
	struct fuse_supp_groups head;

	cursor_get(body, &head, sizeof(head));
	if (body->err || head.nr_groups > body->left / sizeof(c->cred.group))
		return -EINVAL;
	if (!head.nr_groups)
		return 0;
	cursor_get(body, &c->cred.group, sizeof(c->cred.group));
	if (c->cred.group == (gid_t)-1)
		return -EINVAL;
	c->cred.has_group = true;
	return 0;
}

static int ext_one(struct fuse_call *c)
{
	struct fuse_ext_header h;
	struct cursor body;

	cursor_get(&c->in, &h, sizeof(h));
	if (c->in.err || h.size < sizeof(h) || h.size - sizeof(h) > c->in.left)
		return -EINVAL;
	body = cursor_split(&c->in, h.size - sizeof(h));
	cursor_skip(&c->in, MIN(FUSE_REC_ALIGN(h.size) - h.size, c->in.left));
	if (h.type <= FUSE_MAX_NR_SECCTX && fuse_agreed(c->f, FUSE_SECURITY_CTX))
		return ext_label(c, &body, h.type);
	if (h.type == FUSE_EXT_GROUPS && fuse_agreed(c->f, FUSE_CREATE_SUPP_GROUP))
		return ext_groups(c, &body);
	return -EINVAL;
}

/* If none was agreed on, what is behind the names means nothing. */
static int ext_all(struct fuse_call *c)
{
	const size_t said = c->req->in.total_extlen * sizeof(uint64_t);
	int r = 0;

	if (!(c->f->flags & (FUSE_SECURITY_CTX | FUSE_CREATE_SUPP_GROUP)))
		return 0;
	if (said && said != c->in.left)
		return -EINVAL;
	while (!r && c->in.left)
		r = ext_one(c);
	return r;
}

int fuse_ext_cred(struct fuse_call *c, uint32_t umask)
{
	if (fuse_agreed(c->f, FUSE_DONT_MASK))
		c->cred.umask = umask & 0777;
	return ext_all(c);
}
