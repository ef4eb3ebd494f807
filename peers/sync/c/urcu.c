/* liburcu, compiled once for each flavour. Its read side is inlined. */
#define _LGPL_SOURCE
#define URCU_API_MAP
#if defined(MEMB)
#include <urcu/urcu-memb.h>
#define PEER peer_memb
#elif defined(QSBR)
#include <urcu/urcu-qsbr.h>
#define PEER peer_qsbr
#else
#include <urcu/urcu-bp.h>
#define PEER peer_bp
#endif

#include "peer.h"

/* Offline and online are nothing but in QSBR, where a thread that does not run must be offline. */

struct object {
	struct rcu_head head;
	uint64_t value;
};

struct local {
	struct object *own;
};

static uint64_t *shared;

/*
 * A thread that has used defer_rcu has a queue until it exits: one that gives its queue back cannot
 * have another (liburcu 0.13 asserts that).
 */
static pthread_key_t queue;

static struct object *
make(void)
{
	struct object *object = malloc(sizeof *object);

	object->value = 1;
	return object;
}

static void
destroy(void *object)
{
	free(object);
	count(-1);
}

static void
destroy_head(struct rcu_head *head)
{
	/* The head is the first field. */
	destroy(head);
}

static void
end_queue(void *unused)
{
	(void)unused;
	rcu_defer_unregister_thread();
}

__attribute__((constructor)) static void
begin(void)
{
	pthread_key_create(&queue, end_queue);
	shared = calloc(1, sizeof *shared);
}

static struct local *
join(void)
{
	struct local *local = malloc(sizeof *local);

	rcu_register_thread();
	rcu_thread_offline();
	local->own = make();
	return local;
}

static void
leave(struct local *local)
{
	free(local->own);
	rcu_unregister_thread();
	free(local);
}

/* how: 0 call_rcu, 1 defer_rcu. */
static void
replace(struct local *local, uint64_t n, uint64_t how)
{
	if (how == 1 && pthread_getspecific(queue) == NULL) {
		rcu_defer_register_thread();
		pthread_setspecific(queue, &queue);
	}
	/*
	 * defer_rcu may wait for a lock whose owner waits for a grace period: in QSBR it blocks for ever
	 * unless all who call it are offline.
	 */
	if (how == 0)
		rcu_thread_online();
	for (uint64_t i = 0; i < n; i++) {
		struct object *old = rcu_xchg_pointer(&local->own, make());

		count(1);
		if (how == 0) {
			call_rcu(&old->head, destroy_head);
			rcu_quiescent_state();
		} else {
			defer_rcu(destroy, old);
		}
	}
	if (how == 0)
		rcu_thread_offline();
}

static void
sections(struct local *local, uint64_t n)
{
	(void)local;
	rcu_thread_online();
	for (uint64_t i = 0; i < n; i++) {
		rcu_read_lock();
		cmm_barrier();
		rcu_read_unlock();
	}
	rcu_thread_offline();
}

static void
nested(struct local *local, uint64_t n)
{
	(void)local;
	rcu_thread_online();
	rcu_read_lock();
	for (uint64_t i = 0; i < n; i++) {
		rcu_read_lock();
		cmm_barrier();
		rcu_read_unlock();
	}
	rcu_read_unlock();
	rcu_thread_offline();
}

static void
load(struct local *local, uint64_t n)
{
	(void)local;
	rcu_thread_online();
	for (uint64_t i = 0; i < n; i++) {
		rcu_read_lock();
		NEED(*rcu_dereference(shared));
		rcu_read_unlock();
	}
	rcu_thread_offline();
}

/* QSBR: a pointer followed, and a quiescent state. */
static void
special(struct local *local, uint64_t n)
{
	(void)local;
	rcu_thread_online();
	for (uint64_t i = 0; i < n; i++) {
		NEED(*rcu_dereference(shared));
		rcu_quiescent_state();
	}
	rcu_thread_offline();
}

static void
synchronize(struct local *local, uint64_t n)
{
	(void)local;
	for (uint64_t i = 0; i < n; i++)
		synchronize_rcu();
}

static void
enter(struct local *local)
{
	(void)local;
	rcu_thread_online();
	rcu_read_lock();
}

static void
leave_section(struct local *local)
{
	(void)local;
	rcu_read_unlock();
	rcu_thread_offline();
}

static void
drain(struct local *local)
{
	(void)local;
	rcu_defer_barrier();
	rcu_barrier();
}

const struct peer PEER = {
	.join = join, .leave = leave, .replace = replace, .sections = sections, .nested = nested,
	.load = load, .special = special, .synchronize = synchronize, .enter = enter,
	.exit = leave_section, .drain = drain,
};
