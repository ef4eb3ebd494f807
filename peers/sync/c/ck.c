/* Concurrency Kit's ck_epoch. */
#include <ck_epoch.h>
#include <stdbool.h>

#include "peer.h"

struct object {
	ck_epoch_entry_t entry;
	uint64_t value;
};

struct local {
	ck_epoch_record_t *record;
	struct object *own;
};

static ck_epoch_t epoch;
static uint64_t *shared;

__attribute__((constructor)) static void
begin(void)
{
	ck_epoch_init(&epoch);
	shared = calloc(1, sizeof *shared);
}

static struct object *
make(void)
{
	struct object *object = malloc(sizeof *object);

	object->value = 1;
	return object;
}

static void
destroy(ck_epoch_entry_t *entry)
{
	/* The entry is the first field. */
	free(entry);
	count(-1);
}

static struct local *
join(void)
{
	struct local *local = malloc(sizeof *local);

	local->record = ck_epoch_recycle(&epoch, NULL);
	if (local->record == NULL) {
		local->record = aligned_alloc(CK_MD_CACHELINE, sizeof *local->record);
		ck_epoch_register(&epoch, local->record, NULL);
	}
	local->own = make();
	return local;
}

/* To unregister forgets what is pending, so that has to end before. */
static void
leave(struct local *local)
{
	free(local->own);
	ck_epoch_barrier(local->record);
	ck_epoch_unregister(local->record);
	free(local);
}

/* Polls after each `every`. */
static void
replace(struct local *local, uint64_t n, uint64_t every)
{
	for (uint64_t i = 0; i < n; i++) {
		struct object *old = ck_pr_fas_ptr(&local->own, make());

		count(1);
		/* Within a section: what is deferred outside of one has a bug in 0.7.1 with poll. */
		ck_epoch_begin(local->record, NULL);
		ck_epoch_call(local->record, &old->entry, destroy);
		ck_epoch_end(local->record, NULL);
		if (local->record->n_pending >= every && local->record->n_pending % every == 0)
			ck_epoch_poll(local->record);
	}
}

static void
sections(struct local *local, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		ck_epoch_begin(local->record, NULL);
		ck_epoch_end(local->record, NULL);
	}
}

static void
nested(struct local *local, uint64_t n)
{
	ck_epoch_begin(local->record, NULL);
	sections(local, n);
	ck_epoch_end(local->record, NULL);
}

static void
load(struct local *local, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		ck_epoch_begin(local->record, NULL);
		NEED(*(uint64_t *)ck_pr_load_ptr(&shared));
		ck_epoch_end(local->record, NULL);
	}
}

/* Sections that let the epoch go on. */
static void
special(struct local *local, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		ck_epoch_section_t section;

		ck_epoch_begin(local->record, &section);
		ck_epoch_end(local->record, &section);
	}
}

static void
synchronize(struct local *local, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		ck_epoch_synchronize(local->record);
}

static void
enter(struct local *local)
{
	ck_epoch_begin(local->record, NULL);
}

static void
leave_section(struct local *local)
{
	ck_epoch_end(local->record, NULL);
}

static void
drain(struct local *local)
{
	ck_epoch_barrier(local->record);
}

const struct peer peer_ck = {
	.join = join, .leave = leave, .replace = replace, .sections = sections, .nested = nested,
	.load = load, .special = special, .synchronize = synchronize, .enter = enter,
	.exit = leave_section, .drain = drain,
};
