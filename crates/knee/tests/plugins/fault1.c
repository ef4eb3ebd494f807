/* A plug-in that causes one page fault in each iteration. */
#include <assert.h>
#include <sys/mman.h>

char *testcase_description = "Touch a new page";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert(page != MAP_FAILED);
		*(volatile char *)page = 1;
		munmap(page, 4096);
		(*iterations)++;
	}
}
