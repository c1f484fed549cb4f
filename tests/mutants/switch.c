/* What every program of the copy is linked with: reads SB_CHANGE, a number or "reach:FILE". */
#include "tests/mutants/switch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SWITCH_NUMBERS (1 << 20) /* bytes in the file; the numbers are below that */

int sb_switch_now;
static unsigned char *switch_reached;

/* Shared, so that what a process reached is there when it is killed. */
void sb_switch_reach(int number)
{
        if (switch_reached)
                switch_reached[number] = 1;
}

__attribute__((constructor)) static void switch_begin(void)
{
        const char *asked = getenv("SB_CHANGE");

        if (!asked)
                return;
        if (strncmp(asked, "reach:", 6) != 0) {
                sb_switch_now = atoi(asked);
                return;
        }
        int fd = open(asked + 6, O_RDWR | O_CLOEXEC);
        void *mapped =
                fd < 0 ? MAP_FAILED
                       : mmap(NULL, SWITCH_NUMBERS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0)
                close(fd);
        if (mapped == MAP_FAILED)
                return;
        switch_reached = mapped;
        sb_switch_now = -1;
}
