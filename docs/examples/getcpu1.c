/* A testcase of your own: which CPU am I on, by the vDSO. Compile and run:
 *   cc -O2 -shared -fPIC -pthread -o getcpu1.so getcpu1.c
 *   knee run --plugin ./getcpu1.so
 */
#define _GNU_SOURCE
#include <sched.h>

/* Shown beside the results. */
char *testcase_description = "sched_getcpu()";

/* Called once, before there are any tasks: create here what they share. Optional. */
void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
}

/* The loop; runs in each task, in a process or a thread, until it is killed. */
void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr; /* Number of this task, from 0. */
	while (1) {
		sched_getcpu();
		(*iterations)++;
	}
}

/* Called once, after all tasks are dead: remove here what prepare has created. Optional. */
void testcase_cleanup(void)
{
}
